"""Draws ranks over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from forensics.report.plots.canvas import COLOURS, by_rows, figure, on_sheet, placed, words
from forensics.report.plots.model import Lane, Sign, Swimlane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANE, _BAND = 20.0, 16.0  # pixels
_TOP, _BOTTOM = 30.0, 44.0
_KEY_ROW = 15.0  # pixels of a further row of the key
_ROOMY = 500.0  # pixels of axes in which a name fits on the left of a sign that lies beyond three fifths of them
_BOLD = 6.8  # pixels of a letter of a name beside a sign, at most
_LABELS = 8  # roots that are named beside their sign
_TICKS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600),
    *(43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 91 * 86400, 365 * 86400),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide a picture is (pixels), and what there is room for in it."""

    width: float
    left: float  # of the axes: where the labels of the lanes stand
    right: float
    calls: float  # right of the axes where the last collectives stand there; 0 where they are left out
    label: int  # letters of a lane's label
    ticks: int  # at most
    key: int  # entries of the key side by side

    def aside(self, swimlane: Swimlane) -> float:
        """What is left free on the right."""
        return self.calls if self.calls and any(lane.reached for lane in swimlane.lanes) else self.right


WIDE = Layout(width=960.0, left=132.0, right=24.0, calls=214.0, label=22, ticks=8, key=5)
# Of a telephone, on which a wide one shows a part of itself only. The table of collectives stands below it.
NARROW = Layout(width=400.0, left=104.0, right=12.0, calls=0.0, label=14, ticks=4, key=2)


