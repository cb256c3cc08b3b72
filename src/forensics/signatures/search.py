"""Signatures by words: what `forensics explain` falls back on where nothing is called as it was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forensics.signatures.index import load_index
from forensics.signatures.schema import Signature

SLUG, ALIAS, TITLE, WHY = 4, 4, 2, 1  # what a word is worth by where it stands
MOST = 12  # entries that are listed
_STOP = frozenset("a an and at by for from in is of on or that the this to was with".split())
_WORD = re.compile(r"[a-z0-9]+")
_PREFIX = 4  # letters of a word that may be the beginning of another


@dataclass(frozen=True, slots=True)
class Match:
    signature: Signature
    points: int  # of all words asked for
    named: bool  # its slug has these words and no other


def search(catalogue: Mapping[str, Signature], wanted: str) -> list[Match]:
    """The signatures that bear every word of `wanted`, the best first; at most MOST.

    Looked at are slug, other names, codes, title and, last, the description. Abbreviations count as what they stand
    for ("oom", "out of memory").
    """
    asked = _words(wanted)
    if not asked:
        return []
    others: dict[str, list[str]] = {}
    for alias, name in load_index().aliases.items():
        others.setdefault(name, []).append(alias)
    found = []
    for s in catalogue.values():
        slug = _words(s.name)
        places = (
            (SLUG, slug | _words(*s.codes)),
            (ALIAS, _words(*others.get(s.name, ()))),
            (TITLE, _words(s.title)),
            (WHY, _words(s.why)),
        )
        points = [max((worth for worth, words in places if _has(words, word)), default=0) for word in asked]
        if all(points):
            spare = len([word for word in slug if word not in asked])
            order = (-sum(points), slug != asked, s.kind == "knowledge", spare, s.name)
            found.append((Match(s, sum(points), slug == asked), order))
    return [match for match, _ in sorted(found, key=lambda item: item[1])][:MOST]


def best(matches: list[Match]) -> Signature | None:
    """The one that is clearly meant: its slug has just these words, or none has as many points; None where none is."""
    if not matches:
        return None
    alone = len(matches) == 1 or matches[1].points < matches[0].points
    return matches[0].signature if alone or matches[0].named else None


def by_name(matches: list[Match], wanted: str) -> bool:
    """Whether the best match bears the words in names or title, and not only in its description."""
    return bool(matches) and matches[0].points >= TITLE * len(_words(wanted))


def _words(*texts: str) -> frozenset[str]:
    """The words of texts, in the singular, without those that tell nothing; known phrases as their abbreviation."""
    found: set[str] = set()
    for text in texts:
        plain = " ".join(_WORD.findall(text.lower().replace("'s ", " ")))
        for short, phrases in load_index().abbreviations.items():
            for phrase in phrases:
                plain = re.sub(rf"\b{re.escape(phrase)}\b", short, plain)
        found.update(map(_singular, plain.split()))
    return frozenset(found - _STOP)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _has(words: Iterable[str], asked: str) -> bool:
    if asked in words:
        return True
    return len(asked) >= _PREFIX and any(
        word.startswith(asked) or (len(word) > _PREFIX and asked.startswith(word)) for word in words
    )
