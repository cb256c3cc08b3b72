"""Pictures of a run: ranks over time, metrics, collectives. Data first (`pictures`), drawn with matplotlib later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from forensics.model import Diagnosis, RunData
from forensics.report.plots.model import Panel, Pictures
from forensics.report.words import plural

T = TypeVar("T")


def pictures(data: RunData, diagnosis: Diagnosis) -> Pictures:
    """What can be drawn of a run: `data` as `engine.pipeline.analyse_with_data` gives it, with its diagnosis.

    Text is raw (`report.html.material` redacts it). A fault in one picture costs that picture only, and is noted.
    """
    from forensics.report.plots import lanes, sequences, series

    notes: list[str] = []

    def made(what: str, make: Callable[[], T], otherwise: T) -> T:
        try:
            return make()
        except Exception as error:
            notes.append(f"{what}: not drawn, a fault of forensics: {type(error).__name__}: {str(error)[:200]}")
            return otherwise

    none = sequences.Progress((), 0, {})
    empty: tuple[Panel, ...] = ()
    progress = made("Collectives", lambda: sequences.sequences(data, diagnosis), none)
    swimlane = made("Ranks over time", lambda: lanes.swimlane(data, diagnosis, progress), None)
    panels = made("Metrics", lambda: series.panels(data, diagnosis), empty)
    if swimlane is None and not notes:
        notes.append(
            "Ranks over time: nothing that a rank or a launcher wrote bears a time or a step, or all bears one."
        )
    if not panels and not data.metrics.height:
        notes.append("Metrics: the run's files hold none.")
    if progress.left_out:
        notes.append(f"Collectives: {plural(progress.left_out, 'more process group')}, which say less.")
    return Pictures(swimlane, panels, progress.shown, tuple(notes))
