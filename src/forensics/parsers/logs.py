"""A text log becomes observations, tracebacks, metric rows and a note on who wrote it and when.

The scan (engine.scan) has already pointed at the lines that matter; only those, the neighbourhood of tracebacks and the
windows for metrics are decoded here.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import FileIO
from typing import NamedTuple

from forensics.engine.matcher import NONFINITE, TRACEBACK, WORKER_ROW, Matcher, Patience, Rule, is_anchored
from forensics.engine.scan import Hit, Scan
from forensics.files import opened
from forensics.model import MAX_RANKS, QUOTED, Evidence, Identity, Observation, Source, Traceback, Writer
from forensics.parsers import launchers, lsf, program_text, quoted_text, severity
from forensics.parsers import tracebacks as tb
from forensics.parsers.chains import chain_of, chains
from forensics.parsers.metric_lines import LogText
from forensics.parsers.prefixes import (
    CleanLine,
    clean,
    from_ray,
    rank_list,
    sample_lines,
    segments,
    speaker,
    strip_ansi,
    vote,
    without_stamp,
)
from forensics.parsers.span import own_times, span
from forensics.parsers.stamps import dated, may_be_timed, parse_time

HEAD = 64 << 10  # bytes of a file's head and tail that are decoded for prefixes, times and the last line
MOST_GIVEN_UP = 10  # lines of a file on which the search for a signature takes too long, before it ends there
TAIL = 8 << 10  # bytes of the tail of a file that was read before and has grown
WHOLE = 2 << 20  # bytes up to which every line is read for metrics
EDGE = 128 << 10  # bytes read in full at either end of a larger file
WINDOW = 32 << 10  # bytes of each window in between, and around non-finite values
MAX_TRACEBACKS = 200
DATED_FILES, DATED = 64, 8 << 10  # files, and bytes at either end of each, that are searched for a stamp with a year
LINE = 400  # bytes that a line is taken to have when a rule looks at its neighbourhood
TEXTS = 200  # lines of which is asked whether they stand in such a text as the run reads or writes
SPEAKERS, FEW = 512, 12  # lines whose prefixes are looked at: in a file of several processes, and in any other
AMONG = 4  # times as many lines, where those of other ranks may stand between
SPEAKERS_KEPT = 1 << 16  # lines whose writers are remembered
SPEAKER = 400  # bytes at the beginning of a line that hold its prefixes
NEAR = 1 << 20  # bytes of neighbourhood looked at in either direction, at most
_TROUBLES = ("cause", "symptom", "echo")
# Captures that say where, and the Identity fields they set.
_PLACES = {"own_rank": "rank", "local_rank": "local_rank", "device": "device", "node": "node", "task": "task"}


# The level of a record; glog's and NeMo's have its letter alone, and begin with it.
_FAILURE = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Error|Critical)\b|^(?:[EF]\d{4} \d\d:\d\d:|\[NeMo [EF] )")
# A line above a traceback that announces it, and so bears its time; any other may be much older.
_TROUBLE = re.compile(r"(?i:error|critical|fatal|exception|fail|could n|cannot|unable|retry|crash|caught|abort)")


# A kernel's own stamp, which counts from boot: no earlier line tells the time (parsers.kernel).
_SINCE_BOOT = re.compile(r"\s*(?:<\d{1,3}>|[a-z]+\d? *:[a-z]+ *: ?)?\[ *\+?\d{1,10}\.\d{6}(?: <[ \d.]+>)?\]")
# journalctl's first line, with the span of the whole journal: what it prints below is not later than the end.
_JOURNAL = re.compile(
    rb"-- (?:Journal|Logs) begins? at [^\n,]{1,60}, ends? at (?:[A-Z][a-z]{2} )?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)


# What SQLAlchemy puts below the message of its exceptions, a line each (sqlalchemy/exc.py, StatementError).
_ANNEX = re.compile(
    rb"[\r\n](?:\(Background on this error at: https?://[^\s()]{1,200}\)|\[(?:SQL|parameters): [^\r\n]{0,4000}\])$"
)


class Grown(NamedTuple):
    """What is known of a log that has grown since it was read, and the new lines of it.

    voted: the ambiguous prefixes that it uses. first_time: seconds since the epoch, None where it bears no time.
    windows: (whole lines, number of the first one), to read for metrics.
    """

    voted: frozenset[str]
    first_time: float | None
    windows: Sequence[tuple[bytes, int]]


class LogFindings(NamedTuple):
    observations: tuple[Observation, ...]
    tracebacks: tuple[Traceback, ...]
    writer: Writer
    text: LogText  # what is to be read for metrics
    sampled: bool  # those are windows of it, not all
    given_up: Mapping[str, int] = {}  # signature -> searches for it that were given up
    unended: tuple[Evidence, ...] = ()  # headers of tracebacks of which no last line was found
    last_error: Evidence | None = None  # the error with which it ends


def windows(size: int, budget: int) -> list[tuple[int, int]]:
    """(offset, length) of the metric windows of a file, before alignment to lines: both ends and some in between.

    budget: bytes of this file that may be read for metrics; at least four windows are read whatever it is.
    """
    if size <= WHOLE:
        return [(0, size)]
    budget = max(budget, 4 * WINDOW)
    edge = min(EDGE, budget // 4 // WINDOW * WINDOW or WINDOW)
    inner = max(2, (budget - 2 * edge) // WINDOW)
    inner = min(inner, (size - 2 * edge) // (2 * WINDOW))
    stride = (size - 2 * edge) / (inner + 1)
    between = [(int(edge + stride * (i + 1) - WINDOW / 2), WINDOW) for i in range(inner)]
    return [(0, edge), *between, (size - edge, edge)]


def read_log(
    source: Source,
    scan: Scan,
    matcher: Matcher,
    *,
    reference: float,
    parts: Sequence[tuple[int, int]] = (),
    grown: Grown | None = None,
    end: int | None = None,
) -> LogFindings:
    """Everything one log says. Reads only parts of the file; a file that shrank or vanished gives what is left.

    reference: seconds since the epoch near which dates without a year lie (the file's modification time).
    parts: the `windows` of a large file, whose offsets were the scan's marks; none where it is read in full.
    grown: given where the scan is of the end of the file only, and its head was read before.
    end: where reading stops, for a file of which the last line is still being written.
    """
    with _Reader(source, end) as reader:
        head = reader.read(0, HEAD) if grown is None else b""
        begin = max(0, scan.bytes - (HEAD if grown is None else TAIL))
        tail = reader.read(begin, scan.bytes - begin if grown is not None else HEAD)
        voted = vote(sample_lines(head)) if grown is None else grown.voted
        found, unended = _tracebacks(source, scan, reader, voted, reference)
        found += _last_words(source, scan, begin, tail, voted, reference, found)
        found += _headless(source, scan, begin, tail, reference, found)
        patience = Patience()
        observations = _observations(source, scan, matcher, reader, voted, reference, found, patience)
        observations += _worker_rows(source, scan, reader, reference)
        observations += _speakers(source, head, tail, voted) if grown is None else ()
        observations = _unplaced(observations, lsf.above_output(head, tail))
        writer = _writer(source, head, tail, reference, scan.bytes)
        ended = _last_error(source, scan, begin, tail, found, reader)
        chosen = _windows(scan, reader, parts) if grown is None else grown.windows
        text = LogText(source, chosen, voted, reference)
    if grown is not None:
        writer = replace(writer, first_time=grown.first_time)
    return LogFindings(observations, found, writer, text, len(scan.marks) > 0, patience.given_up, unended, ended)


def latest_date(sources: Sequence[Source]) -> float | None:
    """The latest dated stamp at the ends of a run's logs, in seconds since the epoch; None if no stamp bears a year.

    Stamps without a year (c10, syslog) are put before it. The files' own times are no such guide: copies have new ones.
    """
    latest = None
    for source in sources[:DATED_FILES]:
        with _Reader(source) as reader:
            ends = (reader.read(0, DATED), reader.read(max(0, source.size - DATED), DATED))
        if not may_be_timed(ends[0]) and not may_be_timed(ends[1]):
            continue
        lines = (line for line in b"\n".join(ends).replace(b"\r", b"\n").split(b"\n") if b":" in line)
        stamps = (dated(strip_ansi(line[:200].decode("utf-8", "replace"))) for line in lines)
        times = own_times([stamp for stamp in stamps if stamp is not None])
        if m := _JOURNAL.match(ends[0]):
            stamp = dated(m[1].decode("ascii"))
            times = [*times, stamp.time] if stamp is not None else times
        latest = max([*times, *([latest] if latest is not None else [])], default=None)
    return latest


class _Reader:
    """Bounded reads of one file that never raise."""

    def __init__(self, source: Source, end: int | None = None) -> None:
        self._file = source.file
        self._end = end
        self._stream: FileIO | None = None
        self.stamp = _Stamp()  # what the last look for a time before some line has found

    def __enter__(self) -> _Reader:
        with contextlib.suppress(OSError):
            self._stream = opened(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def read(self, offset: int, size: int) -> bytes:
        if self._stream is None:
            return b""
        if self._end is not None:
            size = max(0, min(size, self._end - offset))
        try:
            self._stream.seek(offset)
            return self._stream.read(size) or b""
        except OSError:
            return b""


def _tracebacks(
    source: Source, scan: Scan, reader: _Reader, voted: frozenset[str], reference: float
) -> tuple[tuple[Traceback, ...], tuple[Evidence, ...]]:
    """The tracebacks of a log, and the headers of those of which no last line was found."""
    found: list[Traceback] = []
    unended: list[Evidence] = []
    hits = [h for h in scan.hits if h.pattern == TRACEBACK and _is_head(h)][:MAX_TRACEBACKS]
    hits = [h for h in hits if not _within_a_text(reader, h.offset)]
    for hit, below in itertools.zip_longest(hits, hits[1:]):
        if found and hit.line <= (found[-1].final.line or 0) and tb.is_remote_header(_text(hit)):
            continue  # the last line of a traceback that is being raised on
        traceback = tb.read_traceback(
            reader.read(hit.offset, tb.MAX_BYTES),
            path=source.path,
            offset=hit.offset,
            line=hit.line,
            voted=voted,
            outer=source.identity,
            reference=reference,
        )
        start = max(0, hit.offset - 1500)
        before = reader.read(start, hit.offset - start).decode("utf-8", "replace").replace("\r", "\n")
        if traceback is None:
            text = _text(hit)
            told_below = tb.is_group(text) and below is not None
            if tb.is_header(text) and not told_below and tb.chained(before) != "ignored":
                unended.append(Evidence(source.path, hit.line, hit.offset, text[:4000]))
            continue
        if link := "ignored" if tb.is_finalizer(traceback) else tb.chained(before):
            traceback = replace(traceback, chained=link)
        if (local := tb.spawned(before)) is not None:
            traceback = replace(traceback, identity=replace(traceback.identity, local_rank=local, rank=None))
        above = before.rstrip().rpartition("\n")[2]
        traceback = replace(traceback, thread=tb.thread_of(above))
        traceback = replace(traceback, identity=_speaker(traceback.identity, before, above, reader, hit, voted))
        timed = traceback.time is not None
        if not timed:
            time, known = _time_before(reader, hit.offset, reference)
            timed = bool(_TROUBLE.search(above)) and parse_time(strip_ansi(above[:400]), reference)[0] is not None
            traceback = replace(traceback, time=time, zone_known=known)
        traceback = replace(traceback, timed=timed)
        found.append(traceback)
    return tuple(found), tuple(unended)


def _speaker(own: Identity, before: str, above: str, reader: _Reader, hit: Hit, voted: frozenset[str]) -> Identity:
    """The identity of a traceback, completed by the record that it ends: a logger's, or a row of a launcher's table.

    A logger writes its message and the traceback in one piece, and names the process in the first line only.
    """
    if own.rank is not None:
        return own
    first = reader.read(hit.offset, 200).partition(b"\n")[0].decode("utf-8", "replace")
    if launchers.IN_ROW.search(first):
        return launchers.worker_of(before).over(own)
    if _FAILURE.search(above[:300]):
        said = clean(above[:1000], voted)
        if said.identity.rank is not None:
            return own.over(Identity(rank=said.identity.rank, node=said.identity.node, pid=said.identity.pid))
    return own


def _last_words(
    source: Source,
    scan: Scan,
    begin: int,
    tail: bytes,
    voted: frozenset[str],
    reference: float,
    found: Sequence[Traceback],
) -> tuple[Traceback, ...]:
    """A log that ends in `SomeError: ...` without the traceback that belongs to it, as an exception without frames."""
    text = tail.rstrip()
    while (annex := _ANNEX.search(text)) is not None:
        text = text[: annex.start()].rstrip()
    start = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    offset = begin + start
    line = clean(text[start:][:4000].decode("utf-8", "replace"), voted, reference)
    exception = tb.exception_of(line.text)
    if exception is None or any((t.final.offset or 0) >= offset for t in found):
        return ()
    evidence = Evidence(source.path, scan.newlines + 1 - tail[len(text) :].count(b"\n"), offset, line.text[:4000])
    return (
        Traceback(
            exception=exception[0],
            message=exception[1],
            frames=(),
            header=evidence,
            final=evidence,
            identity=line.identity.over(source.identity),
            time=line.time,
            zone_known=line.zone_known,
            timed=line.time is not None,
            chained=tb.chained(text[max(0, start - 1500) : start].decode("utf-8", "replace")),
        ),
    )


def _headless(
    source: Source, scan: Scan, begin: int, tail: bytes, reference: float, found: Sequence[Traceback]
) -> tuple[Traceback, ...]:
    """The exceptions of ranks of which the log holds the last line of a traceback, and no traceback, without frames."""
    told = {t.identity.rank for t in found}
    added = []
    for last in tb.headless(tail):
        if last.rank in told:
            continue
        evidence = Evidence(
            source.path, scan.newlines + 1 - tail.count(b"\n", last.offset), begin + last.offset, last.text
        )
        time, known = parse_time(last.text, reference)
        added.append(
            Traceback(
                exception=last.exception,
                message=last.message,
                frames=(),
                header=evidence,
                final=evidence,
                identity=Identity(rank=last.rank).over(source.identity),
                time=time,
                zone_known=known,
                timed=time is not None,
            )
        )
    return tuple(added)


def _last_error(
    source: Source, scan: Scan, begin: int, tail: bytes, found: Sequence[Traceback], reader: _Reader
) -> Evidence | None:
    """The record of an error with which a log ends, whoever wrote it and whatever it says."""
    first = tail.find(b"\n") + 1 if begin > 0 else 0  # the tail of a long file begins within a line
    if (last := severity.last_error(tail[first:])) is None:
        return None
    line = scan.newlines + 1 - last.lines_from_end
    if any(t.chained == "ignored" and (t.header.line or 0) <= line <= (t.final.line or 0) for t in found):
        return None
    offset = begin + first + last.offset
    return None if _within_a_text(reader, offset) else Evidence(source.path, line, offset, last.text)


def _text(hit: Hit) -> str:
    return strip_ansi(hit.data.decode("utf-8", "replace")).strip()


def _is_head(hit: Hit) -> bool:
    """Whether a hit is the first line of a traceback: of all that name a worker of Ray, only those that quote it."""
    return b"ray::" not in hit.data or tb.HEADER_WORD.encode() in hit.data or tb.is_remote_header(_text(hit))


class _Stamp(NamedTuple):
    """The last time printed in the bytes before `searched`, and where its line begins."""

    searched: int = 0
    place: int = -1
    time: float | None = None
    zone_known: bool = False


def _time_before(reader: _Reader, offset: int, reference: float) -> tuple[float | None, bool]:
    """The time of the last line before `offset` that bears one, looking back HEAD bytes and 400 lines at most.

    Lines that the last call has looked at are not looked at again: hits come by the thousand.
    """
    start, before = max(0, offset - HEAD), reader.stamp
    fresh = before.searched if start <= before.searched <= offset else start
    data = reader.read(fresh, offset - fresh)
    lines = data.replace(b"\r", b"\n").split(b"\n")
    place = offset + 1
    for line in reversed(lines[-400:] if may_be_timed(data) else []):
        place -= len(line) + 1
        text = strip_ansi(line[:400].decode("utf-8", "replace"))
        time, known = parse_time(text, reference)
        if time is not None and not lsf.tells_of_the_beginning(text):
            reader.stamp = _Stamp(offset, place, time, known)
            return time, known
    goes_on = fresh > start and len(lines) <= 400 and before.place >= start
    reader.stamp = before._replace(searched=offset) if goes_on else _Stamp(offset)
    return reader.stamp.time, reader.stamp.zone_known


def _observations(
    source: Source,
    scan: Scan,
    matcher: Matcher,
    reader: _Reader,
    voted: frozenset[str],
    reference: float,
    found: Sequence[Traceback],
    patience: Patience,
) -> tuple[Observation, ...]:
    lines = _Lines(reader, voted, reference, patience, found)
    results: list[Observation] = []
    kept: dict[int, int] = {}
    matched: dict[tuple[int, int], tuple[int, int]] = {}  # (pattern, rule) -> (matches, index of the last observation)
    seen: set[tuple[int, int]] = set()
    failed: set[tuple[int, int]] = set()  # (offset, rule) that another literal of the same line has announced in vain
    for hit in sorted(scan.hits, key=lambda h: (h.offset, h.pattern)):
        kept[hit.pattern] = kept.get(hit.pattern, 0) + 1
        for rule in matcher.rules_of.get(hit.pattern, ()):
            if (hit.offset, id(rule)) in seen or (hit.offset, id(rule)) in failed:
                continue
            if patience.given_up[rule.signature.name] >= MOST_GIVEN_UP:
                continue
            for line, printed in lines.of(hit):
                if _is_code_of_a_traceback(hit, line, found):
                    continue
                match = matcher.match(rule, _forms(rule, line.text, printed), patience)
                if match is not None:
                    break
            else:
                failed.add((hit.offset, id(rule)))
                continue
            if not lines.near_enough(rule, hit, line.identity) or lines.of_a_program(line, hit):
                continue
            seen.add((hit.offset, id(rule)))
            key = (hit.pattern, id(rule))
            matched[key] = (matched.get(key, (0, 0))[0] + 1, len(results))
            captures = match.captures
            if rule.signature.kind in _TROUBLES and lines.of_a_text(line, hit):
                captures = {**captures, QUOTED: "yes"}
            results.append(_observation(source, rule, hit, line, printed, captures, reader, reference))
    # Lines that were counted and not kept stand with the last observation, in the share that matched so far.
    for (pattern, _), (n, last) in matched.items():
        missing = scan.counts.get(pattern, 0) - kept[pattern]
        if missing > 0:
            results[last] = replace(results[last], count=results[last].count + missing * n // kept[pattern])
    return tuple(results)


def _unplaced(found: tuple[Observation, ...], size: int) -> tuple[Observation, ...]:
    """The observations, those in the first bytes of the file without a line: what stands below them came before."""

    def told(o: Observation) -> Observation:
        if any(e.offset is None or e.offset >= size for e in o.evidence):
            return o
        return replace(o, evidence=tuple(replace(e, line=None) for e in o.evidence))

    return tuple(map(told, found)) if size else found


def _forms(rule: Rule, text: str, printed: str) -> tuple[str, ...]:
    """What a rule is tried on: the cleaned line, for one that asks for its beginning without a time, and as printed."""
    unstamped = without_stamp(text) if is_anchored(rule.evidence.pattern or "") else text
    return tuple(dict.fromkeys((text, unstamped, printed)))


def _worker_rows(source: Source, scan: Scan, reader: _Reader, reference: float) -> tuple[Observation, ...]:
    rows = []
    blocks = 0
    for hit in [h for h in scan.hits if h.pattern == WORKER_ROW]:
        start = max(0, hit.offset - launchers.BEFORE)
        data = reader.read(hit.offset, launchers.AFTER)
        blocks += b" RUNNING AT " in hit.data and not launchers.is_ended_by_hydra(data)
        row = launchers.read_row(
            reader.read(start, hit.offset - start),
            data,
            path=source.path,
            offset=hit.offset,
            line=hit.line,
            reference=reference,
        )
        if row is not None:
            rows.append(replace(row, identity=row.identity.over(source.identity)))
    return tuple(launchers.without_cleanup(rows, blocks))


def _speakers(source: Source, head: bytes, tail: bytes, voted: frozenset[str]) -> tuple[Observation, ...]:
    """One observation for each process that prefixes of a sample of the lines name, in the order of the file."""
    lines = [*head.split(b"\n")[:SPEAKERS], *tail.split(b"\n")[-SPEAKERS:]] if tail != head else head.split(b"\n")
    lines = [line for line in lines if line.strip()]
    # A key of that name is a process's rank where records have it throughout, and elsewhere as often an adapter's.
    if 2 * sum(b'rank":' in line for line in lines) < len(lines):
        lines = [line for line in lines if b'rank":' not in line]
    found: dict[Identity, Observation] = {}
    nobody = Identity()

    def look(some: Sequence[bytes]) -> None:
        for line in some:
            said, prefix = speaker(line[:400].decode("utf-8", "replace"), voted)
            # Ray's prefix names the process that wrote the rest, which its own messages name by pid alone.
            pid = said.pid if said.rank is not None and from_ray(prefix) else None
            own = Identity(said.rank, said.local_rank, said.node, said.attempt, pid=pid, task=said.task)
            if own != nobody and own not in found and len(found) < SPEAKERS:
                evidence = Evidence(source.path, None, None, prefix.strip())
                found[own] = Observation(
                    signature="process-seen",
                    weight=0.5,
                    evidence=(evidence,),
                    identity=own.over(source.identity),
                    culprits=(),
                )

    look(lines[:: max(len(lines) // FEW, 1)])
    look([line for line in lines if line.startswith(b"(") and b" pid=" in line[:100]])  # a driver's log has few of them
    if len(found) > 1 or any(i.node is not None or i.task is not None or i.local_rank is not None for i in found):
        look(lines[:: max(len(lines) // SPEAKERS, 1)])
    return tuple(found.values())


def _within_a_text(reader: _Reader, offset: int) -> bool:
    """Whether the line at an offset stands in a text of several lines that the run reads or writes."""
    size = quoted_text.AROUND * LINE // 4  # such lines are short, and their marks near
    start = max(0, offset - size)
    before = reader.read(start, offset - start).decode("utf-8", "replace").splitlines()
    after = reader.read(offset, size).decode("utf-8", "replace").splitlines()
    return quoted_text.is_within(before, after[1:])


class _Lines:
    """The lines that were hit, cleaned when first asked for, and what stands near them."""

    def __init__(
        self,
        reader: _Reader,
        voted: frozenset[str],
        reference: float,
        patience: Patience,
        tracebacks: Sequence[Traceback],
    ) -> None:
        self._reader = reader
        self._patience = patience
        self._voted = voted
        self._reference = reference
        self._cleaned: dict[int, list[tuple[CleanLine, str]]] = {}
        self._chains = chains(tracebacks)
        self._near: dict[tuple[str, int, int, str | None, Identity], bool] = {}
        self._wrote: dict[bytes, Identity] = {}
        self._programs: dict[int, bool] = {}
        self._texts: dict[int, bool] = {}

    def of(self, hit: Hit) -> list[tuple[CleanLine, str]]:
        """(the cleaned line, the line as printed without ANSI codes); several where ranks wrote into one line."""
        if hit.offset not in self._cleaned:
            raw = hit.data.decode("utf-8", "replace")
            self._cleaned[hit.offset] = [
                (clean(part, self._voted, self._reference), strip_ansi(part)) for part in segments(raw)
            ]
        return self._cleaned[hit.offset]

    def of_a_program(self, line: CleanLine, hit: Hit) -> bool:
        """Whether a matched line stands in the source of a program, which nobody printed by running it."""
        if line.prefix.strip() or not program_text.may_be(line.text):
            return False
        if hit.offset not in self._programs:
            size = program_text.AROUND * LINE
            start = max(0, hit.offset - size)
            before = self._reader.read(start, hit.offset - start).decode("utf-8", "replace").splitlines()
            after = self._reader.read(hit.offset, size).decode("utf-8", "replace").splitlines()
            self._programs[hit.offset] = program_text.among_statements(before, after[1:])
        return self._programs[hit.offset]

    def of_a_text(self, line: CleanLine, hit: Hit) -> bool:
        """Whether a matched line quotes a text that the run reads or writes; asked for TEXTS lines of a file."""
        if quoted_text.is_field(line.text):
            return True
        if (
            line.prefix.strip()
            or line.time is not None
            or (hit.offset not in self._texts and len(self._texts) >= TEXTS)
        ):
            return False
        if hit.offset not in self._texts:
            self._texts[hit.offset] = _within_a_text(self._reader, hit.offset)
        return self._texts[hit.offset]

    def near_enough(self, rule: Rule, hit: Hit, writer: Identity) -> bool:
        """Whether a rule's `near` has a match within its lines, and its `unless_near` none.

        writer: whose the line is, by its prefix. Others' lines are not near it, if the rule does not say so.
        """
        near, unless_near, reach = rule.evidence.near, rule.evidence.unless_near, rule.evidence.near_lines
        if near is not None and not self._within(rule, near, hit, reach, writer):
            return False
        return unless_near is None or not self._within(rule, unless_near, hit, reach, writer)

    def _within(self, rule: Rule, expression: str, hit: Hit, reach: int, writer: Identity) -> bool:
        own = Identity(writer.rank, writer.local_rank, writer.node, pid=writer.pid, task=writer.task)
        key = (expression, hit.offset, reach, rule.evidence.within, own)
        if key not in self._near:
            named = own != Identity() and rule.evidence.within != "log"
            size = min(reach * LINE * (AMONG if named else 1), NEAR)
            start = max(0, hit.offset - size)
            before, after = self._reader.read(start, hit.offset - start), self._reader.read(hit.offset, size)
            chain = chain_of(self._chains, hit.line, writer) if rule.evidence.within == "traceback" else None
            if chain is not None:
                before = b"\n".join(before.split(b"\n")[chain.first - hit.line - 1 :])
                after = b"\n".join(after.split(b"\n")[: chain.last - hit.line + 1])
            above, below = _some(before), _some(after)
            above, below = (above, below) if named else (above[-reach - 1 :], below[: reach + 1])
            found = self._matches(rule, expression, above, below)
            if found and named:
                above, below = ([line for line in part if self._may_be_of(own, line)] for part in (above, below))
                found = self._matches(rule, expression, above[-reach - 1 :], below[: reach + 1])
            self._near[key] = found
        return self._near[key]

    def _matches(self, rule: Rule, expression: str, before: Sequence[bytes], after: Sequence[bytes]) -> bool:
        text = (b"\n".join(before) + b"\n".join(after)).replace(b"\r", b"\n").decode("utf-8", "replace")
        return self._patience.holds(rule.signature.name, expression, strip_ansi(text))

    def _may_be_of(self, own: Identity, line: bytes) -> bool:
        """Whether no prefix of a line says that another process wrote it."""
        head = line[:SPEAKER]
        if (wrote := self._wrote.get(head)) is None:  # the neighbourhoods of hits share most of their lines
            wrote, _ = speaker(head.decode("utf-8", "replace"), self._voted)
            if len(self._wrote) < SPEAKERS_KEPT:
                self._wrote[head] = wrote
        return all(
            mine is None or its is None or mine == its
            for mine, its in (
                (own.rank, wrote.rank),
                (own.local_rank, wrote.local_rank),
                (own.task, wrote.task),
                (own.node, wrote.node),
                (own.pid, wrote.pid),
            )
        )


def _some(data: bytes) -> list[bytes]:
    """The lines of a text, without runs of empty ones: JSON that was spread over lines leaves as many between two."""
    return re.sub(rb"\n{3,}", b"\n\n", data).split(b"\n")


def _is_code_of_a_traceback(hit: Hit, line: CleanLine, found: Sequence[Traceback]) -> bool:
    """True for the indented source lines that a traceback quotes: they hold templates of messages, not messages."""
    if not line.text.startswith("    "):
        return False
    return any((t.header.line or 0) < hit.line < (t.final.line or 0) for t in found)


def _ranks(captures: Mapping[str, str]) -> tuple[int, ...] | None:
    if "ranks" in captures:
        return rank_list(captures["ranks"]) or None
    if (rank := captures.get("rank", "")).isdecimal() and int(rank) < MAX_RANKS:
        return (int(rank),)
    return None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _observation(
    source: Source,
    rule: Rule,
    hit: Hit,
    line: CleanLine,
    printed: str,
    captures: Mapping[str, str],
    reader: _Reader,
    reference: float,
) -> Observation:
    identity = line.identity.over(launchers.crashed(line.text)).over(source.identity)
    places = {
        field: (int(captures[name]) if field != "node" and captures[name].isdecimal() else captures[name])
        for name, field in _PLACES.items()
        if name in captures and (field == "node" or captures[name].isdecimal())
    }
    if "local_rank" in places and captures.get("rank") is None:
        # The line speaks of another process than the one that wrote it (a launcher's report).
        identity = replace(identity, rank=None)
        if captures.get("pid", "").isdecimal():
            identity = replace(identity, pid=int(captures["pid"]))
    if places:
        identity = replace(identity, **places)  # type: ignore[arg-type]
    policy = rule.evidence.culprit or rule.signature.culprit
    if policy == "named" and captures.get("pid", "").isdecimal():
        # The line speaks of that process, which is seldom the one that wrote it.
        identity = replace(
            identity, pid=int(captures["pid"]), rank=None if "local_rank" not in captures else identity.rank
        )
    culprits = () if policy == "none" else _ranks(captures)
    time, zone_known = line.time, line.zone_known
    if time is None and not _SINCE_BOOT.match(line.text) and not _SINCE_BOOT.match(printed):
        time, zone_known = _time_before(reader, hit.offset, reference)
    step = _number(captures.get("step"))
    return Observation(
        signature=rule.signature.name,
        weight=rule.evidence.weight,
        evidence=(Evidence(source.path, hit.line, hit.offset, printed.strip()[:4000]),),
        identity=identity,
        culprits=culprits,
        time=time,
        zone_known=zone_known,
        step=int(step) if step is not None else None,
        step_is="exact" if step is not None else None,
        epoch=_number(captures.get("epoch")),
        captures=dict(captures),
        timed=line.time is not None,
        rule=rule.index,
    )


def _writer(source: Source, head: bytes, tail: bytes, reference: float, size: int) -> Writer:
    tail_lines = tail.replace(b"\r", b"\n").split(b"\n")
    last = next((raw for raw in reversed(tail_lines) if raw.strip()), b"")
    first_time, last_time = span(head, tail, reference)
    return Writer(
        source=source.path,
        identity=source.identity,
        first_time=first_time,
        last_time=last_time,
        last_line=clean(last[-4000:].decode("utf-8", "replace")).text.strip()[:500],
        bytes=size,
    )


def _windows(scan: Scan, reader: _Reader, parts: Sequence[tuple[int, int]]) -> list[tuple[bytes, int]]:
    """(whole lines, number of the first one) of the parts of a file that are read for metrics."""
    chosen = []
    for start, end, (offset, line) in _spans(scan, parts):
        data = reader.read(max(0, start - 1), end - max(0, start - 1))
        first_line = line - data.count(b"\n", 0, offset - max(0, start - 1))
        if start > 0:  # begin at a line
            nl = data.find(b"\n")
            data, first_line = (data[nl + 1 :], first_line + 1) if nl >= 0 else (b"", first_line)
        if end < scan.bytes:
            data = data[: data.rfind(b"\n") + 1]
        chosen.append((data, first_line))
    return chosen


def _spans(scan: Scan, parts: Sequence[tuple[int, int]]) -> list[tuple[int, int, tuple[int, int]]]:
    """(start, end, (offset, number of the line it is in)) of the parts of a file to read for metrics, in file order."""
    if not parts:
        return [(0, min(scan.bytes, WHOLE), (0, 1))]
    spans = [
        (start, min(start + length, scan.bytes), (start, scan.marks[start] + 1))
        for start, length in parts
        if start in scan.marks  # a file that shrank, or a line longer than a span, leaves some without a number
    ]
    for hit in [h for h in scan.hits if h.pattern == NONFINITE][:4]:  # the onset of trouble is read exactly
        start = max(0, hit.offset - WINDOW // 2)
        spans.append((start, min(hit.offset + WINDOW, scan.bytes), (hit.offset, hit.line)))
    spans.sort()
    merged = spans[:1]
    for start, end, known in spans[1:]:
        if start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, known))
    return merged
