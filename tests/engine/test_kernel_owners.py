"""Kernel lines of other hosts, cards, processes and times than the run's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role
from forensics.signatures.schema import Signature, load_catalogue

STEPS = "".join(f"2026-05-02 15:0{i // 30}:{i % 30 * 2:02d} step {i} loss {2.5 - i / 100:.3f}\n" for i in range(60))
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of"
WATCHDOG = (
    "[rank0]:[E502 15:12:09.100000000 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600000 milliseconds "
    "before timing out.\n"
)
FALLEN = "NVRM: Xid (PCI:0000:{bus}:00): 79, pid={pid}, name=python, GPU has fallen off the bus.\n"
SM_FAULT = "NVRM: Xid (PCI:0000:{bus}:00): 13, pid={pid}, name={name}, Graphics SM Warp Exception on (GPC 9, TPC 1)\n"
KILLED = (
    "Out of memory: Killed process {pid} ({name}) total-vm:250000000kB, anon-rss:210000000kB, file-rss:90000kB, "
    "shmem-rss:20000kB, UID:1000 pgtables:410000kB oom_score_adj:0\n"
)
# A switch, a PCIe port, an adapter and a process's crash, as kernels word them.
OTHERS = {
    "nvlink-fatal-error": "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n",
    "pcie-link-failure": "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:1c:00.0\n",
    "ib-link-flap": "mlx5_core 0000:17:00.0 mlx5_17: Port: 1 Link DOWN\n",
    "rank-segfault": "python[101]: segfault at 0 ip 00007f2c32 sp 00007ffd error 4 in libx.so[7f2c30000000+1000000]\n",
    "host-oom": KILLED.format(pid=101, name="python"),
}


@cache
def catalogue() -> dict[str, Signature]:
    return load_catalogue()


def inits(host: str = "gpu-a01", ranks: int = 2, world: int = 2) -> str:
    return "".join(
        f"{host}:{100 + r}:{200 + r} [{r}] NCCL INFO comm 0x55d{r} rank {r} nranks {world} cudaDev {r} nvmlDev {r} "
        f"busId {0x1B + r:x}000 commId 0xabc - Init COMPLETE\n"
        for r in range(ranks)
    )


def died(error: str, exitcode: int = 1) -> str:
    return (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/train.py", line 7, in <module>\n'
        f"[rank1]:     main()\n[rank1]: {error}\n" + ended(exitcode)
    )


def ended(exitcode: int, pid: int = 101) -> str:
    return (
        "E0502 15:02:10.000000 90 torch/distributed/elastic/multiprocessing/api.py:869] failed "
        f"(exitcode: {exitcode}) local_rank: 1 (pid: {pid}) of binary: /usr/bin/python\n"
    )


def kernel(message: str, time: str = "15:01:30", host: str = "gpu-a01") -> str:
    return f"May  2 {time} {host} kernel: [900060.000000] {message}"


def diagnose(folder: Path, log: str, *kernels: str) -> Diagnosis:
    folder.mkdir(exist_ok=True)
    (folder / "train.log").write_text(log)
    for n, text in enumerate(kernels):
        (folder / f"kern{n}.log").write_text(text)
    return analyse([str(folder)], Options(threads=1), catalogue())


def roots(diagnosis: Diagnosis) -> list[tuple[str, tuple[int, ...] | None]]:
    return [(f.name, f.ranks) for f in diagnosis.of_role(Role.ROOT)]


def aside(diagnosis: Diagnosis, name: str) -> Finding:
    return next(f for f in diagnosis.of_role(Role.CONTEXT) if f.name == name)


@pytest.mark.parametrize("name", sorted({*OTHERS, "gpu-fell-off-bus"}))
def test_what_another_host_says_is_no_cause(tmp_path: Path, name: str) -> None:
    """Also where it names the number of a process, or the bus of a card, that the run has on its own host."""
    message = OTHERS.get(name) or FALLEN.format(bus="1c", pid=101)
    found = diagnose(tmp_path, inits() + STEPS + died(OUT_OF_MEMORY), kernel(message, host="gpu-z09"))
    assert roots(found) == [("cuda-oom", (1,))]
    other = aside(found, name)
    assert (other.ranks, other.node, found.run.nodes) == (None, "gpu-z09", 1)
    assert "it is of gpu-z09" in other.why


def test_the_runs_own_host_stays_beside_another(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        inits() + STEPS + WATCHDOG,
        kernel(FALLEN.format(bus="1c", pid=7), host="gpu-z09"),
        kernel(FALLEN.format(bus="1b", pid=7), "15:02:05"),
    )
    assert roots(found) == [("gpu-fell-off-bus", (0,))]
    assert aside(found, "gpu-fell-off-bus").node == "gpu-z09"


def test_a_host_of_which_no_rank_is_known_may_be_the_runs(tmp_path: Path) -> None:
    """Half of the ranks are seen, all on one host: the other one is not foreign, and its card is none of theirs."""
    log = inits(ranks=2, world=4) + STEPS + WATCHDOG
    found = diagnose(tmp_path, log, kernel(FALLEN.format(bus="1c", pid=7), "15:02:05", "gpu-a02"))
    assert roots(found)[0] == ("gpu-fell-off-bus", None)
    assert found.of_role(Role.ROOT)[0].node == "gpu-a02"


def test_one_pod_and_one_node_are_one_host_and_the_report_says_so(tmp_path: Path) -> None:
    log = inits("trainer-worker-0") + STEPS + WATCHDOG
    found = diagnose(tmp_path, log, kernel(FALLEN.format(bus="1c", pid=88123), "15:02:05", "ip-10-2-3-4"))
    assert roots(found)[0] == ("gpu-fell-off-bus", (1,))
    assert "Host ip-10-2-3-4 is taken to be trainer-worker-0" in " ".join(found.of_role(Role.ROOT)[0].notes)


@pytest.mark.parametrize(("time", "apart"), [("15:40:00", "38 min after the last"), ("18:02:10", "3 h after the last")])
def test_what_is_written_after_the_end_is_no_cause(tmp_path: Path, time: str, apart: str) -> None:
    log = inits() + STEPS + died(OUT_OF_MEMORY)
    found = diagnose(tmp_path, log, kernel(FALLEN.format(bus="1c", pid=88123), time))
    assert roots(found) == [("cuda-oom", (1,))]
    assert apart in aside(found, "gpu-fell-off-bus").why


def test_what_is_written_before_the_start_is_no_cause(tmp_path: Path) -> None:
    log = inits() + STEPS + died(OUT_OF_MEMORY)
    found = diagnose(tmp_path, log, kernel(FALLEN.format(bus="1c", pid=88123), "13:00:00"))
    assert roots(found) == [("cuda-oom", (1,))]
    assert "2 h before the first sign" in aside(found, "gpu-fell-off-bus").why


def test_a_later_message_stands_behind_a_hang_that_nothing_explains(tmp_path: Path) -> None:
    """The clocks may be in two zones: it is no context, and not the first root."""
    found = diagnose(tmp_path, inits() + STEPS + WATCHDOG, kernel(FALLEN.format(bus="1c", pid=7), "18:05:00"))
    assert [name for name, _ in roots(found)] == ["collective-timeout", "gpu-fell-off-bus"]
    assert "after the last sign" in found.of_role(Role.ROOT)[1].notes[0]
    before = diagnose(tmp_path, inits() + STEPS + WATCHDOG, kernel(FALLEN.format(bus="1c", pid=7), "15:02:05"))
    assert roots(before) == [("gpu-fell-off-bus", (1,))]


def test_another_zone_is_told_by_a_traceback_that_bears_no_time(tmp_path: Path) -> None:
    error = died("torch.AcceleratorError: CUDA error: unspecified launch failure", -6)
    log = inits() + STEPS + error
    found = diagnose(tmp_path, log, kernel(FALLEN.format(bus="1c", pid="'<unknown>'"), "13:02:00"))
    first = found.of_role(Role.ROOT)[0]
    assert (first.name, first.ranks, first.step, first.time) == (
        "gpu-fell-off-bus",
        (1,),
        59,
        "2026-05-02T15:02:00.000",
    )
    assert "moved by 2 h" in " ".join(first.notes)


@pytest.mark.parametrize("name", ["restic", "python"])
def test_another_process_that_the_kernel_killed(tmp_path: Path, name: str) -> None:
    """Context where the run has an error of its own and lost no process to a signal."""
    log = inits() + STEPS
    killed = kernel(KILLED.format(pid=99123, name=name))
    found = diagnose(tmp_path / "own", log + died("ValueError: bad mask"), killed)
    assert roots(found) == [("python-exception", (1,))]
    assert ("restic" if name == "restic" else "pid 99123") in aside(found, "host-oom").why
    # A rank was killed as well: pids are counted anew in containers, names of programs are not.
    lost = diagnose(tmp_path / "lost", log + ended(-9), killed)
    assert [n for n, _ in roots(lost)] == (["sigkill-unknown-sender"] if name == "restic" else ["host-oom"])
    # The program says that there was no memory.
    error = died("RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: you")
    short = diagnose(tmp_path / "short", log + error, kernel(KILLED.format(pid=99123, name="python")))
    assert "host-oom" in [f.name for f in short.of_role(Role.ROOT)]


@pytest.mark.parametrize(
    ("exitcode", "pid", "root"),
    [
        (-9, 1482002, "sigkill-unknown-sender"),  # numbered by the host
        (-9, 1486711, "host-oom"),
        (-9, 101, "host-oom"),  # numbered by a container
        (-11, 101, "rank-segfault"),
        (-11, 1482002, "rank-segfault"),
    ],
)
def test_a_python_process_that_the_kernel_killed_and_the_one_that_the_launcher_lost(
    tmp_path: Path, exitcode: int, pid: int, root: str
) -> None:
    killed = kernel(KILLED.format(pid=1486711, name="python"))
    found = diagnose(tmp_path, STEPS + ended(exitcode, pid), killed)
    assert [name for name, _ in roots(found)] == [root]
    if root != "host-oom":
        assert "pid 1486711" in aside(found, "host-oom").why


def test_a_fault_on_a_card_that_the_run_does_not_use(tmp_path: Path) -> None:
    log = inits() + STEPS + died("ValueError: bad mask")
    found = diagnose(tmp_path, log, kernel(SM_FAULT.format(bus="c3", pid=555, name="other")))
    assert roots(found) == [("python-exception", (1,))]
    assert not [f for f in found.findings if f.name == "xid-follow-up"]
    assert "GPU 0000:c3:00" in aside(found, "gpu-kernel-exception").why
    # Without NCCL's list of cards it is the process that tells.
    bare = re.sub(r"gpu-a01:.*\n", "", log)
    unlisted = diagnose(tmp_path / "unlisted", bare, kernel(SM_FAULT.format(bus="c3", pid=555, name="other")))
    assert "another process (other)" in aside(unlisted, "gpu-kernel-exception").why


def test_a_fault_in_the_words_of_both_is_one_whatever_number_the_process_has(tmp_path: Path) -> None:
    """A container numbers its processes anew."""
    log = inits() + STEPS + died("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", -6)
    found = diagnose(tmp_path, log, kernel(SM_FAULT.format(bus="1c", pid=88001, name="python"), "15:01:59"))
    assert [n for n, _ in roots(found)] == ["cuda-illegal-memory-access"]
    assert not found.of_role(Role.CONTEXT) or "gpu-kernel-exception" not in {
        f.name for f in found.of_role(Role.CONTEXT)
    }


def test_a_time_between_the_line_above_a_traceback_and_the_end_is_no_other_zone(tmp_path: Path) -> None:
    """Lines half an hour apart, and an Xid just before the traceback that follows the first of them."""
    error = died("torch.AcceleratorError: CUDA error: unspecified launch failure", -6).replace("15:02:10", "15:31:58")
    found = diagnose(tmp_path, inits() + STEPS + error, kernel(FALLEN.format(bus="1c", pid=7), "15:31:55"))
    first = found.of_role(Role.ROOT)[0]
    assert (first.name, first.time) == ("gpu-fell-off-bus", "2026-05-02T15:31:55.000")
    assert "moved" not in " ".join(first.notes)


def test_a_kernel_log_in_a_hosts_folder_is_that_hosts(tmp_path: Path) -> None:
    for n in (0, 1):
        folder = tmp_path / f"node-{n}"
        folder.mkdir()
        text = "".join(f"[rank{n}]: step {i} loss 2.5\n" for i in range(9))
        (folder / "train.log").write_text(re.sub(r"rank (\d)", f"rank {n}", inits(f"node-{n}", 1)) + text)
    (tmp_path / "node-1" / "kern.log").write_text(kernel(FALLEN.format(bus="1b", pid=7), host="ip-10-0-0-8"))
    found = analyse([str(tmp_path)], Options(threads=1), catalogue())
    assert roots(found) == [("gpu-fell-off-bus", (1,))]
    assert (found.of_role(Role.ROOT)[0].node, found.run.nodes) == ("node-1", 2)


def test_a_rank_that_only_its_own_last_line_names_is_on_the_host_of_the_kernel(tmp_path: Path) -> None:
    last = (
        "[rank11]:[E502 15:02:00.100000000 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0 Rank 11] Process group watchdog "
        "thread terminated with exception: CUDA error: unspecified launch failure\n"
    )
    found = diagnose(tmp_path, STEPS + last, kernel(FALLEN.format(bus="4e", pid="'<unknown>'"), "15:01:58", "node017"))
    assert roots(found) == [("gpu-fell-off-bus", (11,))]
    assert found.findings[0].node == "node017"


def two_hosts(code: int) -> str:
    """Ranks 0-3 on gpu-a01 and 4-7 on gpu-a02, where torchelastic saw rank 5 end."""
    born = "".join(
        f"gpu-a0{1 + r // 4}:{100 + r}:{200 + r} [{r % 4}] NCCL INFO comm 0x55d{r} rank {r} nranks 8 cudaDev {r % 4} "
        f"nvmlDev {r % 4} busId {0x1B + r % 4:x}000 commId 0xabc - Init COMPLETE\n"
        for r in range(8)
    )
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-02_15:02:10\n  host      : gpu-a02.cluster\n"
        f"  rank      : 5 (local_rank: 1)\n  exitcode  : {code} (pid: 105)\n  error_file: <N/A>\n"
    )
    return born + STEPS + ended(code).replace("pid: 101", "pid: 105") + table


SEGFAULT = "python[{pid}]: segfault at 0 ip 00007f2c32 sp 00007ffd error 4 in libx.so[7f2c30000000+1000000]\n"
DEAD = [
    pytest.param(KILLED.format(pid=105, name="python"), -9, "host-oom", id="of its number"),
    pytest.param(KILLED.format(pid=4105, name="python"), -9, "host-oom", id="of another number"),
    pytest.param(SEGFAULT.format(pid=4105), -11, "rank-segfault", id="a segmentation fault"),
]


@pytest.mark.parametrize(("message", "code", "name"), DEAD)
def test_what_killed_a_process_of_another_host_did_not_kill_the_rank(
    tmp_path: Path, message: str, code: int, name: str
) -> None:
    """Both hosts are the run's: rank 5 ended on the second one, and the kernel of the first one speaks."""
    found = diagnose(tmp_path, two_hosts(code), kernel(message, "15:02:08", "gpu-a01"))
    assert all("kern" not in e.file for f in found.of_role(Role.ROOT) for e in f.evidence)
    assert "on gpu-a02" in aside(found, name).why
    if code == -9:
        assert roots(found) == [("sigkill-unknown-sender", (5,))]


