"""Ranks and hosts by what processes print of themselves, and hosts by what the others print of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.collectives.addresses import common_host
from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Evidence, Finding, Identity, Observation, Role

ERROR = 'Traceback (most recent call last):\n  File "/w/train.py", line 7, in fit\n    step()\nKeyError: "image"\n'
LOST = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 7, in fit\n    step()\n'
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote process exited or there was a"
    " network error, NCCL version 2.21.5\n"
)


def steps(last: int = 30, hour: int = 10, zone: str = "") -> str:
    return "".join(
        f"2026-11-20 {hour}:{n * 4 // 60:02d}:{n * 4 % 60:02d}{zone} step {n} loss {2 + 1 / n:.3f}\n"
        for n in range(1, last + 1)
    )


def diagnosed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def root(folder: Path, files: dict[str, str]) -> Finding:
    return diagnosed(folder, files).of_role(Role.ROOT)[0]


def printed(form: str, last: int = 3) -> dict[str, str]:
    """Four logs whose names say nothing, of two hosts in turn; the last one raises."""
    files = {}
    for n, name in enumerate(("quail", "heron", "stork", "raven")):
        head = form.format(rank=n, local=n // 2, host=f"cn-{n % 2:02d}")
        files[f"{name}.txt"] = head + "\n" + steps() + (ERROR if n == last else "")
    return files


@pytest.mark.parametrize(
    ("form", "node"),
    [
        ("SLURM_PROCID={rank} SLURM_LOCALID={local} SLURMD_NODENAME={host} SLURM_NTASKS=4", "cn-01"),
        ("SLURM_LOCALID={local}\nSLURM_NTASKS=4\nSLURM_PROCID={rank}\nSLURMD_NODENAME={host}", "cn-01"),
        ("SLURM_PROCID={rank} SLURM_LOCALID={local} SLURM_NODEID=0 HOSTNAME={host}", "cn-01"),
        ("SLURM_PROCID={rank} SLURM_LOCALID={local} SLURM_NODEID=0 HOSTNAME=login-3", None),
        ('declare -x HOSTNAME="{host}"\ndeclare -x LOCAL_RANK="{local}"\ndeclare -x RANK="{rank}"', "cn-01"),
        ('TF_CONFIG={{"cluster": {{"worker": []}}, "task": {{"type": "worker", "index": {rank}}}}}', None),
    ],
)
def test_processes_that_print_their_environment(tmp_path: Path, form: str, node: str | None) -> None:
    found = root(tmp_path, printed(form))
    assert (found.ranks, found.node) == ((3,), node)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("SLURM_PROCID={rank} SLURM_LOCALID=0 SLURMD_NODENAME={host} SLURM_NTASKS=4", id="a task a host"),
        pytest.param("RANK={rank}\nWORLD_SIZE=32", id="more ranks than logs"),
        pytest.param("RANK=0\nWORLD_SIZE=4", id="the same in each"),
        pytest.param("RANK={rank}\nRANK=7", id="several in one log"),
        pytest.param("RANK={rank}\n[rank9]: step 0 loss 3.0", id="a line of another rank"),
        pytest.param("[default0]:up\n[default1]:up\nRANK={rank}", id="several local ranks"),
    ],
)
def test_numbers_that_may_be_of_nodes_are_no_ranks(tmp_path: Path, form: str) -> None:
    assert root(tmp_path, printed(form)).ranks is None


def test_a_worker_that_a_file_is_named_after_is_no_host(tmp_path: Path) -> None:
    files = {f"worker_{n}.out": "".join(f"[rank{n}] {line}\n" for line in steps().splitlines()) for n in range(4)}
    files["worker_2.out"] += ERROR
    found = root(tmp_path, files)
    assert (found.ranks, found.node) == ((2,), None)


def test_an_mpi_launcher_names_the_host_of_a_rank(tmp_path: Path) -> None:
    lines = "".join(f"[rank5]: {row}\n" for row in ERROR.splitlines())
    ended = "x3006c0s19b1n0.hsn.example: rank 5 exited with code 1\nx3006c0s13b0n0.hsn.example: rank 0 died from signal 15\n"
    assert root(tmp_path, {"job.o221": steps() + lines + ended}).node == "x3006c0s19b1n0.hsn.example"


KILL = "Out of memory: Killed process {pid} (python) total-vm:9911223kB, anon-rss:8811223kB, file-rss:0kB, UID:0"


def of_ranks(hour: int, *, zone: str = "", late: bool = True, named: bool = True) -> dict[str, str]:
    """Rank 2 falls silent, its peers lose it, and rank 0 raises when it tidies up."""
    files = {}
    for rank in range(4):
        head = f"rank={rank} local_rank={rank} pid={6000 + rank} host=tk3\n" if named else ""
        end = "" if rank == 2 else LOST + f"2026-11-20 {hour}:02:25{zone} teardown\n"
        files[f"rank{rank}.log"] = head + steps(hour=hour, zone=zone) + end
    files["rank0.log"] += ERROR if late else ""
    return files


@pytest.mark.parametrize(("hour", "zone"), [(19, ""), (19, " JST"), (10, "")])
def test_a_kill_whose_process_a_rank_names_is_that_ranks_whatever_the_clocks_say(
    tmp_path: Path, hour: int, zone: str
) -> None:
    kernel = f"2026-11-20T10:02:02+0000 tk3 kernel: {KILL.format(pid=6002)}\n"
    found = root(tmp_path, {**of_ranks(hour, zone=zone), "journal.log": kernel})
    assert (found.name, found.ranks, found.node, found.step) == ("host-oom", (2,), "tk3", 30)


def test_the_only_rank_that_lost_no_peer_is_the_one_that_the_kernel_killed(tmp_path: Path) -> None:
    kernel = f"Nov 20 10:02:01 tk3 kernel: {KILL.format(pid=388112)}\n"
    files = of_ranks(10, late=False, named=False)
    assert root(tmp_path / "one", {**files, "kern.log": kernel}).ranks == (2,)
    files["rank3.log"] = files["rank2.log"]
    assert root(tmp_path / "two", {**files, "kern.log": kernel}).ranks is None


FOREIGN = "[Fri Nov 20 09:10:00 2026] " + KILL + "\n"


@pytest.mark.parametrize(("end", "process"), [("Done.", "firefox"), ("Training complete.", "firefox")])
def test_a_kill_beside_a_run_of_epochs_that_finished(tmp_path: Path, end: str, process: str) -> None:
    epochs = "".join(f"Epoch [{n}/20] train_loss: {2 - n / 20:.3f} val_acc: {50 + n}.1\n" for n in range(1, 21))
    kernel = FOREIGN.format(pid=1812).replace("(python)", f"({process})")
    found = diagnosed(tmp_path, {"train.log": epochs + end + "\n", "dmesg.txt": kernel})
    assert (found.verdict, [f.name for f in found.of_role(Role.CONTEXT)]) == ("healthy", ["host-oom"])


def test_a_kill_of_training_is_not_cleared_by_a_word_that_any_program_says(tmp_path: Path) -> None:
    kernel = FOREIGN.format(pid=1812)
    found = diagnosed(tmp_path, {"train.log": "tokenizing\nDone.\n", "dmesg.txt": kernel})
    assert [f.name for f in found.of_role(Role.ROOT)] == ["host-oom"]


DESCRIBED = """Name:             llm-worker-0
Namespace:        ml
Node:             ip-10-0-4-7/10.0.4.7
Status:           Failed
Containers:
  trainer:
    State:          Terminated
      Reason:       Error
      Exit Code:    1
      Started:      Fri, 20 Nov 2026 10:00:00 +0000
      Finished:     Fri, 20 Nov 2026 10:02:21 +0000
  log-shipper:
    State:          Running
      Started:      Fri, 20 Nov 2026 09:50:00 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Fri, 20 Nov 2026 08:00:00 +0000
      Finished:     Fri, 20 Nov 2026 {finished} +0000
