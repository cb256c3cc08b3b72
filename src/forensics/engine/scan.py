"""The one pass over raw bytes: every pattern of the catalogue in one hyperscan database, in blocks, on threads.

Only the few lines that hyperscan points at are copied out; nothing is decoded here. A block is cut at its last newline,
so no match is lost at its edge, except inside a single line longer than a block (such a line is scanned in pieces that
overlap by `OVERLAP` bytes). Buffers are reused: fresh blocks cost three times the CPU, and a
memory map of a log that is cut while it is scanned ends in SIGBUS.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from forensics.cache import load, store
from forensics.engine.literals import WINDOW, window
from forensics.files import opened

BLOCK = 4 << 20  # bytes a read; larger ones fall out of the cache (measured: 1 to 8 MB are alike, 16 MB is slower)
OVERLAP = 8 << 10  # bytes that pieces of an overlong line share; longer than any message of the catalogue
NUMPY_PAYS = 128 << 20  # bytes to scan from which importing numpy (0.1 s) costs less than it saves
SPAN = 64 << 20  # bytes of one file that one thread takes at a time
REACH = 16 << 10  # bytes kept on either side of a match when its line is longer than that
KEEP = 1024  # matches kept for one pattern in one span: the rest is counted, and the last one is kept as well


class ScanError(ValueError):
    """A pattern that hyperscan cannot take."""


class Pattern(NamedTuple):
    """One expression of the database. `literal` means that it is plain text, not a regex."""

    id: int
    expression: str
    literal: bool = False
    caseless: bool = False


class Hit(NamedTuple):
    """One line (or one piece of it between carriage returns) in which a pattern matched."""

    pattern: int
    offset: int  # of the first byte of `data`, from the start of the file
    line: int  # 1-based, counted by newlines
    data: bytes


@dataclass(slots=True)
class Scan:
    """What a scan of one file (or of one span of it) brought."""

    hits: list[Hit] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)  # pattern -> lines that matched, also those not kept
    newlines: int = 0
    bytes: int = 0
    nul_bytes: bool = False
    marks: dict[int, int] = field(default_factory=dict)  # asked offset -> newlines before it
    problem: str | None = None


class _Whole(NamedTuple):
    """A literal that a window announces: its pattern, the bytes before the window's end, and all of them."""

    pattern: int
    before: int
    literal: bytes


class _Expressions(NamedTuple):
    """What hyperscan is to compile. windows: id of a window -> the literals that hold it there."""

    texts: list[bytes]
    ids: list[int]
    flags: list[int]
    windows: dict[int, list[_Whole]]


def _expressions(patterns: Sequence[Pattern], caseless: int) -> _Expressions:
    """Of a literal only a window is scanned for (engine.literals); ids of windows follow on those of patterns."""
    made = _Expressions([], [], [], {})
    window_ids: dict[bytes, int] = {}
    first = max((p.id for p in patterns), default=0) + 1
    for pattern in patterns:
        if not pattern.literal or pattern.caseless:
            text = re.escape(pattern.expression) if pattern.literal else pattern.expression
            made.texts.append(text.encode())
            made.ids.append(pattern.id)
            made.flags.append(caseless if pattern.caseless else 0)
            continue
        start = window(pattern.expression)
        piece = pattern.expression[start : start + WINDOW]
        key = piece.encode()
        if key not in window_ids:
            window_ids[key] = first + len(window_ids)
            made.texts.append(re.escape(piece).encode())
            made.ids.append(window_ids[key])
            made.flags.append(0)
            made.windows[window_ids[key]] = []
        before = len(pattern.expression[: start + WINDOW].encode())
        made.windows[window_ids[key]].append(_Whole(pattern.id, before, pattern.expression.encode()))
    return made


