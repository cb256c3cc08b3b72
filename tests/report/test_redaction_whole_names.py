"""Names are found as whole words, whatever stands around them and however many there are."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forensics.report.redaction import Redactor
from forensics.report.redaction.whole_names import WholeNames

_PARTS = st.text("aAbBk1-_./ é", min_size=1, max_size=6)


def marked(name: str, text: str, start: int, end: int) -> str:
    return f"<{text[start:end]}>"


def by_pattern(names: Sequence[str], text: str, *, any_case: bool) -> str:
    """What one pattern of all names, the longest first, finds."""
    forms = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = rf"(?<![A-Za-z0-9])(?:{forms})(?![A-Za-z0-9])"
    return re.sub(pattern, lambda match: f"<{match[0]}>", text, flags=re.I if any_case else 0)


@settings(deadline=None)
@given(st.lists(_PARTS, min_size=1, max_size=12), st.lists(_PARTS, max_size=12), st.booleans())
@example(["gpu-1", "gpu-1.x", "gpu"], ["gpu-1.x gpu-1.xy gpu-1. gpu"], True)
@example(["ab-", "ab"], ["ab-c ab-"], True)
@example(["kim"], ["\u212aim KIM \u017fkim"], True)
def test_names_are_found_as_one_pattern_of_all_finds_them(names: list[str], parts: list[str], any_case: bool) -> None:
    text = "".join(part for pair in zip(parts, [*names, *parts], strict=False) for part in pair)
    known = WholeNames(any_case=any_case)
    for name in names:
        known.add(name)
    assert known.replaced(text, marked) == by_pattern(names, text, any_case=any_case)


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=8), st.text(max_size=20))
def test_texts_keep_their_length_in_one_case(names: list[str], text: str) -> None:
    known = WholeNames(any_case=True)
    for name in names:
        known.add(name)
    assert known.replaced(text, lambda name, text, start, end: text[start:end]) == text


def test_a_place_that_is_refused_is_left_to_a_shorter_name() -> None:
    known = WholeNames(any_case=True)
    known.add("ann-lee")
    known.add("ann")
    assert known.replaced("ann-lee", lambda name, *_: None if "-" in name else "x") == "x-lee"


class Counted(dict[str, str]):
    """Counts how often it is asked."""

    asked = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


@pytest.mark.parametrize("shape", ["dgx-{:05d}", "{:05d}-dgx", "n{:05d}"])
def test_the_work_of_a_text_does_not_grow_with_the_names(shape: str) -> None:
    text = "a dgx-00007 lost its peer dgx-00009 at n00003 and 00004-dgx " * 3
    asked = []
    for count in (10, 1000):
        known = WholeNames(any_case=True)
        for number in range(count):
            known.add(shape.format(number))
        known._names = counted = Counted(known._names)
        assert known.replaced(text, marked) != text
        asked.append(counted.asked)
    assert asked[0] == asked[1]


def test_known_names_go_in_paths_and_as_words() -> None:
    redactor = Redactor(["zebra", "gpu-q7x"])
    for kind, name in (("user", "qkowalski"), ("user", "train"), ("project", "Deep-Thing9")):
        redactor.memory.know(kind, name)
    shown = redactor.again(
        "zebra zebra-17 GPU-Q7X qkowalski2 QKowalski train /data/train/x optim/train/ torch/train/y Deep-Thing9 deep-thing9"
    )
    assert shown == (
        "host-1 zebra-17 host-2 qkowalski2 user-1 train /data/user-2/x optim/train/ torch/train/y project-1 deep-thing9"
    )
