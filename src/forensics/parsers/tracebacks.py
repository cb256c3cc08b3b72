"""Python tracebacks as one event each, also where several ranks' lines interleave.

A traceback is followed from its header by the lines that bear the same prefix (so that other ranks' lines between them
do not break it). Without prefixes, lines that are neither a frame nor indented are passed over until a line that looks
like `Type: message` closes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from forensics.model import Evidence, Identity, Traceback
from forensics.parsers.prefixes import clean, is_bare, segments
from forensics.parsers.severity import spoken_of

HEADER_WORD = "Traceback"
QUOTED = "Original Traceback"  # what a worker raised, in the message of what is raised for it (torch/_utils.py)
HEADER = r"Traceback \(most recent call"  # Sacred and others change the words after "call"
MAX_BYTES = 256 << 10  # a traceback of 1,000 recursive frames fits
MAX_LINES = 3000
FIRST_FRAME = 32 << 10  # bytes below a header within which its first frame stands, other ranks' lines between included
BELOW = 5  # lines below an exception's class within which a message begins that starts with empty lines
STRAY = 40  # foreign lines in a row, without a prefix to tell them apart, before a traceback counts as cut off

NOBODY = Identity()

# What Python draws on the left of the exceptions of a group, each of which has a traceback of its own.
MARGIN = " \t|"
_WHOLE_HEADER = re.compile(HEADER + r" last\):?\W*$")
_GROUP = "+ Exception Group Traceback"
_FRAME = re.compile(r'^\s*(?:[│|>] ?)*\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_RICH_FRAME = re.compile(r"^[│|]\s*(?P<file>/[^:│]+\.py):(?P<line>\d+) in (?P<function>[\w.<>]+)")
# IPython prints the class, far to the left of the header's words, and frames in a form of its own.
_CELL_HEADER = re.compile(r"^([A-Za-z_][\w.]*) {3,}" + HEADER)
_CELL_FRAME = re.compile(
    r"^(?:File )?(?P<file>[^\s:][^:\n]*|Cell In ?\[\d+\]|In ?\[\d+\])(?::|, line )(?P<line>\d+)"
    r"(?:, in (?P<function>[\w.<>]+))?"
)
_LEVEL = (
    r"(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTE|TIP|Epoch|Step|Iter|Loss|Rank|File|Traceback|During|The|Root|"
    r"Hint)"
)
_FINAL = re.compile(
    rf"^(?!{_LEVEL}\b)(?P<type>(?:(?:[A-Za-z_]\w*|<locals>)\.)*(?:_?[A-Z]\w*|error|timeout|gaierror|herror))"
    r"(?::(?: (?P<message>.*))?)?$",
    re.S,
)
# Behind torch's prefix, which its excepthook puts before each line of what ends a process of a group (torch 2.2 and
# later): whoever logs the process may put more before it.
_RANKED = re.compile(
    rb"^(?:[^\n]{0,200}?[ \]:])?\[rank(?P<rank>\d{1,7})\]: (?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))"
    rb"(?P<said>:(?: (?P<message>[^\n]*))?)?\r?$",
    re.M,
)
# A class in lower case, where a frame stands right above: two words at least, and no number behind them.
_LOWER = re.compile(r"^(?P<type>(?!\w+\.py\b)[a-z]\w*(?:[._][a-z]\w*)+): (?P<message>(?![\d.+-]+\b).*)$", re.S)
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_SPAWNED = re.compile(r"-- Process (\d{1,5}) terminated with the following error:\s*$")
# What CPython (sys.unraisablehook, atexit) and logging.Handler.handleError print above a traceback that ends nothing.
_IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b|Error in atexit\._run_exitfuncs:|--- Logging error ---")
_THREAD = re.compile(r"Exception in thread ([^:]{1,200}):\s*$")
# Ray raises what a remote worker raised, and says in the head of that traceback which one it was.
_REMOTE = re.compile(
    r"\bray::[^\s(]+\(\)\S* \(pid=(?P<pid>\d+)(?:, ip=(?P<node>[0-9a-fA-F.:]+))?(?:.*?\[rank=(?P<rank>\d+)\])?"
)
# The same head where nothing stands above it: in Tune's error.txt, and where a program prints the exception itself.
REMOTE_HEADER = r"ray::[\w.<>]{1,200}\(\)[^\n ]{0,8} \(pid=\d"
_REMOTE_HEADER = re.compile(r"^(?:.{0,200}: )?" + REMOTE_HEADER)
# Times that programs which pass on lines put before them: `kubectl logs --timestamps`, `docker logs -t`, GitHub Actions
# and journald (RFC 3339), moreutils `ts` and syslog (`Nov 01 00:00:00`).
_TIME = (
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)"
)
_TIMES = re.compile(_TIME)
_STAMPED = re.compile(_TIME + " ")
_TAG = re.compile(r"\[[^\]\s]{1,60}\] ")
_STAMPS = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+\S*\s*|\s+\d+ (?=\[)")


# A line of a traceback that is indented behind its writer's prefix: a frame, or source code below one. What may be more
# than that (a second prefix, a rank that Ray names, boxes and quotes, digits that could be a prefix) does not match.
_PLAIN = re.compile(
    rb'  +(?:File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+?))?[ \t]*'
    rb'|(?!File ")[!-/:-=?-{}~][^\n]*)\n'
)
_MORE = re.compile(rb"\]:|ray::")


@dataclass(slots=True)
class _Writer:
    """What the lines of one traceback have in common, once it is known, and what was read of them in one go."""

    mark: bytes = b""  # every line holds it
    prefix: bytes | None = None  # plain lines begin with it; None where it differs from line to line
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    passed: bool = False  # lines were passed over since this was last unset

    def pass_over(self, data: bytes, at: int) -> int:
        """Take the frames of the plain lines from `at` on; where the first line that is not plain begins.

        Lines of others between them, which do not hold the mark, are passed over as well.
        """
        if self.prefix is None:
            return at
        prefix, size = self.prefix, len(self.prefix)
        while (hit := data.find(self.mark, at)) >= 0:
            start = max(at, data.rfind(b"\n", at, hit) + 1)
            if not data.startswith(prefix, start) or (m := _PLAIN.match(data, start + size)) is None:
                break
            if _MORE.search(data, start + size, m.end()):
                break
            file, line, function = m.groups()
            if file is not None:
                name = b"" if function is None else function
                self.frames.append(
                    (file.decode("utf-8", "replace"), int(line), name.decode("utf-8", "replace").strip())
                )
            self.passed = True
            at = m.end()
        return at


def _pieces(data: bytes, writer: _Writer) -> Iterator[tuple[int, int, str]]:
    """(offset, newlines before it, text) of every piece: between newlines, carriage returns and glued prefixes.

    writer: whose lines are wanted, as soon as that is known; those of others are passed over, and its plain ones read
    in one go, where neither escapes nor carriage returns are about.
    """
    at = newlines = 0
    plain = b"\x1b" not in data and b"\r" not in data
    while at <= len(data):
        if plain:
            start = writer.pass_over(data, at)
            if writer.mark:
                hit = data.find(writer.mark, start)
                if hit < 0:
                    return
                start = max(start, data.rfind(b"\n", start, hit) + 1)
            newlines += data.count(b"\n", at, start)
            at = start
        end = data.find(b"\n", at)
        raw = data[at : end if end >= 0 else len(data)]
        inner = at
        for piece in (raw,) if plain else raw.split(b"\r"):
            begin = inner
            first, *glued = segments(piece.decode("utf-8", "replace"))
            yield begin, newlines, first
            for text in glued:
                begin += len(first.encode())
                yield begin, newlines, text
                first = text
            inner += len(piece) + 1
        at += len(raw) + 1
        newlines += 1


def _without_times(prefix: str) -> str:
    return _STAMPS.sub("", prefix)


def _label_of(head: str, data: bytes) -> re.Pattern[str] | None:
    """What stands before a header and, but for its time, before the frames below it; None if nothing does.

    A logger's head, which the first line of a record alone bears, is no such label. A tag that a launcher puts before
    each line, `[rank3] `, is one, with such a head behind it in the first.
    """
    before = head[: head.find("Traceback")]
    if not re.search(r"\w", before):
        return None
    whole = _TIME.join(re.escape(part) for part in _TIMES.split(before))
    labels = [whole]
    if (tag := _TAG.match(before)) is not None:
        labels.append(re.escape(tag[0]))
    frames = [line for line in data.split(b"\n") if b'File "' in line]
    for label in labels:
        if any(map(re.compile((label + r'[ \t]+File "').encode()).search, frames)):
            return re.compile(whole if label is whole else f"{whole}|{label}")
    return None


def read_traceback(
    data: bytes,
    *,
    path: str,
    offset: int,
    line: int,
    voted: frozenset[str] = frozenset(),
    outer: Identity = NOBODY,
    reference: float = 0.0,
) -> Traceback | None:
    """The traceback whose header is the first piece of `data`; None if it is cut off before its last line.

    data: bytes from the header on (the caller bounds them by MAX_BYTES). offset, line: of its first byte in the file.
    """
    lines = _Writer()
    pieces = _pieces(data[:MAX_BYTES], lines)
    # What another process had begun to write may stand before the header on its line.
    first = next((p for p in pieces if p[1] > 0 or "Traceback" in p[2] or "ray::" in p[2]), None)
    if first is None:
        return None
    head = clean(first[2], voted, reference)
    if "call first" in head.text or is_group(head.text):
        return None  # gdb's py-bt: where a process stands, and no exception
    writer = _without_times(head.prefix)
    # What every line of this writer holds saves the cleaning of the lines of thousands of others.
    mark = next((token for token in reversed(writer.split()) if token in head.prefix), "")
    lines.mark = mark.encode()
    # A prefix without a time is the same on every line, and what is indented behind it bears no other.
    own = head.prefix if _without_times(head.prefix) == head.prefix and first[2].startswith(head.prefix) else None
    label = _label_of(head.text, data[:FIRST_FRAME]) if "Traceback" in head.text else None
    title = head.text if label is None else label.sub("", head.text, count=1)
    boxed = "╭" in title
    # torchelastic's table holds tracebacks behind a label, and indents their lines by as much as the label.
    indented = title.lstrip(MARGIN).startswith(("Traceback", "traceback : Traceback"))
    indent = len(title) - len(title.lstrip(MARGIN)) if indented else 0
    if own is not None and not boxed and not indent and label is None:
        lines.prefix = own.encode()
    named = named_in(title)
    frames = lines.frames
    stray = 0
    speaker = _remote_speaker(head.text) or head.identity
    for at, newlines, raw in pieces:
        if lines.passed:
            stray, lines.passed = 0, False
        if newlines > MAX_LINES or stray > STRAY:
            return None
        if mark not in raw and "\x1b" not in raw:
            continue
        if own is not None and raw.startswith(own) and is_bare(body := raw[len(own) :]):
            current = head
        else:
            current = clean(raw, voted, reference)
            body = current.text
            if _without_times(current.prefix) != writer:
                continue
        if label is not None:
            if (m := label.match(body)) is None:
                continue
            body = body[m.end() :]
        speaker = _remote_speaker(body) or speaker
        text = body if body[:indent].strip(MARGIN) else body[indent:]
        if not text.strip():
            continue
        m = (_RICH_FRAME if boxed else _FRAME).match(text) or (_CELL_FRAME.match(text) if named is not None else None)
        if m is not None:
            frames.append((m["file"], int(m["line"]), (m["function"] or "").strip()))
            stray = 0
            continue
        if text[0] in " \t│╭╰|>" or text.startswith(("[Previous line repeated", "frame #", "---")):
            stray = 0
            continue
        cut_off = at + len(raw.encode()) >= len(data) and ":" not in text
        m = _FINAL.match(text.rstrip())
        if m is not None and not (_ends_like_an_exception(m["type"]) or ((frames or "." in m["type"]) and not cut_off)):
            m = None
        if m is None and frames and not stray:
            m = _LOWER.match(text.rstrip()) or (named.match(text.rstrip()) if named is not None else None)
        if m is not None:
            message = (m["message"] or "").strip()
            if not message and text.rstrip().endswith(":"):
                lines.prefix = None
                message = _begun_below(pieces, writer, label, voted)
            return Traceback(
                exception=m["type"],
                message=message[:4000],
                frames=tuple(frames),
                header=Evidence(path, line, offset, title.strip()),
                final=Evidence(path, line + newlines, offset + at, text.rstrip()[:4000]),
                identity=speaker.over(outer),
                time=current.time if current.time is not None else head.time,
                zone_known=current.zone_known or head.zone_known,
            )
        if text.startswith("Traceback (most recent call"):
            return None  # another one begins before this one ended: each is read from its own header
        stray += 1
    return None


def _begun_below(
    pieces: Iterator[tuple[int, int, str]], writer: str, label: re.Pattern[str] | None, voted: frozenset[str]
) -> str:
    """The first line of a message that begins with a newline: Python prints nothing behind the colon."""
    for _, _, raw in islice(pieces, BELOW):
        line = clean(raw, voted)
        text = (line.text if label is None else label.sub("", line.text, count=1)).strip()
        if text and _without_times(line.prefix) == writer:
            return text
    return ""


class Headless(NamedTuple):
    """The last line of a rank's exception of which the traceback is not there. offset: of it in the bytes given."""

    rank: int
    exception: str
    message: str
    offset: int
    text: str


