"""The line from a path to a diagnosis: discover, parse, match, explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.engine import (
    apart,
    borrowed,
    candidates,
    causes,
    clocks,
    diagnosis,
    ended_runs,
    identity,
    named,
    resubmitted,
    resumes,
    sample_counts,
    steps,
    superseded,
    unresolved,
)
from forensics.engine.matcher import Matcher
from forensics.engine.observing import counted_errors_left_out, observe, streams_left_out, texts_left_out
from forensics.engine.placing import Placed, place
from forensics.engine.reading import Options, read, sniffers
from forensics.model import (
    Diagnosis,
    Kind,
    Role,
    RunData,
)
from forensics.report.fingerprint import fingerprint
from forensics.run import NothingToRead, Run, discover
from forensics.signatures.schema import Signature, load_catalogue

__all__ = ["Analysis", "Options", "analyse", "analyse_with_data", "explain", "explain_with_data", "why_nothing"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """A diagnosis, and what it was made from: ranks placed, clocks set right. Pictures are drawn from both."""

    diagnosis: Diagnosis
    data: RunData
    runs: tuple[str, ...] = ()  # folders or logs that look like runs of their own, or the jobs of an array
    told_of: str | None = None  # the one of these that the diagnosis is of, where it is not of all
    of_array: bool = False  # whether they are jobs of an array
    of_logs: bool = False  # whether they are logs beside each other


def analyse(
    paths: Sequence[str], options: Options = Options(), catalogue: Mapping[str, Signature] | None = None
) -> Diagnosis:
    """Diagnose the run whose traces lie under `paths`. Raises NothingToRead where there is nothing to analyse."""
    return analyse_with_data(paths, options, catalogue).diagnosis


def analyse_with_data(
    paths: Sequence[str], options: Options = Options(), catalogue: Mapping[str, Signature] | None = None
) -> Analysis:
    """`analyse`, with the data of the run. Files that an archive held can be read until the program ends."""
    run = discover(paths, sniffers(), exclude=options.exclude, since=options.since)
    if not any(s.kind is not Kind.EMPTY for s in run.sources):
        raise NothingToRead(why_nothing(run))
    catalogue = catalogue if catalogue is not None else load_catalogue(examples=False)
    data = read(run, Matcher(catalogue, use_cache=options.cache), options)
    found = explain_with_data(data, catalogue)
    if runs := tuple(run.jobs) or (apart.runs(named.confirmed(data), options.folders) if options.folders else ()):
        told, name = apart.not_absolved(found.diagnosis, data, runs, lambda part: explain(part, catalogue), run.jobs)
        found = replace(found, diagnosis=told, runs=runs, told_of=name, of_array=bool(run.jobs))
    elif logs := resubmitted.runs(data):
        told, name = apart.first_in_trouble(found.diagnosis, data, [*logs], lambda part: explain(part, catalogue), logs)
        found = replace(found, diagnosis=told, runs=tuple(logs), told_of=name, of_logs=True)
    if options.sources:
        from forensics.engine import hints

        return replace(found, diagnosis=hints.with_sources(found.diagnosis, data, options.sources, catalogue))
    return found


def why_nothing(run: Run) -> str:
    """Why a run without any source cannot be analysed, in one line."""
    empty = sum(1 for s in run.sources if s.kind is Kind.EMPTY)
    reasons = Counter(c.reason for c in run.skipped if c.reason)  # an archive has none beside those of what it held
    parts = ([f"{empty} empty"] if empty else []) + [f"{n} × {reason}" for reason, n in reasons.most_common(4)]
    return f"{run.path}: nothing to analyse" + (f" ({'; '.join(parts)})" if parts else " (no files)")


def explain(data: RunData, catalogue: Mapping[str, Signature]) -> Diagnosis:
    """From parsed data to the diagnosis: identities, detectors, comparison of ranks, causes, verdict."""
    return explain_with_data(data, catalogue).diagnosis


def explain_with_data(data: RunData, catalogue: Mapping[str, Signature]) -> Analysis:
    """`explain`, with the data as it is once ranks are placed, clocks set right and all observations made."""
    placed = place(data, catalogue)
    samples = sample_counts.counting_samples(placed.data.metrics, placed.data.sources)
    clock = steps.step_clock(placed.data.metrics, {s.path: s.identity.attempt for s in placed.data.sources}, samples)
    clock = ended_runs.knowing_ends(clock, placed.data)
    data = counted_errors_left_out(placed.data, catalogue)
    placed = replace(placed, data=texts_left_out(streams_left_out(data), clock))
    found = sample_counts.in_samples(observe(placed, clock, catalogue), samples)
    return _weigh(replace(placed, data=replace(placed.data, observations=tuple(found))), clock, catalogue)


def _weigh(placed: Placed, clock: steps.StepClock, catalogue: Mapping[str, Signature]) -> Analysis:
    """From observations to causes, effects and the verdict."""
    from forensics.engine import configs, probed

    data, offsets, times = placed.data, placed.offsets, placed.times
    world = identity.know_world(data)
    rank_of = {s.path: world.global_rank(s.identity) for s in data.sources}
    data = replace(data, coverage=tuple(replace(c, rank=rank_of.get(c.path, c.rank)) for c in data.coverage))
    suspects = candidates.grouped(data.observations, catalogue, world)
    unresolved.name_hosts(suspects, data.facts)
    resumes.set_aside(suspects)
    superseded.set_aside(suspects, data.metrics)
    hinted, others = configs.divide(suspects)
    linked = causes.explain(others, catalogue, clock, world, times)
    linked += configs.weigh(hinted, linked)
    resumes.interrupted(suspects, linked, clock.reached)
    borrowed.borrow_ranks(linked, world, data.sources)
    clocks.doubt(linked, offsets, placed.nodes, times)
    clocks.admit(linked, offsets, placed.nodes)
    made = diagnosis.diagnose(data, suspects, linked, world, clock, catalogue)
    if not made.of_role(Role.ROOT):
        made = replace(made, missing_evidence=(*made.missing_evidence, *probed.not_judged(data)))
    return Analysis(replace(made, fingerprint=fingerprint(made, data.tracebacks)), data)
