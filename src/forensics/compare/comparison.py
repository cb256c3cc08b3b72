"""Two or more runs, compared in everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.compare import calls, curves, messages, order, partings, settings, sides
from forensics.compare.model import Comparison, Parting
from forensics.compare.printed import printed
from forensics.engine.pipeline import Analysis, Options, analyse_with_data
from forensics.signatures.schema import Signature


def compare(
    goods: Sequence[str],
    bad: str,
    options: Options | None = None,
    catalogue: Mapping[str, Signature] | None = None,
    *,
    redact: bool = False,
) -> Comparison:
    """Compare the run under `bad` with those under `goods`; redact: with stand-ins for names, hosts and secrets.

    Raises NothingToRead where one has nothing to analyse.
    """
    found = [analyse_with_data([path], options or Options(), catalogue) for path in (*goods, bad)]
    compared = comparison(found[:-1], found[-1])
    if not redact:
        return compared
    from forensics.compare.redacted import redacted
    from forensics.report.redaction import told

    return redacted(compared, [line for run in found for line in told(run.data)])


def comparison(goods: Sequence[Analysis], bad: Analysis) -> Comparison:
    """Compare analyses. goods: at least one; with several, their spread says what is noise."""
    theirs, mine = tuple(sides.side(g) for g in goods), sides.side(bad)
    stated = [(*a.data.facts, *printed(a.data)) for a in (*goods, bad)]
    differ, expected = settings.changes(stated[:-1], stated[-1])
    parted = _partings(goods, bad)
    only_bad, only_good = messages.signatures([g.diagnosis for g in goods], bad.diagnosis)
    warned = [messages.warnings(a.data.sources) for a in (*goods, bad)]
    ids = [order.orders(a.data.sources) for a in (*goods, bad)]
    # Repeats of a run must have the same order for it to mean anything that another run has another.
    repeats_agree = not any(order.compared(ids[0], other)[0] for other in ids[1:-1])
    order_differs, order_count = order.compared(ids[0], ids[-1]) if repeats_agree else ((), 0)
    same_length = theirs[0].last_step is not None and theirs[0].last_step == mine.last_step
    return Comparison(
        goods=theirs,
        bad=mine,
        shape=sides.shape(theirs, mine),
        settings=differ,
        expected=expected,
        partings=tuple(parted),
        calls=calls.differences(goods[0].data.collectives, bad.data.collectives, same_length=same_length),
        only_bad=only_bad,
        only_good=only_good,
        messages_only_bad=messages.only(warned[-1], warned[:-1], only_bad),
        messages_only_good=messages.only(warned[0], [warned[-1]], only_good),
        order=order_differs,
        order_compared=order_count,
        notes=_notes(goods, bad, parted, repeats_agree),
    )


def _partings(goods: Sequence[Analysis], bad: Analysis) -> list[Parting]:
    runs = [curves.curves(a.data.metrics) for a in (*goods, bad)]
    matched = list(curves.matched(list(runs)))
    ranks: dict[str, int] = {}
    for metric, _, _ in matched:
        ranks[metric] = ranks.get(metric, 0) + 1
    return partings.summarised(
        [partings.part(metric, rank, of_runs[:-1], of_runs[-1], ranks[metric]) for metric, rank, of_runs in matched]
    )


def _notes(goods: Sequence[Analysis], bad: Analysis, parted: Sequence[Parting], repeats_agree: bool) -> tuple[str, ...]:
    notes = []
    if len(goods) == 1 and any(p.differs and p.kind != "not-finite" for p in parted):
        notes.append(
            "The noise is estimated from the two runs themselves. Give more good runs (--good) to have it measured"
            " from the spread among them."
        )
    if any(p.unit == "record" for p in parted):
        notes.append("Metrics that are logged without a step are compared record by record.")
    if goods[0].data.metrics.is_empty() or bad.data.metrics.is_empty():
        notes.append("One of the runs has no metrics that could be read, so nothing is known of where they part.")
    elif not parted:
        notes.append("The runs have no step of any metric in common.")
    if goods[0].data.collectives.is_empty() != bad.data.collectives.is_empty():
        notes.append("Only one of the runs has a record of its collectives.")
    if not repeats_agree:
        notes.append("The good runs were given their data in different orders, so that of the bad one says nothing.")
    return tuple(notes)
