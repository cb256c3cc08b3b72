"""Kernel logs beside a run's own logs: when, which rank, cause or consequence, and what the run did not suffer by."""

from __future__ import annotations

import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.kernel.clock import Tie, wall
from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role
from forensics.signatures.schema import Signature, load_catalogue

DATA = Path(__file__).parent.parent / "data" / "kernel"
STEPS = "".join(
    f"2026-05-02 01:5{i // 10}:{i % 10 * 6:02d} step {100 + i} loss {2.5 - i / 100:.3f}\n" for i in range(60)
)
KILLED = (
    "E0502 02:00:07.453000 4000 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) "
    "local_rank: 1 (pid: 4242) of binary: /usr/bin/python3\n"
)
OOM = (
    "Memory cgroup out of memory: Killed process 4242 (python) total-vm:1486152kB, anon-rss:918684kB, file-rss:0kB, "
    "shmem-rss:4kB, UID:0 pgtables:2600kB oom_score_adj:0\n"
)
FALLEN = "NVRM: Xid (PCI:0000:{bus}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
KEY_ERROR = (
    "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\n    main()\nKeyError: 'input_ids'\n"
)
FINISHED = "[after training is done] datetime: 2026-05-02 02:00:00\n"


@cache
def catalogue() -> dict[str, Signature]:
    return load_catalogue()


def diagnose(folder: Path, **files: str) -> Diagnosis:
    """The diagnosis of a run of these files; "__" in a name stands for "/" and "_" before its last part for "."."""
    for name, text in files.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        file = folder / f"{stem}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return analyse([str(folder)], Options(threads=1), catalogue())


def root(diagnosis: Diagnosis) -> Finding:
    return diagnosis.of_role(Role.ROOT)[0]


def context(diagnosis: Diagnosis) -> set[str]:
    return {f.name for f in diagnosis.of_role(Role.CONTEXT)}


def how(diagnosis: Diagnosis, path: str) -> str:
    return next(row.reason or "" for row in diagnosis.coverage if row.path == path)


def inits(nodes: int, each: int) -> str:
    return "".join(
        f"node-{n}:{100 + i}:{200 + i} [{i}] NCCL INFO ncclCommInitRank comm 0x55f0a{n}{i} rank {n * each + i} nranks "
        f"{nodes * each} cudaDev {i} nvmlDev {i} busId {0x1B + i:x}000 commId 0xabc - Init COMPLETE\n"
        for n in range(nodes)
        for i in range(each)
    )


def test_one_kill_is_one_event_of_one_rank(tmp_path: Path) -> None:
    shutil.copy(DATA / "oom_memcg_5.txt", tmp_path / "dmesg.txt")
    found = diagnose(tmp_path, train_log=STEPS + KILLED)
    first = root(found)
    assert (first.name, first.ranks, first.count, first.time) == (
        "host-oom-cgroup",
        (1,),
        1,
        "2026-05-02T02:00:00.623Z",
    )
    said = " ".join(first.notes)
    assert "pod 0a1b2c3d-1111-2222-3333-444455556666" in said and "64.0 GiB" in said
    assert "/dev/shm" in said and "40.0 GiB" in said
    assert first.captures["rss_kb"] == "12582912" and first.captures["limit_kb"] == "67108864"
    assert "aligned by the time that dmesg.txt:2 states" in how(found, "dmesg.txt")


def test_what_killed_a_process_of_the_run_comes_before_what_nothing_ties_to_it(tmp_path: Path) -> None:
    dmesg = "[ 7200.000000] " + FALLEN.format(bus="1c") + "[ 7200.400000] " + OOM
    found = diagnose(tmp_path, train_log=STEPS + KILLED, dmesg_txt=dmesg)
    first, second = found.of_role(Role.ROOT)
    assert (first.name, first.ranks) == ("host-oom-cgroup", (1,))
    assert (second.name, second.ranks) == ("gpu-fell-off-bus", None)
    assert "Nothing ties it to a process" in second.notes[0]
    report = next(f for f in found.findings if f.name == "sigkill-unknown-sender")
    assert report.explained_by == first.id
    # With NCCL's word for whose card it is, both are tied, and which came first is the catalogue's to say.
    tied = diagnose(tmp_path / "tied", train_log=inits(1, 2) + STEPS + KILLED, dmesg_txt=dmesg)
    assert {f.name: f.ranks for f in tied.of_role(Role.ROOT)}["gpu-fell-off-bus"] == (1,)


