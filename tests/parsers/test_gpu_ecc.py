"""Counts of memory errors in records of nvidia-smi: those that rise, and those that stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import Identity, Kind, Observation, Role, Source
from forensics.parsers.gpu_ecc import told

HEAD = "timestamp, index, utilization.gpu [%], ecc.errors.uncorrected.volatile.total"


def record(counts: Sequence[object]) -> str:
    """Samples of two cards, the second of which has these counts."""
    rows = [HEAD]
    for i, count in enumerate(counts):
        rows += [f"2026/03/02 10:00:{i:02d}.000, 0, 98 %, 0", f"2026/03/02 10:00:{i:02d}.000, 1, 98 %, {count}"]
    return "\n".join(rows) + "\n"


def found(folder: Path, text: str) -> list[Observation]:
    file = folder / "gpu.csv"
    file.write_text(text)
    return told([Source("gpu.csv", file, Kind.METRICS, len(text), Identity())])


def test_a_count_that_rises(tmp_path: Path) -> None:
    (o,) = found(tmp_path, record([1, 1, 3, 4]))
    assert o.captures == {"device": "1"} and o.evidence[0].line == 7 and o.time is not None
    assert o.note == "GPU 1: ecc.errors.uncorrected.volatile.total rose from 1 to 3"


@pytest.mark.parametrize("counts", [[0] * 4, [7] * 4, ["[N/A]"] * 4, [7, 7, 0, 0], ["[N/A]", 7, 7], []])
def test_counts_that_stand_say_nothing(tmp_path: Path, counts: Sequence[object]) -> None:
    assert found(tmp_path, record(counts)) == []


def test_it_is_the_cause_of_what_a_rank_met(tmp_path: Path) -> None:
    (tmp_path / "gpu.csv").write_text(record([0, 0, 2, 2]))
    (tmp_path / "train.log").write_text(
        "step 10 loss 2.0\n[rank1]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
    )
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("gpu-ecc-uncorrectable", (1,))


@given(st.text(alphabet="0123456789,. \nindex[N/A]-", max_size=200))
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    found(tmp_path_factory.mktemp("ecc"), f"{HEAD}\n{text}")
