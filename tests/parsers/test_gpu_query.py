"""Records of nvidia-smi's queries: cards that are slowed down, and reasons that are normal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Identity, Kind, Observation, Source
from forensics.parsers.gpu_query import told

HEAD = "timestamp, index, temperature.gpu, clocks.sm [MHz], {reason}, utilization.gpu [%]"
HEAT = "clocks_throttle_reasons.hw_thermal_slowdown"


def record(hot: Sequence[bool], reason: str = HEAT, on: str = "Active", off: str = "Not Active", low: int = 345) -> str:
    """Samples of two cards, ten seconds apart, the second of which is hot at times."""
    rows = [HEAD.format(reason=reason)]
    for i, is_hot in enumerate(hot):
        at = f"2025/07/07 14:{i // 6:02d}:{i % 6}0.000"
        rows += [f"{at}, 0, 68, 1755 MHz, {off}, 100 %"]
        rows += [f"{at}, 1, 92, {low} MHz, {on}, 100 %" if is_hot else f"{at}, 1, 68, 1755 MHz, {off}, 100 %"]
    return "\n".join(rows) + "\n"


def found(folder: Path, text: str) -> list[Observation]:
    file = folder / "gpu.csv"
    file.write_text(text)
    return told([Source("gpu.csv", file, Kind.METRICS, len(text), Identity())])


COOL, HOT = [False] * 20, [True] * 20


@pytest.mark.parametrize(
    ("reason", "on", "off"),
    [
        (HEAT, "Active", "Not Active"),
        ("clocks_event_reasons.sw_thermal_slowdown", "Active", "Not Active"),
        ("clocks_event_reasons.active", "0x0000000000000048", "0x0000000000000004"),
    ],
)
def test_a_card_that_is_slowed_down(tmp_path: Path, reason: str, on: str, off: str) -> None:
    (o,) = found(tmp_path, record([*COOL, *HOT], reason, on, off))
    assert o.captures == {"device": "1"} and o.count == 20 and o.evidence[0].line == 43
    assert o.note is not None and "GPU 1" in o.note and "345 MHz" in o.note
    assert o.time is not None


@pytest.mark.parametrize(
    "text",
    [
        record([*COOL, True, True, *COOL, True]),  # single samples
        record([*COOL, *HOT], low=1740),  # no slower than before
        record([*COOL, *HOT], "clocks_event_reasons.sw_power_cap"),  # a limit as any card has
        record([*COOL, *HOT], "clocks_event_reasons.active", "0x0000000000000004", "0x0000000000000000"),
        record(COOL),
        "step,loss,clocks_event_reasons.x\n1,2.0,Active\n",
    ],
    ids=["single", "as-fast", "power-cap", "power-cap-mask", "cool", "another"],
)
def test_what_is_normal(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


def test_it_explains_a_pace_that_is_lost(tmp_path: Path) -> None:
    (tmp_path / "gpu.csv").write_text(record([*[False] * 60, *[True] * 60]))
    lines = [
        f"2025-07-07 14:{i // 6:02d}:{i % 6}0 step {i * 25} loss {4 - i / 60:.4f} step_time {0.4 if i < 60 else 1.9} s"
        for i in range(120)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    findings = analyse([str(tmp_path)], Options(threads=1)).findings
    assert [f.name for f in findings if f.role.value == "root"] == ["gpu-thermal-throttle"]
    assert [f.name for f in findings if f.role.value == "cascade"] == ["throughput-collapse"]