def test_a_card_is_the_rank_that_nccl_says(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        nccl_log=inits(2, 2) + STEPS,
        kern_log="2026-05-02T02:00:00+00:00 node-1.example.org kernel: " + FALLEN.format(bus="1c"),
    )
    first = root(found)
    assert (first.name, first.ranks, first.node) == ("gpu-fell-off-bus", (3,), "node-1")
    assert "Xid 79 on GPU 0000:1c:00" in first.notes[0] and "What to do" in first.notes[0]


def test_a_card_of_an_unnamed_host_is_no_rank_of_two(tmp_path: Path) -> None:
    found = diagnose(tmp_path, nccl_log=inits(2, 2) + STEPS, dmesg_txt="[ 7200.000000] " + FALLEN.format(bus="1c"))
    assert root(found).ranks is None


def smi(number: int) -> str:
    return "".join(
        f"{i}, 00000000:{0x1B + i:X}:00.0, GPU-1111111{i}-2222-3333-4444-555555555555\n" for i in range(number)
    )


@pytest.mark.parametrize(("listed", "ranks"), [(2, (1,)), (8, None)])
def test_an_index_is_a_rank_only_where_each_gpu_has_one(
    tmp_path: Path, listed: int, ranks: tuple[int, ...] | None
) -> None:
    steps = "".join(f"[rank{r}]: step {i} loss 2.5\n" for i in range(5) for r in range(2))
    found = diagnose(
        tmp_path, train_log=steps, smi_csv=smi(listed), dmesg_txt="[ 7200.000000] " + FALLEN.format(bus="1c")
    )
    first = root(found)
    assert (first.name, first.ranks, first.captures.get("gpu")) == ("gpu-fell-off-bus", ranks, "1")


def test_uuids_join_the_kernels_list_and_nvidia_smis(tmp_path: Path) -> None:
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    steps = "".join(f"[rank{r}]: step {i} loss 2.5\n" for i in range(5) for r in range(2))
    found = diagnose(
        tmp_path,
        train_log=steps,
        smi_txt=f"GPU 1: NVIDIA A100 (UUID: {uuid})\n",
        dmesg_txt=f"[ 7199.000000] NVRM: GPU at PCI:0000:9b:00: {uuid}\n[ 7200.000000] " + FALLEN.format(bus="9b"),
    )
    assert root(found).captures.get("gpu") == "1"


def test_the_programs_own_error_stays_the_root(tmp_path: Path) -> None:
    xids = (
        "[ 7200.000000] NVRM: Xid (PCI:0000:1b:00): 13, pid=4242, name=python, Graphics SM Warp Exception on (GPC 9, TPC 1, "
        "SM 1): Out Of Range Address\n"
        "[ 7200.000100] NVRM: Xid (PCI:0000:1b:00): 43, pid=4242, name=python, Ch 00000008\n"
    )
    found = diagnose(tmp_path, train_log=STEPS + KEY_ERROR, dmesg_txt=xids)
    assert root(found).name == "python-exception"
    after = next(f for f in found.of_role(Role.CASCADE) if f.name == "xid-follow-up")
    assert "follows from the program's own error" in " ".join(after.notes)
    assert after.explained_by == root(found).id


