"""Figures without pyplot: no window, no global figure list, and no setting of a user's matplotlibrc."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from forensics.report.inert import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

# What a colour means, in the light theme; `report/html/report.css` has the same names for both themes.
COLOURS = {
    "sheet": "#fefefe",  # not quite white, which `vector` takes for the paper
    "fg": "#1d2329",
    "muted": "#5f6b76",
    "grid": "#dde2e7",
    "life": "#9db8d6",
    "band": "#cfdded",
    "quiet": "#b9c0c8",
    "line": "#2166ac",
    "bad": "#c4241a",
    "warn": "#c77700",
    "c1": "#2a7f3c",
    "c2": "#7a4fc0",
    "c3": "#1f8fd0",
    "c4": "#a87900",
    "c5": "#d1479b",
    "c6": "#2b2f36",
    "c7": "#6b4226",
    "c8": "#6f7b87",
}
SERIES = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
_FONT = 11.0
_LETTER, _LINE = 5.4, 14.0  # pixels of the letters and lines of notes
_NOTES = 1000  # characters of them
_SETTINGS: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": _FONT,
    "text.parse_math": False,  # a metric may be called $\frac$
    "text.usetex": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "forensics",
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


class NoMatplotlib(Exception):
    """Plots were asked for where matplotlib cannot be imported; the message says what to do."""


@contextmanager
def drawing() -> Iterator[None]:
    """Drawing with matplotlib's own defaults and ours. Raises NoMatplotlib."""
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # so that a broken installation shows here
    except Exception as error:
        raise NoMatplotlib(
            f"plots need matplotlib, which cannot be imported ({type(error).__name__}: {one_line(str(error), 200)}); "
            "python -m pip install matplotlib"
        ) from None
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(("backend", "interactive"))}
    with matplotlib.rc_context(defaults | _SETTINGS), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        yield


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of `width` by `height` pixels of a report (72 to the inch, so that SVG units are pixels)."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width / 72, height / 72), dpi=72)
    ax = fig.add_subplot()
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(COLOURS["muted"])
    ax.tick_params(colors=COLOURS["muted"], labelcolor=COLOURS["fg"], length=3, labelsize=10)
    return fig, ax


def placed(fig: Figure, ax: Axes, left: float, right: float, top: float, bottom: float) -> None:
    """Puts the axes where `left` ... `bottom` pixels are left free around them."""
    width, height = fig.get_figwidth() * 72, fig.get_figheight() * 72
    ax.set_position((left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height))


def captioned(fig: Figure, notes: Sequence[str]) -> Figure:
    """The figure with notes below what it shows, where no page around it says them; it grows by a line each."""
    width, height = fig.get_figwidth() * 72, fig.get_figheight() * 72
    lines = textwrap.wrap(one_line(" ".join(notes), _NOTES), max(20, int(width / _LETTER)))
    if not lines:
        return fig
    more = _LINE * len(lines) + 4
    boxes = [(ax, ax.get_position()) for ax in fig.axes]
    fig.set_size_inches(width / 72, (height + more) / 72)
    for ax, box in boxes:
        y0, y1 = ((height * y + more) / (height + more) for y in (box.y0, box.y1))
        ax.set_position((box.x0, y0, box.width, y1 - y0))
    text = "\n".join(lines)
    fig.text(8 / width, 5 / (height + more), text, va="bottom", fontsize=9.5, color=COLOURS["muted"], linespacing=1.25)
    return fig


def by_rows(entries: Sequence[T], columns: int) -> list[T]:
    """Ordered so that a legend of several rows, which matplotlib fills by columns, is read row by row."""
    return [entry for column in range(columns) for entry in entries[column::columns]]


def words(text: str, limit: int = 60) -> str:
    """Text of a log as a label: one line, inert, short."""
    return one_line(text, limit)


def on_sheet() -> dict[str, Any]:
    """The `bbox` of a text that is to be read where lines or bars run behind it."""
    return {"boxstyle": "square,pad=0.12", "facecolor": COLOURS["sheet"], "edgecolor": "none"}


def svg(fig: Figure) -> str:
    """The figure as an SVG document with a white background."""
    out = io.StringIO()
    meta = {"Date": None, "Creator": None, "Format": None, "Type": None}
    fig.savefig(out, format="svg", metadata=meta, facecolor="white")
    return out.getvalue()


def png(fig: Figure) -> bytes:
    """The figure as PNG, two pixels for one of the report."""
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return out.getvalue()
