from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers.prefixes import rank_list
from forensics.rank_ranges import SHORT, rank_ranges


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([5], "5"),
        ([0, 1], "0, 1"),
        ([3, 2, 1, 0, 7, 7], "0-3, 7"),
        (range(1024), "0-1023"),
        (range(0, 100, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, … (50 in all)"),
    ],
)
def test_ranks_are_written_as_ranges(ranks: Iterable[int], text: str) -> None:
    assert rank_ranges(ranks, limit=SHORT) == text


def test_without_a_limit_all_stand_there() -> None:
    assert rank_ranges(range(0, 100, 2)).count(",") == 49


def test_separators() -> None:
    assert rank_ranges([3, 0, 1, 2, 8, 8, 9], separator=",", pair="-") == "0-3,8-9"
    assert rank_ranges([3, 4, 8], pair="-") == "3-4, 8"


@given(st.sets(st.integers(0, 5000)), st.sampled_from([None, "-"]), st.sampled_from([",", ", "]))
def test_what_is_written_can_be_read(ranks: set[int], pair: str | None, separator: str) -> None:
    assert set(rank_list(rank_ranges(ranks, separator=separator, pair=pair))) == ranks


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("76, 13, 45", (13, 45, 76)),
        ("StragglerId(rank=44, node='node-6')", (44,)),
        ("StragglerId(rank=44, node='node-6'), StragglerId(rank=45, node='8')", (44, 45)),
        ("rank=, node=3", ()),
    ],
)
def test_ranks_are_read_from_what_programs_print_of_them(text: str, ranks: tuple[int, ...]) -> None:
    assert rank_list(text) == ranks
