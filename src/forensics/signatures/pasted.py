"""Signatures by a line that a run printed, or a piece of one: for those who paste an error into `forensics explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from forensics.signatures.schema import KINDS, Signature

LONGEST = 10_000  # characters of what was pasted that are looked at
SHORTEST = 8  # characters of a piece: shorter ones stand in too many lines
MOST_LINES = 100  # of the examples, that hold the piece


def of_line(catalogue: Mapping[str, Signature], text: str) -> list[Signature]:
    """The signatures whose log rules match `text` as a log, causes first. Raises SignatureError."""
    from forensics.engine.matcher import Matcher
    from forensics.signatures.check import observe_text

    names = {o.signature for o in observe_text(text[:LONGEST], Matcher(catalogue))}
    found = _told(catalogue[name] for name in names if name in catalogue)
    return sorted(found, key=lambda s: (KINDS.index(s.kind), -s.specificity, s.name))


def of_piece(catalogue: Mapping[str, Signature], text: str) -> list[Signature]:
    """The signatures whose rules match example lines that hold `text`, in any case; causes first.

    Of causes the most general comes first, for a piece says nothing of what sets the special ones apart.
    catalogue: with its examples. Raises SignatureError.
    """
    from forensics.engine.matcher import Matcher
    from forensics.signatures.check import observe_text

    piece = " ".join(text[:LONGEST].casefold().split())
    if len(piece) < SHORTEST:
        return []
    lines = dict.fromkeys(
        line
        for s in catalogue.values()
        for example in s.examples
        if not example.is_not and example.root is None
        for line in example.log.splitlines()
        if piece in line.casefold()
    )
    if not lines:
        return []
    matcher = Matcher(catalogue)
    counts = Counter(o.signature for line in list(lines)[:MOST_LINES] for o in observe_text(line, matcher))
    found = _told(catalogue[name] for name in counts if name in catalogue)
    return sorted(found, key=lambda s: (KINDS.index(s.kind), s.specificity, -counts[s.name], s.name))


def _told(found: Iterable[Signature]) -> list[Signature]:
    """Without milestones, which nearly any line is, where there is more."""
    listed = list(found)
    return [s for s in listed if s.kind != "milestone"] or listed
