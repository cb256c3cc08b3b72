"""What a command, tool or service said beside the program, and the program outlived until it ended of its own error.

A shell that misses a command, a copy that finds a disk full, an upload that is refused: none of these ends the process
that trains. They explain an exception that they can bring about, or that names what they name. An error of the
program's own code explains itself where the program went on below them, though nothing that it printed is a record of
metrics: it counts batches, its clock runs on, it says that it goes on without. In a log of its own, such as that of a
health check or of a job's script, it says nothing of a program that trained on past it by the clock, or that trained
and ended of what no tool brings about.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.engine.graph import brings_about
from forensics.engine.steps import RECORDS, StepClock
from forensics.engine.survival import ELSEWHERE, GENERIC_EXCEPTION, WENT_ON
from forensics.engine.whose import LAUNCHERS_OWN
from forensics.files import buffered
from forensics.model import Kind, Observation, Source, Traceback
from forensics.parsers.prefixes import clean, strip_ansi
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

# What commands, tools, schedulers and services say of themselves, and no process of the run has to end of.
BESIDE = frozenset(
    "command-not-found ssh-launch-failed slurm-launch-failed mpi-launch-failed container-start-failed "
    "image-pull-failed module-load-failed shell-variable-unset address-in-use disk-full permission-denied "
    "read-only-file-system storage-io-error object-store-error tracker-unreachable hf-rate-limited hf-offline "
    "hf-permission-denied hf-gated-repo hf-repo-not-found".split()
)
# What Python and checks raise by a program's own code and values. Others, OSError and RuntimeError among them, may well
# be of the same disk, host or service.
_OF_PROGRAMS = frozenset(
    "KeyError IndexError TypeError AttributeError NameError UnboundLocalError ZeroDivisionError ValueError "
    "AssertionError".split()
)
_OF_CHECKS = frozenset({"ValueError", "AssertionError"})  # a program raises them itself, for whatever it checks
_OUTSIDE = lazy(
    r"(?i)checkpoint|ckpt|\b(?:sav(?:e|ed|ing)|writ(?:e|ten|ing)|dis[ck]|files?|paths?|(?:down|up)load\w*|connect\w*|hosts?"
    r"|nodes?|server|network|url|bucket|token|permission|denied|command|launch\w*|exit code|subprocess)\b"
)
# Areas of errors that disks, hosts, launches and services bring about, beside those that a signature lists.
_FROM_OUTSIDE = frozenset({"launch", "checkpoints", "resume", "nccl", "collectives", "lifecycle"})
READ = 128 << 10  # bytes below a sign that are looked through: thousands of lines of progress
STACK = 64 << 10  # bytes of the traceback
MINUTE = 60.0  # seconds that a program which had trained goes on, and no start takes
STAMPED = 3  # lines with a time that show it
NEAR = 3  # lines below a sign, of which one says that the program goes on without
# "batch 240/500", "Epoch: [3]", "iter 20"; then a bar, or a bare "240/500" that is no date.
_COUNTED = lazy(
    r"(?i)\b(epoch|step|iter(?:ation)?|batch(?:es)?|update|sample|example|episode|round)s?\b\W{0,4}(\d{1,12})(?!\d|\.\d)"
)
_OUT_OF = lazy(r"()(?<![\d/.:-])(\d{1,12}) ?(?:/|of) ?\d{1,12}(?![\d/])")
# What is counted before training begins, and while something is waited for.
_NO_PROGRESS = lazy(
    r"(?i)\b(?:re-?tr(?:y|ies|ying)|attempts?|wait\w*|(?:down|up)load\w*|load(?:ing|ed)|fetch\w*|map(?:ping)?|filter\w*"
    r"|tokeni[sz]\w*|preprocess\w*|split|build\w*|compil\w*|install\w*|extract\w*|copy\w*|connect\w*"
    r"|restor\w*|resum\w*|shards?)\b"
)
_GOES_ON = lazy(
    r"(?i)\bwill (?:be )?(?:re-?(?:try|tried)|(?:try|tried) again|continue|go on|skip)|\b(?:continu|proceed|carry)ing\b"
)
_PATH = re.compile(r"(?:[a-z0-9]{2,6}:/)?/[^\s'\":,;()]{3,}")
_FRAME = re.compile(r"^.{0,200}?\bFile \"")
_NAMED = ("node", "program", "name", "path", "host")  # captures of what a sign is about
NOTHING = "NoneType"  # what a call that failed gave back
_OF_PEERS = frozenset({"nccl", "collectives"})  # areas of what other ranks raise as one is gone


def told(
    found: Sequence[Observation],
    tracebacks: Sequence[Traceback],
    sources: Iterable[Source],
    steps: StepClock,
    catalogue: Mapping[str, Signature],
) -> list[Observation]:
    """The observations; those of BESIDE bear how the program went on below them until an error that is its own."""
    if not tracebacks or not any(o.signature in BESIDE for o in found):
        return list(found)
    logs = {s.path: s for s in sources if s.kind is Kind.LOG and s.gap is None}
    raised: dict[str, list[Traceback]] = defaultdict(list)
    for t in sorted(tracebacks, key=lambda t: (t.header.file, t.header.line or 0)):
        if t.chained != "ignored" and t.thread is None and not _is_launchers(t):
            raised[t.header.file].append(t)
    named: dict[str, list[Observation]] = defaultdict(list)
    for o in found:
        signature = catalogue.get(o.signature)
        if signature is not None and signature.kind in ("cause", "symptom") and o.evidence[0].file in raised:
            named[o.evidence[0].file].append(o)
    # A file may hold a thousand signs of one kind: below the last of an attempt is what counts.
    last: dict[tuple[str, str, int | None], int] = {}
    for o in found:
        if _is_beside(o, catalogue):
            last[_kind(o)] = max(last.get(_kind(o), 0), o.evidence[0].line or 0)
    return [
        replace(o, captures={**o.captures, WENT_ON: how})
        if (source := logs.get(o.evidence[0].file)) is not None
        and _is_beside(o, catalogue)
        and o.evidence[0].line == last[_kind(o)]
        and (
            how := _how(o, raised[source.path], named[source.path], source, steps, catalogue)
            if source.path in raised
            else _how_elsewhere(o, raised, named, logs, steps, catalogue)
        )
        is not None
        else o
        for o in found
    ]


def _is_beside(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    return o.signature in BESIDE and o.signature in catalogue and o.rule is not None and not o.in_traceback


def _kind(o: Observation) -> tuple[str, str, int | None]:
    return o.evidence[0].file, o.signature, o.identity.attempt


def _is_launchers(t: Traceback) -> bool:
    """Whether a launcher raised it to tell that a process had ended; a program's own code can run commands as well."""
    name = t.exception.rpartition(".")[2]
    return name in LAUNCHERS_OWN and (name != "CalledProcessError" or t.own_frame is None)


