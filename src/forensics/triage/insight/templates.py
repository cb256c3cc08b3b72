"""Messages as templates: what differs from job to job (numbers, paths, ids, quoted text) taken out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

LONGEST = 500  # characters of a message that are looked at


@cache
def stand_in() -> re.Pattern[str]:
    """What redaction puts in place of names (docs/redaction.md): it stands for something else in every job."""
    from forensics.report.redaction.stand_ins import KINDS

    return re.compile(rf"\b(?:{'|'.join(KINDS)})-\d{{1,9}}\b", re.ASCII)


@cache
def _piece() -> re.Pattern[str]:
    return re.compile(
        r"(?P<text>(?<!\w)(?:'[^'\n]{0,300}'|\"[^\"\n]{0,300}\"|`[^`\n]{0,300}`)(?!\w))"
        r"|(?P<path>[A-Za-z][A-Za-z0-9+.-]{1,9}://[^\s'\"<>)\]},;]+"  # URLs
        r"|(?<![\w./~-])(?:~|\.{1,2})?/[\w.@%+=:~-]+(?:/[\w.@%+=:~-]*)*"  # /a/b, ./a, ~/a
        r"|(?<![\w./~-])[A-Za-z]:\\[^\s'\"<>|]+"  # C:\a
        r"|(?<![\w./~-])[\w.@%+=-]+/(?:[\w.@%+=-]+/)+[\w.@%+=-]*"  # a/b/c
        r"|(?<![\w./~-])[\w.@%+=-]+/[\w@%+=-]+\.[A-Za-z]\w{0,5}(?!\w))"  # a/b.py
        r"|(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
        r"|(?<![\w:])\d{1,3}:\d\d:\d\d(?:[.,]\d+)?(?![\w:]))"
        rf"|(?P<id>\b[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}\b|{stand_in().pattern}"
        r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]))"
        r"|(?P<hex>\b0[xX][0-9a-fA-F]+\b)"
        r"|(?P<word>[^\W\d]\w*)"
        r"|(?P<n>(?:(?<![\w.)\]])[-+])?\d+(?:\.\d+)*(?:[eE][-+]?\d+)?\w*)",
    )


# Words whose digits are part of what they mean.
_KEPT = re.compile(
    r"(?:b?float|bf|fp|tf|q?u?int|complex|[fiu])(?:4|8|16|32|64|128)(?:_?e\dm\d\w{0,4})?|(?:\w+_)?\w*[1-3][dD]\w{0,12}"
    r"|(?:ipv|sm_|utf_?|sha|md|python|py|cu|adam_?)\d{1,4}|v100",
    re.I,
)
_NAMED = re.compile(r"([^\W\d]+)(\d+)")  # rank3, shard_0042
_HASH = re.compile(r"(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}")
_AMOUNT = re.compile(r"([-+]?\d+(?:\.\d+)*)([A-Za-z]{1,4})")  # 12GiB, 30s
_COMMA = re.compile(r" ?[x×] ?|[\])}]?, ?[\[({]?")
_COLON = re.compile(r" ?[:=] ?")
ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message. kind: None for words that stay; else "n", "hex", "path", "id", "time" or "text"."""

    kind: str | None
    text: str
    many: bool = False  # several of a kind in a row, with commas between them


def clean(message: str) -> str:
    """One line without what acts on a terminal, at most LONGEST characters."""
    head = ANSI.sub("", message[: 2 * LONGEST])
    line = head if head.isprintable() else "".join(c if unicodedata.category(c)[0] != "C" else " " for c in head)
    return _SPACES.sub(" ", line).strip()[:LONGEST]


def pieces(message: str) -> tuple[Piece, ...]:
    """A cleaned message in pieces; their texts in a row are the message."""
    found: list[Piece] = []
    for piece in _raw(message):
        if piece.kind is None and found and found[-1].kind is None:
            found[-1] = Piece(None, found[-1].text + piece.text)
        elif piece.text:
            found.append(piece)
    return _lists(found)


def _raw(message: str) -> Iterator[Piece]:
    at = 0
    for m in _piece().finditer(message):
        if m.start() > at:
            yield Piece(None, message[at : m.start()])
        at = m.end()
        text, kind = m[0], m.lastgroup
        if kind == "word":
            yield from _word(text)
        elif kind == "n":
            amount = _AMOUNT.fullmatch(text)
            if amount is not None:
                yield Piece("n", amount[1])
                yield Piece(None, amount[2])
            else:
                yield Piece("hex" if _HASH.fullmatch(text) else "n", text)
        else:
            yield Piece(kind, text)
    if at < len(message):
        yield Piece(None, message[at:])


def _word(text: str) -> Iterator[Piece]:
    if not any(c.isdigit() for c in text) or _KEPT.fullmatch(text):
        yield Piece(None, text)
    elif _HASH.fullmatch(text):
        yield Piece("hex", text)
    elif m := _NAMED.fullmatch(text):
        yield Piece(None, m[1])
        yield Piece("n", m[2])
    else:
        yield Piece("id", text)


def _lists(found: list[Piece]) -> tuple[Piece, ...]:
    """Runs such as `3, 224, 224` or `'a': 1, 'b': 2` as one piece: how many there are differs too."""
    kept: list[Piece] = []
    for piece in found:
        kept.append(piece)
        while (size := _repeated(kept)) is not None:
            run = kept[-size:]
            del kept[-size:]
            kept.append(Piece(run[0].kind, "".join(p.text for p in run), many=True))
    return tuple(kept)


def _repeated(kept: list[Piece]) -> int | None:
    """How many pieces at the end are one list: `1, 2`, or `'a': 1, 'b': 2`; None where they are none."""
    if len(kept) >= 3 and _are(kept[-3:], _COMMA) and kept[-3].kind == kept[-1].kind:
        return 3
    if len(kept) >= 7 and _are(kept[-3:], _COLON) and _are(kept[-5:-2], _COMMA) and _are(kept[-7:-4], _COLON):
        return 7 if kept[-7].kind == kept[-3].kind else None
    if len(kept) >= 5 and kept[-5].many and _are(kept[-3:], _COLON) and _are(kept[-5:-2], _COMMA):
        return 5 if kept[-5].kind == kept[-3].kind else None
    return None


def _are(three: list[Piece], between: re.Pattern[str]) -> bool:
    first, mark, second = three
    return bool(
        first.kind is not None and second.kind is not None and mark.kind is None and between.fullmatch(mark.text)
    )


@lru_cache(maxsize=1 << 14)
def template(message: str) -> str:
    """The message with `<n>`, `<hex>`, `<path>`, `<id>`, `<time>` and `<text>` in place of what differs.

    Lists of them are one. Idempotent on what it returns only where that holds no digits or quotes.
    """
    return "".join(p.text if p.kind is None else f"<{p.kind}>" for p in pieces(clean(message)))


def words(text: str) -> frozenset[str]:
    """The words of a template that stay, lower case, and its placeholders."""
    return frozenset(re.findall(r"<\w+>|[^\W\d_]{2,}", text.lower()))


def similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """Dice's coefficient of two sets of words, 0 to 1."""
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0
