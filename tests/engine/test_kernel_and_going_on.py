"""What the kernel says while training goes on: another process's end is beside it, a lost disk catches up with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict


def steps(count: int, nan_from: int = 10**9) -> str:
    lines = []
    for n in range(count):
        loss = "nan" if n >= nan_from else f"{3 - n / 100:.3f}"
        lines.append(f"2026-05-14 10:{n // 5:02d}:{12 * (n % 5):02d} step {n * 10} loss {loss}\n")
    return "".join(lines)


SEGFAULT = (
    "May 14 10:{minute:02d}:11 n17 kernel: python3[88001]: segfault at 10 ip 00007f2a1c2b3d4e sp 00007ffd0 error 4 "
    "in libopenblas.so[7f2a1c000000+2000000]\n"
)
NVME = """\
May 14 10:07:20 n17 kernel: nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
May 14 10:07:31 n17 kernel: nvme nvme1: Disabling device after reset failure: -19
May 14 10:07:31 n17 kernel: I/O error, dev nvme1n1, sector 812345 op 0x1:(WRITE) flags 0x9800 phys_seg 1 prio class 2
May 14 10:07:31 n17 kernel: EXT4-fs error (device nvme1n1): ext4_journal_check_start:83: comm pt_main: Detected aborted journal
May 14 10:07:31 n17 kernel: EXT4-fs (nvme1n1): Remounting filesystem read-only
"""
RAISED = 'Traceback (most recent call last):\n  File "/w/train.py", line 90, in <module>\n    {line}\n{error}\n'
READ_ONLY = RAISED.format(line="torch.save(sd, path)", error="OSError: [Errno 30] Read-only file system: '/s/c.pt'")
OF_ITS_OWN = RAISED.format(line="d['x']", error="KeyError: 'x'")


def diagnosed(folder: Path, kernel: str, log: str) -> Diagnosis:
    (folder / "train_n17.log").write_text(log)
    (folder / "messages").write_text(kernel)
    return analyse([str(folder)], Options(cache=False))


def names(found: Diagnosis, role: Role) -> list[str]:
    return [f.name for f in found.of_role(role)]


def test_a_crash_that_every_log_went_on_past_is_another_processs(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, SEGFAULT.format(minute=3), steps(40, nan_from=26))
    assert (found.verdict, names(found, Role.ROOT)) == (Verdict.DIVERGED, ["nan-loss"])
    assert "rank-segfault" in names(found, Role.CONTEXT)


@pytest.mark.parametrize("minute", [7, 38], ids=["at the end of the records", "by its clock after them"])
def test_a_crash_at_the_end_of_the_records_is_the_runs(tmp_path: Path, minute: int) -> None:
    found = diagnosed(tmp_path, SEGFAULT.format(minute=minute), steps(38))
    assert names(found, Role.ROOT) == ["rank-segfault"]


def test_a_crash_that_an_offset_of_the_clocks_puts_at_the_end_of_the_records_is_the_runs(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, SEGFAULT.format(minute=7), steps(38 + 75, nan_from=100))
    assert "rank-segfault" in names(found, Role.ROOT)


def test_a_lost_disk_is_the_cause_of_the_file_system_that_takes_no_writes(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, NVME, steps(40) + READ_ONLY)
    assert names(found, Role.ROOT) == ["storage-io-error"]
    assert names(found, Role.CASCADE) == ["read-only-file-system"]


@pytest.mark.parametrize("error", ["", OF_ITS_OWN], ids=["none", "another"])
def test_a_lost_disk_that_the_run_did_not_write_to_is_beside_it(tmp_path: Path, error: str) -> None:
    found = diagnosed(tmp_path, "".join(NVME.splitlines(keepends=True)[:3]), steps(60) + error)
    assert "storage-io-error" in names(found, Role.CONTEXT)


LAUNCH_FAILED = RAISED.format(line="loss.backward()", error="RuntimeError: HIP error: unspecified launch failure")
RING = (
    "May 14 {at} n17 kernel: amdgpu 0000:83:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=1201, emitted seq=1203\n"
    "May 14 {at} n17 kernel: amdgpu 0000:83:00.0: amdgpu: GPU reset begin!\n"
)


def test_a_hang_for_which_the_driver_resets_a_card_is_why_the_launch_failed(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, RING.format(at="10:08:01"), steps(40) + LAUNCH_FAILED)
    assert names(found, Role.ROOT) == ["gpu-hang"]
    assert "gpu-kernel-exception" in names(found, Role.CASCADE)


def test_a_hang_that_training_went_on_after_is_not(tmp_path: Path) -> None:
    dated = "2026-05-14T{at}+00:00 n17 kernel: " + RING.splitlines()[0].partition("kernel: ")[2] + "\n"
    log = (steps(200) + LAUNCH_FAILED).replace("2026-05-14 ", "2026-05-14T").replace(" step", "Z step")
    assert names(diagnosed(tmp_path, dated.format(at="10:08:01"), log), Role.ROOT) == ["gpu-kernel-exception"]
    assert names(diagnosed(tmp_path, dated.format(at="10:40:01"), log), Role.ROOT) == ["gpu-hang"]
