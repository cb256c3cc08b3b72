"""Which sample, batch or file a non-finite loss came with, where the run's own lines name it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from forensics.files import buffered
from forensics.model import Evidence, Kind, Observation, Source
from forensics.parsers.prefixes import speaker
from forensics.patterns import lazy

NAMED = "samples"  # the capture that holds them
# The signatures whose onset is a batch, and whose record is a line.
_OF_A_BATCH = frozenset({"nan-loss", "nan-gradients", "nan-in-data", "nan-in-forward", "nan-in-backward"})
# Lines around the record in which a guard may have printed it: just before the record, or some ranks' records later.
BEFORE, AFTER = 20, 60
READ = 64 << 20  # bytes of a file up to which lines are counted
LONGEST = 1 << 16  # bytes of a line that are looked at
MOST = 4  # names told of one line
# A key that means nothing else, or a short one that is only one with = or : ("idx=7"; not 'File "a.py", line 7').
_ID = lazy(
    r"""(?<![\w.-])(?<!device[ ])(?<!gpu[ ])
    (?P<key>(?:sample|batch|example|item|record)[ _-]?(?:ids?|idxs?|index|indexes|indices)(?=["']?[ ]*[=: ])
      |(?:index|indices|idxs?|shard|file|(?:sample|example|record)[ _-]?(?:uid|key|name)
        |(?:utterance|document|doc|utt)[ _-]?(?:ids?|uid|key|name)|u?uids?)(?=["']?[ ]*[=:])
      |(?:sample|example|record|utterance|document)(?=[ ]*[=: ][ ]*["']?\#?\d+(?!\d|[ ]*/|[ ]of\b|[ ]*%|\.\d|[a-z])))
    ["']?[ ]*[=:]?[ ]*\#?
    (?P<value>\[[^\]\n]{1,300}\]|[^\s,;|)\]}]{1,200})""",
    re.IGNORECASE | re.VERBOSE,
)
_STEP = lazy(r"(?<![a-z])(?:step|iter|iteration|update)\W{1,3}(\d{1,18})(?![\d.]*\d)", re.IGNORECASE)
_NONFINITE = lazy(r"(?<![a-z])(?:nans?|-?inf|infs|infinite|infinity|non-?finite)(?![a-z])|not finite", re.IGNORECASE)


def told(observations: Sequence[Observation], sources: Sequence[Source]) -> list[Observation]:
    """The observations of a loss or gradient that is not finite, with what the lines about that step name as its data.

    A line tells of it that is the first bad record itself, or one close to a bad record that names the same step and
    says that something is not finite. Of an error that names no step, as a check raises it, such a line of the same
    rank above it tells the step as well. The names become the capture `samples`, as "sample_id 7, file b.tar".
    """
    logs = {s.path: s for s in sources if s.kind in (Kind.LOG, Kind.METRICS) and s.gap is None}
    return [_with_names(o, logs) if o.signature in _OF_A_BATCH else o for o in observations]


def _with_names(o: Observation, logs: Mapping[str, Source]) -> Observation:
    for place in _records(o.evidence, logs):
        own = place is o.evidence[0]
        for number, text in _around(logs[place.file], place.line or 0):
            first = own and number == place.line
            above = o.step is None and own and number < (place.line or 0) and _may_be_said_by(o, text)
            step = _step_of(text) if above else None
            if not (first or step is not None or (o.step is not None and _tells(text, o.step))):
                continue
            if not (names := _names(text)):
                continue
            line = Evidence(place.file, number, None, text.strip()[:4000])
            note = f"its line names {names}" if first else f"{place.file}:{number} names {names} for that step"
            shown = o.evidence if first else (*o.evidence, line)
            said = "; ".join(filter(None, (o.note, note)))
            if step is not None:
                o = replace(o, step=step, step_is="exact")
            return replace(o, note=said, evidence=shown, captures={**o.captures, NAMED: names})
    return o


def _records(evidence: Sequence[Evidence], logs: Mapping[str, Source]) -> Iterator[Evidence]:
    """The first place of each log among the evidence."""
    seen: set[str] = set()
    for place in evidence:
        if place.line is not None and place.file in logs and place.file not in seen:
            seen.add(place.file)
            yield place


def _around(source: Source, line: int) -> list[tuple[int, str]]:
    """(number, text) of the lines around a line, itself first; none where the file cannot be read so far."""
    found: list[tuple[int, str]] = []
    number, left = 1, READ
    try:
        with buffered(source.file) as stream:
            while number <= line + AFTER and left > 0 and (raw := stream.readline(LONGEST)):
                left -= len(raw)
                if number >= line - BEFORE:
                    found.append((number, raw.decode("utf-8", "replace")))
                number += raw.endswith(b"\n")
    except OSError:
        return []
    return sorted(found, key=lambda item: (item[0] != line, item[0]))


def _tells(text: str, step: int) -> bool:
    """Whether a line names the step and says that something is not finite."""
    steps = {int(m[1]) for m in _STEP.finditer(text)}
    return step in steps and _NONFINITE.search(text) is not None


def _step_of(text: str) -> int | None:
    """The only step that a line names, where it says that something is not finite."""
    steps = {int(m[1]) for m in _STEP.finditer(text)}
    return next(iter(steps)) if len(steps) == 1 and _NONFINITE.search(text) else None


def _may_be_said_by(o: Observation, text: str) -> bool:
    """Whether no rank that a line bears is another than that of an observation."""
    wrote, _ = speaker(text)
    return wrote.rank is None or o.identity.rank is None or wrote.rank == o.identity.rank


def _names(text: str) -> str:
    """What a line names, as "sample_id 7, file b.tar"; "" where it names nothing."""
    names = []
    for m in _ID.finditer(text):
        value = m["value"].strip("\"'")
        if any(c.isdigit() or c in "/." for c in value):
            names.append(f"{m['key']} {value.rstrip('.')}")
    return ", ".join(dict.fromkeys(names[:MOST]))
