"""What was read of a live run so far, bounded, in the form that the pipeline explains.

Of each file the first and the last signs of each kind are kept, and the number of those between; of metrics the first
and the last rows of each source, and those around the first number that is not finite. So memory does not grow with the
length of a run, and the detectors see what they need: how it began, and how it goes now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from forensics.model import (
    COLLECTIVES_COLUMNS,
    METRICS_COLUMNS,
    Coverage,
    Evidence,
    Fact,
    Observation,
    RunData,
    Source,
    Status,
    Traceback,
    Writer,
    schema,
)
from forensics.parsers import metric_lines
from forensics.watch.logs import Piece

if TYPE_CHECKING:
    import polars as pl

    from forensics.parsers.metric_lines import LogText

FIRST, LAST = 8, 8  # signs of one rule, or tracebacks, that are kept of one process in one file
MOST_SIGNS = 1_000  # of one file
ROWS = 100_000  # of metrics, of all sources together; explaining takes about half a second for so many
FEWEST, MOST = 200, 20_000  # rows that one source may keep, whatever the number of sources
BEGINNING = 8  # the share of a source's rows that are kept of its beginning is one in so many
AROUND = 40  # rows kept on either side of the first number that is not finite
FACTS = 20_000


@dataclass(slots=True)
class _Kept:
    """What one file has said."""

    observations: list[Observation] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    facts: tuple[Fact, ...] = ()
    writer: Writer | None = None


class Memory:
    """What was read so far; `data` gives it as the pipeline wants it."""

    def __init__(self) -> None:
        self._files: dict[str, _Kept] = {}
        self._metrics: pl.DataFrame | None = None
        self._limit = MOST  # rows from which on they are thinned
        self._collectives: dict[str, pl.DataFrame] = {}

    def change(self, gone: Iterable[str], moved: Sequence[tuple[str, str]], forgotten: Iterable[str]) -> None:
        """Drop what is gone, put what moved under its new names, and drop what is to be read anew."""
        self._drop(gone)
        if moved:
            self._move(dict(moved))
        self._drop(forgotten)

    def take(self, pieces: Sequence[Piece]) -> pl.DataFrame:
        """Add what a look has brought. Returns the new rows of metrics."""
        import polars as pl

        for piece in pieces:
            self._add(piece)
        texts = [p for p in pieces if p.text is not None]
        frames = [_lines(texts)] if texts else []
        frames += [p.rows for p in pieces if p.rows is not None]
        replaced = [p.path for p in pieces if p.rows is not None and p.whole]
        if replaced and self._metrics is not None:
            self._metrics = self._metrics.filter(~pl.col("source").is_in(replaced))
        new = [f.select(list(METRICS_COLUMNS)) for f in frames if f.height]
        if not new:
            return pl.DataFrame(schema=schema(METRICS_COLUMNS))
        added = pl.concat(new)
        self._metrics = pl.concat([self._metrics, added]) if self._metrics is not None else added
        if self._metrics.height > self._limit:
            self._metrics = thinned(self._metrics)
            self._limit = max(self._metrics.height * 5 // 4, MOST)
        return added

    @property
    def metrics(self) -> pl.DataFrame:
        import polars as pl

        return self._metrics if self._metrics is not None else pl.DataFrame(schema=schema(METRICS_COLUMNS))

    def data(self, name: str, sources: Sequence[Source]) -> RunData:
        """All of it as a run's data. name: what the run is called."""
        import polars as pl

        paths = sorted(self._files)
        kept = [self._files[p] for p in paths]
        frames = [self._collectives[p] for p in sorted(self._collectives)]
        return RunData(
            path=name,
            sources=tuple(sources),
            observations=tuple(o for k in kept for o in k.observations),
            tracebacks=tuple(t for k in kept for t in k.tracebacks),
            writers=tuple(k.writer for k in kept if k.writer is not None),
            metrics=self.metrics.sort("source", maintain_order=True),
            collectives=pl.concat(frames) if frames else pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS)),
            coverage=tuple(
                Coverage(s.path, s.kind.value, s.size, Status.READ, None, s.identity.rank, s.identity.node)
                for s in sources
            ),
            facts=tuple(dict.fromkeys(f for k in kept for f in k.facts))[:FACTS],
        )

    def _add(self, piece: Piece) -> None:
        kept = self._files.setdefault(piece.path, _Kept())
        before = [o for o in kept.observations if _offset(o.evidence) < piece.since]
        fresh = _unless_known(piece.observations, before)
        kept.observations = _some([*before, *fresh], lambda o: (o.signature, o.rule, o.identity.rank), _with_count)
        earlier = [t for t in kept.tracebacks if (t.header.offset or 0) < piece.since]
        kept.tracebacks = _some([*earlier, *piece.tracebacks], lambda t: (t.exception, t.identity.rank), None)
        kept.facts = tuple(dict.fromkeys((*kept.facts, *piece.facts)))[:FACTS]
        kept.writer = piece.writer or kept.writer
        if piece.collectives is not None:
            self._collectives[piece.path] = piece.collectives.select(list(COLLECTIVES_COLUMNS))

    def _drop(self, paths: Iterable[str]) -> None:
        import polars as pl

        dropped = [p for p in dict.fromkeys(paths) if p in self._files]
        for path in dropped:
            del self._files[path]
            self._collectives.pop(path, None)
        if dropped and self._metrics is not None:
            self._metrics = self._metrics.filter(~pl.col("source").is_in(dropped))

    def _move(self, moved: Mapping[str, str]) -> None:
        import polars as pl

        taken = {new: self._files.pop(old) for old, new in moved.items() if old in self._files}
        for new, kept in taken.items():
            kept.observations = [replace(o, evidence=_renamed(o.evidence, new)) for o in kept.observations]
            kept.tracebacks = [
                replace(t, header=replace(t.header, file=new), final=replace(t.final, file=new))
                for t in kept.tracebacks
            ]
            kept.facts = tuple(replace(f, source=new) for f in kept.facts)
            kept.writer = replace(kept.writer, source=new) if kept.writer is not None else None
        for new, kept in taken.items():
            self._files[new] = _joined(kept, self._files.get(new))
        if self._metrics is not None:
            self._metrics = self._metrics.with_columns(pl.col("source").replace(moved))
        frames = {moved.get(path, path): frame for path, frame in self._collectives.items()}
        self._collectives = {p: f.with_columns(pl.lit(p).alias("source")) for p, f in frames.items()}


