"""Which logs of one folder are of one job: a table of folders, as people have them, and their rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from forensics.triage.jobs import find


def steps(prefix: str = "", day: int = 20) -> str:
    return "".join(f"{prefix}2026-11-{day} {h:02d}:00:00,000 INFO step {h * 50} loss {2 / h:.3f}\n" for h in (1, 2, 3))


def each(form: str, ranks: int = 4, **more: int) -> str:
    return "".join(steps(form.format(rank), **more) for rank in range(ranks))


FAILED = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nKeyError: 'x'\n"
S = steps()
SEEDED = "[rank: 0] Seed set to 42\n" + S  # as Lightning writes
RAISED = S + "".join(f"[rank0]: {line}\n" for line in FAILED.splitlines())  # as torch does
SAID = "Rank 0 runs on cuda:0\n" + S
RANKS = each("[rank{}]: ")
TEED = each("[default{}]:")  # as torchrun --tee does
OTHERS = S + "[rank3]: " + FAILED + "[rank1]: " + FAILED
GRID = ("lr1e-4.log", "lr3e-4.log", "baseline.log")
WORDS = ("wide.log", "deep.log", "plain.log")


def of(text: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, text)


def two(form: str, text: str = S) -> dict[str, str]:
    return of(text, *(form.format(job=job, n=n) for job in ("bert-a", "llama") for n in (0, 1)))


BOTH = {"bert-a": 2, "llama": 2}

# name -> (files, rows: how many, or the logs of each)
FOLDERS: dict[str, tuple[dict[str, str], int | dict[str, int]]] = {
    # Pods
    "pod-container": (two("{job}-worker-{n}-pytorch.log"), BOTH),
    "pod_container": (two("{job}-worker-{n}_pytorch.log"), BOTH),
    "namespace_pod": (two("ml-team_{job}-worker-{n}.log"), BOTH),
    "namespace_pod_container, packed": (two("ml-team_{job}-worker-{n}_pytorch.log.gz"), BOTH),
    "trainers": (two("{job}-trainer-{n}.log"), BOTH),
    "a launcher's random name": (two("{job}-worker-{n}.log") | of(S, "llama-launcher-x7k2p.log"), {"bert-a": 2, "llama": 3}),
    "one pod each": (of(S, "bert-trainer-0.log", "llama-trainer-0.log", "t5-trainer-0.log"), 3),
    "namespaces": (of(S, "a_x-worker-0.log", "a_x-worker-1.log", "b_x-worker-0.log"), {"a/x": 2, "b/x": 1}),
    "others beside pods": (two("{job}-worker-{n}.log") | of(S, "t5.log"), BOTH | {"t5": 1}),
    "many others beside pods": (two("{job}-worker-{n}.log") | of(S, *(f"{letter}net.log" for letter in "abcdefghijklmnopqrst")), 22),
    "one job of pods beside others": (of(S, "x-worker-0.log", "x-worker-1.log", "t5.log"), {"x": 2, "t5": 1}),
    "roles of one run": (of(S, "actor-worker-0.log", "critic-worker-0.log"), 1),
    "pods of one job": (of(S, "bert-worker-0-pytorch.log", "bert-worker-1-pytorch.log"), 1),
    # Machines and processes behind the job
    "nodes": (two("{job}_node{n}.log"), BOTH),
    "workers": (two("{job}_worker{n}.log"), BOTH),
    "GPUs": (two("{job}_gpu{n}.log"), BOTH),
    "streams": (two("{job}_node{n}.out") | two("{job}_node{n}.err"), {"bert-a": 4, "llama": 4}),
    "not as many": (two("{job}_node{n}.log") | of(S, "llama_node2.log"), {"bert-a": 2, "llama": 3}),
    "nodes and their ranks": (two("{job}_node0_rank{n}.log") | two("{job}_node1_rank{n}.log"), {"bert-a": 4, "llama": 4}),
    "nodes of a large world": (two("{job}_node{n}.log", "world_size=16\n" + S), BOTH),
    "one node each": (of(S, "bert_node0.log", "llama_node0.log"), 2),
    "a GPU of its own each": (of(S, "bert_gpu0.log", "llama_gpu1.log", "t5_gpu2.log"), 3),
    "ranks of two digits that say nothing": (of("", *(f"{job}_rank0{n}.log" for job in ("bert", "t5") for n in (0, 1))), {"bert": 2, "t5": 2}),
    "nodes of one job": (of(S, "bert_node0.log", "bert_node1.log", "bert_node2.log"), 1),
    "nodes and kinds of logs": (of(S, "train_node0.log", "train_node1.log", "eval_node0.log"), 1),
    "GPUs of machines": (of(S, "dgx01_gpu0.log", "dgx01_gpu1.log", "dgx02_gpu0.log", "dgx02_gpu1.log"), 1),
    "GPUs of machines by their world": (two("{job}_gpu{n}.log", "world_size=4\n" + S), 1),
    "ranks of others": (of(S, "bert_rank0.log", "llama_rank1.log"), 1),
    # A log holds all ranks of its job
    "ranks of each": (of(RANKS, *WORDS), 3),
    "ranks of each, of a stated world": (of("world_size=4\n" + RANKS, *WORDS), 3),
    "numbered, ranks of each": (of(RANKS, "exp1.log", "exp2.log", "exp3.log"), 3),
    "local ranks under settings": (of(TEED, *GRID), 3),
    "local ranks, and one failed": (of(TEED, *GRID[1:]) | {GRID[0]: OTHERS}, 3),
    "only those that failed tell": (of(S, *GRID[1:]) | {GRID[0]: OTHERS}, 3),
    "a world under settings": (of("world_size=4\n" + S, *GRID), 3),
    "local ranks, on other days": ({name: each("[default{}]:", day=20 + n) for n, name in enumerate(WORDS)}, 3),
    "local ranks at one time": (of(TEED, "mercury.log", "venus.log"), 1),
    "local ranks of a larger world": ({n: "world_size=8\n" + each("[default{}]:", day=d) for n, d in (("mercury.log", 1), ("venus.log", 2))}, 1),
    "other ranks on each": ({"mercury.log": RANKS, "venus.log": RANKS.replace("[rank", "[rank1")}, 1),
    "machines": (of(TEED, "dgx01.log", "dgx02.log"), 1),
    "settings, each another rank": ({f"lr1e-{n}.log": f"rank {n} of world size 3\n" + S for n in range(3)}, 1),
    # A rank 0 that is alone
    "seeded under words": (of(SEEDED, *WORDS), 3),
    "seeded under numbers": (of(SEEDED, "exp_0.log", "exp_1.log", "exp_2.log"), 3),
    "raised under words": (of(RAISED, *WORDS), 3),
    "one raised": (of(S, *WORDS[1:]) | {WORDS[0]: RAISED}, 3),
    "said under numbers": (of(SAID, "exp_0.log", "exp_1.log", "exp_2.log"), 3),
    "seeds": (of(SEEDED, "seed_0.log", "seed_1.log"), 2),
    "ranks by number": (of(S, "rank_1.log", "rank_2.log") | {"rank_0.log": SEEDED}, 1),
    "ranks by ending": (of(S, "log.1", "log.2") | {"log.0": SAID}, 1),
    "ranks by worker": (of(S, "worker-1.log") | {"worker-0.log": RAISED}, 1),
    "ranks by machine": (of(S, "gpu-a01.log") | {"gpu-a02.log": SEEDED}, 1),
    "seeded ranks by number": ({f"exp_{n}.log": f"[rank: {n}] Seed set to 42\n" + S for n in range(4)}, 1),
    "seeded ranks by machine": ({f"{name}.log": f"[rank: {n}] Seed set to 42\n" + S for n, name in enumerate("mv")}, 1),
    # Further launchers and habits
    "nohup with a name": (of(S, "nohup_bert.out", "nohup_t5.out", "nohup_gpt.out"), 3),
    "nohup of one run": (of(S, "nohup_train.out", "nohup_eval.out"), 1),
    "what was rotated, packed": (of(S, "bert.log", "bert.log.1.gz", "t5.log", "t5.log.1.gz"), {"bert": 2, "t5": 2}),
    "code and checkpoints beside logs": (of(S, "bert.log", "t5.log", "src/a.py", "checkpoints/bert/a.pt"), {"bert": 2, "t5": 1}),
    "outputs without logs": (of(S, "bert.log", "t5.log") | of("{}", "out/bert/checkpoint-5/trainer_state.json"), {"bert": 2, "t5": 1}),
    "seeds beside code": (of(S, "seed1.log", "seed2.log", "src/a.py"), 2),
    "ranks beside code": (of(S, "rank_0.log", "rank_1.log", "src/a.py"), 1),
    "kinds of logs beside code": (of(S, "train.log", "eval.log", "src/a.py"), 1),
    "runs with checkpoints": ({f"{run}/{file}": S for run in "ab" for file in ("x.log", "y.log", "checkpoints/1.pt")}, 2),
    "folders of pods": (two("{job}/{job}-worker-{n}/pytorch.log") | of(S, "llama/llama-master-0/pytorch.log", "bert-a/bert-a-master-0/a.log"), {"bert-a": 1, "llama": 1}),
    "folders of pods side by side": (of(S, *(f"{job}-{pod}/pytorch.log" for job in ("bert", "t5") for pod in ("master-0", "worker-0"))), {"bert": 2, "t5": 2}),
    "folders of pods of one job": (of(S, "bert-master-0/pytorch.log", "bert-worker-0/pytorch.log"), 1),
    "folders of workers": (of(S, "bert-worker-0/pytorch.log", "bert-worker-1/pytorch.log"), 2),
    "logs by GPU": (of(S, "gpu0/bert.log", "gpu0/t5.log", "gpu1/gpt.log", "gpu1/vit.log"), 4),
    "logs by machine": ({f"node{n}/{job}.log": f"rank {n}/2\n{S}" for n in (0, 1) for job in ("bert", "t5")}, {"bert": 2, "t5": 2}),
    "Hydra by settings": ({f"multirun/lr={n}/{f}": S for n in range(3) for f in (".hydra/config.yaml", "main.log")}, 3),
    "submitit": ({f"log/7712_{n}_0_log.{end}": S for n in range(3) for end in ("out", "err")}, 3),
    "submitit, tasks of one": ({f"logs/7712_{n}_log.out": f"rank {n}/4\n{S}" for n in range(4)}, 1),
    "submitit, a folder a job": ({f"exp/{job}/{job}_{n}_log.out": f"rank {n}/2\n{S}" for job in (7712, 7713) for n in (0, 1)}, 2),
    "Slurm by names": (of(S, "bert-881200.out", "t5-881201.out", "gpt-881202.out"), 3),
    "Slurm by machine and rank": ({f"bert-8812-n00{n}-0.out": f"rank {n}/2\n{S}" for n in (0, 1)}, 1),
    "HTCondor": ({f"logs/job.4410.{n}.{end}": S for n in range(3) for end in ("out", "err", "log")}, 3),
    "LSF": (of(S, "output.881201", "output.881202"), 2),
    "W&B sweep and its agent": ({f"wandb/run-2026112{n}_100000-abcdefg{n}/files/output.log": S for n in range(3)} | of("wandb: agent\n", "agent.log"), 3),
    "Optuna": (of("A new study\n", "study.log") | of(S, *(f"trial_{n}.log" for n in range(4))), 4),
    "SkyPilot by machines": ({f"sky_logs/sky-2026-11-2{n}-02-00-00-12345{n}/tasks/{f}": S for n in (0, 1) for f in ("head.log", "worker1.log")}, 2),
    "Determined, four ranks": (of(each("[2026-01-05T08:00:00.100Z] 003f2a1b [rank={}] || "), "trial-17.log", "trial-18.log"), 2),
    "Nextflow": ({f"work/0{n}/5a898da0/{f}": S for n in range(3) for f in (".command.sh", ".command.log")}, 3),
    "tmux": (of(S, "tmux-bert.log", "tmux-t5.log"), 2),
    "screen": (of(S, "screenlog.bert", "screenlog.t5"), 2),
    "by day": ({f"2026-11-2{day}/{name}.log": S for day in (0, 1) for name in ("bert", "t5")}, 4),
    "by time": (of(S, "train_20261120_101112.log", "train_20261121_111213.log"), 2),
    "mmengine": ({f"work_dirs/{net}/2026112{n}_101112/2026112{n}_101112.log": S for net in ("r50", "r101") for n in (0, 1)}, 4),
    "packed": (of(S, "bert.log.gz", "t5.log.gz"), 2),
    "grid": (of(S, *(f"lr{lr}_bs{bs}_seed{s}.log" for lr in ("1e-3", "1e-4") for bs in (16, 32) for s in (0, 1))), 8),
    "job and machine": ({f"{job}_gpu-0{n}.log": f"rank {n}/2\n{S}" for n in (1, 2) for job in ("bert", "t5")}, {"bert": 2, "t5": 2}),
    "Open MPI": ({f"{job}/1/rank.{n}/stdout": S for job in ("bert", "t5") for n in (0, 1)}, 2),
    "streams in names": (of(S, "bert_stdout.log", "bert_stderr.log", "t5_stdout.log", "t5_stderr.log"), {"bert": 2, "t5": 2}),
    "pm2": (of(S, "bert-out.log", "t5-out.log") | of("", "bert-error.log", "t5-error.log"), {"bert": 2, "t5": 2}),
    "a stream of one alone": (of(S, "bert-out.log", "t5.log"), {"bert-out": 1, "t5": 1}),
    "what was rotated by day": (of(S, "bert.log", "bert.log.2026-11-20", "t5.log", "t5.log-20261120.gz"), {"bert": 2, "t5": 2}),
    "curves under other names": (of(S, "x.log", "y.log", "tb/lr_x/events.out.tfevents.1.h.1", "tb/lr_y/events.out.tfevents.1.h.1"), 1),
    "curves under the jobs' names": (of(S, "bert.log", "t5.log", "tb/bert/events.out.tfevents.1.h.1", "tb/t5/events.out.tfevents.1.h.1"), {"bert": 2, "t5": 2}),
    "checkpoints of one run": (of(S, "alpha.log", "beta.log", "checkpoints/step_1/a.pt"), 1),
    "W&B beside logs": (of(S, "bert.log", "t5.log", "src/a.py", *(f"wandb/run-2026112{n}_100000-abcdefg{n}/files/output.log" for n in (0, 1))), {"bert": 1, "t5": 1}),
    "W&B of one run beside logs": (of(S, "bert.log", "t5.log", "wandb/run-20261120_100000-abcdefg0/files/output.log"), 1),
    "ranks of adapters": (of("Namespace(lr=0.1, rank=16)\n" + S, "bert.log", "t5.log"), 2),
    "ranks that differ": ({f"{name}.log": f"rank={n}\n{S}" for n, name in enumerate(("bert", "t5"), 1)}, 1),
    "node before the job": ({f"node{n}_{job}.log": f"rank {n}/2\n{S}" for job in ("bert", "t5") for n in (0, 1)}, {"bert": 2, "t5": 2}),
    "rank before a kind of log": (of(S, *(f"rank{n}_{kind}.log" for kind in ("train", "nccl") for n in (0, 1))), 1),
    "rank and several logs of it": (of(S, *(f"{kind}_rank{n}.log" for kind in ("torch", "loader") for n in (0, 1))), 1),
    "systemd": (of(S, "train@bert.service.log", "train@t5.service.log"), 2),
    "Airflow": ({f"dag_id=train/run_id=manual/task_id={task}/attempt={n}.log": S for task in ("bert", "t5") for n in (1, 2)}, 2),
    "by day and job id": ({f"logs/2026-11-2{day}/bert_88120{day}.log": S for day in (0, 1)} | {f"logs/2026-11-2{day}/t5_88121{day}.log": S for day in (0, 1)}, 4),
}  # fmt: skip


def rows(root: Path, files: dict[str, str]) -> dict[str, int]:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return {Path(job.path).relative_to(root).as_posix(): len(job.parts) for job in find([str(root)])}


@pytest.mark.parametrize(("files", "right"), FOLDERS.values(), ids=FOLDERS.keys())
def test_rows_of_a_folder(tmp_path: Path, files: dict[str, str], right: int | dict[str, int]) -> None:
    found = rows(tmp_path, files)
    assert (len(found) if isinstance(right, int) else found) == right
