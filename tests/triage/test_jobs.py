"""Jobs are found by the layouts of their launchers, else one a first-level folder."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.triage.jobs import LocalFiles, NoJobs, Notes, find
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
    tree(tmp_path, "2048/0/out.log", "2048/1/out.log", "4096/0/out.log")
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
    assert found == ["55_0", "exp0", "exp1", "55_1", "55_2"]  # a folder that is named by the id is the job's
    assert "todo.txt" in notes


def test_components_of_a_heterogeneous_job_are_one_job(tmp_path: Path) -> None:
    tree(tmp_path, *(f"slurm-{job}+{part}.out" for job in (91000, 91005) for part in (0, 1)), "slurm-91010.out")
    assert found_in(tmp_path)[0] == ["91000", "91005", "91010"]


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


DEEP = {
    "two projects with Hydra": ["{p}/multirun/2026-11-20/10-00-0{n}/0/.hydra/a", "{p}/multirun/2026-11-20/10-00-0{n}/multirun.yaml"],
    "two users of Ray Tune": ["{p}/ray_results/exp/t_{n}/params.json", "{p}/ray_results/exp/t_{n}/result.json", "{p}/ray_results/exp/tuner.pkl"],
    "two users of W&B": ["{p}/wandb/offline-run-20261127_02000{n}-q7x{n}abc/files/output.log", "{p}/wandb/debug.log"],
    "MLflow": ["{p}/mlruns/41/ab{n}/meta.yaml", "{p}/mlruns/41/ab{n}/metrics/loss", "{p}/mlruns/41/ab{n}/params/lr", "{p}/mlruns/41/ab{n}/tags/x", "{p}/mlruns/41/meta.yaml", "{p}/mlruns/0/meta.yaml"],
    "Nextflow": ["{p}/work/0{n}/5a898da0/.command.sh", "{p}/work/0{n}/5a898da0/.exitcode", "{p}/.nextflow.log"],
    "GNU parallel": ["{p}/1/0.{n}/2/32/stdout", "{p}/1/0.{n}/2/32/stderr", "{p}/1/0.{n}/2/32/seq"],
    "Snakemake": ["{p}/logs/train/lr{n}/seed0.log", "{p}/.snakemake/log/x.log"],
    "SkyPilot": ["{p}/sky_logs/sky-2026-11-27-02-00-0{n}-123456/provision.log", "{p}/sky_logs/sky-2026-11-27-02-00-0{n}-123456/tasks/run.log"],
    "NeMo": ["{p}/small/2026-11-2{n}_02-00-11/nemo_log_globalrank-{r}_localrank-{r}.txt"],
    "mmengine": ["{p}/rtmdet_s/20261127_0{n}1500/20261127_0{n}1500.log", "{p}/rtmdet_s/last_checkpoint"],
    "Lightning": ["{p}/tb_logs/unet/version_{n}/hparams.yaml", "{p}/tb_logs/unet/version_{n}/checkpoints/a.ckpt"],
    "project, experiment, seed": ["{p}/ablate pos/seed{n}/train.log", "{p}/ablate pos/seed{n}/ckpt/last.pt"],
    "dataset, model": ["{p}/model_{n}/train.log", "{p}/model_{n}/config.yaml"],
    "Slurm job ids": ["{p}/slurm_logs/train-741100{n}.out", "{p}/slurm_logs/submit.sh"],
    "streams of job ids": ["{p}/logs/out/train-741100{n}.out", "{p}/logs/err/train-741100{n}.err"],
    "studies with a log of their own": ["{p}/trial_000{n}/stdout.log", "{p}/optuna.log"],
    "checkpoints by name": ["{p}/checkpoints/pix_{n}/loss_log.txt"],
}  # fmt: skip


@pytest.mark.parametrize("form", DEEP.values(), ids=DEEP.keys())
def test_layouts_are_found_below_others(tmp_path: Path, form: list[str]) -> None:
    tree(tmp_path, *(f.format(p=p, n=n, r=r) for f in form for p in ("anna", "bo") for n in range(4) for r in range(2)))
    found, notes = found_in(tmp_path)
    assert len(found) == 8, found
    assert "read as one job" not in notes
    assert all(sum(name.startswith(p) for name in found) == 4 for p in ("anna", "bo"))


ONE_RUN = {
    "all that a run leaves": ["logs/train.log", "tensorboard/events.out.tfevents.1.h.1", "checkpoints/step_1/a.pt", ".hydra/config.yaml", "eval_1/eval.log"],
    "ranks": ["rank_{n}/log.txt", "checkpoints/a.pt"],
    "machines": ["node{n}/rank0.log", "configs/a.yaml"],
    "machines by the names of a site": ["gpu-011{n}/train.log"],
    "attempts": ["attempt_{n}/0/stderr.log", "attempt_{n}/1/stderr.log"],
    "training and evaluation": ["train/train.log", "eval/eval.log"],
    "restarts in dates that share checkpoints": ["2026-11-2{n}_02-00-11/train.log", "checkpoints/last.pt"],
    "code and settings": ["train.log", "code/tests/out.log", "configs/a.yaml"],
    "W&B in a run": ["train.log", "wandb/run-20261127_020000-abc/files/output.log"],
    "W&B of each rank of a run": ["train.log", "wandb/run-20261127_020000-abc{n}/files/output.log"],
    "W&B resumed": ["wandb/run-2026112{n}_020000-abc/files/output.log"],
    "a history of MLflow beside a log": ["train.log", "mlruns/0/ab{n}/meta.yaml", "mlruns/0/ab{n}/metrics/loss", "mlruns/0/ab{n}/params/lr", "mlruns/0/ab{n}/tags/x"],
    "a restarted Lightning run": ["train.log", "lightning_logs/version_{n}/hparams.yaml", "lightning_logs/version_{n}/console.log"],
    "containers of a pod": ["ml_ocr-0_3f2a1b4c-0d1e-4f5a-8b6c-7d8e9f0a1b2c/pytorch/0.log", "ml_ocr-0_3f2a1b4c-0d1e-4f5a-8b6c-7d8e9f0a1b2c/istio-proxy/0.log"],
    "folds": ["fold_{n}/log.txt"],
    "machines by letters": ["node-a/log.txt", "node-b/log.txt"],
    "logs by rank": ["logs_rank{n}/log.txt", "eval_logs/log.txt"],
    "logs of several kinds": ["train_logs/log.txt", "eval_logs/log.txt"],
    "torchrun on two machines": ["logs/none_abcdefg{n}/attempt_0/0/stderr.log"],
    "AzureML": ["user_logs/std_log.txt", "system_logs/lifecycler/wrapper.log", "system_logs/capability/capability.log"],
    "Hugging Face": ["train.log", "checkpoint-50{n}/trainer_state.json", "runs/Nov2{n}_02-00-00_h/events.out.tfevents.1.h.1"],
    "submitted again": ["logs/slurm-10{n}.out", "checkpoints/last.pt", "config.yaml"],
    "submitted again beside its settings": ["slurm-10{n}.out", "config.yaml"],
}  # fmt: skip


@pytest.mark.parametrize("form", ONE_RUN.values(), ids=ONE_RUN.keys())
def test_parts_of_one_run_stay_together(tmp_path: Path, form: list[str]) -> None:
    tree(tmp_path, *(f"{run}/{f.format(n=n)}" for f in form for run in ("base", "large") for n in range(4)))
    tree(tmp_path, "datasets/a.txt", "checkpoints/b.pt")
    assert found_in(tmp_path)[0] == ["base", "large"]


def test_restarts_in_dates_of_a_run_by_its_name(tmp_path: Path) -> None:
    tree(tmp_path, *(f"seed_{n}/2026-11-2{day}_02-00-11/train.log" for n in range(3) for day in range(3)))
    found, notes = found_in(tmp_path)
    assert found == ["seed_0", "seed_1", "seed_2"]
    assert f"3 folders below {tmp_path}/seed_0 each hold logs and are read as one job; give" in notes


def test_numbered_folders_are_ranks_or_jobs_by_what_they_say(tmp_path: Path) -> None:
    def numbered(name: str, text: str) -> list[str]:
        written(tmp_path, {f"{name}/sweep/{n}/stderr.log": text.format(n) for n in range(4)})
        return [Path(found).as_posix() for found in found_in(tmp_path / name)[0]]

    each = [f"sweep/{n}" for n in range(4)]
    assert numbered("ranks", "init process group: rank {}/4\n") == ["sweep"]
    assert numbered("jobs", "init process group: rank 0/4 (job {})\n") == each
    assert numbered("alone", "world_size=1 task {}\n") == each
    assert numbered("silent", "step {}\n") == ["sweep"]
    assert "4 folders below" in found_in(tmp_path / "silent")[1]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"init process group: rank {rank}/8\n" for rank in range(8)),
        "config: world_size=8 rank=0\n",
        "".join(f"h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {r} nranks 8 cudaDev 0\n" for r in range(8)),
    ],
)
def test_tasks_that_each_have_all_ranks_are_jobs(tmp_path: Path, text: str) -> None:
    written(tmp_path, {f"pretrain_7440000_{n}.out": text for n in range(8)})
    assert len(names(tmp_path)) == 8
    assert {layout for _, layout in names(tmp_path)} == {"slurm"}


def test_files_of_machines_that_each_have_their_ranks_are_one_job(tmp_path: Path) -> None:
    ranks = {n: "".join(f"init process group: rank {rank}/8\n" for rank in range(4 * n, 4 * n + 4)) for n in (0, 1)}
    written(tmp_path / "a", {f"train_7440000_{n}.out": text for n, text in ranks.items()})
    assert names(tmp_path / "a") == [(".", "folder")]
    written(tmp_path / "b", {f"slurm-744000{j}_{n}.out": text for j in range(3) for n, text in ranks.items()})
    assert [name for name, _ in names(tmp_path / "b")] == ["7440000", "7440001", "7440002"]


def test_ranks_of_a_group_within_the_world_are_not_those_of_the_job(tmp_path: Path) -> None:
    form = "NCCL INFO ncclCommInitRank rank {} nranks 4\nNCCL INFO ncclCommInitRank rank {} nranks 2\n"
    written(tmp_path, {f"train_7440000_{n}.out": form.format(n, n % 2) for n in range(4)})
    assert names(tmp_path) == [(".", "folder")]


def test_host_behind_the_ids_of_an_array(tmp_path: Path) -> None:
    tree(tmp_path, *(f"slurm-7211903_{task}-gpu-01{host}.out" for task in (1, 2, 3) for host in (10, 11)))
    jobs = list(find([str(tmp_path)]))
    assert [(Path(job.path).name, len(job.parts)) for job in jobs] == [(f"7211903_{task}", 2) for task in (1, 2, 3)]


def test_logs_of_a_run_are_read_with_its_dumps(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "train.log",
        "fr/rank0.json",
        "tb/events.out.tfevents.1.h.1",
        "logs/none_ab12cd34/attempt_0/0/stderr.log",
    )
    assert names(tmp_path) == [(".", "folder")]


def test_submitit_jobs_that_never_got_a_folder(tmp_path: Path) -> None:
    tree(tmp_path, "multirun.yaml", *(f".submitit/71_{n}/71_{n}_0_log.err" for n in range(3)))
    written(tmp_path, {"0/.hydra/hydra.yaml": "hydra:\n  job:\n    id: '71_0'\n"})
    assert [name for name, _ in names(tmp_path)] == ["0", ".submitit/71_1", ".submitit/71_2"]


def test_folders_numbered_with_gaps_whose_logs_say_that_they_were_alone(tmp_path: Path) -> None:
    for name, numbers, jobs in (("epoch", (10, 20, 40), 3), ("gpu", (4, 8, 16), 3), ("gpu", (0, 1, 2), 1)):
        root = tmp_path / f"{name}{numbers[0]}"
        written(root, {f"{name}{n}/train.log": "world_size=1\n" for n in numbers})
        assert len(names(root)) == jobs
    tree(tmp_path / "silent", *(f"node-{n}/train.log" for n in (4, 8, 16)))
    assert names(tmp_path / "silent") == [(".", "folder")]


def test_a_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, *(f"p{p}/exp/seed_{n}/logs/train.log" for p in range(3) for n in range(3)))
    seen: list[str] = []
    plain = LocalFiles.listing
    monkeypatch.setattr(LocalFiles, "listing", lambda self, path: (seen.append(path), plain(self, path))[1])
    assert len(list(find([str(tmp_path)]))) == 9
    assert len(seen) == len(set(seen)) == 1 + 3 + 3 + 9 + 9


def test_data_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "exp1/train.log", "exp2/train.log", *(f"exp1/images_{n}/a.png" for n in range(200)))
    seen: list[str] = []
    plain = LocalFiles.listing
    monkeypatch.setattr(LocalFiles, "listing", lambda self, path: (seen.append(path), plain(self, path))[1])
    assert len(list(find([str(tmp_path)]))) == 2
    assert len(seen) < 30


def test_links_to_folders_are_spoken_of(tmp_path: Path) -> None:
    tree(tmp_path, "real/a/train.log", "real/b/train.log")
    (tmp_path / "links").mkdir()
    for name in "ab":
        (tmp_path / "links" / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "links/broken").symlink_to(tmp_path / "nothing")
    found, notes = found_in(tmp_path / "links")
    assert found == [] and notes.startswith(f"2 links to folders in {tmp_path}/links not followed")
    assert len(list(find([str(link) for link in sorted((tmp_path / "links").glob("[ab]"))]))) == 2


def test_the_given_folder_is_one_run_where_its_logs_are_of_several_kinds(tmp_path: Path) -> None:
    tree(tmp_path, "logs/train.log", "outputs/model/eval.log", "checkpoints/a.pt")
    assert names(tmp_path) == [(".", "folder")]


def test_a_day_is_no_job(tmp_path: Path) -> None:
    tree(tmp_path, "2026-11-26/ocr/train.log", "2026-11-27/ocr/train.log", "2026-11-27/lm/train.log")
    assert found_in(tmp_path)[0] == ["2026-11-26/ocr", "2026-11-27/lm", "2026-11-27/ocr"]


def test_runs_within_a_run_are_spoken_of(tmp_path: Path) -> None:
    tree(tmp_path, "a/train.log", *(f"a/autotuning_results/z{n}_gas1/stderr.log" for n in range(3)), "b/train.log")
    found, notes = found_in(tmp_path)
    assert found == ["a", "b"] and notes.startswith(f"3 folders below {tmp_path}/a each hold logs")


def test_settings_in_the_name_of_a_folder_are_labels(tmp_path: Path) -> None:
    tree(tmp_path, "bs=64,optim.lr=1e-3/train.log", "bs64_lr3/train.log")
    labels = {Path(job.path).name: dict(job.labels) for job in find([str(tmp_path)])}
    assert labels == {
        "bs=64,optim.lr=1e-3": {"hparam.bs": "64", "hparam.optim.lr": "1e-3"},
        "bs64_lr3": {"hparam.bs": "64"},
    }


def test_experiments_beside_a_folder_of_logs(tmp_path: Path) -> None:
    tree(tmp_path, "p/exp_1/train.log", "p/exp_2/train.log", "p/logs/slurm-12.out", "q/train.log")
    assert found_in(tmp_path)[0] == ["p/exp_1", "p/exp_2", "p/logs", "q"]


def test_folders_of_jobs_that_left_nothing_hide_no_others(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"a{n}").mkdir()
    tree(tmp_path, *(f"z/exp_{n}/job.stdout" for n in range(3)))
    assert len(names(tmp_path)) == 23


@pytest.mark.parametrize("log", ["train.o88120", "w.stderr", "train.log.1", "std_log.txt", "log.txt.gz", "stdout"])
def test_names_of_logs(tmp_path: Path, log: str) -> None:
    tree(tmp_path, f"p/vit/{log}", f"p/lstm/{log}", "p/figures_of_all/plot.png", "q/train.log")
    found, notes = found_in(tmp_path)
    assert found == ["p/lstm", "p/vit", "q"]
    assert f"1 folder beside the jobs of {tmp_path}/p left out (figures_of_all)" in notes


@pytest.mark.parametrize("other", ["00001.txt", "vocab.txt", "config.yaml", "model.o", "events.out.tfevents.1.h.1"])
def test_names_of_other_files(tmp_path: Path, other: str) -> None:
    tree(tmp_path, f"p/vit/{other}", f"p/lstm/{other}", "q/train.log")
    assert found_in(tmp_path)[0] == ["p", "q"]


def test_jobs_that_left_nothing_but_settings_are_rows_below_the_given_folder(tmp_path: Path) -> None:
    tree(tmp_path, "p/vit/train.log", "p/lstm/train.log", "p/mamba/config.yaml", "p/imgs/a/1.png", "q/train.log")
    (tmp_path / "p/gru").mkdir()
    assert found_in(tmp_path)[0] == ["p/gru", "p/lstm", "p/mamba", "p/vit", "q"]


STEPS_LOG = "".join(f"step {n} loss 2.{n}\n" for n in range(5))


def test_a_runs_own_log_beside_folders_is_not_lost(tmp_path: Path) -> None:
    tree(tmp_path, "train.out", "en/eval.log", "de/eval.log", "fr/eval.log")
    assert "." not in [path for path, _ in names(tmp_path)]  # a log of which nothing is known
    (tmp_path / "train.out").write_text(STEPS_LOG)
    assert names(tmp_path) == [(".", "folder")] and "folders below" in found_in(tmp_path)[1]
    for folder in ("en", "de", "fr"):  # each a training
        (tmp_path / folder / "eval.log").write_text(STEPS_LOG)
    found = dict(names(tmp_path))
    assert found["."] == "files" and len(found) == 4
    (own,) = [job for job in find([str(tmp_path)]) if job.layout == "files"]
    assert [Path(part).name for part in own.parts] == ["train.out"]


def test_the_machines_of_one_run_that_is_given_itself(tmp_path: Path) -> None:
    for n in range(4):
        tree(tmp_path, f"10.0.0.{n}/train.log")
        (tmp_path / f"10.0.0.{n}" / "train.log").write_text(f"init: rank {n} of world_size 4\n{STEPS_LOG}")
    assert names(tmp_path) == [(".", "folder")]
    for n in range(4):  # each a job of its own that logs its rank 0
        (tmp_path / f"10.0.0.{n}" / "train.log").write_text(f"init: rank 0 of world_size 4\n{STEPS_LOG}")
    assert len(names(tmp_path)) == 4


def test_the_log_of_a_driver_is_the_runs_own(tmp_path: Path) -> None:
    tree(
        tmp_path, *(f"rl/{run}/{file}" for run in ("a", "b") for file in ("driver.log", "actor/x.log", "critic/x.log"))
    )
    assert [path for path, _ in names(tmp_path / "rl")] == ["a", "b"]


@pytest.mark.parametrize(
    ("files", "jobs", "layout"),
    [
        (
            ("trials/z3/parameter.cfg", "trials/z3/trial.log", "trials/a1/parameter.cfg", "trials/a1/trial.log"),
            2,
            "nni",
        ),
        (("runs/1/run.json", "runs/1/cout.txt", "runs/2/run.json", "runs/2/cout.txt"), 2, "sacred"),
        (("builds/1/build.xml", "builds/1/log", "builds/2/build.xml", "builds/2/log"), 2, "jenkins"),
        (("13/train.log", "42/train.log", "87/train.log"), 3, "folder"),
        (("0/train.log", "0/config.json", "1/train.log", "1/config.json"), 2, "folder"),
        (("fold_0/log.txt", "fold_0/debug.json", "fold_1/log.txt", "fold_1/debug.json"), 2, "folder"),
        # As the ranks of one run, and as the models that one program trains
        (("0/train.log", "1/train.log", "2/train.log"), 1, "folder"),
        (("fold_0/log.txt", "fold_1/log.txt"), 1, "folder"),
        (("rank0/train.log", "rank0/config.json", "rank1/train.log", "rank1/config.json"), 1, "folder"),
    ],
)
def test_folders_with_numbers_or_names_of_chance(
    tmp_path: Path, files: tuple[str, ...], jobs: int, layout: str
) -> None:
    tree(tmp_path, *(f"project/sweep/{name}" for name in files))
    found = [kind for _, kind in names(tmp_path)]
    assert found == [layout] * jobs


def test_a_launchers_own_logs_are_no_job(tmp_path: Path) -> None:
    trials = [f"exp/trials/{n}/{file}" for n in ("a1", "z3") for file in ("parameter.cfg", "trial.log")]
    tree(tmp_path, "exp/log/dispatcher.log", "exp/db/nni.sqlite", *trials)
    assert [path for path, _ in names(tmp_path)] == ["exp/trials/a1", "exp/trials/z3"]
    assert [path for path, _ in names(tmp_path / "exp")] == ["trials/a1", "trials/z3"]


def test_a_note_is_kept_on_the_way_up(tmp_path: Path) -> None:
    tree(tmp_path, *(f"jobs/nightly/builds/{n}/output.log" for n in range(3)))
    found, notes = found_in(tmp_path)
    assert found == ["jobs"] and "3 folders below" in notes
    (job,) = find([str(tmp_path)])
    assert [Path(folder).name for folder in job.guessed] == ["0", "1", "2"]


def test_seeds_of_models_beside_the_data(tmp_path: Path) -> None:
    tree(tmp_path, "p/data/build.log", *(f"p/outputs/{m}/{s}/config.json" for m in "ab" for s in (13, 42)))
    for model in "ab":
        for seed in (13, 42):
            (tmp_path / f"p/outputs/{model}/{seed}/train.log").write_text(STEPS_LOG)
    found = [path for path, _ in names(tmp_path)]
    assert [path for path in found if "outputs" in path] == [f"p/outputs/{m}/{s}" for m in "ab" for s in (13, 42)]


def test_a_training_and_the_evaluations_of_it(tmp_path: Path) -> None:
    tree(tmp_path, "a/train/train.log", "a/evals/mmlu/eval.log", "a/evals/gsm8k/eval.log")
    assert [path for path, _ in names(tmp_path / "a")] == ["."]
    tree(tmp_path, "b/train/x/train.log", "b/train/y/train.log", "b/evals/mmlu/eval.log", "b/evals/gsm8k/eval.log")
    assert len(names(tmp_path / "b")) == 4  # two trainings


def test_the_download_of_a_run_of_azure_ml(tmp_path: Path) -> None:
    logs = (
        "logs/azureml/x.log",
        "outputs/model.log",
        "system_logs/lifecycler/a.log",
        "user_logs/std_log_process_0.txt",
    )
    tree(tmp_path, *logs)
    assert names(tmp_path) == [(".", "azureml")]


def test_a_run_of_which_the_log_lies_in_logs_beside_its_settings(tmp_path: Path) -> None:
    tree(tmp_path, "config.yaml", "sandbox/alice/trace.log", "sandbox/bob/trace.log", "logs/train.log")
    assert len(names(tmp_path)) > 1
    (tmp_path / "logs/train.log").write_text(STEPS_LOG)
    assert names(tmp_path) == [(".", "folder")]


def test_the_output_of_a_workstation_is_the_runs_where_nothing_else_trains(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{run}/{file}" for run in ("a", "b") for file in ("nohup.out", "seg/x.log", "cls/x.log")))
    assert [path for path, _ in names(tmp_path)] == ["a/cls", "a/seg", "b/cls", "b/seg"]
    for run in ("a", "b"):
        (tmp_path / run / "nohup.out").write_text(STEPS_LOG)
    assert [path for path, _ in names(tmp_path)] == ["a", "b"]


def test_pods_of_operators_in_the_folder_of_the_kubelet(tmp_path: Path) -> None:
    def log(pod: str) -> str:
        return f"{pod}_ml_pytorch-{'0123456789abcdef' * 4}.log"

    tree(tmp_path, *(log(f"{job}-{role}-0") for job in ("ft-a", "ft-b") for role in ("master", "worker")))
    assert names(tmp_path) == [("ft-a", "pods"), ("ft-b", "pods")]
    tree(tmp_path / "one", log("ft-a-master-0"), log("ft-a-worker-0"))
    assert names(tmp_path / "one") == [(".", "folder")]


@pytest.mark.parametrize(
    ("log", "jobs"),
    [
        (lambda pod: f"{pod}.log", ("pre-a", "pre-b", "sft")),
        (lambda pod: f"{pod}_ml_trainer-{'0123456789abcdef' * 4}.log", ("pre-a", "pre-b", "sft")),
    ],
    ids=["kubectl logs", "kubelet"],
)
def test_pods_of_jobsets_in_one_folder(tmp_path: Path, log: Callable[[str], str], jobs: tuple[str, ...]) -> None:
    pods = ["pre-a-workers-0-0-x7k2p", "pre-a-workers-0-1-m4n5b", "pre-a-leader-0-0-zz24d", "pre-b-workers-0-0-x7k2p"]
    pods += ["sft-node-0-0-bcdfg", "sft-dataset-initializer-0-0-hjklm"]
    tree(tmp_path, *map(log, pods))
    assert names(tmp_path) == [(job, "pods") for job in jobs]
    tree(tmp_path / "one", *(log(pod) for pod in pods if pod.startswith("pre-a")))
    assert names(tmp_path / "one") == [(".", "folder")]


def test_names_like_those_of_a_jobsets_pods(tmp_path: Path) -> None:
    """Kubernetes makes no words: its five characters hold no vowel."""
    tree(tmp_path, "a-try-0-1-spare.log", "b-try-0-1-alpha.log")
    assert "pods" not in dict(names(tmp_path)).values()


STEPS = "".join(f"step {n} loss {2 - n / 50:.2f}\n" for n in range(20))


def flat(root: Path, *files: str, text: str = STEPS) -> list[str]:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return sorted(Path(job.path).name for job in find([str(root)]))


@pytest.mark.parametrize(
    "logs",
    [
        ("bert_lora.log", "roberta_full.log", "electra.log"),
        ("bert.out", "bert.err", "gpt.out", "gpt.err"),
        ("lr1e-3_bs16.log", "lr1e-3_bs32.log", "lr3e-4_bs16.log"),
        ("flux-f2CnmTzK.out", "flux-fB2ZhrkG.out"),
        ("logs/sft-a.log", "logs/sft-b.log"),
    ],
)
def test_logs_under_telling_names_are_jobs(tmp_path: Path, logs: tuple[str, ...]) -> None:
    assert flat(tmp_path, *logs) == sorted({Path(log).stem for log in logs})


def prefixed(prefix: str) -> str:
    return "".join(prefix + line for line in STEPS.splitlines(keepends=True))


DETERMINED = "[2026-01-05T08:00:00.100Z] 003f2a1b [rank={}] || "


@pytest.mark.parametrize(
    ("prefix", "logs", "rows"),
    [
        (DETERMINED.format(0), ("trial-17.log", "trial-18.log", "trial-21.log"), 3),
        (DETERMINED.format(0), ("trial_17_logs.txt", "trial_18_logs.txt"), 2),
        ("[rank0] ", ("run-0.log", "run-1.log"), 2),
        ("[rank0]: ", ("run-0.log", "run-1.log"), 2),
        ("[default0]: ", ("run-0.log", "run-1.log"), 1),  # the number of a process on its own machine
        ("[rank1]: ", ("run-0.log", "run-1.log"), 1),
        ("lost [rank0]: ", ("run-0.log", "run-1.log"), 1),
        ("[rank0] ", ("node-0.log", "node-1.log"), 1),
    ],
)
def test_logs_that_each_say_that_they_are_rank_0_are_jobs(
    tmp_path: Path, prefix: str, logs: tuple[str, ...], rows: int
) -> None:
    assert len(flat(tmp_path, *logs, text=prefixed(prefix))) == rows


def test_logs_of_a_larger_world_that_say_rank_0_are_not_told_apart(tmp_path: Path) -> None:
    assert len(flat(tmp_path, "run-0.log", "run-1.log", text="world_size=16\n" + prefixed("[rank0] "))) == 1
    (tmp_path / "run-1.log").write_text(prefixed("[rank1] "))
    (tmp_path / "run-0.log").write_text(prefixed("[rank0] "))
    assert len(list(find([str(tmp_path)]))) == 1


@pytest.mark.parametrize(
    ("logs", "text"),
    [
        (("train.log", "eval.log", "pip.log", "gpu.log"), STEPS),
        (("rank0.log", "rank1.log"), STEPS),
        (("gpu-a01.log", "gpu-a02.log"), STEPS),
        (("exp1.log", "exp2.log", "exp3.log"), STEPS),  # may be ranks: a note says so
        (("alice.log", "bob.log"), STEPS + "[rank1]: step 21 loss 1.1\n"),
        (("alice.log", "bob.log"), STEPS + "world_size=2\n"),
        (("tokenizer-a.log", "tokenizer-b.log"), "read 300 lines\n"),
    ],
)
def test_logs_of_one_run_are_one_job(tmp_path: Path, logs: tuple[str, ...], text: str) -> None:
    assert flat(tmp_path, *logs, text=text) == [tmp_path.name]


def test_a_log_and_a_folder_of_one_name_are_a_job(tmp_path: Path) -> None:
    tree(tmp_path, "sft-a/checkpoint-50/trainer_state.json", "sft-b/checkpoint-50/trainer_state.json")
    assert flat(tmp_path, "sft-a.log", "sft-b.log") == ["sft-a", "sft-b"]
    assert [len(job.parts) for job in find([str(tmp_path)])] == [2, 2]


def test_logs_that_may_be_jobs_are_a_guess(tmp_path: Path) -> None:
    flat(tmp_path, "exp1.log", "exp2.log")
    (job,) = find([str(tmp_path)])
    assert [Path(log).name for log in job.guessed] == ["exp1.log", "exp2.log"]


@pytest.mark.parametrize(
    ("logs", "rows"),
    [
        (("gpu-01/run_10", "gpu-01/run_11", "gpu-02/run_20"), ["gpu-01/run_10", "gpu-01/run_11", "gpu-02"]),
        (("node1/exp_a", "node1/exp_b", "node2/exp_c", "node2/exp_d"), None),
        (("node1/881200", "node1/881203", "node2/881204", "node2/881207"), None),
        (("gpu-01/run_1", "gpu-01/run_2", "gpu-02/run_1", "gpu-02/run_2"), None),  # each counts its own
    ],
)
def test_jobs_that_were_collected_by_machine_are_rows(tmp_path: Path, logs: tuple[str, ...], rows: list[str]) -> None:
    flat(tmp_path, *(f"{log}/train.log" for log in logs))
    assert [name for name, _ in names(tmp_path)] == (rows or list(logs))


def test_a_job_id_below_several_machines_is_one_job(tmp_path: Path) -> None:
    flat(tmp_path, *(f"{node}/{job}/train.log" for node in ("node1", "node2") for job in ("881200", "881203")))
    assert names(tmp_path) == [("881200", "folder"), ("881203", "folder")]
    assert [len(job.parts) for job in find([str(tmp_path)])] == [2, 2]


def test_a_name_below_several_machines_is_one_job_where_its_logs_say_so(tmp_path: Path) -> None:
    for node in (0, 1):
        for job in ("dpo", "grpo"):
            flat(tmp_path, f"node{node}/{job}/train.log", text=f"rank {node} world_size 2\n{STEPS}")
    assert names(tmp_path) == [("dpo", "folder"), ("grpo", "folder")]


@pytest.mark.parametrize(
    ("logs", "text"),
    [
        (("node1/0", "node1/1", "node2/0", "node2/1"), STEPS),  # ranks of each machine
        (("node1/trainer", "node1/eval", "node2/trainer", "node2/eval"), STEPS),  # roles
        (("node1/monitor", "node1/exporter", "node2/monitor", "node2/exporter"), "polled 3 devices\n"),
        (("rank0/first", "rank0/second", "rank1/first", "rank1/second"), STEPS),  # a rank is of one job
    ],
)
def test_parts_below_machines_are_one_run(tmp_path: Path, logs: tuple[str, ...], text: str) -> None:
    flat(tmp_path, *(f"{log}/train.log" for log in logs), text=text)
    assert names(tmp_path) == [(".", "folder")]


@pytest.mark.parametrize(
    ("folders", "text", "guessed"),
    [
        (("gpu0", "gpu1", "gpu2"), STEPS, 3),
        (("node-1", "node-2"), STEPS, 2),
        (("node-1", "node-2"), "world_size=16\n" + STEPS, 0),
        (("node-1", "node-2"), "[rank3]: step 1 loss 2.0\n" + STEPS, 0),
        (("gpu0", "gpu1"), "temperature 61 C\n", 0),
        (("rank0", "rank1"), STEPS, 0),
    ],
)
def test_machines_that_may_be_jobs_are_a_guess(
    tmp_path: Path, folders: tuple[str, ...], text: str, guessed: int
) -> None:
    notes = Notes()
    flat(tmp_path, *(f"{folder}/train.log" for folder in folders), text=text)
    (job,) = find([str(tmp_path)], notes=notes)
    assert len(job.guessed) == guessed
    assert bool(notes.lines()) == bool(guessed)


def test_names_of_all_folders_below_the_given_one_state_settings(tmp_path: Path) -> None:
    tree(tmp_path / "wd=9", *(f"lr={lr},wd=0.1/seed={seed}/train.log" for lr in ("0.1", "1.0") for seed in (0, 1)))
    stated = [dict(job.labels) for job in find([str(tmp_path / "wd=9")])]
    assert stated[0] == {"hparam.lr": "0.1", "hparam.wd": "0.1", "hparam.seed": "0"}
    assert [labels["hparam.lr"] for labels in stated] == ["0.1", "0.1", "1.0", "1.0"]


def test_the_innermost_folder_has_the_last_word_on_a_setting(tmp_path: Path) -> None:
    tree(tmp_path, *(f"lr=0.1/lr=0.{n}/train.log" for n in (2, 3)), "lr=0.1/plain/train.log")
    stated = {Path(job.path).name: dict(job.labels) for job in find([str(tmp_path)])}
    assert stated["lr=0.2"] == {"hparam.lr": "0.2"} and stated["plain"] == {"hparam.lr": "0.1"}


def test_guild_runs(tmp_path: Path) -> None:
    for run in ("5feceb66", "6b86b273"):
        tree(tmp_path, f"runs/{run}/.guild/opref", f"runs/{run}/.guild/output", f"runs/{run}/model.json")
        flags = tmp_path / "runs" / run / ".guild/attrs/flags"
        flags.parent.mkdir()
        flags.write_text("lr: 0.1\nname: 'a b'\nlayers: [1, 2]\n")
    assert names(tmp_path) == [("runs/5feceb66", "guild"), ("runs/6b86b273", "guild")]
    assert dict(next(iter(find([str(tmp_path)]))).labels) == {"hparam.lr": "0.1", "hparam.name": "a b"}


def test_a_home_of_guild_is_no_run(tmp_path: Path) -> None:
    tree(tmp_path, ".guild/runs/5feceb66/.guild/opref", "exp1/train.log", "exp2/train.log")
    assert [layout for _, layout in names(tmp_path)] == ["folder", "folder"]


@pytest.mark.parametrize(("pack", "end"), [(gzip.compress, "gz"), (lzma.compress, "xz"), (bz2.compress, "bz2")])
def test_compressed_logs_are_jobs_as_the_plain_ones_are(
    tmp_path: Path, pack: Callable[[bytes], bytes], end: str
) -> None:
    for n in (7000, 7003, 7004):
        (tmp_path / f"job-{n}.log.{end}").write_bytes(pack(b"step 1 loss 2.0\n" * 20_000))
    assert [name for name, _ in names(tmp_path)] == ["job-7000", "job-7003", "job-7004"]


def test_compressed_logs_of_ranks_are_one_job(tmp_path: Path) -> None:
    for n in (7000, 7003):
        (tmp_path / f"job-{n}.log.gz").write_bytes(gzip.compress(b"[rank3]: step 1 loss 2.0\n"))
    assert names(tmp_path) == [(".", "folder")]