def _joined(first: _Kept, second: _Kept | None) -> _Kept:
    """What a file has said before and after a copy of it was found."""
    if second is None:
        return first
    return _Kept(
        [*first.observations, *second.observations],
        [*first.tracebacks, *second.tracebacks],
        (*first.facts, *second.facts),
        second.writer or first.writer,
    )


def _renamed(evidence: tuple[Evidence, ...], path: str) -> tuple[Evidence, ...]:
    return tuple(replace(e, file=path) for e in evidence)


def _offset(evidence: Sequence[Evidence]) -> int:
    """Where a sign stands; those without a place, such as the names of processes, stay."""
    return evidence[0].offset if evidence[0].offset is not None else -1


def _unless_known(fresh: Sequence[Observation], before: Sequence[Observation]) -> list[Observation]:
    placeless = {(o.signature, o.evidence[0].text, o.identity) for o in before if o.evidence[0].offset is None}
    return [
        o
        for o in fresh
        if o.evidence[0].offset is not None or (o.signature, o.evidence[0].text, o.identity) not in placeless
    ]


T = TypeVar("T")


def _some(items: list[T], kind: Callable[[T], object], merge: Callable[[T, Sequence[T]], T] | None) -> list[T]:
    """The first and the last of each kind, in order; `merge` puts those that are left out into the next one kept."""
    if len(items) <= FIRST + LAST:
        return items
    places: dict[object, list[int]] = defaultdict(list)
    for n, item in enumerate(items):
        places[kind(item)].append(n)
    kept = set(range(len(items)))
    changed = list(items)
    for own in places.values():
        out = own[FIRST:-LAST] if len(own) > FIRST + LAST else []
        kept.difference_update(out)
        if out and merge is not None:
            changed[own[-LAST]] = merge(items[own[-LAST]], [items[n] for n in out])
    return [changed[n] for n in sorted(kept)[-MOST_SIGNS:]]


def _with_count(kept: Observation, dropped: Sequence[Observation]) -> Observation:
    return replace(kept, count=kept.count + sum(o.count for o in dropped))


def _lines(pieces: Sequence[Piece]) -> pl.DataFrame:
    """The rows of metrics of new lines, without those of lines that were read before."""
    import polars as pl

    frame = _extract([p.text for p in pieces if p.text is not None])
    if not frame.height:
        return frame
    after = {p.path: p.after for p in pieces}
    known = pl.col("source").replace_strict(after, default=0, return_dtype=pl.Int64)
    return frame.filter(pl.col("line").fill_null(1 << 62) > known)


def _extract(texts: Sequence[LogText]) -> pl.DataFrame:
    """The metrics of logs; where reading them together fails, one by one, without those that fail."""
    import polars as pl

    texts = [t for t in texts if t.windows]
    try:
        return metric_lines.extract(texts)
    except Exception:
        if len(texts) < 2:
            return pl.DataFrame(schema=schema(METRICS_COLUMNS))
        return pl.concat([_extract([text]) for text in texts])


def thinned(metrics: pl.DataFrame, rows: int = ROWS) -> pl.DataFrame:
    """The rows of each source that are kept: `rows` of all together, FEWEST to MOST of one."""
    import polars as pl

    sources = metrics["source"].n_unique()
    share = max(FEWEST, min(MOST, rows // max(sources, 1)))
    if metrics.height <= share:
        return metrics
    at = pl.col("at")
    return (
        metrics.with_columns(at=pl.int_range(pl.len()).over("source"), size=pl.len().cast(pl.Int64).over("source"))
        .with_columns(bad=at.filter(~pl.col("value").is_finite()).min().over("source"))
        .filter(
            (at < share // BEGINNING)
            | (at >= pl.col("size") - (share - share // BEGINNING))
            | ((at - pl.col("bad")).abs() <= AROUND).fill_null(False)
        )
        .drop("at", "size", "bad")
    )
