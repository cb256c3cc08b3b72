"""The numbers of srun's tasks in names that hold hosts, or lie in their folders: a card's index is no rank there."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Kind, Source
from forensics.path_identity import identity_of, number_tasks

STEPS = "".join(f"epoch 0 step {n} loss {2.3 - n / 100:.3f} lr 0.001\n" for n in range(20))
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 212, in main\n    loss = model(**batch).loss\n'
FULL = (
    f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of "
    "79.33 GiB of which 1.31 GiB is free.\n"
)


def tasks(*paths: str) -> list[int | None]:
    found = number_tasks([Source(p, Path(p), Kind.LOG, 1, identity_of(p)) for p in paths])
    return [s.identity.task for s in found]


def first(folder: Path, names: list[str], end: str) -> Finding:
    """The first root of a run in which the third log fails."""
    for n, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(STEPS + (end if n == 2 else ""))
    return analyse([str(folder)], Options(threads=1)).findings[0]


@pytest.mark.parametrize("end", [FULL, f"{TRACE}ValueError: x\n"])
@pytest.mark.parametrize(
    ("layout", "host"),
    [
        ("slurm-7_gpu0{host}_{task}.out", "gpu02"),
        ("slurm-8812-gpu0{host}-{task}.out", "gpu02"),
        ("gpu0{host}/slurm-7_{task}.out", "gpu02"),
        ("node{host}/slurm-7_{task}.out", "node2"),
    ],
)
def test_tasks_run_through_hosts(tmp_path: Path, layout: str, host: str, end: str) -> None:
    names = [layout.format(host=1 + n // 2, task=n) for n in range(4)]
    root = first(tmp_path, names, end)
    assert (root.ranks, root.node) == ((2,), host)


@pytest.mark.parametrize(
    "paths",
    [
        ("gpu01/slurm-7_0.out", "gpu01/slurm-7_1.out", "gpu02/slurm-7_3.out", "gpu02/slurm-7_4.out"),  # 2 is missing
        ("gpu01/slurm-7_1.out", "gpu02/slurm-7_2.out"),  # one a host, and none is 0
        ("lr1/run-7_0.out", "lr1/run-7_1.out", "lr2/run-7_2.out", "lr2/run-7_3.out"),  # settings
        ("gpu01/slurm-7_0.out", "gpu01/slurm-7_2.out", "gpu02/slurm-7_1.out", "gpu02/slurm-7_3.out"),  # no stretches
    ],
)
def test_other_numbers_below_folders_do_not_run_through_them(paths: tuple[str, ...]) -> None:
    assert tasks(*paths)[-1] is None


def test_numbers_that_begin_anew_are_of_their_folders() -> None:
    assert tasks("gpu01/slurm-7_0.out", "gpu01/slurm-7_1.out", "gpu02/slurm-7_0.out", "gpu02/slurm-7_1.out") == [
        0,
        1,
        0,
        1,
    ]
