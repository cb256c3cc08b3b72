"""When a log begins and ends, by the stamps of its own lines.

A log quotes other dates as well: when a kernel was built, a commit made, a file written or a licence runs out. The
lines that a program stamps bear their stamps in one form and at one place; a date apart from these is none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from forensics.parsers.prefixes import strip_ansi
from forensics.parsers.stamps import Stamp, may_be_timed, parse_time, stamp_of
from forensics.patterns import lazy

_LOOKED_AT = 400  # lines of either end that are searched
_SAMPLE = 40  # stamps of either end that tell a log's own form
_OWN = 3  # stamps of one form at one place that are a log's own
_BEGINNING = 30  # characters of a line within which a logger's stamp begins; listings of files have theirs behind
# Slurm's `slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T14:21:00 DUE TO TIME LIMIT ***`, and the report
# that LSF puts below a job's output.
_ENDED = lazy(
    rb"^(?:[^\n]{0,80}\*\*\* [^\n*]{1,200}CANCELLED AT |Terminated at |Results reported at )([^\n]{1,60})", re.M
)
_SECONDS = lazy(rb"[ \t]*\[?(1[5-9]\d{8}(?:\.\d{1,9})?)\]?[ \t,:|]")  # 2017 to 2033
_ZONES, _WIDEST_ZONE = 1800.0, 14 * 3600.0  # seconds between zones, and from UTC to the farthest one
_LAG = 120.0  # seconds from a program's last line to the scheduler's, where the program ran to the end
_APART = 2 * 3600.0  # seconds by which others may lie outside: a launcher's before its workers', or after


def span(head: bytes, tail: bytes, reference: float) -> tuple[float | None, float | None]:
    """(first, last) time of a log in seconds since the epoch, of its first and last bytes; None where none bears one.

    reference: as in `parse_time`.
    """
    first = list(_stamps(_lines(head), reference)) if may_be_timed(head) else []
    last = list(_stamps(reversed(_lines(tail)), reference)) if may_be_timed(tail) else []
    place = _own_place([*last, *first])
    if place is None:
        found = next(map(_time, first), None), next(map(_time, last), None)
        return found if found != (None, None) else _of_numbers(head, tail)
    own = [s for s in (*last, *first) if _is_at(s, place)]
    begin = _time(next((s for s in first if _is_at(s, place)), min(own, key=_time)))
    end = _time(next((s for s in last if _is_at(s, place)), max(own, key=_time)))
    # A launcher begins before its workers and ends after them; what it says last may also be of when it began.
    before = next((t for t in map(_time, first) if begin - _APART <= t <= begin), begin)
    after = next((t for t in map(_time, last) if end <= t <= end + _APART), end)
    zoned = any(isinstance(s, Stamp) and s.zone_known for s in own)
    return before, max(after, _stated_end(tail, end, zoned, reference))


def _stated_end(tail: bytes, end: float, zoned: bool, reference: float) -> float:
    """When a scheduler says that the job ended, however long after the last stamp of its own; `end` where none does.

    A scheduler prints the time of its host. Where a log may bear that of another zone, which a container has by its
    default, nothing is made of it: where its stamps have a zone, or lie hours or half hours before.
    """
    if zoned or (said := _ENDED.findall(tail)) == []:
        return end
    time = parse_time(said[-1].decode("utf-8", "replace"), reference)[0]
    if time is None or time < end:
        return end
    late = time - end
    return end if late <= _WIDEST_ZONE and late % _ZONES < _LAG else time


def _of_numbers(head: bytes, tail: bytes) -> tuple[float | None, float | None]:
    """(first, last) time of a log most of whose lines begin with seconds since the epoch, as of `ts %.s`; else None."""
    lines = [line for line in _lines(head)[:_LOOKED_AT] if line.strip()]
    first = [float(m[1]) for line in lines if (m := _SECONDS.match(line))]
    if len(first) < max(_OWN, len(lines) / 2) or first != sorted(first):
        return None, None
    last = next((float(m[1]) for line in reversed(_lines(tail)) if (m := _SECONDS.match(line))), first[-1])
    return first[0], max(last, first[-1])


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
    """The times that stand where most do; empty where too few do."""
    place = _own_place(stamps)
    return [_time(s) for s in stamps if _is_at(s, place)]


def _own_place(stamps: Sequence[Stamp | float]) -> tuple[str, int] | None:
    """(form, column) of most stamps, near the beginning of their lines if any are; None where too few are alike."""
    counts = Counter((s.form, s.column) for s in stamps if isinstance(s, Stamp))
    enough = [place for place, count in counts.most_common() if count >= _OWN]
    return next((p for p in enough if p[1] < _BEGINNING), enough[0] if enough else None)


def _is_at(stamp: Stamp | float, place: tuple[str, int] | None) -> bool:
    return isinstance(stamp, Stamp) and (stamp.form, stamp.column) == place
