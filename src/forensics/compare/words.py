"""What a comparison says, as sentences and tables: shared by terminal and Markdown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from forensics.compare.model import CallDifference, Change, Comparison, Parting, Side, Sign
from forensics.model import Evidence
from forensics.rank_ranges import SHORT, rank_ranges
from forensics.report.words import plural

NAMED = 3  # settings that a headline names
SHOWN = 40  # rows of one section; JSON has all


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and items: (sentence, lines of evidence below it)."""

    title: str
    items: tuple[tuple[str, tuple[str, ...]], ...]
    more: int = 0  # items left out


def headline(c: Comparison) -> str:
    """The whole comparison in one sentence."""
    if not c.differs:
        return "no difference beyond those that any two runs have"
    parts = [p for p in c.partings if p.kind == "parts"]
    said = []
    if parts:
        first = min(parts, key=lambda p: p.step if p.step is not None else 0)
        said.append(f"{first.metric} parts at {first.unit} {first.step}{_whose(first)}")
    elif lost := [p for p in c.partings if p.kind == "not-finite"]:
        said.append(_lost(min(lost, key=lambda p: (p.step if p.step is not None else 0, "loss" not in p.metric))))
    elif apart := [p for p in c.partings if p.kind == "apart-for-a-while"]:
        said.append(f"{apart[0].metric} is apart from {apart[0].unit} {apart[0].step} through {apart[0].until}")
    if c.calls:
        said.append(f"collectives differ from call {c.calls[0].seq} of group {c.calls[0].group} on")
    if c.order:
        said.append(f"the order of data differs from {c.order[0].unit} {c.order[0].position} on")
    if c.settings:
        names = ", ".join(change.name for change in c.settings) if len(c.settings) <= NAMED else ""
        said.append(plural(len(c.settings), "setting") + (f" ({names})" if names else ""))
    counts = (
        (len(c.only_bad), "signature only in the bad run"),
        (len(c.messages_only_bad), "kind of warning only in the bad run"),
    )
    said += [
        f"{n} {what}" if n == 1 else f"{n} {what.replace('signature', 'signatures').replace('kind', 'kinds')}"
        for n, what in counts
        if n
    ]
    return "; ".join(said) or "the runs differ in " + ", ".join(change.name for change in c.shape)


def sections(c: Comparison) -> list[Section]:
    """Everything but the headline, the most telling first."""
    found = [
        _section("Where the metrics part", [_parting(p) for p in c.partings]),
        _section("Settings, versions and environment", [_change(x) for x in c.settings]),
        _section("Collectives", [_call(d) for d in c.calls]),
        _section("Order of data", [_order(d) for d in c.order] or _same_order(c)),
        _section("Sizes and ends", [_change(x) for x in c.shape]),
        _section("Signatures only in the bad run", [_sign(s) for s in c.only_bad]),
        _section("Signatures only in the good run", [_sign(s) for s in c.only_good]),
        _section("Warnings only in the bad run", [_sign(s) for s in c.messages_only_bad]),
        _section("Warnings only in the good run", [_sign(s) for s in c.messages_only_good]),
        _section("Different in any two runs", [_change(x) for x in c.expected]),
        _section("Notes", [(note, ()) for note in c.notes]),
    ]
    return [s for s in found if s.items]


def side_phrase(side: Side) -> str:
    size = f"{plural(side.world_size, 'rank')}" if side.world_size is not None else "world size unknown"
    nodes = f" on {plural(side.nodes, 'node')}" if side.nodes is not None else ""
    steps = f", steps {side.first_step} to {side.last_step}" if side.last_step is not None else ""
    return f"{side.verdict}: {size}{nodes}{steps}"


def _section(title: str, items: list[tuple[str, tuple[str, ...]]]) -> Section:
    return Section(title, tuple(items[:SHOWN]), max(0, len(items) - SHOWN))


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.6g}"


def _rough(value: float | None) -> str:
    """An estimate, of which further digits say nothing."""
    return "?" if value is None else f"{value:.3g}"


def _whose(p: Parting) -> str:
    if not p.ranks or p.compared_ranks < 2:
        return ""
    if len(p.ranks) == p.compared_ranks:
        return " on every rank"
    every = len(p.later) > 1 and len(p.ranks) + len(p.later) == p.compared_ranks
    later = f" (later on {'every other' if every else _ranks(p.later)})" if p.later else ""
    return f" on {_ranks(p.ranks)}{later}"


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {rank_ranges(ranks, limit=SHORT)}"


