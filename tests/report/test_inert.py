from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.report.inert import inert, one_line

ANY = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text: ü 漢", "plain text: ü 漢"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]8;;http://x\x07", r"\x1b]8;;http://x\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202eb\u2066c\u200b", r"a\u202eb\u2066c\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff\ud800", "\\xff\ufffd"),
        ("a\r\nb\nc\rd\te", r"a\nb\nc\x0dd    e"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_what_acts_on_a_screen_is_shown(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_newlines_can_stay() -> None:
    assert inert("a\r\nb\n", keep_newlines=True) == "a\nb\n"


@pytest.mark.parametrize(("limit", "shown"), [(3, "abc"), (2, "a…"), (1, "…"), (0, "")])
def test_the_limit_counts_the_ellipsis(limit: int, shown: str) -> None:
    assert inert("abc", limit) == shown


def test_an_escape_is_not_cut_in_half() -> None:
    assert inert("ab\x1bcd", 5) == "ab…"


@given(ANY, st.integers(0, 50), st.booleans())
def test_the_result_is_printable_short_and_stable(text: str, limit: int, keep: bool) -> None:
    shown = inert(text, limit, keep_newlines=keep)
    assert len(shown) <= limit
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    assert keep or "\n" not in shown
    assert inert(shown, limit, keep_newlines=keep) == shown
    shown.encode("utf-8")


@given(ANY)
def test_prose_is_one_line(text: str) -> None:
    assert "\n" not in one_line(text)


def test_a_huge_text_costs_little() -> None:
    assert len(inert("\x1b" * 50_000_000, 100)) <= 100
