"""Pictures of a run: ranks over time, metrics, collectives. Data first (`pictures`), drawn with matplotlib later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from forensics.model import Diagnosis, RunData
from forensics.report.plots.model import CollectiveProgress, Panel, Pictures

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

    none: tuple[CollectiveProgress, ...] = ()
    empty: tuple[Panel, ...] = ()
    progress = made("Collectives", lambda: sequences.sequences(data, diagnosis.run.world_size), none)
    swimlane = made("Ranks over time", lambda: lanes.swimlane(data, diagnosis, progress), None)
    panels = made("Metrics", lambda: series.panels(data, diagnosis), empty)
    if swimlane is None and not notes:
        notes.append("Ranks over time: no line of this run bears a time or a step.")
    if not panels and not data.metrics.height:
        notes.append("Metrics: the run's files hold none.")
    return Pictures(swimlane, panels, progress, tuple(notes))
