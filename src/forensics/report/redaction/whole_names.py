"""Names wherever they stand as whole words: a look-up for each word of a text, however many names there are."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable

# Where a name can begin: behind no ASCII letter or digit. What begins there is a word, or one character of none.
_WORD = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+|[^A-Za-z0-9])")
_OF_A_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


class _Alike(dict[int, str]):
    """For `str.translate`: each letter in the one form that stands for all its cases, one character for one."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        form = letter.casefold()
        self[code] = form = form if len(form) == 1 else letter.lower()
        return form


_ALIKE = _Alike({ord("İ"): "i", ord("ı"): "i"})  # as patterns without case have it


def _one_case(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_ALIKE)


class WholeNames:
    """Names that are looked for where no ASCII letter or digit is next to them; of several that begin at a place, the
    longest first.

    They are kept by the word with which they begin and by their lengths, which are few.
    """

    def __init__(self, *, any_case: bool) -> None:
        self._form: Callable[[str], str] = _one_case if any_case else str
        self._names: dict[str, str] = {}  # in one case -> as it was added
        self._lengths: dict[str, list[int]] = {}  # first word -> lengths of its names, the longest first

    def add(self, name: str) -> None:
        """Looks for `name` from now on."""
        form = self._form(name)
        first = _WORD.match(form)
        if first is None or form in self._names:
            return
        self._names[form] = name
        lengths = self._lengths.setdefault(first[0], [])
        if len(form) not in lengths:
            insort(lengths, len(form), key=lambda length: -length)

    def may_stand_in(self, text: str) -> bool:
        """Whether a word of `text` is one with which a name begins: where none is, no name stands there."""
        return not self._lengths.keys().isdisjoint(_WORD.findall(self._form(text)))

    def replaced(self, text: str, replace: Callable[[str, str, int, int], str | None]) -> str:
        """`text` with what `replace` makes of each name in it.

        `replace` is given the name as it was added, the text, and where the name starts and ends in it; None leaves
        the place to a shorter name.
        """
        if not self.may_stand_in(text):
            return text
        form = self._form(text)
        parts: list[str] = []
        done = 0
        for word in _WORD.finditer(form):
            start = word.start()
            if start < done:
                continue
            for length in self._lengths.get(word[0], ()):
                end = start + length
                name = self._names.get(form[start:end])
                if name is None or end > len(form) or form[end : end + 1] in _OF_A_WORD:
                    continue
                shown = replace(name, text, start, end)
                if shown is not None:
                    parts += (text[done:start], shown)
                    done = end
                    break
        return "".join((*parts, text[done:])) if parts else text
