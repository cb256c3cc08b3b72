"""The order of data: ids of samples, documents or batches that a run logs with its steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forensics.compare.model import OrderDifference
from forensics.files import opened
from forensics.model import Evidence, Kind, Source
from forensics.parsers.prefixes import clean, strip_ansi

BYTES = 64 << 20  # bytes of a run's logs and metric files that are searched
MOST = 200_000  # records kept of one run
_ID_KEY = (
    r"(?:sample|batch|example|data|document|doc|item|row|record|image|index|dataset)s?[ _-]?"
    r"(?:ids?|idx(?:s|es)?|ind(?:ex|ices|exes))"
    r"|indices|idxs|sample_order|uids?"
)
_IDS = re.compile(
    rf"(?i)(?<![\w])['\"]?({_ID_KEY})['\"]?\s*(?:[:=]\s*|\s)(?:tensor\(|array\()?(\[[^\[\]]{{1,4000}}\]|\d+\b)"
)
_STEP = re.compile(r"(?i)(?<![\w])['\"]?(?:global[ _])?(?:step|iteration|iter|batch)['\"]?\s*[:=#]?\s*(\d{1,12})\b")
_NUMBERS = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Batch:
    ids: str  # as printed, white space and quotes taken off
    at: Evidence


Orders = dict[tuple[int | None, str], dict[int, Batch]]  # (rank, "step" or "record") -> position -> ids


def orders(sources: Sequence[Source]) -> Orders:
    """What each rank says it was given, by step; by record where a line bears no step."""
    found: Orders = {}
    left, kept = BYTES, MOST
    for source in sources:
        if source.kind not in (Kind.LOG, Kind.METRICS) or left <= 0 or kept <= 0:
            continue
        count = 0
        for number, offset, text in _lines(source, left):
            ids = _IDS.search(text)
            if ids is None:
                continue
            cleaned = clean(text)
            rank = cleaned.identity.over(source.identity).rank
            step = _STEP.search(text[: ids.start()]) or _STEP.search(text[ids.end() :])
            key = (rank, "step" if step else "record")
            count += 1
            position = int(step[1]) if step else count
            told = " ".join(_NUMBERS.findall(ids[2]))
            if position not in found.setdefault(key, {}):
                kept -= 1
            found[key][position] = Batch(told, Evidence(source.path, number, offset, strip_ansi(text)[:300]))
            if kept <= 0:
                break
        left -= source.size
    return found


def _lines(source: Source, most: int) -> Iterator[tuple[int, int, str]]:
    """(number, offset, text) of the lines that could hold ids."""
    try:
        with opened(source.file) as stream:
            data = stream.read(min(most, source.size)) or b""
    except OSError:
        return
    if not re.search(rb"(?i)id[sx]|indices|_id\b|index", data):
        return
    offset = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if b"id" in line or b"ind" in line or b"Ind" in line or b"ID" in line:
            yield number, offset, line[:8000].decode("utf-8", "replace")
        offset += len(line) + 1


def compared(good: Orders, bad: Orders) -> tuple[tuple[OrderDifference, ...], int]:
    """(the first difference of each rank, how many positions were compared)."""
    found, count = [], 0
    for rank, unit in sorted(good.keys() & bad.keys(), key=str):
        theirs, mine = good[rank, unit], bad[rank, unit]
        common = sorted(theirs.keys() & mine.keys())
        count += len(common)
        at = next((p for p in common if theirs[p].ids != mine[p].ids), None)
        if at is not None:
            found.append(
                OrderDifference(
                    rank=rank,
                    position=at,
                    unit=unit,
                    good=theirs[at].ids[:200],
                    bad=mine[at].ids[:200],
                    good_at=theirs[at].at,
                    bad_at=mine[at].at,
                )
            )
    return tuple(found), count