@pytest.mark.parametrize(("message", "code", "name"), DEAD)
def test_what_killed_a_process_of_its_own_host_killed_the_rank(
    tmp_path: Path, message: str, code: int, name: str
) -> None:
    found = diagnose(tmp_path, two_hosts(code), kernel(message, "15:02:08", "gpu-a02"))
    assert found.of_role(Role.ROOT)[0].name == name
    assert any("kern" in e.file for e in found.of_role(Role.ROOT)[0].evidence)


def test_a_host_that_is_named_otherwise_may_be_the_ranks(tmp_path: Path) -> None:
    """The kernel calls its host by an address; the run's hosts have names."""
    text = two_hosts(-9)
    found = diagnose(tmp_path, text, kernel(KILLED.format(pid=4105, name="python"), "15:02:08", "ip-10-2-3-4"))
    assert found.of_role(Role.ROOT)[0].name == "host-oom"


def test_the_host_of_a_rank_is_known_from_what_srun_prints(tmp_path: Path) -> None:
    log = STEPS + "srun: error: gpu-a02: task 5: Killed\n"
    found = diagnose(tmp_path, log, kernel(KILLED.format(pid=4105, name="python"), "15:02:08", "gpu-a01"))
    assert found.of_role(Role.ROOT)[0].name == "sigkill-unknown-sender"
    assert "on gpu-a02" in aside(found, "host-oom").why


