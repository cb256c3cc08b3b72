"""Letters that look like others: full-width and invisible ones, and Cyrillic and Greek that pass for Latin.

A rule that looks for `password=` does not find it where one letter is another alphabet's. So a text is also read as a
reader sees it, and what that reading finds is taken out of the text as it was written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

# Zero-width and direction marks, soft hyphens, variation selectors: nothing is seen of them (Default_Ignorable).
_UNSEEN = frozenset("\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff").union(
    map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xFE00, 0xFE10)))
)
# Of Unicode's confusables.txt (UTS 39) the letters that look like one ASCII letter in common fonts.
_ALIKE = dict(
    zip(
        "аеорсухіјѕһԁԛԝӏкАВЕЗКМНОРСТУХІЈЅԌαοερνικτχυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aeopcyxijshdqwlkABE3KMHOPCTYXIJSGaoepviktxuABEZHIKMNOPTYX",
        strict=True,
    )
)
_MOST = 20_000  # characters of a text that is compared letter by letter; a longer one is shown as it was read


@lru_cache(maxsize=4096)
def _plain(letter: str) -> str:
    if letter in _UNSEEN:
        return ""
    if letter in _ALIKE:
        return _ALIKE[letter]
    same = unicodedata.normalize("NFKC", letter)
    return same if same.isascii() else letter


def _read(text: str) -> tuple[str, list[int]]:
    """A text as it is seen, and for each of its characters, and its end, where that stands in `text`."""
    letters: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(text):
        seen = letter if letter.isascii() else _plain(letter)
        letters.append(seen)
        places.extend([place] * len(seen))
    return "".join(letters), [*places, len(text)]


def as_seen(text: str, change: Callable[[str], str]) -> str:
    """`change` of a text, and also of what it looks like: where only that is changed, the rest stays as written."""
    text = change(text)
    if text.isascii():
        return text
    seen, places = _read(text)
    if seen == text:
        return text
    changed = change(seen)
    if changed == seen:
        return text
    if len(seen) > _MOST:
        return changed
    from difflib import SequenceMatcher

    parts: list[str] = []
    for what, first, last, start, end in SequenceMatcher(None, seen, changed, autojunk=False).get_opcodes():
        parts.append(text[places[first] : places[last]] if what == "equal" else changed[start:end])
    return "".join(parts)