class Database:
    """A compiled set of patterns; safe to share between threads (each takes a scratch of its own)."""

    def __init__(self, patterns: Sequence[Pattern], *, cache: bool = True) -> None:
        import hyperscan as hs

        self._hs = hs
        self._local = threading.local()
        texts, ids, flags, self._windows = _expressions(patterns, hs.HS_FLAG_CASELESS)
        key = hashlib.sha256(repr((getattr(hs, "__version__", ""), ids, flags, texts)).encode()).hexdigest()[:32]
        name = f"patterns-{key}"
        self._db: Any = self._load(name) if cache else None
        if self._db is None:
            self._db = hs.Database(mode=hs.HS_MODE_BLOCK)
            try:
                self._db.compile(expressions=texts, ids=ids, elements=len(ids), flags=flags)
            except hs.error as error:
                raise ScanError(self._blame(patterns, str(error))) from None
            if cache:
                store("patterns", name, hs.dumpb(self._db))

    def _load(self, name: str) -> Any:
        """The compiled database from the cache, or None. hyperscan itself checks version, platform and checksum."""
        data = load(name)
        if data is None:
            return None
        try:
            return self._hs.loadb(data, mode=self._hs.HS_MODE_BLOCK)
        except (RuntimeError, self._hs.error):
            return None

    def _blame(self, patterns: Sequence[Pattern], message: str) -> str:
        for pattern in patterns:
            if pattern.literal:
                continue
            try:
                self._hs.Database(mode=self._hs.HS_MODE_BLOCK).compile(
                    expressions=[pattern.expression.encode()], ids=[0], elements=1, flags=[0]
                )
            except self._hs.error as error:
                return f"{pattern.expression!r}: {error}"
        return message

    def scan(self, data: Any, on_match: Callable[..., Any]) -> None:
        """Call `on_match(id, start, end, flags, context)` for every match end in a bytes-like object."""
        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = self._hs.Scratch(self._db)
        windows = self._windows

        def told(id_: int, start: int, to: int, flags: int, context: object) -> None:
            if (announced := windows.get(id_)) is None:
                on_match(id_, start, to, flags, context)
                return
            for pattern, before, literal in announced:
                begin, end = to - before, to - before + len(literal)
                if begin >= 0 and data[begin:end] == literal:
                    on_match(pattern, start, end, flags, context)

        self._db.scan(data, match_event_handler=told, scratch=scratch)


def _count_newlines(buffer: bytearray, view: memoryview, start: int, end: int) -> int:
    """Newlines in buffer[start:end]; numpy has 2.3 times the speed of bytes.count and releases the GIL."""
    np = sys.modules.get("numpy")
    if np is None or end - start < 1 << 16:
        return buffer.count(b"\n", start, end)
    return int(np.count_nonzero(np.frombuffer(view[start:end], dtype=np.uint8) == 10))


class _Matches:
    """Takes the matches of one block: each pattern once a line (or piece between carriage returns), thinned by KEEP.

    A pattern that ends in a repetition matches again at every further byte, and hyperscan tells of each: what is not
    wanted must be dropped here, before it takes memory.
    """

    __slots__ = ("_add", "_buffer", "_counts", "_cut", "_newline", "_within")

    def __init__(
        self, buffer: bytearray, cut: int, counts: dict[int, int], add: Callable[[tuple[int, int]], None]
    ) -> None:
        self._buffer = buffer
        self._cut = cut
        self._counts = counts
        self._add = add
        self._within: dict[int, tuple[int, int]] = {}  # pattern -> its last match, and where that one's line ends
        self._newline = (0, -1)  # a position, and the first newline from it on

    def __call__(self, pattern: int, _start: int, to: int, _flags: int, _context: object) -> None:
        low, high = self._within.get(pattern, (0, -1))
        if low <= to <= high:
            return
        if self._buffer[to - 1] in b"\r\n":  # a pattern may ask for the end of the line
            to -= 1
            if low <= to <= high:
                return
        self._within[pattern] = (to, self._line_end(to))
        n = self._counts[pattern] = self._counts.get(pattern, 0) + 1
        if n <= KEEP or (n - 1 - KEEP) % 64 == 0:  # a thinned tail keeps the last ones near enough
            self._add((pattern, to))

    def _line_end(self, to: int) -> int:
        low, newline = self._newline
        if not low <= to <= newline:
            newline = self._buffer.find(b"\n", to, self._cut)
            newline = newline if newline >= 0 else self._cut
            self._newline = (to, newline)
        carriage = self._buffer.find(b"\r", to, newline)
        return carriage if carriage >= 0 else newline


class _Buffer(threading.local):
    data: bytearray | None = None


_buffer = _Buffer()


