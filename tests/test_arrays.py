"""Jobs of a Slurm array and tasks of one job have files of the same names; what they say tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.arrays import are_jobs
from forensics.cli import main
from forensics.engine.pipeline import Options, analyse_with_data
from forensics.model import Verdict

STEPS = "".join(f"step {n} loss {2 - n / 1000:.3f}\n" for n in range(0, 300, 10))
OOM = """Traceback (most recent call last):
  File "/w/train.py", line 3, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB.
"""
END = "Training complete\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"SLURM_ARRAY_JOB_ID=31337 SLURM_ARRAY_TASK_ID=0", b"SLURM_ARRAY_JOB_ID=31337 SLURM_ARRAY_TASK_ID=1"),
        (b"declare -x SLURM_ARRAY_TASK_ID=\"0\"", b"declare -x SLURM_ARRAY_TASK_ID=\"1\""),
        (b"Array task ID: 0", b"Array task ID: 1"),
        (b"", b"SLURM_ARRAY_TASK_ID=1"),
        (b"SLURM_JOB_ID=31338", b"SLURM_JOB_ID=31339"),
        (b"Namespace(lr=0.01, seed=0)", b"Namespace(lr=0.001, seed=1)"),
        (b"+ python train.py --lr 0.01 --gpu 0", b"+ python train.py --lr 0.1 --gpu 0"),
    ],
)  # fmt: skip
def test_jobs_of_an_array(first: bytes, second: bytes) -> None:
    assert are_jobs({0: first, 1: second})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"", b""),
        (b"SLURM_JOB_ID=31338 SLURM_PROCID=0", b"SLURM_JOB_ID=31338 SLURM_PROCID=1"),
        # Two tasks of one job of an array, and the one of its index 0 whose other task says nothing.
        (b"SLURM_ARRAY_TASK_ID=4", b"SLURM_ARRAY_TASK_ID=4"),
        (b"SLURM_ARRAY_TASK_ID=0", b""),
        (b"Namespace(lr=0.01, seed=0, local_rank=0, gpu=0)", b"Namespace(lr=0.01, seed=1, local_rank=1, gpu=1)"),
        (b"step 1 lr=0.01", b"step 9 lr=0.001"),
        (b"Namespace(lr=0.01, batch_size=8)", b"Namespace(batch_size=8)"),
        (b"SLURM_JOB_ID=31338\n[rank0]: up", b"SLURM_JOB_ID=31339\n[rank1]: up"),
    ],
)  # fmt: skip
def test_ranks_of_one_job(first: bytes, second: bytes) -> None:
    assert not are_jobs({0: first, 1: second})


def write(folder: Path, head: str) -> None:
    for n in range(4):
        text = head.format(n=n) + STEPS + (OOM if n == 2 else END)
        (folder / f"slurm-31337_{n}.out").write_text(text)


def test_the_index_of_an_array_is_no_rank_and_triage_is_named(tmp_path: Path) -> None:
    write(tmp_path, "SLURM_ARRAY_JOB_ID=31337 SLURM_ARRAY_TASK_ID={n}\n")
    found = analyse_with_data([str(tmp_path)], Options(cache=False))
    root = found.diagnosis.findings[0]
    assert (root.name, root.ranks, root.step) == ("cuda-oom", None, 290)
    assert found.runs == tuple(f"slurm-31337_{n}" for n in range(4))
    shown = CliRunner().invoke(main, ["analyze", str(tmp_path)])
    assert f"4 jobs of an array, each a run of its own: forensics triage {tmp_path}" in shown.stderr


def test_a_number_that_no_array_explains_is_a_rank(tmp_path: Path) -> None:
    write(tmp_path, "SLURM_JOB_ID=31337 SLURM_PROCID={n}\n")
    found = analyse_with_data([str(tmp_path)], Options(cache=False))
    assert (found.diagnosis.findings[0].ranks, found.runs) == ((2,), ())


def test_the_end_of_one_job_absolves_no_other(tmp_path: Path) -> None:
    preempted = "slurmstepd: error: *** JOB 31338 ON n1 CANCELLED AT 2026-11-20T08:00:41 DUE TO PREEMPTION ***\n"
    for n, end in ((0, preempted), (1, "2026-11-20 09:00:41 INFO Training complete\n")):
        lines = [f"2026-11-20 0{8 + n}:00:{s:02d} INFO step {s} loss {2 - s / 100:.3f}\n" for s in range(40)]
        (tmp_path / f"sweep_4411_{n}.out").write_text(f"SLURM_ARRAY_TASK_ID={n}\n{''.join(lines)}{end}")
    found = analyse_with_data([str(tmp_path)], Options(cache=False))
    assert (found.diagnosis.verdict, found.told_of) == (Verdict.INTERRUPTED, "sweep_4411_0")
