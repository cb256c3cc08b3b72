"""Make runs of hundreds of ranks with one culprit, skewed clocks, missing files and interleaved lines.

Everything is drawn from `random.Random(seed)`: world, culprit, step, times, layout, and which template the cause has.
The truth is returned beside the files; nothing here knows how the product looks at them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

PER_NODE = 8
START = datetime(2026, 11, 20, 8, 0, 0)


@dataclass(frozen=True)
class Truth:
    causes: frozenset[str]  # slugs, any of which is right
    rank: int | None
    node: str | None
    step: int


@dataclass
class Draft:
    """Lines by (node, rank or None for the node's launcher), each with its true time."""

    world: int
    random: random.Random
    lines: dict[tuple[str, int | None], list[tuple[datetime, str]]] = field(default_factory=dict)
    skew: dict[str, timedelta] = field(default_factory=dict)
    largest_skew: float = 20  # seconds by which a node's clock is wrong at most

    name_of: Callable[[int], str] = "node-{}".format  # what the hosts are called, by their number

    def node(self, rank: int) -> str:
        return self.name_of(rank // PER_NODE)

    def say(self, rank: int, at: datetime, text: str) -> None:
        self.lines.setdefault((self.node(rank), rank), []).append((at, text))

    def launcher(self, node: str, at: datetime, text: str) -> None:
        self.lines.setdefault((node, None), []).append((at, text))

    def clock(self, node: str, at: datetime) -> datetime:
        return at + self.skew.setdefault(
            node, timedelta(seconds=self.random.uniform(-self.largest_skew, self.largest_skew))
        )


def _c10(draft: Draft, rank: int, at: datetime, text: str) -> str:
    local = draft.clock(draft.node(rank), at)
    nanos = draft.random.randrange(10**9)
    return f"[rank{rank}]:[E{local.month}{local.day:02d} {local:%H:%M:%S}.{nanos:09d} ProcessGroupNCCL.cpp:{draft.random.randint(400, 2300)}] {text}"


def _traceback(draft: Draft, rank: int, at: datetime, last: str) -> None:
    for line in (
        "Traceback (most recent call last):",
        f'  File "/opt/train/{draft.random.choice(["train", "main", "run"])}.py", line {draft.random.randint(20, 900)}, in <module>',
        "    main()",
        f'  File "/opt/train/loop.py", line {draft.random.randint(20, 900)}, in train_step',
        "    loss = model(batch)",
        last,
    ):
        draft.say(rank, at, f"[rank{rank}]: {line}")


def _oom(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    r = draft.random
    _traceback(
        draft,
        rank,
        at,
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {r.uniform(0.1, 9):.2f} GiB. GPU {rank % PER_NODE} has a total "
        f"capacity of 79.11 GiB of which {r.uniform(5, 900):.2f} MiB is free. Including non-PyTorch memory, this process has "
        f"78.{r.randint(10, 99)} GiB memory in use. Of the allocated memory 7{r.randint(0, 7)}.10 GiB is allocated by PyTorch, and "
        f"{r.uniform(10, 900):.2f} MiB is reserved by PyTorch but unallocated.",
    )
    return frozenset({"cuda-oom"})


def _exception(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    last = draft.random.choice(
        [
            f"ValueError: sample {draft.random.randint(1, 10**7)} has no target",
            f"KeyError: 'shard_{draft.random.randint(0, 99):04d}'",
            "IndexError: list index out of range",
            f"AssertionError: expected 2048 tokens, got {draft.random.randint(1, 2047)}",
        ]
    )
    _traceback(draft, rank, at, last)
    return frozenset({"python-exception"})


def _shm(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    pid = draft.random.randint(1000, 99999)
    draft.say(
        rank,
        at,
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    )
    _traceback(
        draft,
        rank,
        at,
        f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus error. It is possible that dataloader's workers are "
        "out of shared memory. Please try to raise your shared memory limit.",
    )
    return frozenset({"shm-exhausted"})


def _disk(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    step = draft.random.randint(1, 99999)
    _traceback(draft, rank, at, f"OSError: [Errno 28] No space left on device: '/data/ckpt/step_{step}/rank_{rank}.pt'")
    return frozenset({"disk-full", "checkpoint-write-failed"})


def _ecc(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    _traceback(draft, rank, at, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
    return frozenset({"gpu-ecc-uncorrectable", "gpu-hardware"})


def _silent(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    return frozenset(
        {"collective-timeout", "straggler-rank", "collective-desync", "rank-exited-early", "monitored-barrier-timeout"}
    )


def _killed(draft: Draft, rank: int, at: datetime) -> frozenset[str]:
    node, pid = draft.node(rank), draft.random.randint(1000, 99999)
    local = draft.clock(node, at)
    head = f"E{local:%m%d %H:%M:%S}.{draft.random.randint(0, 999):03d}000 {draft.random.randint(100, 999)} torch/distributed/elastic/multiprocessing/api.py:874]"
    draft.launcher(
        node,
        at + timedelta(seconds=2),
        f"{head} failed (exitcode: -9) local_rank: {rank % PER_NODE} (pid: {pid}) of binary: /opt/conda/bin/python",
    )
    for line in (
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {local:%Y-%m-%d_%H:%M:%S}",
        f"  host      : {node}",
        f"  rank      : {rank} (local_rank: {rank % PER_NODE})",
        f"  exitcode  : -9 (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : Signal 9 (SIGKILL) received by PID {pid}",
    ):
        draft.launcher(node, at + timedelta(seconds=3), line)
    return frozenset({"sigkill-unknown-sender", "host-oom"})


CAUSES: tuple[Callable[[Draft, int, datetime], frozenset[str]], ...] = (
    _oom,
    _exception,
    _shm,
    _disk,
    _ecc,
    _silent,
    _killed,
)


# How sites call their hosts.
NAMES: tuple[Callable[[int], str], ...] = (
    "node-{}".format,
    "dgx{:02d}".format,
    lambda n: f"gpu-{n + 1:03d}",
    lambda n: f"ip-10-0-{n // 8}-{n % 8 + 3}",
    lambda n: f"exp-{n // 16 + 1}-{n % 16 + 1}",
    lambda n: f"hgx-{chr(97 + n // 26)}{chr(97 + n % 26)}",
)


def make(
    folder: Path, seed: int, world: int = 512, skew: float = 20, name_of: Callable[[int], str] = NAMES[0]
) -> Truth:
    """Write one run below `folder` and return what is true of it. skew: of nodes' clocks at most, in seconds."""
    r = random.Random(seed)
    draft = Draft(world, r, largest_skew=skew, name_of=name_of)
    culprit, steps = r.randrange(world), r.randint(20, 60)
    cause = CAUSES[seed % len(CAUSES)]
    fail_at = START + timedelta(seconds=steps * 2)
    chatty = {0, culprit, *r.sample(range(world), world // 8)}  # not every rank logs its steps
    style = r.randrange(3)
    for rank in range(world):
        for step in range(1, steps + 1) if rank in chatty else ():
            at = START + timedelta(seconds=2 * step)
            clock = f"{draft.clock(draft.node(rank), at):%Y-%m-%d %H:%M:%S},{r.randint(0, 999):03d}"
            loss = 2 + 3 / step + r.random() / 10
            text = (
                f"{clock} INFO trainer: step {step}/1000 | loss {loss:.4f} | lr 1.00e-04 | grad_norm {r.random():.4f}",
                f"[titan] {clock} - root - INFO - step: {step:2d}  loss: {loss:8.5f}  grad_norm: {r.random():7.4f}  tps: 5,970",
                f'{{"step": {step}, "rank": {rank}, "loss": {loss:.5f}, "lr": 0.0001}}',
            )[style]
            draft.say(rank, at, text)
    causes = cause(draft, culprit, fail_at)
    timeout = cause is _silent or r.random() < 0.5
    seq = r.randint(100, 99999)
    for rank in range(world):
        if rank == culprit:
            continue
        if timeout:  # the victims time out, long after, on clocks of their own
            at = fail_at + timedelta(seconds=600 + r.random() * 3)
            work = f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000)"
            draft.say(
                rank,
                at,
                _c10(
                    draft,
                    rank,
                    at,
                    f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {600000 + r.randint(1, 99)} milliseconds before timing out.",
                ),
            )
            draft.say(
                rank,
                at,
                _c10(
                    draft,
                    rank,
                    at,
                    f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq + 1}, last completed work: {seq - 1}",
                ),
            )
            draft.say(
                rank, at, _c10(draft, rank, at, "To avoid data inconsistency, we are taking the entire process down.")
            )
        elif r.random() < 0.9:  # or lose their connection at once, some before the culprit has written anything
            at = fail_at + timedelta(seconds=r.uniform(-1, 4))
            port = r.randint(1024, 65535)
            _traceback(
                draft,
                rank,
                at,
                f"torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error, NCCL version 2.27.5 Last error: socketProgress: Connection closed by remote peer 10.0.{r.randrange(9)}.{r.randrange(9)}<{port}>",
            )
    for node in {draft.node(rank) for rank in range(world)}:
        at = fail_at + timedelta(seconds=620)
        local = draft.clock(node, at)
        for pid in r.sample(range(1000, 9999), 7):
            draft.launcher(
                node,
                at,
                f"W{local:%m%d %H:%M:%S}.000000 99 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {pid} closing signal SIGTERM",
            )
    _write(draft, folder, culprit)
    return Truth(causes, culprit, draft.node(culprit), steps)


def _write(draft: Draft, folder: Path, culprit: int) -> None:
    """One file a rank, or one merged file a node; a few ranks' files are missing (never the culprit's)."""
    r = draft.random
    merged = r.random() < 0.5
    lost = {(n, k) for n, k in draft.lines if k not in (None, culprit) and r.random() < 0.02}
    nodes: dict[str, list[tuple[datetime, str]]] = {}
    for (node, rank), lines in draft.lines.items():
        if (node, rank) in lost:
            continue
        if merged or rank is None:
            prefix = "" if rank is None else f"[default{rank % PER_NODE}]:"
            nodes.setdefault(node, []).extend((at, prefix + text) for at, text in lines)
        else:
            file = folder / node / f"rank{rank}.log"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(text for _, text in sorted(lines, key=lambda x: x[0])) + "\n", "utf-8")
    for node, lines in nodes.items():
        file = folder / node / "launcher.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(text for _, text in sorted(lines, key=lambda x: x[0])) + "\n", "utf-8")
