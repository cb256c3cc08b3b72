"""Processes that share a GPU: the run's own ranks chose the wrong device; another program's are another program's."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

OOM = (
    "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity"
    " of 79.11 GiB of which 31.19 MiB is free. {others}Including non-PyTorch memory, this process has 19.88 GiB memory"
    " in use. Of the allocated memory 9.31 GiB is allocated by PyTorch, and 81.00 MiB is reserved by PyTorch but"
    " unallocated.\n"
)


@pytest.mark.parametrize(
    ("pids", "foreign", "name"),
    [
        ((900, 901, 902, 903), (), "wrong-device-assignment"),
        ((900, 901, 902, 903), (77,), "gpu-shared-with-other-process"),
        ((900,), (77,), "gpu-shared-with-other-process"),
    ],
)
def test_whose_processes_fill_the_gpu(
    tmp_path: Path, pids: tuple[int, ...], foreign: tuple[int, ...], name: str
) -> None:
    for rank, own in enumerate(pids):
        listed = [pid for pid in (*pids, *foreign) if pid != own]
        others = "".join(f"Process {pid} has 19.88 GiB memory in use. " for pid in listed)
        (tmp_path / f"rank{rank}.log").write_text(OOM.format(rank=rank, others=others))
    root = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0]
    assert root.name == name
    assert (name == "wrong-device-assignment") == any("list are each other" in note for note in root.notes)


def test_devices_that_each_rank_alone_sees_are_not_one(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text(
            OOM.format(rank=rank, others=f"Process {70 + rank} has 19.88 GiB memory in use. ")
        )
    root = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0]
    assert root.name == "gpu-shared-with-other-process"
