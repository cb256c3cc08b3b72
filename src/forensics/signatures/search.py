"""Signatures by words: what `forensics explain` falls back on where nothing is called as it was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forensics.signatures.index import load_index
from forensics.signatures.schema import Signature

SLUG, ALIAS, TITLE, WHY = 4, 4, 2, 1  # what a word is worth by where it stands
MOST = 12  # entries that are listed
NEAREST = 5  # of those that bear only some of the words
_STOP = frozenset("a an and at by for from in is of on or that the this to was with".split())
_ASKING = (
    "am are be become becomes been can could did do does get gets getting go goes going got had has have how i it its "
    "keep keeps me my no not our should some suddenly there they turn turned turns up we were what when where which "
    "why will you your"
).split()
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
    asked = _words(wanted) - _OF_QUESTIONS
    if not asked:
        return []
    found = []
    for name, places in _documents(catalogue).items():
        s = catalogue[name]
        slug = _words(name)
        points = [_worth(places, word) for word in asked]
        if all(points):
            spare = len(slug - asked)
            order = (-sum(points), slug - _OF_QUESTIONS != asked, s.kind == "knowledge", spare, s.name)
            found.append((Match(s, sum(points), slug - _OF_QUESTIONS == asked), order))
    return [match for match, _ in sorted(found, key=lambda item: item[1])][:MOST]


def asked_often(catalogue: Mapping[str, Signature], wanted: str) -> list[Signature]:
    """The entries to look at for a question that holds all words of one of the index' ("my training is stuck")."""
    asked = _words(wanted) - _OF_QUESTIONS
    known = (names for phrase, names in load_index().questions.items() if _words(phrase) <= asked)
    return [catalogue[name] for name in next(known, ()) if name in catalogue]


def nearest(catalogue: Mapping[str, Signature], wanted: str) -> list[Signature]:
    """Where no entry bears every word: those that bear the rarest of them, the best first; at most NEAREST.

    A word counts for more the fewer entries bear it. Where most words are borne by none there is no answer.
    """
    asked = _words(wanted) - _OF_QUESTIONS
    documents = _documents(catalogue)
    bearing = {
        word: {name: worth for name, places in documents.items() if (worth := _worth(places, word))}
        for word in sorted(asked)
    }
    rarity = {word: 1 / len(names) for word, names in bearing.items() if names}
    if not rarity or 2 * len(rarity) < len(asked):
        return []
    points = {name: sum(rarity[word] ** 0.5 * bearing[word].get(name, 0) for word in rarity) for name in documents}
    most = sorted((name for name, n in points.items() if n), key=lambda name: (-points[name], name))
    return [catalogue[name] for name in most if 2 * points[name] >= points[most[0]]][:NEAREST]


def _documents(catalogue: Mapping[str, Signature]) -> dict[str, tuple[tuple[int, frozenset[str]], ...]]:
    """Slug -> (what a word is worth there, words) of each place where an entry bears words."""
    others: dict[str, list[str]] = {}
    for alias, name in load_index().aliases.items():
        others.setdefault(name, []).append(alias)
    return {
        s.name: (
            (SLUG, _words(s.name) | _words(*s.codes)),
            (ALIAS, _words(*others.get(s.name, ()))),
            (TITLE, _words(s.title)),
            (WHY, _words(s.why)),
        )
        for s in catalogue.values()
    }


def _worth(places: Iterable[tuple[int, frozenset[str]]], word: str) -> int:
    """What it is worth that an entry bears a word, by the best place where it does; 0 where it does not."""
    return max((worth for worth, words in places if _has(words, word)), default=0)


def best(matches: list[Match]) -> Signature | None:
    """The one that is clearly meant: its slug has just these words, or none has as many points; None where none is."""
    if not matches:
        return None
    alone = len(matches) == 1 or matches[1].points < matches[0].points
    return matches[0].signature if alone or matches[0].named else None


def by_name(matches: list[Match], wanted: str) -> bool:
    """Whether the best match bears the words in names or title, and not only in its description."""
    return bool(matches) and matches[0].points >= TITLE * len(_words(wanted) - _OF_QUESTIONS)


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


# Texts are compared in the singular, which makes `goe` of `goes`.
_OF_QUESTIONS = frozenset((*_ASKING, *map(_singular, _ASKING)))


def _has(words: Iterable[str], asked: str) -> bool:
    if asked in words:
        return True
    return len(asked) >= _PREFIX and any(
        word.startswith(asked) or (len(word) > _PREFIX and asked.startswith(word)) for word in words
    )
