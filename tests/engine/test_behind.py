"""Which rank ended before the others, by the steps that ranks recorded last and by the calls they made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from forensics.engine.behind import End, apart, behind_in_calls, in_turns, stride_of


def end(step: int, stride: int = 1, whole: bool = True, late: float = 0.0) -> End:
    return End(step, step - stride, stride, 1000.0 + step + late, "train.log", step, whole)


@pytest.mark.parametrize(
    ("ends", "ranks"),
    [
        pytest.param([end(100), end(97), end(100), end(100)], (1,), id="three-steps"),
        pytest.param([end(100, 10), end(80, 10), end(100, 10), end(100, 10)], (1,), id="every-tenth-step"),
        pytest.param([end(100)] * 4 + [end(97), end(95)], (5,), id="the-farthest-of-two"),
        pytest.param([end(100), end(97, 10), end(100), end(100)], None, id="its-next-record-was-not-due"),
        pytest.param([end(100), end(97, whole=False), end(100), end(100)], None, id="held-back-in-a-buffer"),
        pytest.param([end(100), end(97, late=9.0), end(100), end(100)], None, id="its-record-is-the-latest"),
        pytest.param([end(100), replace(end(97), time=None), end(100), end(100)], None, id="no-time"),
        pytest.param([end(100), end(50), end(100), end(100)], None, id="far-behind"),
        pytest.param([end(100), end(97), end(100), end(103)], None, id="one-behind-and-one-ahead"),
        pytest.param([end(100), end(97)], None, id="two"),
    ],
)
def test_behind(ends: Sequence[End], ranks: tuple[int, ...] | None) -> None:
    found = apart(dict(enumerate(ends)))
    assert (found.ranks if found is not None else None) == ranks
    assert found is None or not found.ahead


def test_ahead() -> None:
    found = apart(dict(enumerate([end(100), end(103), end(100), end(100)])))
    assert found is not None
    assert (found.ranks, found.ahead, found.step) == ((1,), True, 103)
    # It records every step, where others record every tenth.
    assert apart(dict(enumerate([end(100, 10), end(103, 1), end(100, 10), end(100, 10)]))) is None


@pytest.mark.parametrize(
    ("groups", "ranks"),
    [
        ([{0: 50, 1: 50, 2: 31, 3: 50}], (2,)),
        ([{0: 50, 1: 50, 2: 49, 3: 50}], (2,)),
        ([{0: 50, 1: 50, 2: 60, 3: 50}], ()),
        ([{0: 50, 1: 40, 2: 40, 3: 50}], ()),
        # Rank 0 waits for rank 3 in the one group, and keeps those of the other waiting.
        ([{0: 50, 1: 50, 2: 50, 3: 47}, {0: 20, 4: 22, 8: 22}], (3,)),
    ],
)
def test_behind_in_calls(groups: Sequence[Mapping[int, int]], ranks: tuple[int, ...]) -> None:
    assert behind_in_calls(groups) == ranks


def test_lines_that_are_written_at_once_stand_between_each_other() -> None:
    assert in_turns([0, 1, 2, 3] * 20)
    assert not in_turns([*[0] * 20, *[1] * 20, *[2] * 20])


def test_the_stride_is_that_of_the_last_records() -> None:
    assert stride_of([1, 2, 3, *range(10, 300, 10)]) == 10
    assert stride_of([7]) == 1
