"""Draws one metric over the run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from forensics.report.plots.canvas import COLOURS, SERIES, by_rows, figure, on_sheet, placed, words
from forensics.report.plots.model import Curve, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 470.0, 210.0
_COLUMNS, _ROW = 5, 14.0  # entries of the legend side by side; pixels
_KEY = 2.4  # pixels: how thick the unbroken lines of the legend are
_BROKEN = "NaN or Inf"
_DECADES = 1e8  # shown of an axis that goes through zero
_MARKS = 5
_DIGITS = 8  # characters of a mark that there is room for
_HEAD = 0.13  # of the height of the axes: what the label of an onset takes, which no curve may run through
# How the lines of several culprits, which are all of one colour, are told apart.
_DASHES: tuple[Any, ...] = (
    "-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (11, 2)), (0, (6, 2, 1.5, 2, 1.5, 2)), (0, (2, 4)),
)  # fmt: skip


def draw(panel: Panel) -> Figure:
    """The panel as a figure of 470 by 210 pixels; higher where the legend takes more than one row."""
    named = sum(1 for curve in panel.curves if curve.label) + (panel.spread is not None) + bool(panel.broken)
    further = _ROW * max(0, -(-named // _COLUMNS) - 1)
    fig, ax = figure(WIDTH, HEIGHT + further)
    placed(fig, ax, 62, 14, 44 + further, 38)
    pad = 22 + further
    ax.set_title(words(panel.name, 34), loc="left", fontsize=12, fontweight="bold", color=COLOURS["fg"], pad=pad)
    ax.grid(color=COLOURS["grid"], linewidth=0.8)
    ax.set_axisbelow(True)
    if panel.spread is not None:
        spread = panel.spread
        ax.fill_between(
            spread.xs, spread.low, spread.high, facecolor=COLOURS["band"], linewidth=0, label="least to greatest"
        )
    others = [curve for curve in panel.curves if curve.role != "culprit"]
    for number, curve in enumerate(others):
        _draw_curve(ax, curve, SERIES[number % len(SERIES)], "" if panel.moments else "-")
    for number, curve in enumerate(c for c in panel.curves if c.role == "culprit"):
        _draw_curve(ax, curve, "bad", "" if panel.moments else _DASHES[number % len(_DASHES)])
    _scaled(ax, panel)
    if ax.get_yscale() != "linear":
        ax.set_title("logarithmic scale", loc="right", fontsize=9.5, color=COLOURS["muted"], pad=pad)
    if panel.broken:
        ax.plot(
            panel.broken, [0.035] * len(panel.broken), transform=ax.get_xaxis_transform(), linestyle="", marker="x",
            markersize=4.5, color=COLOURS["bad"], markeredgewidth=1.3, label=_BROKEN, clip_on=False,
        )  # fmt: skip
    _onsets(ax, panel)
    _ticks(ax, panel)
    ax.set_xlabel(panel.axis, color=COLOURS["muted"], fontsize=10, labelpad=2)
    entries = by_rows(_named(ax, panel), _COLUMNS)
    if entries:
        handles, labels = zip(*entries, strict=True)
        legend = ax.legend(
            handles, labels, ncols=_COLUMNS, loc="lower left", bbox_to_anchor=(0, 1.0),
            borderaxespad=0.2, frameon=False, fontsize=9, labelcolor=COLOURS["fg"], handlelength=1.1,
            columnspacing=0.9, handletextpad=0.4,
        )  # fmt: skip
        for line in legend.get_lines():  # a colour is told more easily from a thick line
            if line.get_linestyle() == "-":  # dashes would be drawn out
                line.set_linewidth(_KEY)
    return fig


def _named(ax: Axes, panel: Panel) -> list[tuple[Any, str]]:
    """Entries of the legend, the most telling first: culprits, what is broken, then as they were drawn."""
    first = {words(curve.label, 30) for curve in panel.curves if curve.role == "culprit"}
    entries = zip(*ax.get_legend_handles_labels(), strict=True)
    return sorted(entries, key=lambda entry: 0 if entry[1] in first else 1 if entry[1] == _BROKEN else 2)


def _draw_curve(ax: Axes, curve: Curve, colour: str, dashes: Any) -> None:
    """dashes: as matplotlib takes a line's style; "" draws marks and no line."""
    name = {"all": "line", "middle": "line"}.get(curve.role, colour)
    few = sum(1 for y in curve.ys if y == y) <= 30
    label = words(curve.label, 30)
    ax.plot(
        curve.xs, curve.ys, color=COLOURS[name], linewidth=1.9 if curve.role == "culprit" else 1.4, linestyle=dashes,
        label=label or None, marker="|" if dashes == "" else "o" if few else None,
        markersize=9 if dashes == "" else 2.6, solid_joinstyle="round",
        alpha=0.85 if curve.role == "rank" else 1,
    )  # fmt: skip


