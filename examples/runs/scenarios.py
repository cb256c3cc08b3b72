"""Every sample run: what is run, how it is provoked, and the right answer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from box import Box

Learned = dict[str, Any] | None  # parts of the answer that only the run itself can tell (the step of a kill)


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable[[Box], Learned]
    shows: tuple[str, str]  # (glob, pattern): some such file must hold a match, else the run went another way
    expected: dict[str, Any]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str, *, shows: tuple[str, str], **expected: Any
) -> Callable[[Callable[[Box], Learned]], Callable[[Box], Learned]]:
    """Register a scenario under the name of its sample directory."""

    def register(run: Callable[[Box], Learned]) -> Callable[[Box], Learned]:
        first = {"root_cause": expected.pop("root_cause"), "acceptable": expected.pop("acceptable", [])}
        SCENARIOS[name] = Scenario(name, run, shows, first | expected)
        return run

    return register


@scenario(
    "healthy-ddp",
    shows=("logs/*/attempt_0/1/stdout.log", "training finished"),
    root_cause="healthy",
    verdict="healthy",
    world_size=2,
    notes="Nothing goes wrong: 60 steps, falling loss, both ranks say that they finished, exit status 0.",
)
def healthy_ddp(box: Box) -> Learned:
    job = box.torchrun("train_lm.py", f"--tensorboard={box.out / 'tb'}", nproc=2, options=box.per_rank())
    box.finish(job, ok=True)
    return None


@scenario(
    "sigkill-rank3",
    shows=("launcher.log", r"exitcode: -9\) local_rank: 3"),
    root_cause="sigkill-unknown-sender",
    acceptable=["host-oom"],
    verdict="failed",
    culprit_rank=3,
    world_size=4,
    notes="Rank 3 is killed with SIGKILL from outside in the middle of training; nothing says by whom. The"
    " other ranks lose their connection to it, and torchrun's table has exit code -9 for rank 3.",
)
def sigkill_rank3(box: Box) -> Learned:
    job = box.torchrun("train_lm.py", "--pause=0.1", "--pids=pids", nproc=4, options=box.per_rank())
    box.wait_for(r"step 20/", "logs/*/attempt_0/3/stdout.log")
    os.kill(int(Path("pids/3").read_text()), signal.SIGKILL)
    box.finish(job, ok=False)
    return {"culprit_step": box.last(r"step (\d+)/", "logs/*/attempt_0/3/stdout.log")}


@scenario(
    "healthy-scary-lines",
    shows=("train.log", r"'grad_norm': inf[\s\S]*'eval_recall_class_3': nan[\s\S]*train_runtime"),
    root_cause="healthy",
    verdict="healthy",
    world_size=2,
    notes="The loss scale starts too high on purpose, so the first gradient norms are inf and their steps are"
    " skipped until it fits; the recall of a class that does not occur is NaN; torchrun, DDP and the"
    " scheduler warn. The loss falls and the run ends normally.",
)
def healthy_scary_lines(box: Box) -> Learned:
    job = box.torchrun("train_segmentation.py", nproc=2, log="train.log", options=["--tee=3"])
    box.finish(job, ok=True)
    return None


@scenario(
    "healthy-resume",
    shows=("slurm-4107.out", r"resumed from \S+ at step 40[\s\S]*training finished after 80"),
    root_cause="healthy",
    verdict="healthy",
    world_size=2,
    notes="Two launches into one log: the first stops at step 40 as it was told to, the second restores"
    " weights, optimizer, schedule and step from its checkpoint and goes on to 80. Loss and learning rate"
    " are continuous.",
)
def healthy_resume(box: Box) -> Learned:
    common = ["--style=megatron", "--total=80", "--save-every=20", f"--tensorboard={box.out / 'tensorboard'}"]
    for more in (["--steps=40"], ["--steps=80", "--resume"]):
        box.finish(box.torchrun("train_lm.py", *common, *more, nproc=2, log="slurm-4107.out"), ok=True)
    return None


@scenario(
    "exception-rank2",
    shows=("logs/*/attempt_0/2/stderr.log", "KeyError: 'text'"),
    root_cause="python-exception",
    verdict="failed",
    culprit_rank=2,
    culprit_step=23,
    world_size=4,
    notes="Record 23 of rank 2's shard has no field 'text': KeyError on rank 2. The other ranks only lose their"
    " connection to it, or are ended by torchrun with SIGTERM.",
)
def exception_rank2(box: Box) -> Learned:
    job = box.torchrun("train_jsonl.py", nproc=4, log="train.log", options=box.tee())
    box.finish(job, ok=False)
    return None


@scenario(
    "silent-exit-rank1",
    shows=("logs/*/attempt_0/1/stdout.log", r"step: +20 .*\n\Z"),
    root_cause="rank-exited-early",
    verdict="failed",
    culprit_rank=1,
    culprit_step=20,
    world_size=3,
    notes="Rank 1 leaves with os._exit(0) when it cannot read its third shard: no line, exit status 0. Its log"
    " ends after step 20 without an error; the others fail in the gradient all_reduce of step 21 as the"
    " connection is closed.",
)
def silent_exit_rank1(box: Box) -> Learned:
    job = box.torchrun("train_silent.py", nproc=3, options=box.per_rank())
    box.finish(job, ok=False)
    return None


@scenario(
    "collective-op-mismatch",
    shows=("train.log", "Detected mismatch between collectives on ranks"),
    root_cause="collective-op-mismatch",
    acceptable=["collective-desync", "rank-conditional-collective"],
    verdict="failed",
    culprit_rank=2,
    culprit_step=20,
    world_size=3,
    notes="Rank 2's validation loss did not improve, so it broadcasts a stop flag where ranks 0 and 1 average"
    " theirs with all_reduce. TORCH_DISTRIBUTED_DEBUG=DETAIL names both operations on every rank.",
)
def collective_op_mismatch(box: Box) -> Learned:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    job = box.torchrun("train_early_stop.py", nproc=3, log="train.log", options=box.tee(), env=env)
    box.finish(job, ok=False)
    shutil.rmtree(box.out / "logs")  # only the merged log was kept
    return None


@scenario(
    "collective-shape-mismatch",
    shows=("slurm-4112.out", "Detected mismatch between collectives on ranks"),
    root_cause="collective-shape-mismatch",
    acceptable=["collective-desync", "uneven-inputs"],
    verdict="failed",
    culprit_rank=1,
    culprit_step=18,
    world_size=3,
    notes="Rank 1's last batch has 5 samples where the others have 8 (drop_last=False), so it calls all_gather"
    " with 5 x 8 where the others have 8 x 8. Ranks started as srun --label does;"
    " TORCH_DISTRIBUTED_DEBUG=DETAIL.",
)
def collective_shape_mismatch(box: Box) -> Learned:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    codes = box.srun("train_contrastive.py", ntasks=3, log="slurm-4112.out", env=env)
    if not any(codes):
        raise SystemExit("no rank failed")
    return None


@scenario(
    "parked-rank2-flight-recorder",
    shows=("train.log", r"step: 15 [\s\S]*Timed out waiting 8000ms"),
    root_cause="straggler-rank",
    acceptable=["collective-timeout"],
    verdict="failed",
    culprit_rank=2,
    culprit_step=16,
    world_size=4,
    notes="Rank 2 waits in host code for a stale lock file before step 16; the others are in step 16's gradient"
    " all_reduce until gloo's timeout of 8 s. The flight recorder of rank 2 ends one step of collectives"
    " earlier than the others'.",
)
def parked_rank2(box: Box) -> Learned:
    env = {"TORCH_FR_BUFFER_SIZE": "200"}
    job = box.torchrun("train_locked.py", nproc=4, log="train.log", options=box.tee(), env=env)
    box.finish(job, ok=False)
    return None


@scenario(
    "uneven-inputs",
    shows=("logs/*/attempt_0/1/stdout.log", r"31 batches[\s\S]*bye"),
    root_cause="uneven-inputs",
    acceptable=["collective-desync", "rank-exited-early"],
    verdict="failed",
    culprit_rank=1,
    culprit_step=31,
    world_size=3,
    notes="Rank 1's shard has 31 batches, the others' 40, and there is no join(): rank 1 ends normally after"
    " step 31, the others fail in the gradient all_reduce of step 32.",
)
def uneven_inputs(box: Box) -> Learned:
    job = box.torchrun("train_uneven.py", nproc=3, options=box.per_rank())
    box.finish(job, ok=False)
    return None


@scenario(
    "ddp-unused-parameters",
    shows=("train.log", "Expected to have finished reduction in the prior iteration"),
    root_cause="ddp-unused-parameters",
    verdict="failed",
    culprit_step=2,
    world_size=2,
    notes="The auxiliary head is used in the first epoch only, and find_unused_parameters is False: the second"
    " batch of epoch 1 (the twelfth in all) raises 'Expected to have finished reduction in the prior"
    " iteration' on every rank.",
)
def ddp_unused_parameters(box: Box) -> Learned:
    job = box.torchrun("train_multitask.py", nproc=2, log="train.log")
    box.finish(job, ok=False)
    return None


@scenario(
    "address-in-use",
    shows=("train.log", "EADDRINUSE"),
    root_cause="address-in-use",
    verdict="failed",
    notes="Another job on this host listens on the master port already (its log is not part of this run)."
    " torchrun cannot open its store; no rank ever started.",
)
def address_in_use(box: Box) -> Learned:
    other = box.torchrun("train_lm.py", "--pause=0.3", "--pids=pids", nproc=2, log="", port=29531)
    box.wait_until(Path("pids/0").exists)
    box.finish(box.torchrun("train_lm.py", nproc=2, log="train.log", port=29531), ok=False)
    other.terminate()
    other.wait(60)
    return None


@scenario(
    "shm-exhausted",
    shows=("logs/*/attempt_0/1/stderr.log", "unable to allocate shared memory|Bus error"),
    root_cause="shm-exhausted",
    verdict="failed",
    culprit_rank=1,
    culprit_step=9,
    world_size=2,
    notes="/dev/shm has 1 MB. The batches of rank 1's second source take 3 MB each, and its DataLoader worker"
    " dies when it hands over the first of them, the ninth batch. Rank 0 only loses its connection.",
)
def shm_exhausted(box: Box) -> Learned:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm"], check=True)
    job = box.torchrun("train_images.py", nproc=2, options=box.per_rank())
    box.finish(job, ok=False)
    return None


@scenario(
    "shm-bus-error",
    shows=("slurm-4119.out", "killed by signal: Bus error"),
    root_cause="shm-exhausted",
    acceptable=["dataloader-worker-killed"],
    verdict="failed",
    culprit_rank=1,
    world_size=2,
    notes="As shm-exhausted, but the worker of rank 1 writes to a memory-mapped cache in /dev/shm, so that it"
    " dies of SIGBUS where a page cannot be had. Ranks started as srun --label does.",
)
def shm_bus_error(box: Box) -> Learned:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm"], check=True)
    box.srun("train_images.py", "--cache=/dev/shm/decoded", ntasks=2, log="slurm-4119.out")
    return {"culprit_step": box.last(r"rank 1 \| epoch 0 \| iter (\d+)/", "slurm-4119.out") + 1}


@scenario(
    "grad-scaler-collapse",
    shows=("train.log", r"iteration +70/ .* loss scale: 0\.0 \| grad norm: nan"),
    root_cause="grad-scaler-collapse",
    acceptable=["nan-gradients"],
    verdict="diverged",
    culprit_step=25,
    world_size=2,
    notes="From step 25 on every gradient is NaN (sqrt at zero in a regulariser) while the loss stays finite:"
    " the scaler skips every step and halves its scale, 65536 to 1e-9 at the end, and the weights do not"
    " change any more.",
)
def grad_scaler_collapse(box: Box) -> Learned:
    box.finish(box.torchrun("train_norm.py", nproc=2, log="train.log"), ok=True)
    return None


@scenario(
    "loss-scale-stall-after-resume",
    shows=("train.log", r"iteration +100/ .* loss scale: 0\.0 \| grad norm: 0\.000"),
    root_cause="loss-scale-stall",
    acceptable=["gradscaler-no-inf-checks"],
    verdict="diverged",
    culprit_step=41,
    world_size=2,
    notes="The scaler's state is saved under one key and looked up under another, so after the resume at 40 the"
    " loss scale starts at 2**-22 and stays there: fp16 gradients underflow to zero and the loss stops"
    " falling. No step is skipped.",
)
def loss_scale_stall(box: Box) -> Learned:
    box.finish(box.torchrun("train_fp16.py", "--train-iters=40", nproc=2, log="train.log"), ok=True)
    more = ["--train-iters=100", "--load=iter_latest.pt", f"--initial-loss-scale={2.0**-22}"]
    box.finish(box.torchrun("train_fp16.py", *more, nproc=2, log="train.log"), ok=True)
    return None


@scenario(
    "nan-bad-batch-rank1",
    shows=("logs/*/attempt_0/0/stdout.log", r"step  17/40 \| loss: \d[\s\S]*step  18/40 \| loss: nan"),
    root_cause="nan-in-data",
    acceptable=["nan-loss"],
    verdict="diverged",
    culprit_rank=1,
    culprit_step=17,
    world_size=3,
    notes="One row of rank 1's shard is NaN: its input statistic and its loss are NaN in step 17, one step"
    " before every other rank's, which got the NaN through the averaged gradient. The run goes on to its"
    " end.",
)
def nan_bad_batch_rank1(box: Box) -> Learned:
    box.finish(box.torchrun("train_tabular.py", nproc=3, options=box.per_rank()), ok=True)
    return None


@scenario(
    "checkpoint-truncated",
    shows=("train.log", "failed finding central directory"),
    root_cause="checkpoint-corrupt",
    verdict="failed",
    world_size=2,
    notes="The checkpoint of step 40 lost its end while it was copied (the driver cuts it, between two launches"
    " of a script that does nothing wrong). Both ranks fail to read it on resume; the file is part of the"
    " run directory.",
)
def checkpoint_truncated(box: Box) -> Learned:
    where = Path("checkpoints")
    common = ["--style=megatron", "--total=80", "--save-every=40", f"--checkpoints={where}"]
    box.finish(box.torchrun("train_lm.py", *common, "--steps=40", nproc=2, log="train.log", options=box.tee()), ok=True)
    file = where / "step_000040.pt"
    os.truncate(file, file.stat().st_size * 3 // 4)
    job = box.torchrun("train_lm.py", *common, "--steps=80", "--resume", nproc=2, log="train.log", options=box.tee())
    box.finish(job, ok=False)
    shutil.rmtree(box.out / "logs")  # only the merged log was kept
    shutil.copytree(where, box.out / "checkpoints")
    return None


@scenario(
    "disk-full-on-save",
    shows=("epilogue.txt", "100%"),
    root_cause="disk-full",
    acceptable=["checkpoint-write-failed"],
    verdict="failed",
    culprit_rank=0,
    world_size=2,
    notes="The checkpoint directory is on a file system of 400 kB and every checkpoint is kept: the save in"
    " which it is full fails on rank 0 ('unexpected pos', no errno) and leaves a partial file; df in the"
    " epilogue says 100 %. Rank 1 waits in the barrier and loses its connection.",
)
def disk_full_on_save(box: Box) -> Learned:
    Path("checkpoints").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", "checkpoints"], check=True)
    job = box.torchrun("train_lm.py", "--style=megatron", "--save-every=10", nproc=2, options=box.per_rank())
    box.finish(job, ok=False)
    # What a job epilogue does: the error of torch.save names no cause, the file system does.
    with (box.out / "epilogue.txt").open("wb") as report:
        for command in (["df", "-k", "checkpoints"], ["ls", "-s", "--block-size=1", "checkpoints"]):
            subprocess.run(command, stdout=report, check=True)
    return {"culprit_step": box.last(r"saving checkpoint at iteration +(\d+)", "logs/*/attempt_0/0/stdout.log")}


@scenario(
    "restart-cause-in-attempt0",
    shows=("logs/*/attempt_1/0/stderr.log", "FileExistsError"),
    root_cause="python-exception",
    verdict="failed",
    culprit_rank=1,
    culprit_step=22,
    world_size=2,
    notes="Attempt 0: ZeroDivisionError on rank 1 in step 22. torchrun restarts once, and attempt 1 dies on"
    " rank 0 before its first step, as the directory that attempt 0 made is still there: torchrun's table"
    " names only that.",
)
def restart_cause_in_attempt0(box: Box) -> Learned:
    options = [*box.per_rank(), "--max-restarts=1"]
    box.finish(box.torchrun("train_restart.py", nproc=2, options=options, port=None), ok=False)
    return None


@scenario(
    "restart-recovered",
    shows=("logs/*/attempt_1/1/stdout.log", r"resumed from \S+ at step 20[\s\S]*training finished"),
    root_cause="dataloader-worker-exception",
    acceptable=["python-exception"],
    verdict="recovered",
    culprit_rank=1,
    culprit_step=26,
    world_size=2,
    notes="Attempt 0: rank 1's DataLoader worker finds no second shard (it is still being copied) at step 26."
    " Attempt 1 resumes from the checkpoint of step 20, finds it, and finishes.",
)
def restart_recovered(box: Box) -> Learned:
    makes = "import torch, pathlib; torch.manual_seed(7); pathlib.Path('data').mkdir(); " + "".join(
        f"torch.save(torch.randn(25, 8, 16), 'data/rank{rank}_{part}.pt'); " for rank in (0, 1) for part in (0, 1)
    )
    subprocess.run([sys.executable, "-c", makes], check=True)
    late, hidden = Path("data/rank1_1.pt"), Path("rank1_1.pt.partial")
    late.rename(hidden)
    options = [*box.per_rank(), "--max-restarts=1"]
    job = box.torchrun("train_flaky.py", nproc=2, options=options, port=None)
    box.wait_for("FileNotFoundError", "logs/*/attempt_0/1/stderr.log")
    hidden.rename(late)
    box.finish(job, ok=True)
    return None


@scenario(
    "loss-divergence-lr",
    shows=("train.log", "'loss': nan.*'step': 80"),
    root_cause="loss-divergence",
    acceptable=["nan-loss"],
    verdict="diverged",
    culprit_step=42,
    world_size=2,
    notes="The learning rate is multiplied by 20 at the second epoch instead of warming up over steps: step"
    " 41 is the first one with it, the loss leaves its course at 42 and grows until it is inf and NaN. No"
    " data is at fault.",
)
def loss_divergence_lr(box: Box) -> Learned:
    box.finish(box.torchrun("train_warmup.py", nproc=2, log="train.log"), ok=True)
    return None


@scenario(
    "hung-rank0-evaluation",
    shows=("launcher.log", "got signal: 15"),
    root_cause="rank-conditional-collective",
    acceptable=["collective-desync", "collective-timeout"],
    verdict="hung",
    culprit_rank=0,
    culprit_step=25,
    world_size=3,
    notes="Only rank 0 evaluates after step 25, and its evaluation averages over all ranks: it waits there in a"
    " group of its own while the others wait in step 26's gradient all_reduce. Stacks (faulthandler) and"
    " flight recorder dumps show both; the operator then ended the job with SIGTERM.",
)
def hung_rank0_evaluation(box: Box) -> Learned:
    env = {"TORCH_FR_BUFFER_SIZE": "200"}
    job = box.torchrun("train_rank0_eval.py", nproc=3, options=box.per_rank(), env=env)
    box.wait_for("evaluating", "logs/*/attempt_0/0/stdout.log")
    box.wait_until(lambda: len(list(box.out.glob("flight_recorder/*"))) == 3)
    for rank in range(3):
        os.kill(int(Path(f"pids/{rank}").read_text()), signal.SIGUSR1)
    for rank in range(3):
        box.wait_for(r"most recent call first[\s\S]*train_rank0_eval", f"logs/*/attempt_0/{rank}/stderr.log")
    job.terminate()
    job.wait(60)
    return None