FAULT = "NVRM: Xid (PCI:0000:{bus}:00): 31, pid={pid}, name=python3, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS\n"


def hung(ranks: int = 2, missing: int = 1) -> str:
    said = [WATCHDOG.replace("ank0", f"ank{r}").replace("ank 0", f"ank {r}") for r in range(ranks) if r != missing]
    labelled = "".join(f"[rank{r}] {line}\n" for line in STEPS.splitlines() for r in range(ranks))
    return labelled + "".join(said)


@pytest.mark.parametrize("bus", ["1b", "1c"])
@pytest.mark.parametrize("number", [13, 31, 43])
def test_what_another_process_did_on_a_gpu_is_beside_a_hang(tmp_path: Path, bus: str, number: int) -> None:
    line = FAULT.replace("31,", f"{number},").format(bus=bus, pid=998877)
    found = diagnose(tmp_path, inits() + hung(), kernel(line, "15:01:59"))
    assert [(f.name, f.ranks) for f in found.of_role(Role.ROOT)] == [("collective-timeout", (1,))]


def test_a_fault_of_a_ranks_own_process_leads_a_hang(tmp_path: Path) -> None:
    found = diagnose(tmp_path, inits() + hung(), kernel(FAULT.format(bus="1c", pid=101), "15:01:59"))
    assert roots(found)[0] == ("cuda-illegal-memory-access", (1,))


