"""What ranks print after they lost a peer or were told to end, and which error a launcher saw first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

FULL = "OSError: [Errno 28] No space left on device: '/data/ckpt/step_30.pt'"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.25 GiB"
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356,"
    " remote process exited or there was a network error, NCCL version 2.21.5"
)
SEGFAULT = ["Fatal Python error: Segmentation fault", "", "Thread 0x00007f2c (most recent call first):"]
ENDED = [
    "srun: error: n1: task 3: Segmentation fault (core dumped)",
    "srun: Terminating StepId=101.0",
    "slurmstepd: error: *** STEP 101.0 ON n1 CANCELLED AT 2026-11-20T08:01:24 ***",
]


def raised(error: str, label: str = "") -> list[str]:
    lines = ["Traceback (most recent call last):", '  File "/opt/train.py", line 88, in <module>', "    main()", error]
    return [label + line for line in lines]


def steps(time: bool = False) -> list[str]:
    return [f"{f'2026-11-20 08:00:{n:02d} ' if time else ''}step {n} loss {2 + 3 / n:.3f}" for n in range(1, 41)]


def roots(folder: Path, files: Mapping[str, Sequence[str]]) -> list[Finding]:
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return list(analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT))


def ranks(lines: Mapping[int, Sequence[str]], time: bool = False) -> dict[str, list[str]]:
    return {f"rank{r}.log": [*steps(time), *lines.get(r, ())] for r in range(4)}


def told(root: Finding) -> tuple[str, tuple[int, ...] | None]:
    return root.name, root.ranks


@pytest.mark.parametrize("own", [SEGFAULT, raised(OOM, "[rank3]: ")], ids=["died", "ran out of memory"])
def test_what_a_rank_raises_after_it_lost_a_peer_follows_from_that_peers_end(tmp_path: Path, own: list[str]) -> None:
    lost = {r: raised(LOST, f"[rank{r}]: ") for r in range(3)}
    lost[0] += ["", "[rank0]: During handling of the above exception, another exception occurred:", ""]
    lost[0] += raised(FULL, "[rank0]: ")
    found = roots(tmp_path, ranks({**lost, 3: own}))
    assert [told(r) for r in found] == [("rank-segfault" if own is SEGFAULT else "cuda-oom", (3,))]


def test_what_stands_above_the_loss_of_a_peer_does_not_follow_from_it(tmp_path: Path) -> None:
    lost = {r: raised(LOST, f"[rank{r}]: ") for r in range(3)}
    lost[0] = raised(FULL, "[rank0]: ") + lost[0]
    found = roots(tmp_path, ranks({**lost, 3: raised("KeyError: 'x'", "[rank3]: ")}))
    assert ("disk-full", (0,)) in [told(r) for r in found]


def test_the_same_failure_before_and_after_the_loss_of_a_peer_is_of_the_rank_that_met_it_before(tmp_path: Path) -> None:
    lost = {r: raised(LOST, f"[rank{r}]: ") for r in range(3)}
    lost[0] += raised(FULL, "[rank0]: ")
    found = roots(tmp_path, ranks({**lost, 3: raised(FULL, "[rank3]: ")}))
    assert [told(r) for r in found] == [("disk-full", (3,))]


@pytest.mark.parametrize("stamped", [False, True])
def test_what_a_rank_meets_as_it_saves_on_a_signal_follows_from_the_death_of_another(
    tmp_path: Path, stamped: bool
) -> None:
    said = ("2026-11-20 08:01:24 " if stamped else "") + "got SIGTERM, saving a checkpoint"
    files = ranks({0: [said, *raised(FULL)]}, time=stamped)
    found = roots(tmp_path, {**files, "slurm-101.out": ENDED})
    assert told(found[0]) == ("rank-segfault", (3,))
    assert len(found) == 1


def test_what_tasks_print_below_the_end_of_their_step_follows_from_the_task_that_failed(tmp_path: Path) -> None:
    merged = [f"{r}: {line}" for line in steps() for r in range(4)]
    found = roots(tmp_path, {"slurm-101.out": [*merged, *ENDED, *(f"0: {line}" for line in raised(FULL))]})
    assert [told(r) for r in found] == [("rank-segfault", (3,))]


def test_the_error_above_the_end_of_a_step_is_what_ended_it(tmp_path: Path) -> None:
    merged = [f"{r}: {line}" for line in steps() for r in range(4)]
    own = [*(f"0: {line}" for line in raised(FULL)), "srun: error: n1: task 0: Exited with exit code 1", *ENDED[1:]]
    found = roots(tmp_path, {"slurm-101.out": [*merged, *own, *(f"3: {line}" for line in raised("EOFError"))]})
    assert [told(r) for r in found] == [("disk-full", (0,))]


@pytest.mark.parametrize("stop", ["slurmstepd: error: *** JOB 101 ON n1 CANCELLED AT 2026-11-20T08:01:24 ***", None])
def test_what_is_printed_below_a_stop_from_outside_follows_from_it(tmp_path: Path, stop: str | None) -> None:
    files = ranks({r: [*([] if stop else ["got SIGTERM, saving"]), *raised(FULL)] for r in range(4)})
    merged = [f"{r}: {line}" for line in steps() for r in range(4)]
    below = [f"0: {line}" for line in raised(FULL)]
    found = roots(tmp_path, {"slurm-101.out": [*merged, stop, *below]} if stop else files)
    assert [root.name for root in found] == ["external-sigterm"]


def test_an_error_above_a_stop_from_outside_does_not_follow_from_it(tmp_path: Path) -> None:
    merged = [f"{r}: {line}" for line in [*steps(), *raised(FULL)] for r in range(4)]
    stop = "slurmstepd: error: *** JOB 101 ON n1 CANCELLED AT 2026-11-20T08:01:24 ***"
    assert roots(tmp_path, {"slurm-101.out": [*merged, stop]})[0].name == "disk-full"


def test_what_a_rank_raises_after_it_lost_a_silent_peer_is_no_root(tmp_path: Path) -> None:
    lost = {r: raised(LOST, f"[rank{r}]: ") for r in range(3)}
    lost[0] += raised(FULL, "[rank0]: ")
    assert [told(r) for r in roots(tmp_path, ranks(lost))] == [("nccl-remote-error", (3,))]


def test_what_a_rank_raises_after_a_loss_that_all_tell_of_may_be_the_first_error(tmp_path: Path) -> None:
    lost = {r: raised(LOST, f"[rank{r}]: ") for r in range(4)}
    lost[0] += raised(FULL, "[rank0]: ")
    assert ("disk-full", (0,)) in [told(r) for r in roots(tmp_path, ranks(lost))]


def table(first: int, other: int, apart: int = 4) -> list[str]:
    def row(n: int, rank: int, second: int) -> list[str]:
        return [
            f"[{n}]:",
            f"  time      : 2026-11-20_08:01:{second}",
            "  host      : n1",
            f"  rank      : {rank} (local_rank: {rank})",
            f"  exitcode  : 1 (pid: {5000 + rank})",
            "  error_file: <N/A>",
        ]

    return [
        "train.py FAILED",
        "Failures:",
        *row(1, other, 40 + apart),
        "Root Cause (first observed failure):",
        *row(0, first, 40),
    ]


@pytest.mark.parametrize("error", ["IndexError: list index out of range", "ValueError: no such shape", FULL])
@pytest.mark.parametrize("first", [0, 2])
def test_the_rank_that_the_launcher_saw_first_comes_first_where_nothing_else_tells(
    tmp_path: Path, error: str, first: int
) -> None:
    files = ranks({0: raised(error), 2: raised("KeyError: 'x'")})
    found = roots(tmp_path, {**files, "launcher.log": table(first, 2 - first)})
    assert found[0].ranks == (first,)


def test_agents_that_saw_different_ranks_first_say_nothing(tmp_path: Path) -> None:
    files = ranks({0: raised(FULL), 2: raised("KeyError: 'x'")})
    tables = {"launcher0.log": table(0, 1), "launcher1.log": table(2, 3)}
    assert all("die first" not in note for root in roots(tmp_path, {**files, **tables}) for note in root.notes)


def test_workers_that_an_agent_found_dead_at_once_are_in_no_order(tmp_path: Path) -> None:
    files = ranks({0: raised("IndexError: 7"), 2: raised("KeyError: 'x'")})
    found = roots(tmp_path, {**files, "launcher.log": table(2, 0, apart=0)})
    assert {root.ranks for root in found} == {(0,), (2,)}
    assert all("die first" not in note for root in found for note in root.notes)
