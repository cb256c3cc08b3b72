"""How people find a signature: by slug, by a code of the catalogue, or by another word for the same thing."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from forensics.signatures.schema import INDEX, KINDS, Signature

SUGGESTIONS = 8
# `exitcode  : -7 (pid: 311)` is how torchrun prints it.
_STATUS = re.compile(
    r"(?i)((?:exited with )?(?:exit|return)?[ _]?(?:code|status)?[ :=]*)?(-?[0-9]{1,3})(?: \(pid: ?[0-9]+\))?"
)
# A shell tells of a signal as 128 + its number, Python as the negative number.
_SIGNALS = {
    1: "session-closed",
    2: "keyboard-interrupt",
    4: "rank-sigill",
    6: "rank-sigabrt",
    7: "rank-sigbus",
    8: "rank-sigfpe",
    9: "sigkill-unknown-sender",
    11: "rank-segfault",
    14: "alarm-signal",
    15: "external-sigterm",
    24: "cpu-time-limit",
    25: "file-size-limit",
}


@dataclass(frozen=True, slots=True)
class Index:
    """order: code -> slugs that are met most often, the most usual first. aliases: other word -> slug.

    abbreviations: short form -> phrases that it stands for, in small letters and without punctuation.
    several: other word -> slugs of all that it may mean, the most usual first.
    questions: words of a question -> slugs of the entries to look at.
    further: code that no signature bears -> slugs of what it covers, the most usual first.
    """

    order: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]
    abbreviations: Mapping[str, tuple[str, ...]]
    several: Mapping[str, tuple[str, ...]]
    questions: Mapping[str, tuple[str, ...]]
    further: Mapping[str, tuple[str, ...]]


@cache
def load_index() -> Index:
    """The built-in index."""
    table = tomllib.loads(INDEX.read_text("utf-8"))
    order, short, several, questions, further = (
        {key: tuple(names) for key, names in table[part].items()}
        for part in ("order", "abbreviations", "several", "questions", "further")
    )
    return Index(order, table["aliases"], short, several, questions, further)


def codes(catalogue: Mapping[str, Signature]) -> dict[str, tuple[Signature, ...]]:
    """Every code with its signatures, the most usual first; codes by letters and number (D2 before D10)."""
    found: dict[str, list[Signature]] = {}
    for signature in catalogue.values():
        for code in signature.codes:
            found.setdefault(code, []).append(signature)
    return {code: _by_use(code, found[code]) for code in sorted(found, key=_code_order)}


def _code_order(code: str) -> tuple[str, int, str]:
    letters = code.rstrip("0123456789")
    digits = code[len(letters) :]
    return letters, int(digits) if digits else -1, code


def _by_use(code: str, signatures: list[Signature]) -> tuple[Signature, ...]:
    first = load_index().order.get(code, ())

    def order(s: Signature) -> tuple[int, int, int, str]:
        usual = first.index(s.name) if s.name in first else len(first)
        return usual, KINDS.index(s.kind), s.codes.index(code), s.name

    return tuple(sorted(signatures, key=order))


def find(catalogue: Mapping[str, Signature], wanted: str) -> tuple[Signature, ...]:
    """The signatures that a slug, an alias or a code means, in any case and with any separators; empty if none does.

    So does an exit status that a signal left: -9, "exitcode -9", "exit code 137". Codes of signatures go before further
    ones.
    """
    text = "-".join(wanted.lower().replace("_", " ").split())
    if status := _STATUS.fullmatch(wanted.strip()):
        number = int(status[2])
        text = _SIGNALS.get(-number if number < 0 else number - 128, text)
    if text in load_index().several:
        return _known(catalogue, load_index().several[text])
    for name in (wanted, text, load_index().aliases.get(text, "")):
        if name in catalogue:
            return (catalogue[name],)
    further = ((code, _known(catalogue, names)) for code, names in load_index().further.items())
    every = (*codes(catalogue).items(), *further)
    return next((s for code, s in every if _bare(code) == _bare(text)), ())


def _known(catalogue: Mapping[str, Signature], names: Iterable[str]) -> tuple[Signature, ...]:
    return tuple(catalogue[name] for name in names if name in catalogue)


def _bare(code: str) -> str:
    """A code as people write it, without what stands between letters and number: DP15, dp-15, DP 15."""
    return "".join(code.lower().replace("-", " ").replace("_", " ").split())


def near_names(catalogue: Mapping[str, Signature], wanted: str) -> list[str]:
    """Slugs and codes that a mistyped one may have meant, the likeliest first; at most SUGGESTIONS."""
    text = "-".join(wanted.strip().lower().replace("_", " ").split())
    if not text:
        return []
    names = [*catalogue, *load_index().aliases]
    known = {code.lower(): code for code in codes(catalogue)} | dict(load_index().aliases)
    inside = [name for name in names if text in name] if len(text) > 2 else []
    close = difflib.get_close_matches(text, [*names, *known], n=SUGGESTIONS, cutoff=0.6)
    # Words of a title help those who do not know the slug.
    words = {word for word in text.split("-") if len(word) > 3}
    titled = [s.name for s in catalogue.values() if words and words <= set(s.title.lower().replace(":", " ").split())]
    found = dict.fromkeys(known.get(name, name) for name in (*close[:3], *inside, *close, *titled))
    return list(found)[:SUGGESTIONS]
