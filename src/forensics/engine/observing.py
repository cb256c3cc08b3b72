"""What no parser of one file can see: shapes of metrics, ranks compared, configurations; and which signs are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine import (
    attempts,
    cleared,
    cut_saves,
    diagnosis,
    duplicated_ranks,
    faults,
    identity,
    lfs_pointers,
    nan_inputs,
    own_sockets,
    powerloss,
    progress,
    raised,
    resumes,
    steps,
    strays,
    survival,
    teardowns,
    trials,
    uncaught,
    worker_crashes,
)
from forensics.engine import kernel as joins
from forensics.engine.placing import Placed
from forensics.model import Observation, RunData, Status
from forensics.signatures.schema import Signature


def observe(placed: Placed, clock: steps.StepClock, catalogue: Mapping[str, Signature]) -> list[Observation]:
    """The observations of a run: those of its files, less what others show to be no sign, and those made of them."""
    from forensics.engine import (
        collectives,
        configs,
        detectors,
        nonfinite_summaries,
        probed,
        samples,
        saved_scales,
        schedules,
        shared_gpus,
        stated_classes,
    )
    from forensics.engine.collectives import models

    data, world = placed.data, placed.world
    found = collectives.still_standing(collectives.told(data.observations), clock)
    found += detectors.run_detectors(catalogue, data.metrics, found)
    found = samples.told(probed.tell(found, data), data.sources)
    found += schedules.rate_stands_still(data.metrics, data.facts)
    found += stated_classes.told(data.metrics, data.facts, found)
    found += nonfinite_summaries.told(data) + saved_scales.told(data)
    everyone = range(world.size) if world.size else None
    found = shared_gpus.told(models.told(collectives.told_apart(found, everyone)))
    found = own_sockets.told(found, data.tracebacks, catalogue, everyone)
    compared = collectives.desync(
        data.collectives, found, everyone, data.tracebacks, world.ranks, data.metrics, world.host_of
    )
    found += collectives.with_last_words(compared, data.sources)
    found += progress.reached_total(data.metrics)
    found += powerloss.told(data)
    found += joins.went_down(data, found, clock, catalogue) if placed.kernels else []
    found = attempts.renumber(identity.in_their_attempts(found, data.sources), placed.launches)
    found = duplicated_ranks.told(found)
    found += uncaught.exceptions(data.tracebacks, found, catalogue)
    found = nan_inputs.told(found, catalogue)
    found = trials.told(found, trials.came_back(data.sources))
    found = worker_crashes.told(faults.told(raised.told(found, data.tracebacks, catalogue)))
    if any(o.signature in catalogue and catalogue[o.signature].verdict == "interrupted" for o in found):
        from forensics.engine import stalls

        found = stalls.told(data, found, clock, catalogue)
    found = lfs_pointers.told(found, data.sources)
    found = cut_saves.told(resumes.settle(found, data.tracebacks, data.facts), data.sources, catalogue)
    found = joins.settle(found, catalogue) if placed.kernels else found
    found += configs.run_checks(catalogue, data, world.size if world.size_is_stated else None)
    found = configs.settle([o for o in found if o.signature in catalogue], catalogue)
    found = teardowns.settle_workers(teardowns.settle(found, clock), data.tracebacks)
    found = cleared.told(teardowns.settle_announced_kills(found), data.sources, clock)
    found = teardowns.settle_exceptions_at_exit(found, data.tracebacks, clock)
    found = strays.told(found, data.tracebacks, data.sources, clock, catalogue)
    return often_enough(found, catalogue)


def counted_errors_left_out(data: RunData, catalogue: Mapping[str, Signature]) -> RunData:
    """The run without last errors that a signature knows, and that show something only where they come often.

    data: with the observations of its files, before `often_enough` drops those that are too few.
    """
    known = {
        (e.file, e.line)
        for o in data.observations
        if o.rule is not None and o.signature in catalogue and catalogue[o.signature].evidence[o.rule].at_least > 1
        for e in o.evidence
    }
    return replace(data, last_errors=tuple(e for e in data.last_errors if (e.file, e.line) not in known))


def texts_left_out(data: RunData, clock: steps.StepClock) -> RunData:
    """The run without the errors with which samples and notes end: no program says them."""
    kept = (e for e in data.last_errors if clock.first_in(e.file) is not None or not survival.named_as_text(e.file))
    return replace(data, last_errors=tuple(kept))


def streams_left_out(data: RunData) -> RunData:
    """The run with coverage that says of which files the metrics were not compared, as there are too many streams."""
    from forensics.engine.detectors.series import MOST_STREAMS, left_out

    if data.metrics.height <= MOST_STREAMS or not (counts := left_out(data.metrics)):
        return data
    rows = []
    for row in data.coverage:
        if row.path in counts:
            said = f"metrics of {counts[row.path]:,} streams not looked at: more than {MOST_STREAMS:,} in the run"
            status = Status.PARTIAL if row.status is Status.READ else row.status
            row = replace(row, status=status, reason=f"{row.reason}; {said}" if row.reason else said)
        rows.append(row)
    return replace(data, coverage=diagnosis.with_status(rows))


def often_enough(found: Sequence[Observation], catalogue: Mapping[str, Signature]) -> list[Observation]:
    """Drop observations of evidence rules that ask for more matches in the run than there are."""
    count = Counter[tuple[str, int | None]]()
    for o in found:
        count[o.signature, o.rule] += o.count
    return [
        o
        for o in found
        if o.rule is None or count[o.signature, o.rule] >= catalogue[o.signature].evidence[o.rule].at_least
    ]