def draw(swimlane: Swimlane, layout: Layout = WIDE) -> Figure:
    """The swimlane as a figure; a height of 20 pixels a rank, 16 a band of ranks."""
    heights = [_BAND if lane.alive or len(lane.ranks) > 1 else _LANE for lane in swimlane.lanes]
    right = layout.aside(swimlane)
    key = _key(swimlane)
    top = _TOP + _KEY_ROW * (-(-len(key) // layout.key) - 1)
    fig, ax = figure(layout.width, top + _BOTTOM + sum(heights))
    placed(fig, ax, layout.left, right, top, _BOTTOM)
    room = layout.width - layout.left - right
    span = max(swimlane.end - swimlane.start, 1e-3)
    ax.set_xlim(-0.01 * span, 1.01 * span)
    ax.set_ylim(sum(heights), 0)
    _axis(ax, swimlane, span, layout.ticks)
    y, named = 0.0, 0
    ticks: list[float] = []
    for lane, height in zip(swimlane.lanes, heights, strict=True):
        middle = y + height / 2
        ticks.append(middle)
        if lane.alive or len(lane.ranks) > 1:
            _draw_band(ax, lane, swimlane, y, height)
        else:
            _draw_life(ax, lane, swimlane, middle, span)
        for sign in lane.signs:
            _draw_sign(ax, sign, swimlane, middle)
            if sign.root and named < _LABELS and len(lane.ranks) <= 1:
                named += 1
                _name(ax, sign, lane, swimlane, middle, room)
        if lane.reached and layout.calls:
            ax.text(
                1.012, middle, words(lane.reached, 38), transform=ax.get_yaxis_transform(), va="center", fontsize=9.5,
                color=COLOURS["bad" if lane.culprit else "muted"],
            )  # fmt: skip
        y += height
    if right == layout.calls:
        ax.text(1.012, -4, "last collective", transform=ax.get_yaxis_transform(), fontsize=9.5, color=COLOURS["fg"])
    ax.set_yticks(ticks, [_label(lane, layout.label) for lane in swimlane.lanes])
    ax.tick_params(axis="y", length=0)
    for text, lane in zip(ax.get_yticklabels(), swimlane.lanes, strict=True):
        text.set_color(COLOURS["bad" if lane.culprit else "fg"])
        text.set_fontweight("bold" if lane.culprit and len(lane.ranks) == 1 else "normal")
    ax.legend(
        handles=by_rows(key, layout.key), ncols=layout.key, loc="lower left", bbox_to_anchor=(0, 1.0),
        borderaxespad=0.3, frameon=False, fontsize=9.5, labelcolor=COLOURS["fg"], handlelength=1.4, columnspacing=1.4,
    )  # fmt: skip
    return fig


def _label(lane: Lane, limit: int) -> str:
    return ("▶ " if lane.culprit else "") + words(lane.label, limit)


def _axis(ax: Axes, swimlane: Swimlane, span: float, most: int) -> None:
    ax.grid(axis="x", color=COLOURS["grid"], linewidth=0.8)
    ax.set_axisbelow(True)
    if swimlane.axis == "step":
        ax.set_xlabel("step", color=COLOURS["muted"], fontsize=10)
        step = _nice(span / most)
        first = math.ceil(swimlane.start / step) * step
        places = [first + i * step for i in range(int((swimlane.end - first) / step) + 1)]
        ax.set_xticks([x - swimlane.start for x in places], [f"{x:g}" for x in places])
        return
    step = next((t for t in _TICKS if span / t <= most), _TICKS[-1])
    first = math.ceil(swimlane.start / step) * step
    places = [first + i * step for i in range(int((swimlane.end - first) / step) + 1)][:40]
    form = "%Y-%m-%d" if step >= 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    labels = [_clock(x, form) + (f"{x % 1:.2f}"[1:] if step < 1 else "") for x in places]
    ax.set_xticks([x - swimlane.start for x in places], labels)
    days = sorted({_clock(swimlane.start, "%Y-%m-%d"), _clock(swimlane.end, "%Y-%m-%d")})
    ax.set_xlabel(" to ".join(days), color=COLOURS["muted"], fontsize=10)


def _nice(step: float) -> float:
    base = 10.0 ** math.floor(math.log10(max(step, 1e-9)))
    return max(1.0, next(base * m for m in (1, 2, 5, 10) if base * m >= step))


def _clock(time: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{time:.0f}"


def _clipped(low: float, high: float, swimlane: Swimlane) -> tuple[float, float] | None:
    low, high = max(low, swimlane.start), min(high, swimlane.end)
    return (low - swimlane.start, high - low) if high >= low else None


def _draw_life(ax: Axes, lane: Lane, swimlane: Swimlane, middle: float, span: float) -> None:
    end = swimlane.end - swimlane.start
    bars = [part for low, high in lane.spans if (part := _clipped(low, high, swimlane)) is not None]
    ax.broken_barh(
        [(start, max(length, span / 400)) for start, length in bars], (middle - 5, 10), facecolor=COLOURS["life"]
    )
    if lane.still is not None and (part := _clipped(*lane.still, swimlane)) is not None:
        # Over the life's own colour, so that what shows is a paler bar within it.
        ax.broken_barh([part], (middle - 5, 10), facecolor=COLOURS["sheet"])
        ax.broken_barh([part], (middle - 2, 4), facecolor=COLOURS["band"])
    if not lane.spans and not any(_within(sign, swimlane) for sign in lane.signs):
        _unknown(ax, middle, "no time known" if lane.reached else "nothing known")
    if not lane.spans:
        return
    last = max(0.0, max(high for _, high in lane.spans) - swimlane.start)
    if last < end - 0.01 * span:
        ax.plot([last, end], [middle, middle], color=COLOURS["quiet"], linewidth=1.2, linestyle=(0, (2, 2)))


def _unknown(ax: Axes, middle: float, what: str) -> None:
    # In the middle of the axes, and not of the times: those may be one moment, which lies at the labels of the lanes.
    ax.text(
        0.5, middle, what, transform=ax.get_yaxis_transform(), ha="center", va="center", fontsize=9,
        color=COLOURS["muted"],
    )  # fmt: skip


def _silence(lane: Lane, swimlane: Swimlane) -> str:
    """How long nothing more was heard of a culprit, where that is a good part of the picture."""
    if swimlane.axis != "time" or not lane.spans or not lane.culprit:
        return ""
    quiet = swimlane.end - max(high for _, high in lane.spans)
    return f", silent for {_span(quiet)}" if quiet > 0.2 * (swimlane.end - swimlane.start) else ""


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.1f} s"


def _draw_band(ax: Axes, lane: Lane, swimlane: Swimlane, top: float, height: float) -> None:
    """How many of the band's ranks live, as the height of a filled step curve."""
    if not (lane.alive or lane.lingering):
        if not lane.spans and not lane.signs:
            _unknown(ax, top + height / 2, "nothing known")
        return
    base, room = top + height - 2, height - 4
    for steps, colour in ((lane.lingering, "band"), (lane.alive, "life")):
        xs = [min(max(x - swimlane.start, 0.0), swimlane.end - swimlane.start) for x, _ in steps]
        ys = [base - room * share for _, share in steps]
        if len(set(xs)) > 1:
            ax.fill_between(xs, ys, base, step="post", facecolor=COLOURS[colour], linewidth=0)


def _within(sign: Sign, swimlane: Swimlane) -> bool:
    return swimlane.start <= sign.x <= swimlane.end


def _draw_sign(ax: Axes, sign: Sign, swimlane: Swimlane, middle: float) -> None:
    x = sign.x - swimlane.start
    if not _within(sign, swimlane):
        return
    size = 4.5 if sign.count == 1 else min(4.5 + math.log2(sign.count), 9.0)
    common: dict[str, Any] = {"zorder": 5, "clip_on": False, "linestyle": ""}
    if sign.root:
        # The edge parts it from a bar of like lightness.
        ax.plot([x], [middle], marker="D", markersize=size + 2.5, color=COLOURS["bad"],
                markeredgecolor=COLOURS["sheet"], markeredgewidth=0.8, **common)  # fmt: skip
        return
    for colour, width in (("sheet", 3.6), ("warn", 1.6)):
        ax.plot([x], [middle], marker="|", markersize=size + 4, color=COLOURS[colour], markeredgewidth=width, **common)


def _name(ax: Axes, sign: Sign, lane: Lane, swimlane: Swimlane, middle: float, room: float) -> None:
    """Writes what a sign is beside it, and how long silence lasted where there is room. room: pixels of the axes."""
    x, span = sign.x - swimlane.start, swimlane.end - swimlane.start
    if not _within(sign, swimlane):
        return
    left = x > 0.6 * span if room > _ROOMY else x > 0.5 * span
    share = x / span if span else 0.0
    letters = int((room * (share if left else 1 - share) - 14) / _BOLD)
    name, silence = words(sign.name, min(40, max(letters, 8))), _silence(lane, swimlane)
    ax.annotate(
        name + (silence if len(name + silence) <= letters else ""), (x, middle), xytext=(-10 if left else 10, 0),
        textcoords="offset points", va="center", ha="right" if left else "left", fontsize=10, color=COLOURS["bad"],
        fontweight="bold", zorder=6, bbox=_tag(),
    )  # fmt: skip


def _tag() -> dict[str, Any]:
    """The `bbox` of a name on a lane: with an edge, for a bare patch in a bar looks like a silence."""
    return on_sheet() | {"boxstyle": "round,pad=0.15", "edgecolor": COLOURS["bad"], "linewidth": 0.8}


def _key(swimlane: Swimlane) -> list[Any]:
    """What the signs that occur mean, as handles of a legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    roots = {sign.root for lane in swimlane.lanes for sign in lane.signs if _within(sign, swimlane)}
    entries = [
        Patch(facecolor=COLOURS["life"], label="writes"),
        *(
            [Patch(facecolor=COLOURS["band"], label="no more steps")]
            if any(n.still or n.lingering for n in swimlane.lanes)
            else []
        ),
        Line2D([], [], color=COLOURS["quiet"], linestyle=(0, (2, 2)), label="silent"),
    ]
    if True in roots:
        entries.append(Line2D([], [], color=COLOURS["bad"], marker="D", markersize=6, linestyle="", label="root cause"))
    if False in roots:
        entries.append(
            Line2D([], [], color=COLOURS["warn"], marker="|", markersize=9, markeredgewidth=1.6, linestyle="",
                   label="first error that follows from it")
        )  # fmt: skip
    return entries