def _equal(p: Parting) -> str:
    if p.first_unequal is None:
        return f"equal in every digit at all {plural(p.records, p.unit)} that both log"
    if p.equal_through is None:
        return f"not equal from the first common {p.unit} ({p.first_unequal}) on"
    return f"equal in every digit through {p.unit} {p.equal_through}, not at {p.unit} {p.first_unequal}"


def _lost(p: Parting) -> str:
    """What is said of values that are not finite in one run only."""
    in_bad = p.bad_value is not None and not math.isfinite(p.bad_value)
    value = p.bad_value if in_bad else p.good_value
    shown = "NaN" if value is None or math.isnan(value) else "infinite"
    last = "" if p.until == p.step else f", last at {p.unit} {p.until},"
    return f"{p.metric} is {shown} at {p.unit} {p.step}{_whose(p)}{last} in the {'bad' if in_bad else 'good'} run only"


def _on_average(p: Parting) -> str:
    """What is said of a gap that no record shows by itself."""
    return (
        f"{p.metric} parts at about {p.unit} {p.step}{_whose(p)} and stays apart, by less than single records show:"
        f" {_number(p.good_value)} in the good run, {_number(p.bad_value)} in the bad one, on average over"
        f" {plural(p.average_over or 0, 'record')} (noise of one: {_rough(p.noise)}); {_equal(p)}"
    )


def _parting(p: Parting) -> tuple[str, tuple[str, ...]]:
    if p.average_over is not None:
        return _on_average(p), _both(p.good_at, p.bad_at)
    if p.kind in ("parts", "apart-for-a-while"):
        ends = " and stays apart" if p.until is None else f", is apart through {p.unit} {p.until} and comes back"
        noise = f" (noise {_rough(p.noise)}, threshold {_rough(p.threshold)} times that)" if p.noise is not None else ""
        text = (
            f"{p.metric} parts at {p.unit} {p.step}{_whose(p)}{ends}: {_number(p.good_value)} in the good run,"
            f" {_number(p.bad_value)} in the bad one{noise}; {_equal(p)}"
        )
        return text, _both(p.good_at, p.bad_at)
    if p.kind == "not-finite":
        return f"{_lost(p)}; {_equal(p)}", _both(p.good_at, p.bad_at)
    if p.kind == "equal":
        return f"{p.metric}: {_equal(p)}", ()
    if p.kind == "too-short":
        return f"{p.metric}: {plural(p.records, p.unit)} in common, too few to tell noise from a difference", ()
    return f"{p.metric}: apart by no more than noise at {plural(p.records, 'common ' + p.unit)}; {_equal(p)}", ()


def _at(evidence: Evidence) -> str:
    place = evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"
    return f"{place}  {evidence.text}"


def _both(good: Evidence | None, bad: Evidence | None) -> tuple[str, ...]:
    """The places in the two runs, whose files often have the same names."""
    return tuple(f"{run} {_at(e)}" for run, e in (("good:", good), ("bad:", bad)) if e is not None)


def _change(change: Change) -> tuple[str, tuple[str, ...]]:
    def said(value: str | None) -> str:
        return "not stated" if value is None else value

    places = [p for p in (change.good_at, change.bad_at) if p is not None]
    where = f"  [{places[0]}]" if places and len(set(places)) == 1 else f"  [{' | '.join(places)}]" if places else ""
    return f"{change.name}: {said(change.good)} → {said(change.bad)}{where}", ()


_OTHER = {"op": "another operation", "sizes": "other sizes", "number": "another number of calls"}


def _call(d: CallDifference) -> tuple[str, tuple[str, ...]]:
    whose = f" of {_ranks(d.ranks)}" if d.ranks else ""
    other = _OTHER.get(d.what, f"another {d.what}")
    return f"group {d.group}, call {d.seq}{whose}: {other}", (f"good: {d.good}", f"bad:  {d.bad}")


def _order(d: object) -> tuple[str, tuple[str, ...]]:
    from forensics.compare.model import OrderDifference

    assert isinstance(d, OrderDifference)
    whose = "" if d.rank is None else f" of rank {d.rank}"
    return f"data{whose} differ from {d.unit} {d.position} on: {d.good} → {d.bad}", _both(d.good_at, d.bad_at)


def _same_order(c: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    if not c.order_compared:
        return []
    return [(f"the same at all {c.order_compared} positions that both log", ())]


def _sign(sign: Sign) -> tuple[str, tuple[str, ...]]:
    times = f" ×{sign.count}" if sign.count > 1 else ""
    if sign.role == "message":
        return f"{sign.title}{times}", (_at(sign.evidence).partition("  ")[0],) if sign.evidence else ()
    return f"{sign.name} ({sign.role}){times}: {sign.title}", (_at(sign.evidence),) if sign.evidence else ()