def headless(tail: bytes) -> list[Headless]:
    """The last exception of each rank that the end of a log names behind torch's prefix, in the order of the lines."""
    last: dict[int, Headless] = {}
    for m in _RANKED.finditer(tail):
        rank, message = int(m["rank"]), (m["message"] or b"").strip()
        if not message and m["said"]:
            own = re.compile(rb"\[rank%d\]:[ \t]*(\S[^\n]*)" % rank)
            below = own.search(tail, m.end(), m.end() + 4000)
            message = below[1].strip() if below else b""
        last[rank] = Headless(
            rank,
            m["type"].decode(),
            message.decode("utf-8", "replace")[:4000],
            m.start(),
            m[0].strip().decode("utf-8", "replace")[:4000],
        )
    return sorted(last.values(), key=lambda h: h.offset)


def exception_of(text: str) -> tuple[str, str] | None:
    """(type, message) where a line is the last one of a traceback beyond doubt; None otherwise.

    A time before it is passed over.
    """
    stamp = _STAMPED.match(text)
    m = _FINAL.match(text[stamp.end() if stamp else 0 :].rstrip())
    if m is None or m["message"] is None or not m["type"].endswith(("Error", "Exception", "Interrupt")):
        return None
    return m["type"], m["message"].strip()[:4000]