@pytest.mark.parametrize(("xid", "ranks"), [("43", (1,)), ("45", None)])
def test_what_ended_the_work_of_one_process_is_of_its_rank(
    tmp_path: Path, xid: str, ranks: tuple[int, ...] | None
) -> None:
    inits = "".join(
        f"node:{4241 + r}:{5241 + r} [{r}] NCCL INFO comm 0x55d{r} rank {r} nranks 2 cudaDev {r} nvmlDev {r} "
        f"busId {0x1B + r:x}000 commId 0xabc - Init COMPLETE\n"
        for r in range(2)
    )
    said = f"[ 7200.000100] NVRM: Xid (PCI:0000:1c:00): {xid}, pid=4242, name=python, Ch 00000008\n"
    found = diagnose(tmp_path, train_log=inits + STEPS + KEY_ERROR, dmesg_txt=said)
    after = next(f for f in found.of_role(Role.CASCADE) if f.name == "xid-follow-up")
    assert (root(found).name, after.ranks) == ("python-exception", ranks)


def test_the_same_error_in_the_words_of_both_is_one(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        train_log=STEPS + "RuntimeError: CUDA error: an illegal memory access was encountered\n",
        dmesg_txt="[ 7200.000000] NVRM: Xid (PCI:0000:1b:00): 31, pid=4242, name=python, Ch 00000008, intr 0. MMU Fault: x\n",
    )
    assert [f.name for f in found.of_role(Role.ROOT)] == ["cuda-illegal-memory-access"]
    assert {e.file for e in root(found).evidence} == {"train.log", "dmesg.txt"}


def test_an_xid_of_the_program_alone_says_whose_fault_it_is(tmp_path: Path) -> None:
    found = diagnose(tmp_path, dmesg_txt="[ 7200.000000] NVRM: Xid (PCI:0000:1b:00): 13, pid=4242, name=python, x\n")
    assert root(found).name == "gpu-kernel-exception"
    assert "in most cases a fault of the program and not of the card" in root(found).notes[0]


NOISE = (
    "[ 7100.000000] pcieport 0000:00:01.4: AER: Corrected error received: 0000:00:01.4\n" * 40
    + "[ 7101.000000] INFO: task jbd2/sda1-8:713 blocked for more than 120 seconds.\n"
    + "[ 7101.500000] INFO: task python:99 blocked for more than 120 seconds.\n"
    + "[ 7102.000000] mlx5_core 0000:5e:00.0 ens1f0np0: Link down\n"
    + "[ 7103.000000] nfs: server 10.0.0.60 not responding, still trying\n"
    + "[ 7104.000000] node_exporter[2211]: segfault at 0 ip 00000046 sp 000000c0 error 4 in node_exporter[400000+612000]\n"
    + "[ 7105.000000] EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0)\n"
    + "[ 7106.000000] CPU1: Core temperature above threshold, cpu clock throttled (total events = 1)\n"
)


def test_a_run_that_ended_well_did_not_suffer(tmp_path: Path) -> None:
    found = diagnose(tmp_path, train_log=STEPS + FINISHED, dmesg_txt=NOISE)
    assert found.verdict == "healthy" and not found.of_role(Role.ROOT)
    assert {"pcie-corrected-errors", "task-blocked-in-kernel", "ib-link-flap", "storage-io-error"} <= context(found)


def test_a_run_with_an_error_of_its_own_did_not_die_of_noise(tmp_path: Path) -> None:
    cuda = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB\n"
    )
    found = diagnose(tmp_path, train_log=STEPS + cuda, dmesg_txt=NOISE)
    assert [f.name for f in found.of_role(Role.ROOT)] == ["cuda-oom"]
    assert {"pcie-corrected-errors", "ib-link-flap", "host-cpu-throttled"} <= context(found)


def test_another_process_that_was_killed_is_beside_the_matter(tmp_path: Path) -> None:
    killed = (
        "[ 7100.000000] Out of memory: Killed process 31357 (collectd) total-vm:5400kB, anon-rss:252kB, file-rss:4kB\n"
    )
    found = diagnose(tmp_path, train_log=STEPS + KEY_ERROR, dmesg_txt=killed)
    assert [f.name for f in found.of_role(Role.ROOT)] == ["python-exception"]
    assert "host-oom" in context(found)
    before_training = diagnose(tmp_path / "early", train_log="building the model ...\n" + KEY_ERROR, dmesg_txt=killed)
    assert [f.name for f in before_training.of_role(Role.ROOT)] == ["python-exception"]
    alone = diagnose(tmp_path / "alone", train_log=STEPS + "Killed\n", dmesg_txt=killed)
    assert root(alone).name == "host-oom"


