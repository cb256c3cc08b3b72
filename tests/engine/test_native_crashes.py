"""Native crashes told by another than the process: a loader's worker by the kernel, a fault of the GPU by its driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Role

STEPS = "".join(f"2026-03-02 10:00:{n:02} INFO train: step {n} | loss 2.{900 - n}\n" for n in range(50))
WAITED = """\
Traceback (most recent call last):
  File "/app/train.py", line 44, in <module>
    for batch in loader:
RuntimeError: DataLoader worker (pid(s) {}) exited unexpectedly
"""
SEGFAULT = (
    "[10202.118812] pt_data_worker[2231]: segfault at 7f2c10 ip 00007f2c5b1a3f21 sp 00007ffd1b2c0a10 error 4 in "
    "_webp.so[7f2c5b180000+5a000]\n"
)
TRAP = (
    "[10202.118812] traps: pt_data_worker[2231] trap invalid opcode ip:7f2c5b1a3f21 sp:7ffd1b2c0a10 error:0 in "
    "libjpeg.so.8[7f2c5b180000+5a000]\n"
)
FAULT = (
    "[ 8000.100000] amdgpu 0000:c1:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32774, "
    "for process python3 pid 5522 thread python3 pid 5522)\n"
)
RESET = "[ 8000.200000] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\n"


@pytest.mark.parametrize(
    ("kernel", "name"), [(SEGFAULT, "dataloader-worker-segfault"), (TRAP, "dataloader-worker-killed")]
)
def test_the_rank_of_a_worker_is_the_one_that_names_its_pid(tmp_path: Path, kernel: str, name: str) -> None:
    (tmp_path / "rank0.log").write_text(STEPS)
    (tmp_path / "rank3.log").write_text(STEPS + WAITED.format(2231))
    (tmp_path / "dmesg.txt").write_text("[    0.000000] Linux version 5.15.0-91-generic\n" + kernel)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == (name, (3,))
    assert "dmesg.txt" in {e.file for e in root.evidence}


def test_a_worker_that_no_rank_names_has_no_rank(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text("[    0.000000] Linux version 5.15.0-91-generic\n" + SEGFAULT)
    found = [f for f in analyse([str(tmp_path)]).findings if f.name == "dataloader-worker-segfault"]
    assert [f.ranks for f in found] == [None]


def test_a_reset_after_the_programs_own_fault_is_its_effect(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text("[    0.000000] Linux version 5.15.0-91-generic\n" + FAULT + RESET)
    (tmp_path / "rank0.log").write_text(
        STEPS + "Memory access fault by GPU node-2 (Agent handle: 0x55d) on address 0x7f0000000000. Reason: Unknown.\n"
    )
    diagnosis = analyse([str(tmp_path)])
    assert [f.name for f in diagnosis.of_role(Role.ROOT)] == ["cuda-illegal-memory-access"]
    assert "gpu-hang" in {f.name for f in diagnosis.of_role(Role.CASCADE)}


@pytest.mark.parametrize(
    ("signal", "name"), [("SEGV", "rank-segfault"), ("ABRT", "rank-sigabrt"), ("BUS", "rank-sigbus")]
)
def test_absls_handler(tmp_path: Path, signal: str, name: str) -> None:
    text = f"*** SIG{signal} received at time=1772445720 on cpu 11 ***\nPC: @     0x7f1a2b3c4d5e  (unknown)  f()\n"
    (tmp_path / "rank0.log").write_text(STEPS)
    (tmp_path / "rank1.log").write_text(STEPS + text)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == (name, (1,))
