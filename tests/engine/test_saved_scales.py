"""The loss scale in a run's newest checkpoint, where nothing else tells that a scaler collapsed."""

from __future__ import annotations

import pytest
from tests.series import logged

from forensics.engine.saved_scales import told
from forensics.model import COLLECTIVES_COLUMNS, METRICS_COLUMNS, Fact, Observation, RunData, schema


def signs(*scales: tuple[int, str], logs_scale: bool = False) -> list[Observation]:
    import polars as pl

    facts = []
    for step, scale in scales:
        path = f"ckpt/step={step}.ckpt"
        facts += [Fact("checkpoint.step", str(step), path), Fact("checkpoint.scaler.scale", scale, path)]
    metrics = logged({"loss_scale": [65536.0] * 5}) if logs_scale else pl.DataFrame(schema=schema(METRICS_COLUMNS))
    data = RunData(
        path="run",
        sources=(),
        observations=(),
        tracebacks=(),
        writers=(),
        metrics=metrics,
        collectives=pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS)),
        coverage=(),
        facts=tuple(facts),
    )
    return told(data)


@pytest.mark.parametrize("scale", ["1.17549e-38", "0.0"])
def test_a_scale_to_which_only_a_collapse_leads(scale: str) -> None:
    (found,) = signs((500, "65536.0"), (1000, scale))
    assert (found.signature, found.step) == ("grad-scaler-collapse", 1000)
    assert [e.file for e in found.evidence] == ["ckpt/step=1000.ckpt", "ckpt/step=500.ckpt"]


@pytest.mark.parametrize(
    "scales",
    [((500, "65536.0"), (1000, "256.0")), ((500, "1.0"),), ((500, "1e-30"), (1000, "65536.0")), ((500, "nan"),)],
    ids=["calibrated", "DeepSpeed's minimum", "it recovered", "no number"],
)
def test_other_scales_say_nothing(scales: tuple[tuple[int, str], ...]) -> None:
    assert signs(*scales) == []


def test_where_the_run_logs_its_scale_the_curve_counts() -> None:
    assert signs((1000, "1e-38"), logs_scale=True) == []
