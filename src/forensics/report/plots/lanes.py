"""Ranks over time: who lived how long, who erred first, who fell silent, and which collective each reached."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from forensics.model import Diagnosis, Finding, Kind, Observation, Role, RunData
from forensics.rank_ranges import SHORT, rank_ranges
from forensics.report.plots.model import CollectiveProgress, Lane, Sign, Swimlane
from forensics.report.plots.sequences import Progress
from forensics.report.words import plural

SINGLE = 40  # ranks that still get a lane each
BANDS = 32  # lanes that stand for all ranks of a larger run
ODD = 12  # ranks of a larger run that get a lane of their own
NAMED = 4  # causes without a mark that are named
FILES = 8  # lanes of files whose rank is not known
_COLUMNS = 240  # steps in which a band's life is told
# The end is drawn alone where all that happened lies in the last tenth of a run, and no narrower than this (seconds).
_ZOOM, _NARROWEST = 0.1, 20.0
_MOMENT = 1.0  # seconds: what a program writes at its start lies within them
_DAY = 86400.0
# A rank whose steps bore times stands still where for so many of its usual intervals, and seconds, none was recorded.
_STILL_INTERVALS, _STILL_SECONDS = 20.0, 60.0
_TIMED_OUT_INTERVALS = 3.0  # where a collective of the run timed out afterwards: a timeout may be few intervals long


@dataclass(slots=True)
class _Life:
    spans: dict[int | None, tuple[float, float]] = field(default_factory=dict)  # attempt -> from when to when
    signs: dict[str, Sign] = field(default_factory=dict)  # by name of the signature, the first of each
    stepped: float | None = None  # when it recorded the last of its metrics; None if it recorded none
    recorded: tuple[float, float] | None = None  # when the last step was recorded, and the usual interval of them
    run_timed_out: float | None = None  # when a collective of the run last timed out

    @property
    def trains(self) -> bool:
        return self.stepped is not None

    def seen(self, attempt: int | None, *times: float | None) -> None:
        known = [time for time in times if time is not None and math.isfinite(time)]
        known += self.spans.get(attempt, ())
        if known:
            self.spans[attempt] = (min(known), max(known))

    @property
    def first(self) -> float | None:
        return min((low for low, _ in self.spans.values()), default=None)

    @property
    def last(self) -> float | None:
        return max((high for _, high in self.spans.values()), default=None)

    @property
    def still(self) -> tuple[float, float] | None:
        """From the last recorded step to the last sign of life, where that is far longer than steps took."""
        if self.recorded is None or self.last is None:
            return None
        at, usual = self.recorded
        pause = self.last - at
        waited = self.run_timed_out is not None and self.run_timed_out > at
        intervals = _TIMED_OUT_INTERVALS if waited else _STILL_INTERVALS
        return (at, self.last) if pause >= max(intervals * usual, _STILL_SECONDS) else None

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """The spans in order, those that overlap as one."""
        merged: list[tuple[float, float]] = []
        for low, high in sorted(self.spans.values()):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return tuple(merged)

    def sign(self, sign: Sign) -> None:
        known = self.signs.get(sign.name)
        if known is None or sign.x < known.x:
            self.signs[sign.name] = sign

    @property
    def first_sign(self) -> Sign | None:
        return min(self.signs.values(), key=lambda s: (s.x, not s.root), default=None)

    @property
    def drawn(self) -> tuple[Sign, ...]:
        """The first sign, and the first of a root cause, in order."""
        root = min((s for s in self.signs.values() if s.root), key=lambda s: s.x, default=None)
        return tuple(sorted({s for s in (root, self.first_sign) if s is not None}, key=lambda s: (s.x, not s.root)))


def swimlane(data: RunData, diagnosis: Diagnosis, progress: Progress) -> Swimlane | None:
    """The lanes of a run; None where neither times nor steps tell when anything happened."""
    wanted = {f.name: f.role is Role.ROOT for f in reversed(diagnosis.findings) if f.role is not Role.CONTEXT}
    found = [(axis, *_lives(data, diagnosis, wanted, axis)) for axis in ("time", "step")]
    axis, lives, files = max(found, key=lambda f: _told(*f))  # of equals the first: times
    told = _told(axis, lives, files)
    _, lasts, _ = told
    if told == _NOTHING or not (lasts or any(life.signs for life in (*lives.values(), *files.values()))):
        return None
    of_ranks = _of_ranks(data)
    known = of_ranks | {writer.source for writer in data.writers if writer.identity.rank is not None}
    known |= {s.path for s in data.sources if s.identity.node is not None or s.kind is not Kind.LOG}
    by_effect = _mark_by_effect(data, diagnosis, wanted, axis, lives, files)
    picture = _picture(axis, lives, files, diagnosis, progress, of_ranks, known)
    if picture is None or not by_effect:
        return picture
    note = f"No {axis} is known of {_listed(by_effect)}: the mark is where the first effect on a culprit is told."
    return replace(picture, notes=(*picture.notes, note))


def _of_ranks(data: RunData) -> set[str]:
    """The files in which lines of ranks stand, whoever else writes into them."""
    said = {o.evidence[0].file for o in data.observations if o.evidence and o.identity.rank is not None}
    return said | set(data.metrics.drop_nulls("rank")["source"].unique().to_list())


_NOTHING = (False, False, False)


def _told(axis: str, lives: Mapping[int, _Life], files: Mapping[str, _Life]) -> tuple[bool, bool, bool]:
    """How much an axis tells: of ranks, and not only of files; of more than one moment; of anything at all.

    Two lines that a program stamps at its start, one after the other, are one moment, if its steps bear no times.
    """
    of_ranks = any(life.spans for life in lives.values())
    # What a file tells of the run as a whole is no time of a rank, unless it is of its steps.
    everyone = [*lives.values(), *(life for life in files.values() if life.trains or not of_ranks)]
    spans = [span for life in everyone for span in life.spans.values()]
    if not spans:
        return _NOTHING
    moment = _MOMENT if axis == "time" and not any(life.trains for life in everyone) else 0.0
    lasts = max(high for _, high in spans) - min(low for low, _ in spans) > moment
    return of_ranks, lasts, True


def _lives(
    data: RunData, diagnosis: Diagnosis, wanted: Mapping[str, bool], axis: str
) -> tuple[dict[int, _Life], dict[str, _Life]]:
    """rank -> life, and path -> life of files that no rank is known for."""
    lives: dict[int, _Life] = defaultdict(_Life)
    files: dict[str, _Life] = defaultdict(_Life)
    alone = 0 if diagnosis.run.world_size == 1 else None
    kernels = {f.source for f in data.facts if f.name == "kernel_log"}

    def life(rank: int | None, path: str) -> _Life | None:
        rank = rank if rank is not None else alone
        if rank is not None:
            return lives[rank]
        return None if path in kernels else files[path]

    if axis == "time":
        for writer in data.writers:
            # A kernel's log tells of days before the run, whoever is blamed by one of its lines.
            if writer.source not in kernels and (own := life(writer.identity.rank, writer.source)) is not None:
                own.seen(writer.identity.attempt, writer.first_time, writer.last_time)
    if axis == "time":
        timed_out = max((o.time for o in data.observations if _timed_out(o) and o.time is not None), default=None)
        for who, recorded in _last_records(data).items():
            lives[who].recorded, lives[who].run_timed_out = recorded, timed_out
    for rank, source, attempt, first, last in _spans_of_metrics(data, axis):
        if (own := life(rank, source)) is not None:
            own.seen(attempt, first, last)
            own.stepped = max(last, own.stepped if own.stepped is not None else last)
    if axis == "time" and not any(own.spans for own in (*lives.values(), *files.values())):
        # Recorders' clocks are in UTC and logs' often are not: the two are not mixed.
        for rank, first, last in _recorded(data):
            lives[rank].seen(None, first, last)
    roots = {f.name: set(f.ranks or ()) for f in diagnosis.of_role(Role.ROOT)}
    told = {f.name: _seconds(f.time) if axis == "time" else f.step for f in diagnosis.of_role(Role.ROOT)}
    for o in data.observations:
        if not o.evidence:
            continue
        where, blamed = o.evidence[0].file, roots.get(o.signature)
        for rank in _ranks(o, wanted):
            root = blamed is not None and (not blamed or rank is None or rank in blamed)
            at = _place(o, axis, told.get(o.signature) if root else None)
            if at is None or not math.isfinite(at) or (own := life(rank, where)) is None:
                continue
            if o.timed and o.identity.rank == rank:
                own.seen(o.identity.attempt, at)
            if o.signature in wanted:
                own.sign(Sign(float(at), o.signature, root))
    # What was concluded on no rank, from lines of one that has the same sign in a lane of its own.
    owners = {s.path: s.identity.rank for s in data.sources if s.identity.rank is not None}
    for path, life_of_file in list(files.items()):
        owner = lives.get(owners.get(path, -1))
        if owner is not None and not life_of_file.spans and life_of_file.signs.keys() <= owner.signs.keys():
            del files[path]
    return lives, files


def _mark_by_effect(
    data: RunData,
    diagnosis: Diagnosis,
    wanted: Mapping[str, bool],
    axis: str,
    lives: Mapping[int, _Life],
    files: Mapping[str, _Life],
) -> list[str]:
    """Marks each root that has no place on the axis where the first thing that follows from it is told of a culprit.

    It came no later than that. Returns the names of these roots.
    """
    marked = {s.name for life in (*lives.values(), *files.values()) for s in life.signs.values() if s.root}
    placed: dict[str, None] = {}
    for root in diagnosis.of_role(Role.ROOT):
        if root.name in marked or not root.ranks:
            continue
        follows = _following(diagnosis, root)
        for o in data.observations:
            at = _place(o, axis, None)
            other = root.attempt is not None and o.identity.attempt not in (None, root.attempt)
            if o.signature not in follows or other or at is None or not math.isfinite(at):
                continue
            for rank in _ranks(o, wanted):
                if rank in root.ranks and rank in lives:
                    lives[rank].sign(Sign(float(at), root.name, True))
                    placed[root.name] = None
    return list(placed)


def _following(diagnosis: Diagnosis, root: Finding) -> set[str]:
    """The names of what follows from a root, by whatever links."""
    causes = {root.id}
    names: set[str] = set()
    left = [f for f in diagnosis.findings if f.explained_by is not None]
    while found := [f for f in left if f.explained_by in causes]:
        causes |= {f.id for f in found}
        names |= {f.name for f in found}
        left = [f for f in left if f.id not in causes]
    return names


def _timed_out(o: Observation) -> bool:
    """Whether a rank says of itself that a collective timed out."""
    return o.signature == "collective-timeout" and o.identity.rank is not None and not o.culprits


def _place(o: Observation, axis: str, told: float | None) -> float | None:
    """Where a sign lies on an axis. told: where the diagnosis says that this cause showed itself.

    A line without a time has that of the one above it, and came later by minutes where little is stamped.
    """
    if axis == "step":
        return o.step if o.step is not None else told
    if o.timed or told is None or o.time is None:
        return o.time if o.time is not None else told
    return max(o.time, told)


def _seconds(stamp: str | None) -> float | None:
    """A finding's time as the axis counts; None where it has none."""
    try:
        return datetime.fromisoformat(stamp or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _ranks(o: Observation, wanted: Mapping[str, bool]) -> tuple[int | None, ...]:
    """Whose lane shows it: its own rank's; each culprit's, where no rank said it or where that is one of few."""
    culprits, own = o.culprits or (), o.identity.rank
    if o.signature in wanted and culprits and (own is None or (own in culprits and len(culprits) <= ODD)):
        return culprits
    return (own,)


def _spans_of_metrics(data: RunData, axis: str) -> list[tuple[int | None, str, int | None, float, float]]:
    """(rank, source, attempt, first x, last x) of what each writer recorded."""
    import polars as pl

    rows = data.metrics.filter(pl.col(axis).is_not_null())
    if rows.is_empty():
        return []
    spans = rows.group_by("rank", "source", "attempt").agg(
        pl.col(axis).min().alias("low"), pl.col(axis).max().alias("high")
    )
    return [(rank, source, attempt, float(low), float(high)) for rank, source, attempt, low, high in spans.iter_rows()]


def _recorded(data: RunData) -> list[tuple[int, float, float]]:
    """(rank, first time, last time) of the collectives that recorders hold."""
    import polars as pl

    rows = data.collectives.filter(pl.col("time").is_finite() & pl.col("rank").is_not_null())
    spans = rows.group_by("rank").agg(pl.col("time").min().alias("low"), pl.col("time").max().alias("high"))
    return [(rank, low, high) for rank, low, high in spans.iter_rows()]


def _last_records(data: RunData) -> dict[int, tuple[float, float]]:
    """rank -> (when it recorded its last step, the usual seconds between two records)."""
    import polars as pl

    rows = data.metrics.filter(pl.col("time").is_finite() & pl.col("rank").is_not_null())
    if rows.is_empty():
        return {}
    times = rows.select("rank", "time").unique().sort("rank", "time")
    last = times.group_by("rank").agg(pl.col("time").max().alias("last"), pl.col("time").diff().median().alias("usual"))
    return {rank: (at, usual) for rank, at, usual in last.iter_rows() if usual is not None}


def _picture(
    axis: str,
    lives: dict[int, _Life],
    files: dict[str, _Life],
    diagnosis: Diagnosis,
    progress: Progress,
    of_ranks: Collection[str],
    attributed: Collection[str],
) -> Swimlane | None:
    culprits = {rank for f in diagnosis.of_role(Role.ROOT) for rank in f.ranks or ()}
    ranks = sorted({*range(diagnosis.run.world_size or _least_size(lives)), *lives})
    known = [life for life in lives.values() if life.first is not None] or list(files.values())
    if not any(life.trains for life in known):  # which rank trained when is not known, but when the run was
        known += [life for path, life in files.items() if life.trains or path in of_ranks]
    start = min((life.first for life in known if life.first is not None), default=None)
    end = max((life.last for life in known if life.last is not None), default=None)
    if start is None or end is None:
        return None
    everyone = [*lives.values(), *files.values()]
    signs = [s.x for life in everyone for s in life.signs.values()]
    # A launcher tells whole seconds, so that what it tells of can lie before the first stamp of a rank.
    inside = [x for x in signs if start - (_MOMENT if axis == "time" else 0.0) <= x <= end + _DAY]
    start, end = min([start, *inside]), max([end, *inside])
    begin = _begin(start, end, [*inside, *_stops(lives, files, culprits)]) if axis == "time" and inside else start
    notes = [f"The {_spoken(begin - start)} before this are not drawn."] if begin > start else []
    start = begin
    reached = progress.last
    if len(ranks) <= SINGLE:
        lanes = [_single(rank, lives.get(rank, _Life()), rank in culprits, reached.get(rank, "")) for rank in ranks]
    else:
        odd = _odd(ranks, lives, culprits, progress.shown)
        lanes = [_single(rank, lives.get(rank, _Life()), rank in culprits, reached.get(rank, "")) for rank in odd]
        lanes += _bands(ranks, lives, culprits, start, end)
        notes.append(
            "A band stands for several ranks, and its height says how many of them have begun and not yet ended."
        )
        notes.append(
            f"{plural(len(odd), 'rank')} that {'stands' if len(odd) == 1 else 'stand'} out"
            f" {'has a lane of its own' if len(odd) == 1 else 'have a lane of their own'}."
            if odd
            else ""
        )
    marked = {s.name for life in everyone for s in life.signs.values() if s.root and start <= s.x <= end}
    bare = [root for root in diagnosis.of_role(Role.ROOT) if root.name not in marked]
    placed = dict.fromkeys(root.name for root in bare if (root.time if axis == "time" else root.step) is not None)
    if untold := dict.fromkeys(root.name for root in bare if root.name not in placed):
        which = "it" if len(untold) == 1 else "them"
        notes.append(f"Without a mark, for no {axis} is known of {which}: {_listed(untold)}.")
    if placed:
        notes.append(f"On no lane: {_listed(placed)}.")
    apart = _apart(files, lives, attributed)
    within = (path for path in apart if files[path].signs or (files[path].last or -math.inf) >= start)
    told = sorted(within, key=lambda path: (_erred(files[path]), _natural(path)))
    shown = sorted(told[: FILES if len(ranks) <= SINGLE else FILES // 2], key=_natural)
    lanes += [_file(path, files[path], shown) for path in shown]
    if len(told) > len(shown):
        notes.append(f"{plural(len(told) - len(shown), 'more file')} whose rank is not known are left out.")
    return Swimlane(axis, start, end, tuple(lanes), tuple(note for note in notes if note))


def _apart(files: Mapping[str, _Life], lives: Mapping[int, _Life], attributed: Collection[str]) -> list[str]:
    """The files that tell what no lane of a rank does.

    attributed: known to be of a node, to hold lines of ranks, or to be no log. What a launcher or a node writes between
    the lines of its ranks says nothing of how long these lived; only a cause that no rank shows does, or steps where no
    rank records any.
    """
    if not any(life.spans for life in lives.values()):
        return list(files)
    shown = {sign.name for life in lives.values() for sign in life.signs.values() if sign.root}
    trained = any(life.trains for life in lives.values())

    def tells(life: _Life) -> bool:
        return (life.trains and not trained) or any(
            sign.root and sign.name not in shown for sign in life.signs.values()
        )

    return [path for path, life in files.items() if path not in attributed or tells(life)]


def _least_size(ranks: Collection[int]) -> int:
    """How many ranks there are at least: a rank has all lower ones beside it. 0 where most of these left no trace."""
    least = max(ranks, default=-1) + 1
    return least if 2 * len(ranks) >= least else 0


def _listed(names: Collection[str]) -> str:
    first, more = list(names)[:NAMED], len(names) - NAMED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def _begin(start: float, end: float, moments: Sequence[float]) -> float:
    """Where the picture begins: a run of days that dies within a minute is drawn from shortly before that.

    moments: when anything happened that the picture is there to show; none of them is cut off.
    """
    lasted = end - min(moments)
    return start if lasted >= _ZOOM * (end - start) else max(start, end - max(2 * lasted, _NARROWEST))


def _stops(lives: Mapping[int, _Life], files: Mapping[str, _Life], culprits: set[int]) -> list[float]:
    """When a hang began: the last step of the run, and the last step and the last sign of life of each culprit."""
    everyone = [*lives.values(), *files.values()]
    steps = [life.stepped for life in everyone if life.stepped is not None]
    blamed = [lives[rank] for rank in culprits if rank in lives]
    stops = [at for life in blamed for at in (life.stepped, life.last) if at is not None]
    return [*([max(steps)] if steps else []), *stops]


def _spoken(seconds: float) -> str:
    for unit, size in (("days", _DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _single(rank: int, life: _Life, culprit: bool, reached: str) -> Lane:
    return Lane(f"rank {rank}", (rank,), life.parts, life.drawn, still=life.still, culprit=culprit, reached=reached)


def _erred(life: _Life) -> float:
    return life.first_sign.x if life.first_sign is not None else math.inf


def _natural(path: str) -> list[tuple[int, str]]:
    """Orders names as people count: node-9 before node-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", path)]


def _file(path: str, life: _Life, shown: Sequence[str]) -> Lane:
    base = path.rsplit("/", 1)[-1]
    alone = sum(1 for other in shown if other.rsplit("/", 1)[-1] == base) == 1
    label = base if alone else "/".join(path.split("/")[-2:])
    return Lane(label, (), life.parts, life.drawn)


def _odd(
    ranks: Sequence[int], lives: Mapping[int, _Life], culprits: set[int], sequences: Sequence[CollectiveProgress]
) -> list[int]:
    """Ranks worth a lane of their own: culprits, those behind in a collective, the first to err, the first silent."""
    chosen: dict[int, None] = {}
    ends = sorted((life.last, rank) for rank, life in lives.items() if life.last is not None)
    if ends:
        chosen |= dict.fromkeys(rank for last, rank in ends[:2] if last < ends[len(ends) // 2][0])
    errors = sorted((life.first_sign.x, rank) for rank, life in lives.items() if life.first_sign is not None)
    if errors:
        chosen |= dict.fromkeys(rank for x, rank in errors[:2] if x < errors[len(errors) // 2][0])
    for sequence in sequences:
        behind = [rank for entry in sequence.reached if entry.behind for rank in entry.ranks]
        chosen |= dict.fromkeys(behind[: ODD // 2])
    # Of many culprits those that fell silent first; the others that stand out then have a third of the lanes.
    last = dict(zip((rank for _, rank in ends), range(len(ends)), strict=True))
    blamed = sorted(culprits, key=lambda rank: (last.get(rank, -1), rank))
    chosen = dict.fromkeys([rank for rank in chosen if rank not in culprits][: max(ODD // 3, ODD - len(culprits))])
    return sorted(list(dict.fromkeys([*chosen, *blamed]))[:ODD])


def _bands(
    ranks: Sequence[int], lives: Mapping[int, _Life], culprits: set[int], start: float, end: float
) -> list[Lane]:
    """Lanes that stand for consecutive ranks each; a multiple of 8 of them, as many as most nodes have."""
    size = max(8, -(-len(ranks) // BANDS // 8) * 8) if len(ranks) > BANDS * 8 else -(-len(ranks) // BANDS)
    size = max(size, -(-len(ranks) // BANDS))
    size = -(-size // 8) * 8 if len(ranks) >= 64 else size
    lanes = []
    for at in range(0, len(ranks), size):
        members = tuple(ranks[at : at + size])
        own = [lives[rank] for rank in members if rank in lives]
        firsts = [life.first for life in own if life.first is not None]
        lasts = [life.last for life in own if life.last is not None]
        lanes.append(
            Lane(
                f"ranks {rank_ranges(members, limit=SHORT)}",
                members,
                ((min(firsts), max(lasts)),) if firsts else (),
                _signs(own, start, end),
                _alive([(life.first, _stepped(life)) for life in own], len(members), start, end),
                _alive([(life.first, life.last) for life in own], len(members), start, end)
                if any(life.still for life in own)
                else (),
                culprit=bool(culprits & set(members)),
            )
        )
    return lanes


def _signs(own: Iterable[_Life], start: float, end: float) -> tuple[Sign, ...]:
    """The first sign of each rank, those of one moment together."""
    width = (end - start) / _COLUMNS or 1.0
    found: dict[tuple[int, bool], Sign] = {}
    for life in own:
        sign = life.first_sign
        if sign is None:
            continue
        key = (int((sign.x - start) / width), sign.root)
        known = found.get(key)
        found[key] = Sign(known.x, known.name, known.root, known.count + 1) if known else sign
    return tuple(found[key] for key in sorted(found))


def _stepped(life: _Life) -> float | None:
    """Until when a rank is known to have made steps, or to have written anything where nothing tells of steps."""
    return life.still[0] if life.still is not None else life.last


def _alive(
    own: Iterable[tuple[float | None, float | None]], size: int, start: float, end: float
) -> tuple[tuple[float, float], ...]:
    """Steps of the share of a band's `size` ranks that have begun and not yet ended; own: when each did."""
    width = (end - start) / _COLUMNS or 1.0
    change: dict[int, int] = defaultdict(int)
    for first, last in own:
        if first is None or last is None:
            continue
        change[max(0, math.floor((first - start) / width))] += 1
        change[max(0, math.ceil((last - start) / width))] -= 1
    steps, count = [], 0
    for column in sorted(change):
        if change[column]:
            count += change[column]
            steps.append((start + column * width, round(count / size, 3)))
    return tuple(steps)
