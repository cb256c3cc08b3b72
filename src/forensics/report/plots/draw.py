"""Every picture of a run, drawn: for the page as inline SVG, for a folder as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from forensics.report.plots.canvas import captioned, drawing, png, svg
from forensics.report.plots.model import CollectiveProgress, Pictures
from forensics.report.plots.vector import inline
from forensics.report.words import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """One picture that can be drawn. `name` is made by us and is safe as a file name."""

    name: str
    title: str
    make: Callable[[], Figure]
    notes: tuple[str, ...] = ()  # what it leaves out, which a page says beside it
    narrow: Callable[[], Figure] | None = None  # the same for a small screen


@dataclass(frozen=True, slots=True)
class Drawn:
    name: str
    title: str
    svg: str  # an element for a page
    narrow: str = ""  # the one for a small screen, where there is one


def plans(pictures: Pictures) -> list[Plan]:
    """What there is to draw, in the order in which it is shown."""
    found: list[Plan] = []
    if (swimlane := pictures.swimlane) is not None:

        def lanes() -> Figure:
            from forensics.report.plots import draw_lanes

            return draw_lanes.draw(swimlane)

        def narrow() -> Figure:
            from forensics.report.plots import draw_lanes

            return draw_lanes.draw(swimlane, draw_lanes.NARROW)

        title = "Ranks over time" if swimlane.axis == "time" else "Ranks over steps"
        found.append(Plan("ranks", title, lanes, swimlane.notes, narrow))
    for number, panel in enumerate(pictures.panels, 1):

        def metric(panel: object = panel) -> Figure:
            from forensics.report.plots import draw_series

            return draw_series.draw(panel)  # type: ignore[arg-type]

        name = f"metric-{number}-{_slug(panel.name)}"
        found.append(Plan(name, f"{panel.name} over {panel.axis}s", metric, panel.notes))
    for number, progress in enumerate(pictures.sequences, 1):

        def calls(progress: object = progress) -> Figure:
            from forensics.report.plots import draw_sequences

            return draw_sequences.draw(progress)  # type: ignore[arg-type]

        found.append(
            Plan(
                f"collectives-{number}",
                f"Collectives of {progress.heading}",
                calls,
                _missing(progress),
            )
        )
    return found


def _missing(progress: CollectiveProgress) -> tuple[str, ...]:
    return (f"{plural(progress.left_out, 'more group')} of ranks left out.",) if progress.left_out else ()


def _slug(name: str) -> str:
    """A part of a file name: of an arbitrary name what is ASCII and harmless."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in name[:40])
    return kept.strip("-.") or "unnamed"


def for_page(pictures: Pictures) -> tuple[list[Drawn], list[str]]:
    """(pictures, what could not be drawn and why). Raises NoMatplotlib."""
    drawn, problems = list[Drawn](), list[str]()

    def finish(plan: Plan, fig: Figure) -> Drawn:
        narrow = inline(svg(plan.narrow()), f"{plan.name}-narrow", plan.title) if plan.narrow is not None else ""
        return Drawn(plan.name, plan.title, inline(svg(fig), plan.name, plan.title), narrow)

    for _, made, problem in _each(pictures, finish):
        if made is None:
            problems.append(problem)
        else:
            drawn.append(made)
    return drawn, problems


def for_folder(pictures: Pictures) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each picture as PNG and as SVG. Raises NoMatplotlib."""

    def finish(plan: Plan, fig: Figure) -> tuple[bytes, bytes]:
        fig = captioned(fig, plan.notes)
        return png(fig), svg(fig).encode("utf-8", "replace")

    for plan, made, _ in _each(pictures, finish):
        if made is not None:
            yield f"{plan.name}.png", made[0]
            yield f"{plan.name}.svg", made[1]


def _each(pictures: Pictures, finish: Callable[[Plan, Figure], T]) -> Iterator[tuple[Plan, T | None, str]]:
    """Each picture as `finish` makes it of a figure, or None with the reason; one that fails costs itself only."""
    with drawing():
        for plan in plans(pictures):
            made, problem = None, ""
            try:
                made = finish(plan, plan.make())
            except Exception as error:
                problem = f"{plan.title}: not drawn, {type(error).__name__}: {str(error)[:200]}"
            yield plan, made, problem
