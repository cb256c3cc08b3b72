"""Every sample run: what is run, how it is provoked, and the right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from box import Box

Learned = dict[str, Any] | None  # parts of the answer that only the run itself can tell (the step of a kill)


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable[[Box], Learned]
    expected: dict[str, Any]


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **expected: Any) -> Callable[[Callable[[Box], Learned]], Callable[[Box], Learned]]:
    """Register a scenario under the name of its sample directory."""

    def register(run: Callable[[Box], Learned]) -> Callable[[Box], Learned]:
        SCENARIOS[name] = Scenario(name, run, {"acceptable": [], **expected})
        return run

    return register


@scenario(
    "healthy-ddp",
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
    root_cause="sigkill-unknown-sender",
    acceptable=["host-oom"],
    verdict="failed",
    culprit_rank=3,
    world_size=4,
    notes="Rank 3 is killed with SIGKILL from outside in the middle of training; nothing says by whom. The other ranks"
    " lose their connection to it, and torchrun's table has exit code -9 for rank 3.",
)
def sigkill_rank3(box: Box) -> Learned:
    import os
    import signal
    from pathlib import Path

    job = box.torchrun("train_lm.py", "--pause=0.1", "--pids=pids", nproc=4, options=box.per_rank())
    box.wait_for(r"step 20/", "logs/*/attempt_0/3/stdout.log")
    os.kill(int(Path("pids/3").read_text()), signal.SIGKILL)
    box.finish(job, ok=False)
    return {"culprit_step": box.last(r"step (\d+)/", "logs/*/attempt_0/3/stdout.log")}
