"""Redaction takes nothing from the reports of real runs that they need: the samples name no one, so little may go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse_with_data
from forensics.report import jsonreport
from forensics.report.redaction import redact_diagnosis, told

ROOT = Path(__file__).parents[2]
RUNS = [
    *(ROOT / "sample_logs" / name / "input" for name in (
        "exception-rank2", "cuda-oom-gpu", "nccl-watchdog-timeout-one-rank", "healthy-nccl-info", "checkpoint-truncated",
        "loss-divergence-lr", "shm-bus-error",
    )),
    *sorted((ROOT / "tests" / "cases" / "failures").glob("*/input"))[::12],
]  # fmt: skip
# What the samples do hold: documentation addresses, made-up hosts, the ids of rendezvous.
_REAL = re.compile(
    r"(?:10|192)\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+|fe80::[\w:]*|ip-10[\d-]*|[0-9a-f]{8}-[0-9a-f-]{27}|[a-z]+[\w.]*-[\w.-]*\d[\w.-]*|\bvm\b|\bn\d+\b"
    r"|\b[a-z]+\d+\b|\bu\b|\borg\b|\bml\b|\bbucket\b|\bmodel\b"
)
_STAND_IN = re.compile(r"\b[a-z]+-\d+\b")


@pytest.mark.parametrize("run", RUNS, ids=[run.parent.name for run in RUNS])
def test_only_names_and_addresses_go(run: Path) -> None:
    found = analyse_with_data([str(run)], Options(threads=1))
    redacted = redact_diagnosis(found.diagnosis, told=told(found.data))
    before, after = (jsonreport.render(d).splitlines() for d in (found.diagnosis, redacted))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old != new:
            # With names and stand-ins taken off, the two lines are the same.
            assert _STAND_IN.sub("", _REAL.sub("", new)) == _STAND_IN.sub("", _REAL.sub("", old))
