"""A host's start in its kernel log: right after a log that breaks off it is what ended the run, elsewhere nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Verdict

STEPS = "".join(f"2026-05-14 10:{n // 6:02d}:{n % 6}0 step {n * 10} loss {3 - n / 100:.3f}\n" for n in range(48))
RUNNING = "May 14 10:05:11 n17 kernel: [87010.000001] perf: interrupt took too long (2504 > 2500)\n"
BOOT = """\
May 14 {time}:31 n17 kernel: [    0.000000] Linux version 6.8.0-45-generic (buildd@lcy02)
May 14 {time}:31 n17 kernel: [    0.000000] Command line: BOOT_IMAGE=/vmlinuz-6.8.0-45-generic ro
"""
RECOVERED = "May 14 {time}:33 n17 kernel: [    2.000000] EXT4-fs (nvme0n1p2): recovery complete\n"
KERN = RUNNING + BOOT + RECOVERED
DMESG = """\
[Thu May 14 10:10:31 2026] Linux version 6.8.0-45-generic (buildd@lcy02)
[Thu May 14 10:10:34 2026] XFS (nvme0n1p2): Starting recovery (logdev: internal)
"""


def diagnosed(folder: Path, kernel: str, log: str = STEPS, name: str = "train_n17.log") -> Diagnosis:
    (folder / name).write_text(log)
    (folder / "kern.log").write_text(kernel)
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize("kernel", [KERN.format(time="10:10"), DMESG], ids=["syslog", "dmesg -T"])
def test_a_log_that_breaks_off_before_its_host_starts_anew(tmp_path: Path, kernel: str) -> None:
    found = diagnosed(tmp_path, kernel)
    root = found.findings[0]
    assert (found.verdict, root.name, root.step) == (Verdict.FAILED, "node-failure", 470)
    assert "Linux version" in root.evidence[1].text


@pytest.mark.parametrize(
    "kernel",
    [
        KERN.format(time="09:50"),
        KERN.format(time="11:40"),
        RUNNING + BOOT.format(time="10:10"),
        RUNNING
        + "May 14 10:08:40 n17 kernel: [87300.000001] reboot: Restarting system\n"
        + (BOOT + RECOVERED).format(time="10:10"),
    ],
    ids=["before the run", "long after it", "nothing to recover", "asked for"],
)
def test_other_starts_say_nothing(tmp_path: Path, kernel: str) -> None:
    assert diagnosed(tmp_path, kernel).verdict is Verdict.HEALTHY


def test_a_run_that_ended_before_was_not_ended_by_it(tmp_path: Path) -> None:
    log = STEPS + "2026-05-14 10:08:00 Training complete.\n"
    assert diagnosed(tmp_path, KERN.format(time="10:10"), log).verdict is Verdict.HEALTHY


def test_a_run_that_ended_in_an_error_of_its_own_was_not_ended_by_it(tmp_path: Path) -> None:
    raised = "Traceback (most recent call last):\n  File \"/w/t.py\", line 3, in <module>\n    d['x']\nKeyError: 'x'\n"
    found = diagnosed(tmp_path, KERN.format(time="10:10"), STEPS + raised)
    assert [f.name for f in found.findings if f.role == "root"] == ["python-exception"]


def test_the_start_of_another_host_is_none_of_it(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, KERN.format(time="10:10"), name="train_n18.log").verdict is Verdict.HEALTHY


def test_a_host_on_which_another_log_speaks_on_is_not_down(tmp_path: Path) -> None:
    later = "".join(f"2026-05-14 10:{n // 6:02d}:{n % 6}0 step {n} loss 2.{n:03d}\n" for n in range(120))
    (tmp_path / "eval_n17.log").write_text(later)
    assert diagnosed(tmp_path, KERN.format(time="10:10")).verdict is Verdict.HEALTHY


WATCHDOG = (
    "[rank{rank}]:[E514 10:18:00.000000000 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0 Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) "
    "ran for 600000 milliseconds before timing out.\n"
)


def hosts(folder: Path, boot: str, name: str = "n17") -> Diagnosis:
    """Ranks 0 and 1 of one host wait for those of another, and a journal of that one."""
    for rank in range(4):
        host = folder / ("n16" if rank < 2 else "n17")
        host.mkdir(exist_ok=True)
        (host / f"rank{rank}.log").write_text(STEPS + (WATCHDOG.format(rank=rank) if rank < 2 else ""))
    (folder / f"journal_{name}.log").write_text(boot.replace("n17", name))
    return analyse([str(folder)], Options(cache=False))


def test_a_host_that_starts_anew_while_others_wait_for_its_ranks_is_the_culprit(tmp_path: Path) -> None:
    root = hosts(tmp_path, RUNNING + BOOT.format(time="10:10")).findings[0]
    assert (root.name, root.ranks, root.node) == ("node-failure", (2, 3), "n17")


@pytest.mark.parametrize(
    ("time", "name"),
    [("09:50", "n17"), ("10:10", "n99"), ("10:10", "n16")],
    ids=["before", "a third host", "who waits"],
)
def test_other_starts_are_no_reason_for_a_wait(tmp_path: Path, time: str, name: str) -> None:
    assert hosts(tmp_path, RUNNING + BOOT.format(time=time), name).findings[0].name != "node-failure"


def test_a_host_that_was_shut_down_after_a_hang_is_no_reason_for_it(tmp_path: Path) -> None:
    asked = "May 14 10:09:40 n17 kernel: [87300.000001] reboot: Restarting system\n"
    assert hosts(tmp_path, RUNNING + asked + BOOT.format(time="10:10")).findings[0].name != "node-failure"


def test_a_host_that_starts_anew_is_why_others_lost_their_peers(tmp_path: Path) -> None:
    hosts(tmp_path, RUNNING + BOOT.format(time="10:10"))
    lost = (
        "2026-05-14 10:09:30 [rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, "
        "remote process exited or there was a network error\n"
    )
    for rank in range(2):
        (tmp_path / "n16" / f"rank{rank}.log").write_text(STEPS + lost.format(rank=rank))
    root = analyse([str(tmp_path)], Options(cache=False)).findings[0]
    assert (root.name, root.ranks, root.node) == ("node-failure", (2, 3), "n17")