def _how(
    o: Observation,
    raised: Sequence[Traceback],
    named: Sequence[Observation],
    source: Source,
    steps: StepClock,
    catalogue: Mapping[str, Signature],
) -> str | None:
    """How the program went on below a sign; None where it did not, or ended of what the sign may have brought about."""
    at = o.evidence[0]
    below = [t for t in raised if t.header.is_below(at)]
    if not below or at.offset is None or not all(_is_own(t, o, named, catalogue) for t in below):
        return None
    first, last = below[0].header.offset, below[-1].final.offset
    if first is None or last is None or last - first > STACK or first <= at.offset:
        return None
    try:
        with buffered(source.file) as stream:
            stream.seek(at.offset)
            lines = _lines(stream.read(min(first - at.offset, READ)))[1:]
    except (OSError, ValueError):
        return None
    stack = _stack(below, source)
    if stack is None or _names_the_same(o, stack):
        return None
    if counts_on(lines):
        return "it counted on below"
    if not steps.began_before(o):
        return None  # all that stands between may be a start
    if _for_minutes(lines):
        return "its clock ran on below"
    spared = any(_GOES_ON.search(line) for line in lines[:NEAR]) and not any(NOTHING in t.message for t in below)
    return "it said that it goes on" if spared else None


def _how_elsewhere(
    o: Observation,
    raised: Mapping[str, Sequence[Traceback]],
    named: Mapping[str, Sequence[Observation]],
    logs: Mapping[str, Source],
    steps: StepClock,
    catalogue: Mapping[str, Signature],
) -> str | None:
    """ELSEWHERE for a sign in a log without steps, where the run trained in others and ended there of its own errors.

    None where it may have ended of what the sign brings about, or have been without what it tells of from the start.
    """
    if steps.marks.get(o.evidence[0].file):
        return None
    own: list[Traceback] = []
    for file, stacks in raised.items():
        of_attempt = [t for t in stacks if o.identity.attempt in (None, t.identity.attempt)]
        for t in of_attempt:
            if _is_own(t, o, named[file], catalogue):
                own.append(t)
            elif not _is_of_peers(t, named[file], catalogue):
                return None
        if of_attempt and any(n.signature in brings_about(o.signature, catalogue) for n in named[file]):
            return None
        stack = _stack(of_attempt, logs.get(file)) if of_attempt else []
        if stack is None or _names_the_same(o, stack):
            return None
    return ELSEWHERE if own and all(_trained_past(t, o, steps) for t in own) else None


