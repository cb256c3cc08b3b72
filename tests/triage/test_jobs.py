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


def found_in(root: Path, **more: tuple[str, ...]) -> tuple[list[str], str]:
    """(paths of the jobs below `root`, the notes)."""
    notes = Notes()
    jobs = list(find([str(root)], notes=notes, **more))
    return [Path(j.path).relative_to(root).as_posix() for j in jobs], "\n".join(notes.lines())


def test_hydra_runs_below_outputs_are_jobs(tmp_path: Path) -> None:
    times = ["outputs/2026-11-20/10-00-00", "outputs/2026-11-20/11-00-00", "outputs/2026-11-21/12-30-00"]
    tree(tmp_path, "train.py", "conf/config.yaml", "nohup.out", *(f"{t}/.hydra/config.yaml" for t in times))
    found, notes = found_in(tmp_path)
    assert found == times
    assert "nohup.out" in notes
    tree(tmp_path / "one", "train.py", "outputs/2026-11-20/10-00-00/.hydra/config.yaml")
    assert found_in(tmp_path / "one")[0] == ["."]


def test_project_among_others_is_looked_into(tmp_path: Path) -> None:
    tree(tmp_path, *(f"proj/outputs/2026-11-20/1{n}-00-00/.hydra/config.yaml" for n in range(2)), "single/train.log")
    assert found_in(tmp_path)[0] == [*(f"proj/outputs/2026-11-20/1{n}-00-00" for n in range(2)), "single"]


@pytest.mark.parametrize(
    "names", [("runs/exp_a", "runs/exp_b"), ("lightning_logs/version_0", "lightning_logs/version_1")]
)
def test_folders_with_logs_of_their_own_are_jobs(tmp_path: Path, names: tuple[str, ...]) -> None:
    tree(tmp_path / "p", "train.py", *(f"{name}/train.log" for name in names))
    assert found_in(tmp_path / "p")[0] == list(names)
    # With a log beside them, or ranks, they are parts of the run that wrote it.
    tree(tmp_path / "q", "train.log", *(f"{name}/train.log" for name in names))
    found, notes = found_in(tmp_path / "q")
    assert found == ["."] and "read as one job" in notes
    tree(tmp_path / "r", "rank0/out.log", *(f"{name}/train.log" for name in names))
    assert found_in(tmp_path / "r")[0] == ["."]


def test_results_without_logs_are_parts_of_one_run(tmp_path: Path) -> None:
    tree(tmp_path, "a/results/mmlu/scores.json", "a/results/arc/scores.json", "a/checkpoints/1.pt", "b/train.log")
    assert found_in(tmp_path)[0] == ["a", "b"]


def test_wandb_runs_beside_checkpoints(tmp_path: Path) -> None:
    runs = [f"wandb/run-2026112{n}_100000-abcdefg{n}" for n in range(3)]
    tree(tmp_path / "p", "train.py", "checkpoints/a.json", *(f"{r}/files/output.log" for r in runs))
    assert found_in(tmp_path / "p")[0] == runs
    resumed = [f"wandb/run-2026112{n}_100000-same" for n in range(3)]
    tree(tmp_path / "q", "train.py", "checkpoints/a.json", *(f"{r}/files/output.log" for r in resumed))
    assert found_in(tmp_path / "q")[0] == ["."]


def test_dates_of_one_folder_a_level(tmp_path: Path) -> None:
    days = ["2025/12/31", "2026/01/01", "2026/01/02"]
    tree(tmp_path, *(f"{day}/{job}/out.log" for day in days for job in "xy"))
    assert found_in(tmp_path)[0] == [f"{day}/{job}" for day in days for job in "xy"]
    assert found_in(tmp_path / "2026")[0] == [f"0{m}/0{d}/{j}" for m, d in ((1, 1), (1, 2)) for j in "xy"]


def test_numbers_that_are_no_dates_are_one_job(tmp_path: Path) -> None:
    tree(tmp_path, "2048/77/out.log", "2048/78/out.log", "4096/77/out.log")
    assert found_in(tmp_path)[0] == ["2048", "4096"]


def test_numbered_logs_are_one_job_with_a_note(tmp_path: Path) -> None:
    tree(tmp_path / "p", *(f"exp_lr{n}.log" for n in range(5)))
    found, notes = found_in(tmp_path / "p")
    assert found == ["."] and "exp_lr0.log, exp_lr1.log, exp_lr2.log, ..." in notes
    tree(tmp_path / "q", *(f"rank{n}.log" for n in range(5)))
    assert found_in(tmp_path / "q") == (["."], "")


def test_array_beside_job_folders(tmp_path: Path) -> None:
    tree(tmp_path, "exp0/a.log", "exp1/a.log", "55_0/a.log", *(f"slurm-55_{n}.out" for n in range(3)), "todo.txt")
    found, notes = found_in(tmp_path)
    assert found == ["55_0", "exp0", "exp1", "slurm-55_0.out", "55_1", "55_2"]
    assert "todo.txt" in notes


def test_short_job_ids(tmp_path: Path) -> None:
    tree(tmp_path / "p", "slurm-900.out", "train-901.err", "train-901.out", "rank-902.out")
    found, notes = found_in(tmp_path / "p")
    assert found == ["900", "901"] and "rank-902.out" in notes
    tree(tmp_path / "q", *(f"77_{n}_0_log.{e}" for n in range(4) for e in ("out", "err")))
    assert found_in(tmp_path / "q")[0] == [f"77_{n}" for n in range(4)]
    tree(tmp_path / "r", "train-901.out", "train-902.out")
    assert found_in(tmp_path / "r")[0] == ["."]


def test_nothing_is_left_after_exclude(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.log", "b/x.log")
    assert found_in(tmp_path, exclude=("*",))[0] == []
    assert list(find([str(tmp_path / "a/x.log")], exclude=("*.log",))) == []


def test_notes_do_not_grow_with_the_folders() -> None:
    notes = Notes()
    for n in range(1000):
        notes.add(f"file beside the jobs of {n} left out")
    assert len(notes.lines()) == 21 and notes.lines()[-1].startswith("980 further")
