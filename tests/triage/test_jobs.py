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


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("logs/train.48213.{}.out", "logs/48213_1"),
        ("logs/finetune-48213-{}.out", "logs/48213_1"),
        ("48213-{}.log", "48213_1"),
        ("logs/48213/{}.out", "logs/48213/1"),
        ("outputs/slurm-48213_{}.out", "outputs/48213_1"),
        ("logs/lr{}_48213{}.out", "logs/482131"),
        ("finetune_482133{}.log", "4821331"),
    ],
)
def test_forms_that_users_give_to_the_output_of_a_scheduler(tmp_path: Path, form: str, name: str) -> None:
    tree(tmp_path, *(form.format(n, n) for n in (1, 2, 5)))
    found = names(tmp_path)
    assert len(found) == 3
    assert found[0] == (name, "slurm")


@pytest.mark.parametrize(
    "form",
    [
        "train-20261101-{}.log",  # a date
        "step-48213-{}.log",
        "nccl.4821{}.log",  # a process id
        "rank_1000{}.log",
        "checkpoint-48213{}.log",
    ],
)
def test_numbers_of_other_things_are_no_jobs(tmp_path: Path, form: str) -> None:
    tree(tmp_path, *(form.format(n) for n in (1, 2, 5)))
    assert names(tmp_path) == [(".", "folder")]


def test_streams_in_two_folders_are_one_job_a_task(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{s}/90001_{n}.{s}" for s in ("out", "err") for n in (1, 2, 3)))
    jobs = list(find([str(tmp_path)]))
    assert [(Path(j.path).name, len(j.parts)) for j in jobs] == [("90001_1", 2), ("90001_2", 2), ("90001_3", 2)]


def test_archives_with_a_readme_are_a_job_each(tmp_path: Path) -> None:
    tree(tmp_path, "a/job-1.tar.gz", "a/job-2.zip", "a/README.md", "b/job-3.tar.gz", "b/job-4.tar.gz", "c/train.log")
    assert names(tmp_path / "a") == [("job-1.tar.gz", "archive"), ("job-2.zip", "archive")]
    assert len(names(tmp_path)) == 5


def test_archives_of_parts_are_one_job(tmp_path: Path) -> None:
    tree(tmp_path, "a/logs.tar.gz", "a/checkpoints.tar.gz", "b/rank0.tar.gz", "b/rank1.tar.gz")
    assert names(tmp_path) == [("a", "folder"), ("b", "folder")]


@pytest.mark.parametrize("form", ["sweep/trial_{}/log.txt", "sweep/lr=0.{},bs=8/train.log", "sweep/seed-{}/train.log"])
def test_a_sweep_of_named_variants_is_looked_into(tmp_path: Path, form: str) -> None:
    tree(tmp_path, *(form.format(n) for n in range(4)), "sweep/seed-empty/notes.txt")
    assert len(names(tmp_path)) == 5


@pytest.mark.parametrize("form", ["exp/fold_{}/log.txt", "exp/stage{}/train.log", "exp/worker_{}/log.txt"])
def test_parts_of_one_experiment_stay_together(tmp_path: Path, form: str) -> None:
    tree(tmp_path, *(form.format(n) for n in range(4)))
    assert names(tmp_path) == [("exp", "folder")]


def test_logs_of_jobs_that_were_alone_are_a_job_each(tmp_path: Path) -> None:
    files = [f"{name}.log" for name in ("sweep-00-9f767", "sweep-01-52e6b", "sweep-02-d82c0")]
    written(tmp_path / "alone", dict.fromkeys(files, "world_size=1 device=cuda:0\n"))
    assert [name for name, _ in names(tmp_path / "alone")] == ["sweep-00-9f767", "sweep-01-52e6b", "sweep-02-d82c0"]
    written(tmp_path / "together", dict.fromkeys(files, "world_size=3 device=cuda:0\n"))
    assert names(tmp_path / "together") == [(".", "folder")]
    written(tmp_path / "silent", dict.fromkeys(files, "step 1 loss 2.0\n"))
    assert names(tmp_path / "silent") == [(".", "folder")]


def test_what_the_program_consists_of_is_no_job(tmp_path: Path) -> None:
    tree(tmp_path, "slurm-48213_1.out", "slurm-48213_2.out", "src/m.py", "configs/a.yaml", "notebooks/a.ipynb")
    notes = Notes()
    assert [Path(j.path).name for j in find([str(tmp_path)], notes=notes)] == ["48213_1", "48213_2"]
    assert any("3 folders beside the jobs" in line for line in notes.lines())


@pytest.mark.parametrize("form", ["host=node-1 rank={}/4 device=cuda:1\n", "rank={} local_rank=0 world_size=4\n"])
def test_ranks_under_slurms_name_for_arrays(tmp_path: Path, form: str) -> None:
    written(tmp_path / "ranks", {f"slurm-991_{n}.out": form.format(n) for n in range(4)})
    assert names(tmp_path / "ranks") == [(".", "folder")]
    every = "".join(form.format(n) for n in range(4))
    written(tmp_path / "array", {f"slurm-991_{n}.out": every for n in range(4)})
    assert len(names(tmp_path / "array")) == 4