def test_a_fault_beside_a_hang_stands_where_the_processes_of_the_run_are_not_known(tmp_path: Path) -> None:
    found = diagnose(tmp_path, hung(), kernel(FAULT.format(bus="1c", pid=998877), "15:01:59"))
    assert roots(found)[0][0] == "cuda-illegal-memory-access"


def test_a_fault_from_before_the_run_is_beside_a_hang(tmp_path: Path) -> None:
    found = diagnose(tmp_path, hung(), kernel(FAULT.format(bus="1c", pid=998877), "14:10:00"))
    assert [name for name, _ in roots(found)] == ["collective-timeout"]


def test_a_card_that_is_lost_leads_a_hang_whatever_process_the_driver_names(tmp_path: Path) -> None:
    found = diagnose(tmp_path, inits() + hung(), kernel(FALLEN.format(bus="1c", pid=998877), "15:01:59"))
    assert roots(found)[0] == ("gpu-fell-off-bus", (1,))


ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"


def test_a_fault_of_another_process_is_no_second_rank_of_a_ranks_own_fault(tmp_path: Path) -> None:
    found = diagnose(tmp_path, inits() + STEPS + died(ILLEGAL), kernel(FAULT.format(bus="1b", pid=998877), "15:02:00"))
    assert roots(found) == [("cuda-illegal-memory-access", (1,))]


