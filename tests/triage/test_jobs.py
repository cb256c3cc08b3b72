"""Jobs are found by the layouts of their launchers, else one a first-level folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.triage.jobs import NoJobs, Notes, find
from forensics.triage.layouts import natural


def tree(root: Path, *files: str) -> Path:
    for name in files:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("line\n")
    return root


def names(root: Path) -> list[tuple[str, str]]:
    return [(Path(job.path).relative_to(root).as_posix(), job.layout) for job in find([str(root)])]


def test_one_folder_a_job(tmp_path: Path) -> None:
    tree(tmp_path, "exp10/train.log", "exp9/rank0.log", "exp9/rank1.log", "c.tar.gz", "notes.txt")
    notes = Notes()
    found = [Path(j.path).name for j in find([str(tmp_path)], notes=notes)]
    assert found == ["exp9", "exp10", "c.tar.gz"]
    assert "left out" in notes.lines()[0]


def test_parts_of_one_run_are_one_job(tmp_path: Path) -> None:
    tree(tmp_path, "rank0/stderr.log", "rank1/stderr.log", "checkpoints/a.pt")
    assert names(tmp_path) == [(".", "folder")]


def test_hydra_multirun_with_submitit(tmp_path: Path) -> None:
    day = "multirun/2026-11-20/10-11-12"
    tree(tmp_path, f"{day}/multirun.yaml", *(f"{day}/{n}/.hydra/config.yaml" for n in range(11)))
    tree(tmp_path, *(f"{day}/.submitit/77_{n}/77_{n}_0_log.err" for n in range(11)))
    for n in range(11):
        (tmp_path / day / str(n) / ".hydra/hydra.yaml").write_text(f"hydra:\n  job:\n    id: '77_{n}'\n    num: {n}\n")
    jobs = list(find([str(tmp_path / "multirun")]))
    assert [Path(j.path).name for j in jobs] == [str(n) for n in range(11)]
    assert {j.layout for j in jobs} == {"hydra"}
    assert jobs[3].parts[1].endswith(".submitit/77_3")


def test_slurm_array_in_one_folder(tmp_path: Path) -> None:
    tree(tmp_path, "slurm-123_0.out", "slurm-123_1.out", "slurm-123_10.out", "slurm-123_2.out")
    jobs = list(find([str(tmp_path)]))
    assert [j.labels["array_task"] for j in jobs] == ["0", "1", "2", "10"]


def test_array_with_two_streams(tmp_path: Path) -> None:
    tree(tmp_path, "train-5501_3.out", "train-5501_3.err", "train-5501_4.out", "train-5501_4.err")
    assert [len(j.parts) for j in find([str(tmp_path)])] == [2, 2]


def test_ranks_of_one_job_are_no_array(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"5501_{rank}_log.out").write_text(f"rank {rank}, world_size=4\n")
    assert len(list(find([str(tmp_path)]))) == 1


def test_job_submitted_twice_is_one_job_in_its_folder(tmp_path: Path) -> None:
    tree(tmp_path, "a/slurm-100.out", "a/slurm-101.out", "b/slurm-102.out")
    assert [n for n, _ in names(tmp_path)] == ["a", "b"]


def test_rank_numbers_are_no_job_ids(tmp_path: Path) -> None:
    tree(tmp_path, "rank_0001.out", "rank_0002.out", "log_20261101.out", "log_20261102.out")
    assert names(tmp_path) == [(".", "folder")]


def test_ray_tune(tmp_path: Path) -> None:
    tree(tmp_path, "exp/experiment_state-2026.json", "exp/t_1/params.json", "exp/t_1/result.json", "exp/t_2/error.txt")
    assert names(tmp_path) == [("exp/t_1", "ray-tune"), ("exp/t_2", "ray-tune")]


def test_wandb_offline_runs(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", *(f"wandb/offline-run-20261120_10111{n}-ab{n}/files/output.log" for n in range(2)))
    assert [layout for _, layout in names(tmp_path)] == ["wandb", "wandb"]


def test_torchrun_log_dirs_of_one_rendezvous_belong_together(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "job7_abcd1234/attempt_0/0/stderr.log",
        "job7_efgh5678/attempt_0/0/stderr.log",
        "none_aaaa1111/attempt_0/0/stderr.log",
        "none_bbbb2222/attempt_0/0/stderr.log",
    )
    jobs = list(find([str(tmp_path)]))
    assert sorted(len(j.parts) for j in jobs) == [1, 1, 2]


def test_same_path_twice_comes_once(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.log", "b/x.log")
    assert len(list(find([str(tmp_path), str(tmp_path / "a")]))) == 2


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(NoJobs):
        list(find([str(tmp_path / "no")]))


def test_natural() -> None:
    assert sorted(["t10", "t9", "t", "10", "9", "t²"], key=natural) == ["9", "10", "t", "t9", "t10", "t²"]