def test_a_hang_is_explained_by_what_the_kernel_says(tmp_path: Path) -> None:
    timeout = (
        "[rank0]:[E502 02:10:00.000000000 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600072 milliseconds "
        "before timing out.\n"
    )
    found = diagnose(tmp_path, train_log=STEPS + timeout, dmesg_txt="[ 7200.000000] " + FALLEN.format(bus="1c"))
    assert root(found).name == "gpu-fell-off-bus"


def test_the_same_message_in_another_form_aligns(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        dmesg_txt="[ 7200.500000] "
        + FALLEN.format(bus="1c")
        + "[ 7300.000000] INFO: task python:9 blocked for more than 120 seconds.\n",
        journal_log="2026-05-02T02:00:00.750000+00:00 node-0 kernel: " + FALLEN.format(bus="1c"),
    )
    blocked = next(f for f in found.findings if f.name == "task-blocked-in-kernel")
    assert blocked.time == "2026-05-02T02:01:40.250Z"
    assert "the message of dmesg.txt:1, which journal.log:1 has too" in how(found, "dmesg.txt")


@pytest.mark.parametrize(
    ("name", "text", "zone"),
    [
        ("stat_txt", "cpu  1 2 3\nbtime 1777680000\n", "Z"),
        ("who_b_txt", "         system boot  2026-05-02 00:00\n", ""),
        ("uptime_txt", "2026-05-02 00:00:00\n", ""),
    ],
)
def test_the_time_of_boot_aligns(tmp_path: Path, name: str, text: str, zone: str) -> None:
    found = diagnose(tmp_path, dmesg_txt="[ 7200.500000] " + FALLEN.format(bus="1c"), **{name: text})
    assert root(found).time == "2026-05-02T02:00:00.500" + zone


def test_one_event_that_both_must_have_seen_aligns(tmp_path: Path) -> None:
    found = diagnose(tmp_path, train_log=STEPS + KILLED, dmesg_txt="[ 7200.500000] " + OOM)
    first = root(found)
    assert (first.name, first.ranks, first.time) == ("host-oom-cgroup", (1,), "2026-05-02T02:00:07.453")
    assert "dmesg.txt:1 and train.log:" in how(found, "dmesg.txt")


def test_what_nothing_aligns_says_so(tmp_path: Path) -> None:
    found = diagnose(tmp_path, train_log=STEPS, dmesg_txt="[ 7200.500000] " + FALLEN.format(bus="1c"))
    assert root(found).time is None
    assert "not aligned" in how(found, "dmesg.txt") and "counts from the boot" in " ".join(root(found).notes)


def test_a_log_in_another_zone_is_moved(tmp_path: Path) -> None:
    found = diagnose(tmp_path, train_log=STEPS + KILLED, dmesg_txt="[Sat May  2 10:00:05 2026] " + OOM)
    assert root(found).time == "2026-05-02T02:00:05.000"
    assert "moved by -8 h" in " ".join(root(found).notes)


def test_each_boot_has_its_own_clock(tmp_path: Path) -> None:
    def boot(epoch: int) -> str:
        return (
            "[    0.000000] Linux version 5.15.0-112-generic (build@host) (gcc 11.4.0) #122-Ubuntu SMP\n"
            f"[    2.000000] audit: type=2000 audit({epoch}.000:1): state=initialized\n"
        )

    first = "[ 9000.000000] nvme nvme4: Disabling device after reset failure: -19\n"
    text = boot(1777600000) + first + boot(1777680000) + "[  100.000000] " + FALLEN.format(bus="1c")
    found = diagnose(tmp_path, dmesg_txt=text)
    times = {f.name: f.time for f in found.findings}
    assert times["storage-io-error"] == "2026-05-01T04:16:38.000Z"
    assert times["gpu-fell-off-bus"] == "2026-05-02T00:01:38.000Z"


