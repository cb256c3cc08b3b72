"""The probe: hooks into a training loop, and one event file a rank."""

from __future__ import annotations

import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from forensics.probe import tags
from forensics.probe.budget import Meter, Plan, plan
from forensics.probe.incidents import Incident, Sentinel, StepNumbers
from forensics.probe.modules import is_sharded, local, parameters
from forensics.probe.notice import Notice
from forensics.probe.still import Still
from forensics.probe.updates import Updates, finite_weights, ratios
from forensics.probe.watch import INPUT, Packed, Watch, fetch, pack
from forensics.probe.writer import EventWriter

SENTINELS = ("auto", "full", "forward", "off")
MAX_IDS = 256  # sample ids of a batch that are written out
WARM = 3  # updates from the first that are watched in full, for the costs; the first of all is slower than any other
PLAN_AT = WARM + 10  # when the time of a step is known well enough for the first plan
ALERT = 100  # updates that are watched in full after a loss that was not finite
MOST_PENDING = 1000  # updates whose numbers wait to be written


@dataclass(slots=True)
class _Step:
    """One step, as references and numbers on the device."""

    step: int
    time: float
    losses: list[torch.Tensor | float]
    applied: bool
    outputs: Packed
    gradients: Packed
    exact: bool  # the gradients are norms
    full: bool  # everything was watched that the sentinel asks for
    looked: bool
    samples: Any = None
    finished: bool = True


@dataclass(slots=True)
class _Snapshot:
    """What is looked at at the interval only."""

    lrs: list[Any] = field(default_factory=list)
    dead: dict[str, torch.Tensor] = field(default_factory=dict)


