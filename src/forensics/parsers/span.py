"""When a log begins and ends, by the stamps of its own lines.

A log quotes other dates as well: when a kernel was built, a commit made, a file written or a licence runs out. The
lines that a program stamps bear their stamps in one form and at one place; a date apart from these is none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from forensics.parsers.prefixes import Stamp, may_be_timed, parse_time, stamp_of, strip_ansi

_LOOKED_AT = 400  # lines of either end that are searched
_SAMPLE = 40  # stamps of either end that tell a log's own form
_OWN = 3  # stamps of one form at one place that are a log's own
_BEGINNING = 30  # characters of a line within which a logger's stamp begins; listings of files have theirs behind
_APART = 2 * 3600.0  # seconds by which others may lie outside: a launcher's before its workers', or after


def span(head: bytes, tail: bytes, reference: float) -> tuple[float | None, float | None]:
    """(first, last) time of a log in seconds since the epoch, of its first and last bytes; None where none bears one.

    reference: as in `parse_time`.
    """
    first = list(_stamps(_lines(head), reference)) if may_be_timed(head) else []
    last = list(_stamps(reversed(_lines(tail)), reference)) if may_be_timed(tail) else []
    own = _own([*last, *first])
    if not own:
        return next(map(_time, first), None), next(map(_time, last), None)
    low, high = min(own) - _APART, max(own) + _APART

    def end(stamps: Sequence[Stamp | float], otherwise: float) -> float:
        return next((t for t in map(_time, stamps) if low <= t <= high), otherwise)

    return end(first, min(own)), end(last, max(own))


def own_times(stamps: Sequence[Stamp]) -> list[float]:
    """The times of those that stand where a log's own do; all where that is not to be told."""
    return _own(stamps) or [s.time for s in stamps]


def _time(stamp: Stamp | float) -> float:
    return stamp.time if isinstance(stamp, Stamp) else stamp


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r", b"\n").split(b"\n")


def _stamps(lines: Iterable[bytes], reference: float) -> Iterable[Stamp | float]:
    """The times of the first lines that bear one; those of seconds since the epoch have no form of their own."""
    found = 0
    for n, raw in enumerate(lines):
        if n == _LOOKED_AT or found == _SAMPLE:
            return
        if b":" not in raw:
            continue
        text = strip_ansi(raw[:400].decode("utf-8", "replace"))
        stamp = stamp_of(text, reference)
        time = stamp if stamp is not None else parse_time(text, reference)[0]
        if time is not None:
            found += 1
            yield time


def _own(stamps: Sequence[Stamp | float]) -> list[float]:
    """The times that stand where most do, near the beginning of their lines if any do; empty where too few do."""
    placed = [s for s in stamps if isinstance(s, Stamp)]
    counts = Counter((s.form, s.column) for s in placed)
    enough = [place for place, count in counts.most_common() if count >= _OWN]
    place = next((p for p in enough if p[1] < _BEGINNING), enough[0] if enough else None)
    return [s.time for s in placed if (s.form, s.column) == place]
