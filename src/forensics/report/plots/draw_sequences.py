"""Draws how far each rank came in the collectives of a process group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forensics.report.plots.canvas import COLOURS, figure, placed, words
from forensics.report.plots.model import CollectiveProgress
from forensics.report.words import ranks_phrase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 960.0
_ROW = 22.0
ROWS = 16  # groups of ranks drawn; the table beside the picture has more


def draw(progress: CollectiveProgress) -> Figure:
    """A row for ranks that came equally far, their last sequence id as a place on the axis."""
    entries = progress.reached[:ROWS]
    rows = len(entries) + len(progress.silences)
    fig, ax = figure(WIDTH, 64 + _ROW * rows)
    placed(fig, ax, 190, 250, 22, 40)
    ax.set_title(words(progress.heading, 80), loc="left", fontsize=11, color=COLOURS["fg"], pad=6)
    seqs = [entry.seq for entry in entries]
    low, high = min(seqs, default=0), max(seqs, default=0)
    # Far back is far back: what counts is who stands behind whom at the end.
    floor = low - max(1.0, 0.25 * (high - low))
    ax.set_xlim(floor, high + max(0.5, 0.06 * (high - low)))
    ax.set_ylim(rows, 0)
    ax.grid(axis="x", color=COLOURS["grid"], linewidth=0.8)
    ax.set_axisbelow(True)
    for row, entry in enumerate(entries):
        colour = COLOURS["bad" if entry.behind else "life"]
        ax.barh(row + 0.5, entry.seq - floor, left=floor, height=0.5, color=colour, linewidth=0)
        state = f"#{entry.seq} {entry.call}".rstrip() + f", {entry.state}"
        ax.text(
            1.012, row + 0.5, words(state, 42), transform=ax.get_yaxis_transform(), va="center", fontsize=9.5,
            color=COLOURS["bad" if entry.behind else "fg"],
        )  # fmt: skip
    for row, ranks in enumerate(progress.silences, len(entries)):
        colour = COLOURS["bad" if progress.blames(ranks) else "muted"]
        ax.text(floor, row + 0.5, " nothing recorded", va="center", fontsize=9.5, color=colour)
    of_rows = [*(entry.ranks for entry in entries), *progress.silences]
    labels = [("▶ " if progress.blames(ranks) else "") + words(ranks_phrase(ranks), 28) for ranks in of_rows]
    ax.set_yticks([row + 0.5 for row in range(rows)], labels)
    for text, ranks in zip(ax.get_yticklabels(), of_rows, strict=True):
        if progress.blames(ranks):
            text.set_color(COLOURS["bad"])
            text.set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    _whole_numbers(ax)
    ax.set_xlabel("collective sequence id", color=COLOURS["muted"], fontsize=10, labelpad=2)
    return fig


def _whole_numbers(ax: object) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))  # type: ignore[attr-defined]
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))  # type: ignore[attr-defined]
