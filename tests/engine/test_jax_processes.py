"""Processes of JAX say their index; peers name the one that is gone, and a number that is not finite can be the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role

LOST = """\
F0701 00:18:41.100000 410{n} client.h:80] Terminating process because the JAX distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
/job:jax_worker/replica:0/task:{lost}
"""
RAISED = """\
Traceback (most recent call last):
  File "/app/train.py", line 150, in main
    state, metrics = p_train_step(state, batch)
{error}
"""
OUT_OF_MEMORY = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
NAN = "FloatingPointError: invalid value (nan) encountered in jit(train_step)"


def run(folder: Path, says: str, error: str, files: str = "host") -> Diagnosis:
    """Four processes, of which number 2 raises an error."""
    for n in range(4):
        lines = [f"I0701 00:00:10.100000 400{n} train.py:88] {says.format(n=n)}"]
        lines += [
            f"I0701 00:0{m}:00.100000 400{n} train.py:140] step {100 * m} loss {5 - m / 10:.3f}" for m in range(9)
        ]
        end = RAISED.format(error=error) if n == 2 else LOST.format(n=n, lost=2)
        (folder / f"{files}{n}.log").write_text("\n".join(lines) + "\n" + end)
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize(
    "says",
    [
        "JAX process: {n} / 4",
        "process_index: {n}, process_count: 4",
        "jax.process_index()={n} jax.process_count()=4",
        "process {n}/4 local devices 4",
    ],
)
def test_a_process_says_its_index(tmp_path: Path, says: str) -> None:
    root = run(tmp_path, says, OUT_OF_MEMORY).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks) == ("cuda-oom", (2,))


def test_shares_of_work_are_no_index(tmp_path: Path) -> None:
    root = run(tmp_path, "process {n}/4 of the files", OUT_OF_MEMORY).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks) == ("cuda-oom", None)


def test_a_nan_that_is_raised_ends_its_process(tmp_path: Path) -> None:
    found = run(tmp_path, "jax.process_index()={n} jax.process_count()=4 host=tpu-b{n}", NAN, files="w")
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.ranks, root.node) == ("nan-loss", (2,), "tpu-b2")
    assert "jax-task-lost" in {f.name for f in found.of_role(Role.CASCADE)}


@pytest.mark.parametrize(
    ("line", "node"),
    [
        ("[rank {n}] started on tx-b{host}, world_size=4", "tx-b1"),
        ("RANK={n} WORLD_SIZE=4 NODE_NAME=pool-b{host}", "pool-b1"),
        ("[rank {n}] started on cuda:{n}, world_size=4", None),
    ],
)
def test_a_rank_says_its_host(tmp_path: Path, line: str, node: str | None) -> None:
    for n in range(4):
        lines = [line.format(n=n, host=n // 2)]
        lines += [f"[rank {n}] step {10 * m} loss {2 - m / 10:.3f}" for m in range(9)]
        error = "KeyError: 'labels'" if n == 2 else ""
        end = RAISED.format(error=error) if error else ""
        (tmp_path / f"rank_{n}.out").write_text(
            "".join(f"2026-05-20 00:0{m}:00 {text}\n" for m, text in enumerate(lines)) + end
        )
    root = analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)[0]
    assert (root.ranks, root.node) == ((2,), node)