def test_a_journal_in_json_and_a_run(tmp_path: Path) -> None:
    shutil.copy(DATA / "journal.json", tmp_path / "journal.json")
    found = diagnose(tmp_path)
    names = {f.name for f in found.findings}
    assert {"gpu-ecc-uncorrectable", "rank-segfault", "host-oom-cgroup"} <= names
    assert next(f for f in found.findings if f.name == "rank-segfault").time == "2026-08-10T15:36:07.123Z"
    assert how(found, "journal.json!/journal.json").startswith("kernel log (syslog iso)")


_TIE = st.tuples(st.floats(0, 1e7), st.floats(0, 2e9))


@given(st.lists(_TIE, min_size=1, max_size=8), st.lists(st.floats(0, 1e7), min_size=2, max_size=20))
def test_times_of_one_boot_are_monotone(ties: list[tuple[float, float]], seconds: list[float]) -> None:
    known = [Tie(s, t, True, "test") for s, t in ties]
    times = [wall(s, known) for s in sorted(seconds)]
    assert all(b >= a - 1e-6 * max(abs(a), 1.0) for a, b in pairwise(times))


def test_storage_that_stalled_while_training_went_on_is_no_failure(tmp_path: Path) -> None:
    stalled = "[Sat May  2 01:{}:00 2026] nfs: server 10.0.0.60 not responding, still trying\n"
    running = diagnose(tmp_path / "before", train_log=STEPS, dmesg_txt=stalled.format("40"))
    assert running.verdict == "healthy" and "storage-io-error" in context(running)
    stopped = diagnose(tmp_path / "after", train_log=STEPS, dmesg_txt=stalled.format("59"))
    assert root(stopped).name == "storage-io-error"


def test_the_pid_of_an_xid_is_a_rank_where_nccl_names_it(tmp_path: Path) -> None:
    xid = "[ 7200.000000] NVRM: Xid (PCI:0000:77:00): {}, pid=101, name=python, x\n"
    own = diagnose(tmp_path / "own", nccl_log=inits(1, 2) + STEPS, dmesg_txt=xid.format(31))
    assert (root(own).name, root(own).ranks) == ("cuda-illegal-memory-access", (1,))
    # Here the pid is that of whoever called the driver.
    asked = diagnose(tmp_path / "asked", nccl_log=inits(1, 2) + STEPS, dmesg_txt=xid.format(119))
    assert (root(asked).name, root(asked).ranks) == ("gsp-firmware-crash", None)


def test_a_loaders_worker_is_its_ranks(tmp_path: Path) -> None:
    steps = "".join(f"[rank{r}]: step {i} loss 2.5\n" for i in range(5) for r in range(4))
    died = "[rank2]: RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. \n"
    found = diagnose(tmp_path, train_log=steps + died, dmesg_txt="[ 7200.000000] " + OOM)
    assert (root(found).name, root(found).ranks) == ("host-oom-cgroup", (2,))


def test_a_note_names_the_two_lines_between_which_a_time_lies(tmp_path: Path) -> None:
    """The second tie is the nearer one, and the time is made of both."""
    blocked = "INFO: task python:9 blocked for more than 120 seconds.\n"
    first, last = "2026-05-02T02:00:00+00:00 node-0 kernel: ", "2026-05-02T02:10:02+00:00 node-0 kernel: "
    found = diagnose(
        tmp_path,
        dmesg_txt="[ 7200.000000] "
        + FALLEN.format(bus="1c")
        + "[ 7700.000000] "
        + blocked
        + "[ 7800.000000] "
        + FALLEN.format(bus="2d"),
        journal_log=first + FALLEN.format(bus="1c") + last + FALLEN.format(bus="2d"),
    )
    note = " ".join(next(f for f in found.findings if f.name == "task-blocked-in-kernel").notes)
    assert (
        "dmesg.txt:1, which journal.log:1 has too and the message of dmesg.txt:3, which journal.log:2 has too" in note
    )
