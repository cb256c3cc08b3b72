"""The pictures of a page, with what they do not show and the same numbers as text."""

from __future__ import annotations

from forensics.report import words
from forensics.report.html.markup import Markup, join, tag
from forensics.report.plots import draw
from forensics.report.plots.canvas import NoMatplotlib
from forensics.report.plots.model import CollectiveProgress, Panel, Pictures, Swimlane

Section = tuple[str, str, Markup]


def figures(pictures: Pictures) -> list[Section]:
    """Ranks over time, metrics and collectives as sections; where nothing can be drawn, one that says why."""
    problems = list(pictures.notes)
    try:
        drawn, failed = draw.for_page(pictures) if draw.plans(pictures) else ([], [])
        problems += failed
    except NoMatplotlib as error:
        drawn = []
        problems.append(str(error))
    by_name = {d.name: Markup(d.svg) for d in drawn}
    narrow = {d.name: Markup(d.narrow) for d in drawn if d.narrow}
    found: list[Section] = []
    lanes = by_name.get("ranks")
    if lanes is not None and pictures.swimlane is not None:
        title = "Ranks over time" if pictures.swimlane.axis == "time" else "Ranks over steps"
        found.append(("ranks", title, _figure(lanes, _about(pictures.swimlane), narrow.get("ranks"))))
    panels = [_figure(by_name[name], " ".join(panel.notes)) for panel, name in _named(pictures, by_name)]
    if panels:
        found.append(("metrics", "Metrics", tag("div", *panels, class_="panels")))
    groups = [_group(p, by_name.get(f"collectives-{n}")) for n, p in enumerate(pictures.sequences, 1)]
    if groups:
        found.append(("collectives", "Collectives by rank", join(*groups)))
    if problems:
        found.append(("not-drawn", "Not drawn", tag("ul", *(tag("li", problem) for problem in problems))))
    return found


def _named(pictures: Pictures, drawn: dict[str, Markup]) -> list[tuple[Panel, str]]:
    plans = [plan.name for plan in draw.plans(pictures) if plan.name.startswith("metric-")]
    return [(panel, name) for panel, name in zip(pictures.panels, plans, strict=True) if name in drawn]


def _figure(picture: Markup, note: str = "", narrow: Markup | None = None) -> Markup:
    """narrow: what a small screen shows in its place."""
    shown = tag("div", picture, class_="wide broad" if narrow is not None else "wide")
    small = tag("div", narrow, class_="narrow") if narrow is not None else None
    return tag("figure", shown, small, tag("figcaption", note) if note else None, class_="plot")


def _about(swimlane: Swimlane) -> str:
    what = "A bar runs from the first to the last sign of life of a rank."
    return " ".join([what, *swimlane.notes])


def _group(progress: CollectiveProgress, picture: Markup | None) -> Markup:
    """The picture, and a table: which ranks stand where."""
    placed = any(entry.place for entry in progress.reached)
    rows = [
        tag(
            "tr",
            tag("td", _ranks(progress, entry.ranks), class_="ranks"),
            tag("td", f"#{entry.seq}", class_="n"),
            tag("td", tag("code", entry.call) if entry.call else ""),
            tag("td", entry.state, class_="n"),
            tag("td", tag("code", entry.place) if entry.place else "") if placed else None,
            class_=_tone(progress, entry.ranks, entry.behind),
        )
        for entry in progress.reached
    ]
    rows += [
        tag(
            "tr",
            tag("td", _ranks(progress, ranks), class_="ranks"),
            tag("td", "nothing recorded", colspan=3 + placed),
            class_=_tone(progress, ranks, False),
        )
        for ranks in progress.silences
    ]
    heads = ("ranks", "last", "operation", "state", *(("called at",) if placed else ()))
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    table = tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide")
    more = f" {words.plural(progress.left_out, 'more group')} of ranks left out." if progress.left_out else ""
    name = tag("code", progress.group) if progress.group else "that no line names"
    title = tag("h3", "Process group ", name, f" ({progress.told_by})")
    return join(title, _figure(picture) if picture is not None else None, table, tag("p", more) if more else None)


def _ranks(progress: CollectiveProgress, ranks: tuple[int, ...]) -> str:
    return ("▶ " if progress.blames(ranks) else "") + words.ranks_phrase(ranks)


def _tone(progress: CollectiveProgress, ranks: tuple[int, ...], behind: bool) -> str | None:
    return "behind" if behind else "blamed" if progress.blames(ranks) else None
