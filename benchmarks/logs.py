"""Generate rank logs for measurements: a third of the lines are metric lines, the rest is what training jobs print.

`write_rank_logs(folder, ranks, megabytes)` makes one file a rank, each different, with one planted failure in one of
them. Reproducible: everything comes from `random.Random(rank)`.
"""

from __future__ import annotations

import random
from pathlib import Path

_WORDS = [
    "loading",
    "shard",
    "checkpoint",
    "worker",
    "tokenizer",
    "batch",
    "dataset",
    "prefetch",
    "queue",
    "rank",
    "optimizer",
    "state",
    "layer",
    "module",
    "cache",
    "saved",
    "restored",
    "elapsed",
    "memory",
    "allocated",
    "reserved",
    "stream",
    "device",
    "host",
    "node",
    "link",
    "socket",
    "buffer",
    "bucket",
    "gradient",
    "the",
    "of",
    "to",
    "in",
    "for",
    "with",
    "from",
    "at",
    "on",
    "and",
    "by",
    "step",
    "epoch",
    "is",
    "was",
    "not",
    "all",
    "new",
    "old",
]
_LOGGERS = ("trainer", "data.loader", "checkpoint.io", "torch.distributed", "scheduler", "monitor")


def _chatter(random_: random.Random, step: int, clock: str) -> str:
    words = " ".join(random_.choices(_WORDS, k=random_.randint(4, 18)))
    kind = random_.random()
    if kind < 0.6:
        return f"{clock},{random_.randint(0, 999):03d} INFO [{random_.choice(_LOGGERS)}] {words} {random_.randint(0, 99999)}"
    if kind < 0.75:
        return f'  File "/opt/train/{random_.choice(_WORDS)}.py", {words}'
    if kind < 0.9:
        done = step % 1000
        return f"\r{done // 10:3d}%|{'█' * (done // 100)}{' ' * (10 - done // 100)}| {done}/1000 [00:{done % 60:02d}<01:00,  3.1it/s]"
    return f"/opt/env/lib/python3.11/site-packages/torch/{random_.choice(_WORDS)}.py:{random_.randint(1, 900)}: UserWarning: {words}"


def _metric(random_: random.Random, rank: int, step: int, clock: str) -> str:
    loss, norm = 2.0 + random_.random(), random_.random()
    style = rank % 4
    if style == 0:
        return (
            f" iteration {step:8d}/  500000 | consumed samples: {step * 256:12d} | elapsed time per iteration (ms): 512.3 | "
            f"learning rate: 1.000E-04 | global batch size:   256 | lm loss: {loss:.6E} | loss scale: 65536.0 | "
            f"grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    if style == 1:
        return f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.4f}, 'learning_rate': 1e-05, 'epoch': {step / 1000:.2f}}}"
    if style == 2:
        return f"[rank{rank}]:[titan] {clock},123 - root - INFO - step: {step:6d}  loss: {loss:8.5f}  grad_norm: {norm:7.4f}  tps: 5,970  mfu: 4.82%"
    return f"{clock} INFO trainer: step {step}/500000 | loss {loss:.4f} | lr 1.0e-04 | grad_norm {norm:.4f} | 71 ms"


def write_rank_logs(folder: Path, ranks: int, megabytes: float) -> list[Path]:
    """One log of about `megabytes` MB for each rank in `folder`; files that are already there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in range(ranks):
        file = folder / f"rank{rank}.log"
        files.append(file)
        if file.exists():
            continue
        random_ = random.Random(rank)
        size, step, lines = 0, 0, []
        while size < megabytes * 1e6:
            step += 1
            clock = (
                f"2026-11-{1 + step // 86400 % 28:02d} {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
            )
            block = [
                _metric(random_, rank, step, clock),
                _chatter(random_, step, clock),
                _chatter(random_, step, clock),
            ]
            lines += block
            size += sum(len(line) + 1 for line in block)
        if rank == ranks // 2:
            lines.append(
                "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that "
                "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
            )
        file.write_text("\n".join(lines) + "\n", "utf-8", newline="")
    return files
