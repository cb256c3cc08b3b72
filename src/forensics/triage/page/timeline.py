"""Times of one node or GPU on an axis that all of them share, as marks of a small picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from forensics.report.html.markup import Markup, join, tag

MOST_MARKS = 400  # of a kind and picture
_WIDTH, _HEIGHT = 1000, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Seconds since the epoch."""

    counted: tuple[float, ...] = ()  # incidents
    others: tuple[float, ...] = ()  # what was survived, or belongs to an incident that is counted already
    quiet: tuple[float, ...] = ()  # jobs there without such a cause


def span(lanes: Sequence[Lane]) -> tuple[float, float] | None:
    """From the first to the last mark of all; None where nothing bears a time."""
    times = [t for lane in lanes for t in (*lane.counted, *lane.others, *lane.quiet)]
    if not times:
        return None
    low, high = min(times), max(times)
    return (low, high) if high > low else (low - 43_200, high + 43_200)


def axis(ends: tuple[float, float]) -> Markup:
    """What the marks are, and the ends of the axis."""
    marks = "Marks: tall, an incident; short, survived or the same incident; grey, another job on the node."
    dates = tag("div", tag("span", _date(ends[0])), tag("span", _date(ends[1])), class_="axis")
    return join(tag("p", marks, class_="note"), dates)


def lane(drawn: Lane, ends: tuple[float, float]) -> Markup:
    """A line with a mark at each time."""
    marks = [_line(0, _WIDTH, _HEIGHT - 1, _HEIGHT - 1, "s-grid", 1)]
    for times, height, width, kind in (
        (drawn.quiet, 7, 1.5, "s-quiet"),
        (drawn.others, 12, 2, "s-warn"),
        (drawn.counted, 23, 3, "s-bad"),
    ):
        marks += [_line(x, x, _HEIGHT - height, _HEIGHT, kind, width) for x in _places(times, ends)]
    said = f"{len(drawn.counted)} incidents from {_date(ends[0])} to {_date(ends[1])}"
    return tag(
        "svg",
        *marks,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        class_="timeline",
        role="img",
        aria_label=said,
    )


def _line(x1: int, x2: int, y1: int, y2: int, kind: str, width: float) -> Markup:
    fixed = "non-scaling-stroke"
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke_width=width, class_=kind, vector_effect=fixed)


def _places(times: Sequence[float], ends: tuple[float, float]) -> list[int]:
    low, high = ends
    places = sorted({8 + round((t - low) / (high - low) * (_WIDTH - 16)) for t in times if low <= t <= high})
    return places if len(places) <= MOST_MARKS else places[:: len(places) // MOST_MARKS + 1]


def _date(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""