class Probe:
    """Records what a training loop does to its model; see docs/probe.md for what is written.

    model: the module that the loop calls, with its wrappers (DistributedDataParallel, torch.compile); make the probe
        after them. optimizer: one or several. logdir: the event file goes there, into `rank<N>/` where there are ranks.
    scaler: the GradScaler, for loss scale and skipped steps.
    scheduler: a learning rate scheduler, or a function from the global step to the rate that should hold there: the
        actual rate is compared with it.
    every: updates between two looks at the device, at the least; the first update is looked at too.
    budget: the share of the training time that the probe may take. Looks become rarer than `every`, and the sentinel
        "auto" watches less, where it would take more; None for neither.
    rank: the global rank, by default that of torch.distributed or of the environment (RANK).
    data_parallel: ranks that train the model on different data, by default those of DistributedDataParallel.
    start_step: global step at which a resumed run goes on.
    sentinel: what is watched for values that are not finite in every step. "auto": the loss, and as many outputs and
        gradients as `budget` allows; all of them at a look, and in the steps after a loss that is not finite. "full":
        all outputs and gradients; "forward": all outputs; "off": nothing.
    dead_units: whether to measure them. max_modules: how many modules are watched.

    Raises ValueError for an `every` below 1, a `budget` that is not above 0, and an unknown `sentinel`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        logdir: str | os.PathLike[str],
        *,
        scaler: Any = None,
        scheduler: Any = None,
        every: int = 100,
        budget: float | None = 0.02,
        rank: int | None = None,
        data_parallel: int | None = None,
        start_step: int = 0,
        sentinel: str = "auto",
        dead_units: bool = True,
        max_modules: int = 1000,
    ) -> None:
        if every < 1:
            raise ValueError("every must be at least 1")
        if budget is not None and not budget > 0:
            raise ValueError("budget must be above 0")
        if sentinel not in SENTINELS:
            raise ValueError(f"sentinel must be one of {', '.join(SENTINELS)}")
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self.rank = _rank() if rank is None else rank
        self._optimizers: list[Any] = optimizers
        self._scaler, self._scheduler = scaler, scheduler
        self._every, self._budget, self._mode = every, budget, sentinel
        self._known = parameters(model)
        self._sharded = any(is_sharded(p) for _, p in self._known.values())
        self._watch = Watch(model, outputs=sentinel != "off", dead_units=dead_units, most=max_modules)
        self._updates = Updates(optimizers, self._known)
        self._still = Still(self._known)
        self._sentinel = Sentinel(self._watch.names)
        self._modules = list(dict.fromkeys(name for name, _ in self._known.values()))[:max_modules]
        folder = Path(logdir) if self.rank is None else Path(logdir) / f"rank{self.rank}"
        self._writer = EventWriter(folder, start=start_step)
        self._step = start_step  # the last one that is done
        self._count = 0  # updates that were attempted
        self._skipped = 0
        self._scale: float | None = None
        self._skipped_then = 0  # steps skipped when the scale was last looked at
        self._data_parallel = _data_parallel(model) if data_parallel is None else data_parallel
        self._losses: list[torch.Tensor | float] = []
        self._samples: list[Any] = []
        self._pending: list[_Step] = []
        self._notice = Notice()
        self._lost = False
        self._alert_until = 0  # update
        self._next = every  # update that is looked at next, after the first
        # None: everything is watched in every step, as far as the sentinel goes.
        self._plan = Plan(every, frozenset(), gradients=False) if sentinel == "auto" and budget is not None else None
        self._meter = Meter()
        self._closed = False
        self._updates.attach()
        self._prepare()

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def step(
        self,
        loss: torch.Tensor | float | None = None,
        *,
        step: int | None = None,
        sample_ids: Any = None,
        update: bool = True,
    ) -> None:
        """Tell the probe that an iteration is over: after optimizer.step() and scaler.update().

        loss: of this batch, not multiplied by a loss scale. step: the global step that is done, by default counted from
        start_step. sample_ids: the ids of the batch (numbers or strings, or a tensor of numbers). update: False for an
        iteration that only accumulates gradients; its losses are averaged into that of the update.
        """
        if self._closed:
            return
        begin = time.perf_counter()
        if loss is not None:
            self._losses.append(_copy(loss))
            if self._mode != "off":
                self._notice.add(self._losses[-1])
        if sample_ids is not None:
            self._samples.append(sample_ids)
        if not update:
            self._meter.base(begin, 0.0, last=False)
            return
        self._step = self._step + 1 if step is None else step
        self._count += 1
        took = time.perf_counter()
        self._pending.append(self._take(finished=True))
        took = time.perf_counter() - took
        if self._due(self._count):
            waited, wrote = self._write(self._snapshot())
            self._prepare()
            self._meter.look(begin, waited, wrote, self._watch.spent + self._updates.spent)
            self._replan()
        elif self._notice.lost != self._lost or len(self._pending) >= MOST_PENDING:
            self._lost = self._notice.lost
            self._meter.drain(*self._write(None))
            if self._lost and self._plan is not None:
                self._alert()
            self._prepare()
            self._meter.skip()
        else:
            self._prepare()
            self._meter.base(begin, took, last=True)
        if self._count == PLAN_AT:
            self._replan()
            self._prepare()
        self._watch.spent = self._updates.spent = 0.0

    def close(self) -> None:
        """Write what is left and remove all hooks. Called while an exception is handled, it also looks at its step."""
        if self._closed:
            return
        self._closed = True
        error = sys.exception()
        failed = isinstance(error, Exception)
        try:
            if failed:
                last = self._take(finished=False)
                last.step += 1
                self._pending.append(last)
            self._write(None)
            if self._count and error is None:
                self._writer.numbers({tags.LAST_STEP: float(self._step)}, self._step)
        except RuntimeError:  # a device that failed gives nothing back; the loop's own error must come through
            pass
        finally:
            self._watch.close()
            self._updates.close()
            self._writer.close()

    def _due(self, count: int) -> bool:
        return count == 1 or count == self._next

    def _prepare(self) -> None:
        """Arm the measurements of the next update."""
        count = self._count + 1
        due = self._due(count)
        full = due or self._plan is None or count <= WARM or count <= self._alert_until
        if self._mode == "off":
            self._watch.arm(frozenset(), dead=due)
        else:
            self._watch.arm(None if full or self._plan is None else self._plan.slots, dead=due)
        wanted = self._plan is None or full or self._plan.gradients
        self._updates.gradients = wanted and self._mode in ("auto", "full")
        self._updates.exact = due
        if due:
            self._updates.want()

    def _replan(self) -> None:
        """Fit what is watched between looks, and the time to the next one, to what was measured."""
        every = self._every
        if self._budget is not None and (costs := self._meter.costs(self._watch.costs, self._updates.gradient_cost)):
            found = plan(costs, self._budget, every)
            every = found.every
            if self._plan is not None:
                self._plan = found
        if self._due(self._count):
            self._next = (self._count // every + 1) * every

    def _alert(self) -> None:
        """After a loss that is not finite: ask the weights, and watch what comes next if they are still good."""
        weights = finite_weights(self._known)
        if not self._sharded:
            self._tell(self._sentinel.inspect(weights))
        if all(map(math.isfinite, weights.values())) and not self._sentinel.exhausted:
            self._alert_until = self._count + ALERT

    def _tell(self, incident: Incident | None) -> None:
        if incident is not None:
            self._writer.numbers({tags.NONFINITE + incident.place: 1.0 + incident.unwatched}, incident.step)
            self._writer.flush()

    def _take(self, *, finished: bool) -> _Step:
        samples: Any = self._samples[0] if len(self._samples) == 1 else self._samples or None
        taken = _Step(
            self._step,
            time.time(),
            self._losses,
            self._updates.applied,
            self._watch.take(),
            self._updates.take_gradients(),
            not self._updates.partial,
            self._watch.full,
            self._due(self._count) and finished,
            samples,
            finished,
        )
        self._losses, self._samples, self._updates.applied = [], [], False
        return taken

    def _snapshot(self) -> _Snapshot:
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        return _Snapshot([group["lr"] for group in groups], self._watch.take_dead())

    def _scheduled(self, rates: Sequence[Any]) -> list[float]:
        """What the scheduler says each group's rate is; [] where there is none.

        A function of the step is asked for the steps around this one, for loops set the rate before or after a step.
        """
        if self._scheduler is None:
            return []
        if callable(getattr(self._scheduler, "get_last_lr", None)):
            return [float(rate) for rate in self._scheduler.get_last_lr()]
        near = [self._scheduler(step) for step in (self._step - 1, self._step, self._step + 1) if step >= 0]
        found = []
        for i, rate in enumerate(rates):
            said = [float(n[i] if isinstance(n, (list, tuple)) else n) for n in near]
            found.append(min(said, key=lambda value: abs(value - float(rate or 0.0))))
        return found

    def _write(self, snapshot: _Snapshot | None) -> tuple[float, float]:
        """Bring everything since the last time to the host, and write it.

        Returns seconds: of waiting for the device, and of writing for each step.
        """
        begin = time.perf_counter()
        pending, self._pending = self._pending, []
        losses = [pack({i: v for i, v in enumerate(one.losses) if isinstance(v, torch.Tensor)}) for one in pending]
        arrived = fetch(losses)
        waited = time.perf_counter() - begin
        outputs = fetch([one.outputs for one in pending])
        gradients = fetch([one.gradients for one in pending])
        for n, one in enumerate(pending):
            given = [value for value in one.losses if not isinstance(value, torch.Tensor)]
            loss = _mean([*arrived[n].values(), *given])
            self._write_step(one, loss, outputs[n], gradients[n])
        wrote = (time.perf_counter() - begin - waited) / max(len(pending), 1)
        if snapshot is not None:
            self._write_look(snapshot)
        self._writer.flush()
        return waited, wrote

    def _write_look(self, snapshot: _Snapshot) -> None:
        values: dict[str, float] = {f"{tags.LR}{i}": float(lr) for i, lr in enumerate(snapshot.lrs) if lr is not None}
        values |= {f"{tags.SCHEDULED}{i}": rate for i, rate in enumerate(self._scheduled(snapshot.lrs))}
        measured = self._updates.take_measured()
        for found in ratios(measured, self._known):
            values[tags.RATIO_TOTAL if found.module is None else tags.RATIO + found.module] = found.ratio
        names = list(snapshot.dead)
        shares = pack(dict(enumerate(snapshot.dead.values()))).numbers()
        values |= {tags.DEAD + names[i]: share for i, share in shares.items()}
        values[tags.HELD] = self._updates.held()
        if self._updates.hooked:
            values[tags.STEPS] = float(self._updates.steps)
        lost, all_still = self._still.look(self._updates.keys(), updated=bool(measured))
        values |= {tags.LOST + name: share for name, share in lost.items() if name in self._modules}
        if all_still:
            values[tags.UNCHANGED] = 1.0
        if self._data_parallel is not None:
            values[tags.DATA_PARALLEL] = float(self._data_parallel)
        if self._scaler is not None:
            values |= self._of_scaler()
        self._writer.numbers(values, self._step)

    def _of_scaler(self) -> dict[str, float]:
        scale = float(self._scaler.get_scale())
        if self._scale is not None and 0 < scale < self._scale:
            # A fused optimizer leaves a step out by itself, inside its kernel; the scale is halved each time.
            halvings = round(math.log2(self._scale / scale))
            self._skipped = max(self._skipped, self._skipped_then + halvings)
        self._scale, self._skipped_then = scale, self._skipped
        return {tags.LOSS_SCALE: scale, tags.SKIPPED: float(self._skipped)}

    def _write_step(
        self, one: _Step, loss: float | None, outputs: dict[int, float], gradients: dict[int, float]
    ) -> None:
        squares: dict[str, float] = {}
        for key, norm in gradients.items():
            name = self._known[key][0]
            squares[name] = squares.get(name, 0.0) + norm * norm
        values: dict[str, float] = {}
        if loss is not None:
            values[tags.LOSS] = loss
        if squares and (one.exact or not math.isfinite(sum(squares.values()))):
            values[tags.GRAD_NORM_LOCAL if self._sharded else tags.GRAD_NORM] = sum(squares.values()) ** 0.5
        if one.finished and self._scaler is not None and not one.applied:
            self._skipped += 1
        if one.looked and one.exact:
            values |= {tags.MODULE_GRAD + name: squares[name] ** 0.5 for name in self._modules if name in squares}
        ids = _ids(one.samples) if one.looked or (loss is not None and not math.isfinite(loss)) else []
        if ids:
            values[tags.SAMPLES_COUNT] = float(len(ids))
            values[tags.SAMPLES_HASH] = float(zlib.crc32("\n".join(ids).encode("utf-8", "replace")) & 0xFFFFFF)
        numbers = StepNumbers(
            one.step,
            loss,
            {slot: value for slot, value in outputs.items() if slot != INPUT},
            squares,
            outputs.get(INPUT),
            one.finished,
            one.full,
        )
        incident = self._sentinel.follow(numbers)
        if incident is not None:
            values[tags.NONFINITE + incident.place] = 1.0 + incident.unwatched
            ids = ids or _ids(one.samples)
        self._writer.numbers(values, one.step, one.time)
        if ids:
            self._writer.text(tags.SAMPLE_IDS, ", ".join(ids[:MAX_IDS]), one.step, one.time)


def _copy(loss: torch.Tensor | float) -> torch.Tensor | float:
    """A loss of one element that stays as it is when the loop divides or resets its own in place."""
    if not isinstance(loss, torch.Tensor):
        return float(loss)
    value = local(loss.detach())
    if value.dim() == 0 and value.dtype == torch.float32:
        return value.clone()
    return value.float().mean()


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ids(samples: Any) -> list[str]:
    """Sample ids as text; batches of one update follow each other."""
    if samples is None:
        return []
    if isinstance(samples, (str, int, float)):
        return [str(samples)]
    listed: Callable[[], Any] | None = getattr(samples, "tolist", None)
    if listed is not None:
        return _ids(listed())
    return [text for item in samples for text in _ids(item)]


def _rank() -> int | None:
    """The global rank of this process, by torch.distributed or the launcher's environment; None for a single one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()) if distributed.get_world_size() > 1 else None
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and world.isdigit() and int(world) > 1 else None


def _data_parallel(model: nn.Module) -> int | None:
    """How many ranks DistributedDataParallel keeps in step; None where the model is not in it."""
    for module in (model, getattr(model, "_orig_mod", None)):
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return int(torch.distributed.get_world_size(module.process_group))
    return None