def _scaled(ax: Axes, panel: Panel) -> None:
    """Sets the y axis, with few marks on it: matplotlib's own crowd an axis of many decades."""
    known = [y for c in panel.curves for y in c.ys if math.isfinite(y)]
    if panel.spread is not None:
        known += [y for y in (*panel.spread.low, *panel.spread.high) if math.isfinite(y)]
    if not known or panel.moments:
        ax.set_yticks([])
        return
    low, high = min(known), max(known)
    if panel.scale == "linear" or low == high or (low <= 0 and panel.scale != "symlog"):
        if low == high:  # else the axis magnifies the seventh digit
            room = 0.5 * abs(low) or 1.0
            ax.set_ylim(low - room, high + room)
        return
    if panel.scale in ("log", "log2"):
        base = 2.0 if panel.scale == "log2" else 10.0
        ax.set_yscale("log", base=base)
        ax.set_yticks(_powers(low, high, base))
        return
    sizes = sorted(abs(y) for y in known if y)
    small = max(sizes[len(sizes) // 4], sizes[-1] / _DECADES)
    ax.set_yscale("symlog", linthresh=small)
    up, down = (max(high, 0.0), max(-low, 0.0))
    ax.set_yticks(
        [*(-p for p in reversed(_powers(small, down, 10.0)) if p > 2 * small), 0.0]
        + [p for p in _powers(small, up, 10.0) if p > 2 * small]
    )


def _powers(low: float, high: float, base: float) -> list[float]:
    """At most _MARKS powers of `base` from about `low` to about `high`, evenly apart."""
    if high < low:
        return []
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    every = max(1, -(-(last - first) // (_MARKS - 1)))
    return [base**n for n in range(first, last + 1, every) if abs(n * math.log10(base)) < 300]


def _onsets(ax: Axes, panel: Panel) -> None:
    if panel.onsets:
        _headroom(ax)
    low, high = ax.get_xlim()
    for onset in panel.onsets:
        ax.axvline(onset.x, color=COLOURS["bad"], linewidth=1.2, linestyle=(0, (4, 2)), zorder=4)
        left = onset.x > low + 0.6 * (high - low)
        ax.annotate(
            words(onset.label, 24), (onset.x, 1), xycoords=("data", "axes fraction"), xytext=(-4 if left else 4, -3),
            textcoords="offset points", va="top", ha="right" if left else "left", fontsize=9.5, color=COLOURS["bad"],
            bbox=on_sheet(), zorder=5,
        )  # fmt: skip


def _headroom(ax: Axes) -> None:
    """Raises the upper end of the y axis, so that what stands at the top hides no value: a spike is highest there."""
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(ax.get_ylim())
    ax.set_ylim(top=float(scale.inverted().transform([high + (high - low) * _HEAD / (1 - _HEAD)])[0]))


def _ticks(ax: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

    from forensics.engine.detectors.series import number

    def extreme(value: float) -> bool:
        return bool(value) and not 1e-3 <= abs(value) < 1e5

    alike = False  # whether all marks are written with an exponent: 7.5e-5 beside 0.0001 is hard to compare

    def short(value: float, _: object = None) -> str:
        if alike and value:
            digits, _, power = f"{value:.2e}".partition("e")
            return f"{float(digits):g}e{int(power)}"
        if extreme(value):
            return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
        return f"{value:.6g}"

    def whole(value: float, _: object = None) -> str:
        """A loss scale, of which every digit is known: 131072 and not 1.31e5."""
        told = number(value) if value >= 1e-3 else short(value)
        return told if len(told) <= _DIGITS else f"{value:.3g}"

    ax.xaxis.set_major_locator(MaxNLocator(6, integer=panel.axis != "epoch"))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    known = any(math.isfinite(y) for c in panel.curves for y in c.ys)
    known = known and not panel.moments
    if panel.scale == "linear" and known:
        ax.yaxis.set_major_locator(MaxNLocator(5))
        low, high = ax.get_ylim()
        alike = any("e" in short(value) for value in ax.get_yticks() if low <= value <= high)
    else:
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_minor_formatter(NullFormatter())
    if known:
        ax.yaxis.set_major_formatter(FuncFormatter(whole if panel.scale == "log2" else short))
