"""DDP's comparison of models: the rank that differs from most is named, whoever prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

LINE = (
    "[rank{a}]: RuntimeError: DDP expects same model across all ranks, but Rank {a} has {n} params, while rank {b} has"
    " inconsistent {m} params.\n"
)


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ([291, 291, 291, 290, 291, 291], (3,)),
        ([290, 291, 291, 291], (0,)),
        ([291, 290, 291, 290, 291], (1, 3)),
        ([290, 291], None),  # nothing tells which of two is right
    ],
)
def test_the_rank_with_another_model(tmp_path: Path, counts: list[int], named: tuple[int, ...] | None) -> None:
    for a, n in enumerate(counts):
        b = next(rank for rank, m in enumerate(counts) if m != n)
        (tmp_path / f"rank{a}.log").write_text(LINE.format(a=a, n=n, b=b, m=counts[b]))
    (root,) = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("model-mismatch-across-ranks", named)