def test_a_fault_on_the_card_of_the_rank_that_tells_of_it_is_its_own_whatever_number_it_bears(tmp_path: Path) -> None:
    found = diagnose(tmp_path, inits() + STEPS + died(ILLEGAL), kernel(FAULT.format(bus="1c", pid=998877), "15:02:00"))
    assert roots(found) == [("cuda-illegal-memory-access", (1,))]
    assert any("Xid" in e.text for e in found.findings[0].evidence)


@pytest.mark.parametrize(("pid", "surer"), [(4242, True), (77777, False)])
def test_a_crash_of_a_process_that_nothing_names_makes_the_runs_own_no_surer(
    tmp_path: Path, pid: int, surer: bool
) -> None:
    end = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f0000000740 (most recent call first):\n"
        '  File "/app/train.py", line 12 in main\n'
        "E0502 15:03:01.000000 4000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -11) "
        "local_rank: 1 (pid: 4242) of binary: /usr/bin/python\n"
    )
    crash = f"May  2 15:03:00 n3 kernel: python[{pid}]: segfault at 0 ip 00007f2c32 sp 00007ffd error 4 in libx.so\n"
    both = []
    for name, kernel in (("alone", ""), ("both", crash)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_text(STEPS + end)
        if kernel:
            (tmp_path / name / "messages").write_text(kernel)
        (found,) = analyse([str(tmp_path / name)]).of_role(Role.ROOT)
        assert found.name == "rank-segfault"
        both.append(found.confidence)
    assert (both[1] > both[0]) is surer


HOST_WAS_FULL, LIMIT_WAS_REACHED = KILLED, "Memory cgroup out of memory" + KILLED.removeprefix("Out of memory")


@pytest.mark.parametrize("name", ["node_exporter", "python3"])
@pytest.mark.parametrize(
    ("theirs", "ours", "memory"),
    [
        (LIMIT_WAS_REACHED, HOST_WAS_FULL, "host-oom"),
        (HOST_WAS_FULL, LIMIT_WAS_REACHED, "host-oom-cgroup"),
        (HOST_WAS_FULL, HOST_WAS_FULL, "host-oom"),
    ],
)
@pytest.mark.parametrize("stamped", [True, False])
def test_which_memory_was_full_is_told_by_the_line_of_the_runs_own_process(
    tmp_path: Path, name: str, theirs: str, ours: str, memory: str, stamped: bool
) -> None:
    texts = theirs.format(pid=2200, name=name), ours.format(pid=7101, name="python3")
    times = "09:00:11", "15:02:08"
    log = "".join(kernel(text, time) if stamped else text for text, time in zip(texts, times, strict=True))
    found = diagnose(tmp_path, STEPS + ended(-9, 7101), log)
    (root,) = found.of_role(Role.ROOT)
    assert root.name == memory and root.captures["pid"] == "7101"
    assert not any("pid 2200" in note for note in root.notes)
    assert not [f.name for f in found.of_role(Role.CASCADE) if f.name.startswith("host-oom")]


@pytest.mark.parametrize(("earlier", "later"), [(LIMIT_WAS_REACHED, HOST_WAS_FULL), (HOST_WAS_FULL, LIMIT_WAS_REACHED)])
@pytest.mark.parametrize(("time", "aside"), [("09:00:11", True), ("15:02:05", False)])
def test_of_kills_in_containers_the_one_at_the_time_of_the_death_tells_which_memory_was_full(
    tmp_path: Path, earlier: str, later: str, time: str, aside: bool
) -> None:
    before = kernel(earlier.format(pid=2200, name="python3"), time)
    then = kernel(later.format(pid=99123, name="python3"), "15:02:08")
    found = diagnose(tmp_path, STEPS + ended(-9, 71), before + then)
    (root,) = found.of_role(Role.ROOT)
    other = {"host-oom", "host-oom-cgroup"} - {root.name}
    if aside:
        assert root.name == ("host-oom" if later is HOST_WAS_FULL else "host-oom-cgroup")
        assert not other & {f.name for f in found.of_role(Role.CASCADE)}
    else:
        assert root.name == "host-oom-cgroup"


def test_a_kill_of_a_process_that_nothing_names_may_be_a_containers(tmp_path: Path) -> None:
    found = diagnose(tmp_path, STEPS + ended(-9, 101), kernel(LIMIT_WAS_REACHED.format(pid=99123, name="python3")))
    assert [name for name, _ in roots(found)] == ["host-oom-cgroup"]


ANNOUNCED = "".join(f"rank {r} pid {600 + r} host gpu-a0{1 + r // 2}\n" for r in range(4))
NVLINK = (
    "NVRM: Xid (PCI:0000:9d:00): 74, pid={}, name=python, NVLink: fatal error detected on link 3(0x10000, 0x0, 0x0)\n"
)
CLEARED = "NVRM: Xid (PCI:0000:{}:00): 45, pid={}, name={}, Ch 00000010\n"


@pytest.mark.parametrize(
    ("cleared", "ranks"),
    [
        ([("9d", 603, "python")], (3,)),
        ([("9d", 603, "python"), ("9d", 603, "python")], (3,)),
        ([], None),  # whoever called the driver is not who used the card
        ([("9d", 602, "python"), ("9d", 603, "python")], None),
        ([("9d", 603, "python"), ("9d", 7777, "python")], None),
        ([("1b", 603, "python")], None),
        ([("9d", 7777, "python")], None),
        ([("9d", 600, "python")], None),  # a rank of another host
    ],
)
def test_the_card_of_a_fault_is_that_of_the_rank_whose_work_alone_was_cleared_away(
    tmp_path: Path, cleared: list[tuple[str, int, str]], ranks: tuple[int, ...] | None
) -> None:
    lines = [kernel(CLEARED.format(*of), "15:02:01", "gpu-a02") for of in cleared]
    faults = kernel(NVLINK.format(603), "15:02:00", "gpu-a02") + "".join(lines)
    gone = "".join(
        f"[rank{r}]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a "
        "network error, NCCL version 2.21.5\n"
        for r in (0, 1)
    )
    found = diagnose(tmp_path, ANNOUNCED + STEPS + gone, faults)
    assert roots(found) == [("nvlink-fatal-error", ranks)]
