"""Gradients that are exactly zero in every histogram: of some parameters, of all, and those that only look so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.series import events, logged, seen

from forensics.engine.pipeline import analyse
from forensics.model import Role

NAME = "gradients-always-zero"
MOVING = [0.1 + n / 100 for n in range(10)]
ZERO = [0.0] * 10


def histograms(**of: Sequence[float]) -> dict[str, list[float]]:
    """Series as the reader of histograms gives them; a parameter's name with "__" for "/"."""
    made: dict[str, list[float]] = {}
    for key, values in of.items():
        name = key.replace("__", "/")
        made[f"{name}/min"] = [-v for v in values]
        made[f"{name}/max"] = list(values)
    return made


@pytest.mark.parametrize("table", [logged, events])
def test_parameters_whose_gradients_are_always_zero_are_named(table) -> None:
    series = histograms(grad__a=MOVING, grad__b=MOVING, grad__c=MOVING, grad__head=ZERO, grad__tail=ZERO)
    found = seen(table(series, every=100))[NAME]
    assert found.note is not None
    assert (
        "grad/head, grad/tail: exactly 0 in all 10 histograms" in found.note
        and "3 other parameters are not" in found.note
    )
    assert (found.captures["module"], found.step) == ("grad/head", 0)


@pytest.mark.parametrize(
    "series",
    [
        histograms(grad__a=MOVING, grad__b=MOVING, grad__head=[*ZERO[:9], 1e-30]),  # it moved once
        histograms(grad__a=MOVING, grad__head=ZERO),  # as many are zero as are not
        histograms(grad__a=ZERO, grad__b=ZERO, grad__head=ZERO),  # read after zero_grad()
        histograms(weights__a=MOVING, weights__b=MOVING, weights__head=ZERO),  # no gradients
        histograms(grad__a=MOVING, grad__b=MOVING, grad__head=ZERO[:7]),  # too few
        histograms(graduation__a=MOVING, graduation__b=MOVING, graduation__head=ZERO),
        {"grad/a/max": MOVING, "grad/b/max": MOVING, "grad/head/max": ZERO},  # maxima alone: all may be negative
    ],
)
def test_other_histograms_tell_of_nothing(series: dict[str, list[float]]) -> None:
    assert NAME not in seen(logged(series))


def test_it_is_context_beside_a_run_that_came_to_its_end(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    summary = pytest.importorskip("tensorboard.compat.proto.summary_pb2")
    histogram = pytest.importorskip("tensorboard.compat.proto.histogram_pb2")
    from tests.parsers.event_files import record  # the framing of an event file

    data = record(tensorboard.Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString())
    for step in range(12):
        values = []
        for name, size in (("fc1", 0.3), ("fc2", 0.2), ("fc3", 0.0)):
            proto = histogram.HistogramProto(
                min=-size,
                max=size,
                num=10,
                sum=0.0,
                sum_squares=size,
                bucket_limit=[size, size + 1],
                bucket=[10.0, 0.0],
            )
            values.append(summary.Summary.Value(tag=f"gradients/{name}.weight", histo=proto))
        event = tensorboard.Event(wall_time=1.7e9 + step, step=step, summary=summary.Summary(value=values))
        data += record(event.SerializeToString())
    (tmp_path / "events.out.tfevents.1700000000.host.1.0").write_bytes(data)
    (tmp_path / "train.log").write_text(
        "".join(f"step {n} loss {2 - n / 20:.3f}\n" for n in range(12)) + "Training complete.\n"
    )
    found = analyse([str(tmp_path)])
    (context,) = [f for f in found.findings if f.name == NAME]
    assert context.role is Role.CONTEXT and "gradients/fc3.weight: exactly 0 in all 12" in context.notes[0]
    assert not found.of_role(Role.ROOT)