def _trained_past(t: Traceback, o: Observation, steps: StepClock) -> bool:
    """Whether the log of an error holds steps above it, for minutes below a sign in another log, if that has a time.

    Without one it may be of the last moment: then the error is of a kind that a program does not choose for it.
    """
    above = [m for m in steps.marks.get(t.header.file, ()) if m.line is not None and m.line < (t.header.line or 0)]
    if o.time is None or not o.timed:
        name = t.exception.rpartition(".")[2]
        return len(above) >= RECORDS and name not in _OF_CHECKS and NOTHING not in t.message
    if o.zone_known != t.zone_known:
        return False
    times = [m.time for m in above if m.time is not None and m.time > o.time]
    return len(times) >= RECORDS and max(times) >= o.time + MINUTE


def _is_of_peers(t: Traceback, named: Sequence[Observation], catalogue: Mapping[str, Signature]) -> bool:
    """Whether an exception is known, and is what a rank meets as another one is gone."""
    first, last = t.header.line or 0, t.final.line or 0
    known = {n.signature for n in named if first <= (n.evidence[0].line or 0) <= last}
    return bool(known) and all(catalogue[n].area in _OF_PEERS for n in known)


def _stack(tracebacks: Sequence[Traceback], source: Source | None) -> list[str] | None:
    """The lines from the first of some tracebacks of a file to the last, and their messages; None if not readable."""
    first, last = tracebacks[0].header.offset, tracebacks[-1].final.offset
    if source is None or first is None or last is None or last - first > STACK:
        return None
    try:
        with buffered(source.file) as stream:
            stream.seek(first)
            return _lines(stream.read(last - first + 1)) + [t.message for t in tracebacks]
    except (OSError, ValueError):
        return None


def _lines(data: bytes) -> list[str]:
    """The lines of a piece of a file, and the frames of its bars, that are not empty."""
    return [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]


def _is_own(t: Traceback, o: Observation, named: Sequence[Observation], catalogue: Mapping[str, Signature]) -> bool:
    """Whether an exception is of the program's own code and values, and of no kind that a sign can bring about."""
    first, last = t.header.line or 0, t.final.line or 0
    known = {n.signature for n in named if first <= (n.evidence[0].line or 0) <= last} - {GENERIC_EXCEPTION}
    if not known:
        name = t.exception.rpartition(".")[2]
        return name in _OF_PROGRAMS and not (name in _OF_CHECKS and _OUTSIDE.search(t.message))
    own, reach = catalogue[o.signature], brings_about(o.signature, catalogue)
    return all(n not in reach and catalogue[n].area not in {*_FROM_OUTSIDE, own.area} for n in known)


def _names_the_same(o: Observation, stack: Sequence[str]) -> bool:
    """Whether a traceback's code or message names a path, host or program of the sign."""
    words = {o.captures[key] for key in _NAMED if key in o.captures} | set(_PATH.findall(o.evidence[0].text))
    words |= {word.rstrip("/").rpartition("/")[2] for word in words}
    said = [line for line in stack if not _FRAME.match(line)]
    return any(len(word) > 2 and any(word in line for line in said) for word in words)


def counts_on(lines: Iterable[str]) -> bool:
    """Whether lines count batches, steps, samples or epochs on, by RECORDS records, each above all before it.

    What is counted while a program loads, fetches, builds or waits for something is no progress.
    """
    highest: dict[str, int] = {}
    records: dict[str, int] = defaultdict(int)
    for raw in lines:
        if not (_COUNTED.search(raw) or _OUT_OF.search(raw)):
            continue
        line = clean(strip_ansi(raw[:1000])).text
        match = _COUNTED.search(line) or _OUT_OF.search(line)
        if match is None or _NO_PROGRESS.search(line):
            continue
        what, n = match[1].lower(), int(match[2])
        if n > highest.get(what, -1):
            highest[what] = n
            records[what] += 1
            if records[what] >= RECORDS:
                return True
    return False


def _for_minutes(lines: Iterable[str]) -> bool:
    """Whether lines of a program that bear a time span MINUTE or more, those of waiting and of starts left out."""
    cleaned = (clean(raw[:1000]) for raw in lines)
    times = [line.time for line in cleaned if line.time is not None and not _NO_PROGRESS.search(line.text)]
    return len(times) >= STAMPED and times[-1] - times[0] >= MINUTE
