"""Checkpoint files of one name but for the number that counts them, as a run writes one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from forensics.patterns import lazy

# Numbers that count saves; those of ranks, shards and parts count files of one save.
_COUNTS = lazy(
    r"(?i)(?<![a-z])(?:checkpoint|ckpt|chkpt|global_?step|steps?|iter(?:ation)?s?|epochs?|ep|ba|updates?|snapshot|model)"
    r"(?:[-_=]{0,2}(?:global_?step|step|iter|epoch|ep))?[-_=]{0,2}(\d{1,12})(?![\d.]*-of-)"
)


def numbered(path: str) -> tuple[str, tuple[int, ...]]:
    """(name of the series, numbers of the save within it); without numbers the file is in no series."""
    return _COUNTS.sub("#", path), tuple(int(m[1]) for m in _COUNTS.finditer(path))


def before(path: str, files: Iterable[str]) -> str | None:
    """The file of the save before, where `path` is of the newest save of its series; None elsewhere.

    files: all checkpoint files of the run that are whole or damaged.
    """
    series, at = numbered(path)
    if not at:
        return None
    saves = {numbers: other for other in files if (found := numbered(other))[0] == series and (numbers := found[1])}
    if any(numbers > at for numbers in saves):
        return None
    earlier = [numbers for numbers in saves if numbers < at]
    return saves[max(earlier)] if earlier else None