def scan_span(
    database: Database, file: Path, start: int, end: int, marks: Sequence[int] = (), *, at_line: bool = False
) -> Scan:
    """Scan the lines of `file` that begin in [start, end).

    marks: offsets for which the number of newlines of this span before them is wanted (for line numbers of windows).
    at_line: `start` is known to begin a line, or a piece of one after a carriage return.
    A file that ends early or cannot be read gives what was read and `problem`.
    """
    result = Scan()
    if _buffer.data is None:
        _buffer.data = bytearray(BLOCK)
    buffer = _buffer.data
    view = memoryview(buffer)
    kept: dict[int, int] = {}
    last: dict[int, Hit] = {}
    open_marks = sorted(m for m in marks if start <= m < end)
    try:
        stream = opened(file)
    except OSError as error:
        result.problem = error.strerror or str(error)
        return result
    try:
        position = start
        if start > 0 and not at_line:  # the line that crosses the border belongs to the span before
            position = _next_line(stream, start - 1)
        inside_line = False  # of a line longer than a block, which this span finishes even past its end
        while position < end or inside_line:
            try:
                stream.seek(position)
                size = stream.readinto(buffer) or 0
            except OSError as error:
                result.problem = f"read error at byte {position}: {error.strerror}"
                break
            if size == 0:
                break
            cut = buffer.rfind(b"\n", 0, size) + 1
            at_end = size < BLOCK and position + size >= os.fstat(stream.fileno()).st_size
            long_line = cut == 0 and size == BLOCK
            if cut == 0 or at_end:
                cut = size
            if position + cut > end:  # stop behind the last line that begins before `end`
                nl = buffer.find(b"\n", max(0, end - position - 1), cut)
                cut = nl + 1 if nl >= 0 else cut
            inside_line = buffer[cut - 1] != 0x0A
            long_line = long_line and inside_line
            found: list[tuple[int, int]] = []
            database.scan(view[:cut], _Matches(buffer, cut, result.counts, found.append))
            if not result.nul_bytes and buffer.find(b"\0", 0, min(cut, 1 << 16)) >= 0:
                result.nul_bytes = True
            counted_to, counted, searched, left = 0, 0, 0, 0
            for pattern, to in sorted(found, key=lambda f: f[1]) if len(found) > 1 else found:
                # Only what lies behind the last match is searched: a block without line ends would be gone through
                # again for every match.
                left = max(buffer.rfind(b"\n", searched, to) + 1, buffer.rfind(b"\r", searched, to) + 1, left)
                searched = to
                left_cut = max(left, to - REACH)
                right = _line_end(buffer, to, min(cut, to + REACH))
                if left_cut > counted_to:
                    counted += _count_newlines(buffer, view, counted_to, left_cut)
                    counted_to = left_cut
                line = result.newlines + counted + 1
                hit = Hit(pattern, position + left_cut, line, bytes(buffer[left_cut:right]))
                n = kept[pattern] = kept.get(pattern, 0) + 1
                if n <= KEEP:
                    result.hits.append(hit)
                else:
                    last[pattern] = hit
            while open_marks and open_marks[0] < position + cut:
                mark = open_marks.pop(0)
                result.marks[mark] = result.newlines + _count_newlines(buffer, view, 0, max(0, mark - position))
            step = cut - OVERLAP if long_line else cut
            if counted_to > step:  # in a line longer than a block, whose end is scanned again
                counted_to, counted = 0, 0
            result.newlines += counted + _count_newlines(buffer, view, counted_to, step)
            result.bytes += step
            position += step
            if at_end:
                break
    finally:
        view.release()
        stream.close()
    result.hits.extend(last.values())
    return result


def _line_end(buffer: bytearray, start: int, limit: int) -> int:
    ends = [e for e in (buffer.find(b"\n", start, limit), buffer.find(b"\r", start, limit)) if e >= 0]
    return min(ends, default=limit)


def _next_line(stream: FileIO, position: int) -> int:
    """Offset of the first line that begins after `position`."""
    stream.seek(position)
    while chunk := stream.read(1 << 16):
        if (nl := chunk.find(b"\n")) >= 0:
            return position + nl + 1
        position += len(chunk)
    return position


def merge(spans: Sequence[Scan]) -> Scan:
    """The spans of one file, in order, as one scan: line numbers run on."""
    if len(spans) == 1:
        return spans[0]
    whole = Scan()
    for span in spans:
        whole.hits += [Hit(h.pattern, h.offset, h.line + whole.newlines, h.data) for h in span.hits]
        for pattern, count in span.counts.items():
            whole.counts[pattern] = whole.counts.get(pattern, 0) + count
        whole.marks.update({mark: n + whole.newlines for mark, n in span.marks.items()})
        whole.newlines += span.newlines
        whole.bytes += span.bytes
        whole.nul_bytes |= span.nul_bytes
        whole.problem = whole.problem or span.problem
    return whole


def scan_files(
    database: Database,
    files: Iterable[tuple[Path, int, Sequence[int]]],
    *,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Scan]:
    """Scan many files, given as (file, size in bytes, marks); gives them in order, while those that follow are scanned.

    threads: default is the number of CPUs this process may use. progress: called with the bytes of each finished span.
    """
    jobs: list[list[tuple[Path, int, int, Sequence[int]]]] = []
    for file, size, marks in files:
        borders = [*range(0, max(size, 1), SPAN), max(size, 1)]
        jobs.append([(file, a, b, marks) for a, b in itertools.pairwise(borders)])

    def one(job: tuple[Path, int, int, Sequence[int]]) -> Scan:
        span = scan_span(database, *job)
        if progress is not None:
            progress(job[2] - job[1])
        return span

    flat = [job for parts in jobs for job in parts]
    if sum(end - start for _, start, end, _ in flat) > NUMPY_PAYS:
        importlib.import_module("numpy")
    workers = threads or available_cpus()
    with contextlib.ExitStack() as stack:
        if workers < 2 or len(flat) < 2:
            spans: Iterator[Scan] = map(one, flat)
        else:
            spans = stack.enter_context(ThreadPoolExecutor(workers)).map(one, flat)
        for parts in jobs:
            yield merge(list(itertools.islice(spans, len(parts))))


def available_cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no affinity call
        return os.cpu_count() or 1