"""


@pytest.mark.parametrize("finished", ["09:49:58", "07:10:00"])
def test_a_container_that_ended_before_the_logs_begin_is_beside_the_error(tmp_path: Path, finished: str) -> None:
    log = steps(zone="Z").replace("2026-11-20 ", "2026-11-20T")
    found = diagnosed(tmp_path, {"trainer.log": log + ERROR, "describe.txt": DESCRIBED.format(finished=finished)})
    assert [f.name for f in found.of_role(Role.ROOT)] == ["python-exception"]
    assert "host-oom-cgroup" in {f.name for f in found.of_role(Role.CONTEXT)}


def test_a_container_that_ended_with_the_run_stays_a_cause(tmp_path: Path) -> None:
    log = steps(zone="Z").replace("2026-11-20 ", "2026-11-20T")
    found = diagnosed(tmp_path, {"trainer.log": log, "describe.txt": DESCRIBED.format(finished="10:02:02")})
    assert found.of_role(Role.ROOT)[0].name == "host-oom-cgroup"


def connection(host: str, local: str, remote: str) -> Observation:
    text = f"NET/IB : Got completion from peer {remote}<42> with status=12 localGid ::ffff:{local} remoteGids::ffff:{remote}"
    evidence = (Evidence("a.log", 1, 0, text),)
    return Observation(signature="nccl-network-timeout", weight=0.9, evidence=evidence, identity=Identity(node=host))


def test_the_host_at_which_all_broken_connections_end() -> None:
    a, b, c = ("gpu-1", "10.9.0.1"), ("gpu-2", "10.9.0.2"), ("gpu-3", "10.9.0.3")
    told = [connection(*a, b[1]), connection(*c, b[1]), connection(*b, a[1])]
    assert common_host(told) == "gpu-2"
    assert common_host(told[::2]) is None  # two hosts: either may be the one
    assert common_host([*told, connection(*a, c[1])]) is None
