"""Folders below one path that hold runs of their own, and jobs of an array: what one came to says nothing of another.

A diagnosis takes all files for those of one run. Where they are of several, the end of one must not absolve the failure
of another. Which folders look like runs is told by their names (`triage.jobs`); what their files say can take that
back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from forensics.engine.identity import know_world
from forensics.model import Diagnosis, Kind, RunData, Verdict

if TYPE_CHECKING:
    import polars as pl

# Verdicts by which nothing is wrong any more, and those that ask for somebody to look.
_ABSOLVED = (Verdict.HEALTHY, Verdict.RECOVERED)
_TROUBLE = (Verdict.FAILED, Verdict.HUNG, Verdict.DIVERGED, Verdict.SUSPECT, Verdict.INTERRUPTED)


def runs(data: RunData, folders: Sequence[str]) -> tuple[str, ...]:
    """Those of some folders that hold runs of their own by what their files say; () where these are not two.

    folders: relative to the run, with slashes. Left out are folders without a log, those in which nothing trains or
    raises (monitors), those that go on from a checkpoint (attempts of one run lie side by side), and machines of one
    run: those whose ranks begin where another's end, or that bear the name of the host of their logs. There are none
    where a log beside the folders records training.
    """
    sources = set(data.metrics["source"].unique().to_list()) if data.metrics.height else set()
    if any(s.kind is Kind.LOG and "/" not in s.path and s.path in sources for s in data.sources):
        return ()
    parts = {folder: part(data, folder) for folder in folders}
    parts = {folder: held for folder, held in parts.items() if _ran(held)}
    ranks = {folder: seen for folder, held in parts.items() if (seen := know_world(held).ranks)}
    machines = {
        folder
        for one, low in ranks.items()
        for other, high in ranks.items()
        if max(low) + 1 == min(high)
        for folder in (one, other)
    }
    own = tuple(
        folder
        for folder, held in parts.items()
        if folder not in machines
        and {s.identity.node for s in held.sources} != {folder.rpartition("/")[2]}
        and not any(o.signature == "run-resumed" for o in held.observations)
    )
    return own if len(own) > 1 else ()


def _ran(held: RunData) -> bool:
    logs = any(s.kind is Kind.LOG for s in held.sources)
    return logs and bool(held.metrics.height or held.tracebacks)


def part(data: RunData, folder: str, files: Collection[str] = ()) -> RunData:
    """What lies in one folder of a run; or in these files, where any are given."""
    prefix = f"{folder.rstrip('/')}/"

    def inside(path: str) -> bool:
        return path in files if files else path.startswith(prefix)

    def rows(frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        source = pl.col("source")
        own = source.is_in(list(files)) if files else source.str.starts_with(prefix)
        return frame.filter(own) if frame.height else frame

    return replace(
        data,
        sources=tuple(s for s in data.sources if inside(s.path)),
        observations=tuple(o for o in data.observations if o.evidence and inside(o.evidence[0].file)),
        tracebacks=tuple(t for t in data.tracebacks if inside(t.header.file)),
        writers=tuple(w for w in data.writers if inside(w.source)),
        metrics=rows(data.metrics),
        collectives=rows(data.collectives),
        coverage=tuple(c for c in data.coverage if inside(c.path)),
        facts=tuple(f for f in data.facts if inside(f.source)),
        unended=tuple(e for e in data.unended if inside(e.file)),
        last_errors=tuple(e for e in data.last_errors if inside(e.file)),
    )


def not_absolved(
    whole: Diagnosis,
    data: RunData,
    own: Sequence[str],
    explain: Callable[[RunData], Diagnosis],
    files: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> tuple[Diagnosis, str | None]:
    """The diagnosis of several runs taken together, or that of the first that failed where the others absolve it.

    Also the folder (or the job, whose `files` are given) that it is of; None where it is of all.
    """
    if whole.verdict not in _ABSOLVED:
        return whole, None
    return first_in_trouble(whole, data, own, explain, files)


def first_in_trouble(
    whole: Diagnosis,
    data: RunData,
    own: Sequence[str],
    explain: Callable[[RunData], Diagnosis],
    files: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> tuple[Diagnosis, str | None]:
    """The diagnosis of the first of some runs that failed, with its name; `whole` and None where none did."""
    told = [(folder, explain(part(data, folder, files.get(folder, ())))) for folder in own]
    for verdict in _TROUBLE:
        for folder, found in told:
            if found.verdict is verdict:
                return replace(found, coverage=whole.coverage), folder
    return whole, None