def named_in(title: str) -> re.Pattern[str] | None:
    """The last line of an exception that IPython names in the header already; None for the headers of Python."""
    m = _CELL_HEADER.match(title)
    return re.compile(rf"^(?P<type>{re.escape(m[1])})(?:: (?P<message>.*))?$", re.S) if m else None


def _ends_like_an_exception(name: str) -> bool:
    return name.endswith(
        ("Error", "Exception", "Interrupt", "Exit", "Warning", "Failure", "Timeout", "error", "timeout")
    )


def chained(before: str) -> str | None:
    """How a traceback hangs on the one above it: "cause", "context", "ignored" or None.

    before: the text before its header.
    """
    tail = before[-600:]
    if _IGNORED.search(tail.rstrip().rpartition("\n")[2]):
        return "ignored"
    cause, context = tail.rfind(_CAUSE), tail.rfind(_CONTEXT)
    if max(cause, context) < 0:
        return None
    return "cause" if cause > context else "context"


def is_header(text: str) -> bool:
    """Whether a line is the header of a traceback: nothing follows it, and what stands before it is no sentence."""
    m = _WHOLE_HEADER.search(text)
    return m is not None and not spoken_of(text, m.start())


def _remote_speaker(text: str) -> Identity | None:
    """The worker of Ray that a line says raised what follows."""
    if "ray::" not in text or (m := _REMOTE.search(text)) is None:
        return None
    return Identity(rank=int(m["rank"]) if m["rank"] else None, node=m["node"], pid=int(m["pid"]))


def is_remote_header(text: str) -> bool:
    """Whether a line is the head of what a worker of Ray raised, without the words that Python puts above it."""
    return _REMOTE_HEADER.match(text) is not None and HEADER_WORD not in text


def is_group(header: str) -> bool:
    """Whether a header is that of an exception group, which the tracebacks of its exceptions follow."""
    return _GROUP in header


def is_finalizer(traceback: Traceback) -> bool:
    """Whether multiprocessing printed it, and went on, while it called finalizers (util.py:_run_finalizers)."""
    first = traceback.frames[0] if traceback.frames else ("", 0, "")
    return first[2] == "_run_finalizers" and first[0].endswith("multiprocessing/util.py")


def thread_of(above: str) -> str | None:
    """The name of the thread that a traceback ended (threading.excepthook); above: the line above its header."""
    match = _THREAD.search(above[-400:])
    return match[1].strip() if match else None


def spawned(before: str) -> int | None:
    """The local rank whose traceback torch.multiprocessing.spawn passes on; `before` is the text before its header."""
    match = _SPAWNED.search(before[-200:])
    return int(match[1]) if match else None
