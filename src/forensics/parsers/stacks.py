"""Stacks that say where a living process stood: faulthandler, py-spy, gdb, and the watchdog's own.

Formats, each followed line by line from the header of one thread:

faulthandler  `Thread 0x00007f... (most recent call first):` (`Current thread ...`; a name in brackets since 3.14), with
              `Timeout (0:00:22)!` or `Fatal Python error: Aborted` above the first thread.
py-spy        `Thread 3490 (idle): "MainThread"` below `Process 3490: python train.py`.
gdb           `Traceback (most recent call first):` of py-bt, or `#5 Frame 0x..., for file train.py, line 20, in main`.
PyTorch       `Stack trace of the failed collective:` and `#0 all_reduce from /.../distributed_c10d.py:2501`.

Lines of one writer are told apart by their prefixes, so that other ranks' lines between them do no harm. Of a stack
that is cut off, what was printed is taken.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, count
from typing import NamedTuple

from forensics.model import MAX_RANKS, Evidence, Identity, Observation, Source
from forensics.parsers.columns import WITHIN_A_GROUP
from forensics.parsers.prefixes import CleanLine, clean, is_bare, sample_lines, strip_ansi, vote
from forensics.parsers.stamps import may_be_timed, parse_time
from forensics.patterns import lazy

SIGNATURE = "stack-dump"
AT_THE_END = "at_the_end"  # a capture: nothing is printed below the dump of a timer
# What the scan looks for; each opens the stack of one thread.
HEADERS: tuple[str, ...] = (
    r"hread 0x[0-9a-f]+ [^\n]{0,80}\(most recent call first\)",
    r"Thread (?:0x)?[0-9A-Fa-f]+ \((?:active|idle)",
    r"Traceback \(most recent call first\)",
    r"#\d+ [^\n]{0,200}Frame 0x[0-9a-f]+, for (?:file )?",
    r"Stack trace of the failed collective: ?",
)
MAX_STACKS = 600  # threads read in one log
MAX_FRAMES = 128  # faulthandler itself stops at 100
MAX_BYTES = 128 << 10  # of a log from a header on, other writers' lines included
USUAL_BYTES = 12 << 10  # what is read first, as most stacks are shorter
MAX_LINES = 3000  # the same in lines
BUDGET = 200_000  # lines looked at in one log
BEFORE = 8 << 10  # bytes before a header that may say what the stack is
TAIL = 4 << 10  # bytes of a file's end that hold its last line
HEAD = 64 << 10  # bytes of a file's head that show which prefixes it uses
TIME_BEFORE = 64 << 10  # bytes before a header in which a time is looked for

_FAULT = lazy(
    r"^(?P<current>Current t|T)hread (?P<thread>0x[0-9a-f]+)(?: \[(?P<name>[^\]\n]*)\])? \(most recent call first\):"
)
_PYSPY = lazy(r'^Thread (?P<thread>(?:0x)?[0-9A-Fa-f]+) \((?:active|idle)[^)]*\)(?:: "(?P<name>[^"]*)")?')
_GDB = lazy(r"^Traceback \(most recent call first\):")
_GDB_FRAME = lazy(
    r"^#\d+ .{0,400}?Frame 0x[0-9a-f]+, for (?:file )?(?P<file>[^,\n]+), line (?P<line>\d+), in (?P<function>[^\s(]+)"
)
_RECORDER = lazy(r"Stack trace of the failed collective: ?$")

_FAULT_FRAME = lazy(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
_PYSPY_FRAME = lazy(r"^ {4}(?P<function>\S.*) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)$")
_GDB_PYBT_FRAME = lazy(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>[^\s(]+)')
_RECORDER_FRAME = lazy(r"^#\d+ (?P<function>\S+) from (?P<file>.+):(?P<line>\d+)$")

_TIMEOUT = lazy(r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!")
_FATAL = lazy(r"Fatal Python error: (?P<what>[^\n]{1,200})")
_PROCESS = lazy(r"^Process (?P<pid>\d+): (?P<command>.*)$", re.M)
_LOCAL_RANK = lazy(r"--local[_-]rank[= ](\d{1,5})\b")
_OF_A_GROUP = (
    rf"(?:[\w.-]{{1,80}}[-_])?(?:{WITHIN_A_GROUP}|data|tensor|pipeline|model|expert|context|sequence|role)"
    r"[ _-]{1,2}rank"
)
_OF_ANOTHER = r"wait(?:ing|s|ed)|blocked|los(?:t|ing)|missing|unreachable"  # "waiting for rank 3", "lost rank 3"
# A line that a script prints above a dump: "=== pod-0 rank 0 ===", "# rank 3 (node-1)", "--- rank=3 pid 203 ---".
_HEADING = lazy(
    rf"^\W{{0,40}}(?:(?!{_OF_A_GROUP}|(?:{_OF_ANOTHER})\b)[\w.@/:-]{{1,80}}\W{{1,3}}){{0,2}}?"
    r"(?:global[ _-]?)?rank[ _:=#-]{0,2}(?P<rank>\d{1,5})"
    r"(?:[^\w./-][^\n]{0,80})?$",
    re.I,
)
HEADING_LINES = 4  # that may stand between such a line and the dump: blank ones, and the command
_LWP = lazy(r"^Thread (?P<thread>\d+) \(.*LWP (?P<pid>\d+)\)", re.M)

_FORMATS = (
    ("demand", _FAULT, _FAULT_FRAME),
    ("py-spy", _PYSPY, _PYSPY_FRAME),
    ("gdb", _GDB, _GDB_PYBT_FRAME),
    ("gdb", _GDB_FRAME, _GDB_FRAME),
    ("recorder", _RECORDER, _RECORDER_FRAME),
)  # kind, header, frame

# Where the code of others lies. py-spy shortens paths, so that libraries are known by their first folder as well.
_INSTALLED = (
    "site-packages",
    "dist-packages",
    "/lib/python",
    "/lib64/python",
    "<frozen",
    "<string>",
    "<stdin>",
    "\\Lib\\",
)
# PyTorch built from source lies outside of site-packages.
_TORCH = lazy(r"/torch/(?:autograd|distributed|utils|nn|cuda|optim|multiprocessing|_dynamo|_inductor|_tensor\.py)\b")
_COMPILED = lazy(r"\.(?:so(?:\.[\d.]+)?|pyx|cpp|cc|c|cu)$")
_LIBRARIES = frozenset((
    "torch", "torchvision", "torchdata", "numpy", "scipy", "pandas", "polars", "pyarrow", "datasets", "transformers",
    "accelerate", "peft", "trl", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric",
    "megatron", "nemo", "ray", "horovod", "tensorboard", "tensorboardX", "wandb", "mlflow", "fsspec", "s3fs", "gcsfs",
    "botocore", "boto3", "urllib3", "requests", "httpx", "aiohttp", "huggingface_hub", "safetensors", "filelock",
    "portalocker", "fasteners", "triton", "PIL", "cv2", "h5py", "webdataset", "streaming", "tqdm", "click", "hydra",
    "omegaconf", "fire", "joblib", "sklearn",
))  # fmt: skip

# Outermost functions of a thread that the program started, as opposed to its main one.
_BOOTSTRAP = ("_bootstrap", "_bootstrap_inner", "clone", "start_thread")
# Processes with a stack that are no rank: files in which their main threads live.
HELPERS = lazy(
    r"torch/utils/data/_utils/worker\.py|torch/distributed/elastic/|torch/distributed/(?:run|launch)\.py"
    r"|torch/multiprocessing/spawn\.py:\d+ join|multiprocessing/resource_tracker\.py|_inductor/compile_worker"
)
# One of these is in every text that has one of them, and is looked for much faster.
_HELPERS = (
    "_utils/worker.py",
    "torch/distributed/",
    "torch/multiprocessing/spawn.py:",
    "resource_tracker.py",
    "_worker",
)

_NOBODY = Identity()
_Read = Callable[[int, int], bytes]  # (offset, size) -> what a file holds there, at most


class Frame(NamedTuple):
    """One frame. line is None where the printer did not know it."""

    file: str
    line: int | None
    function: str
    place: tuple[str, int, int, str]  # path, line, offset and text of the line that shows it

    @property
    def at(self) -> Evidence:
        path, line, offset, text = self.place
        return Evidence(path, line, offset, text.strip()[:1000])

    def __str__(self) -> str:
        return f"{self.file}:{self.line if self.line is not None else '?'} {self.function}"


class Stack(NamedTuple):
    """The stack of one thread, as one dump prints it.

    kind: "timeout" (dump_traceback_later fired), "fatal" (the interpreter died; `reason` says of what), "demand"
    (faulthandler on request), "py-spy", "gdb", "recorder". frames: innermost first.
    """

    source: str
    line: int
    identity: Identity
    kind: str
    thread: str | None
    frames: tuple[Frame, ...]
    header: Evidence
    main: bool = False
    reason: str | None = None
    time: float | None = None
    zone_known: bool = False

    @property
    def rank(self) -> int | None:
        return self.identity.rank


def is_users(file: str) -> bool:
    """Whether a frame's file is the user's own, and neither the standard library nor an installed package."""
    if not file or any(part in file for part in _INSTALLED) or is_native(file) or _TORCH.search(file):
        return False
    if file[0] == "/" or file[1:2] == ":":
        return True
    return _top(file) not in _LIBRARIES and not is_standard(file)


def is_standard(file: str) -> bool:
    """Whether a path that is shortened to what is imported, as py-spy prints it, is the standard library's."""
    return _top(file) in sys.stdlib_module_names


def is_native(file: str) -> bool:
    """Whether a frame's file is compiled code, as `py-spy dump --native` shows it between those of Python."""
    return _COMPILED.search(file) is not None


def _top(file: str) -> str:
    return re.split(r"[/\\:]", file, maxsplit=1)[0].removesuffix(".py")


# A line of faulthandler's frames, behind a prefix that is the same on each: nothing in it that `clean` would take off
# (prefixes.is_bare). Only of ASCII, so that places in the text are those in the bytes.
_PLAIN_FRAME = r' {2,}File "([^"\n\r\x1b]*)", line (\d{1,18}|\?\?\?) in ([^\s\x1b][^\n\r\x1b]*)\r?'


@lru_cache(maxsize=64)
def _plain_frames(prefix: str) -> tuple[re.Pattern[bytes], re.Pattern[str]]:
    """(the lines of frames that follow each other, one of them) behind a prefix."""
    one = re.escape(prefix) + _PLAIN_FRAME
    return re.compile(rf"(?:{one}\n){{1,{MAX_FRAMES}}}".encode(), re.ASCII), re.compile(f"^{one}$", re.ASCII | re.M)


class _Lines:
    """The lines of a text one by one. line, offset: of the next one."""

    def __init__(self, data: bytes, line: int, offset: int) -> None:
        self._data, self._base, self._at = data, offset, 0
        self.line = line

    @property
    def offset(self) -> int:
        return self._base + self._at

    def __bool__(self) -> bool:
        return self._at <= len(self._data)

    def next(self) -> str:
        """The next line without its end. To be asked for only where there is one."""
        end = self._data.find(b"\n", self._at)
        end = len(self._data) if end < 0 else end
        text = self._data[self._at : end].rstrip(b"\r").decode("utf-8", "replace")
        self.line += 1
        self._at = end + 1
        return text

    def plain_frames(self, prefix: str, path: str) -> list[Frame]:
        """The frames that faulthandler printed from the next line on, each behind the same prefix."""
        if not prefix.isascii():
            return []
        block, one = _plain_frames(prefix)
        lines = block.match(self._data, self._at)
        if lines is None or not lines[0].isascii():
            return []
        text = lines[0].decode("ascii")
        rows = text.split("\n")[:-1]
        starts = accumulate((len(row) + 1 for row in rows), initial=self.offset)
        size = len(prefix)
        found = [
            Frame(file.strip(), None if line == "???" else int(line), function.strip(), (path, n, start, row[size:]))
            for (file, line, function), n, start, row in zip(one.findall(text), count(self.line), starts, rows)
        ]
        self.line += len(found)
        self._at = lines.end()
        return found


def _read_stack(
    data: bytes,
    *,
    path: str,
    line: int,
    offset: int,
    voted: frozenset[str] = frozenset(),
    outer: Identity = _NOBODY,
    reference: float = 0.0,
) -> tuple[Stack, int, str] | None:
    """The stack whose header is the first line of `data`, the line on which it ends, and the prefix of its lines.

    None if that is no header.

    line, offset: of the first byte in its file. The kind of a faulthandler stack is "demand" until `in_text` has looked
    at what stands above it.
    """
    lines = _Lines(data[:MAX_BYTES], line, offset)
    first = lines.next()
    head = clean(first, voted, reference)
    text = head.text.strip()
    opened = next(((k, h, f, m) for k, h, f in _FORMATS if (m := h.search(text))), None)
    if opened is None:
        return None
    kind, header, pattern, found = opened
    evidence = Evidence(path, line, offset, text[:1000])
    frames: list[Frame] = []
    if header is pattern:
        frames.append(_frame(found, (path, line, offset, evidence.text)))
    end = line
    # A prefix without a time is the same on every line, which saves the cleaning of other writers' lines.
    fixed = head.prefix if head.time is None and kind != "recorder" and first.startswith(head.prefix) else None
    while lines:
        if fixed is not None and pattern is _FAULT_FRAME:
            frames += (plain := lines.plain_frames(fixed, path))
            end = lines.line - 1 if plain else end
        at_line, at_offset = lines.line, lines.offset
        if len(frames) >= MAX_FRAMES or at_line > line + MAX_LINES or not lines:
            break
        raw = lines.next()
        if fixed is not None and not raw.startswith(fixed):
            continue
        if fixed is not None and is_bare(body := raw[len(fixed) :]):
            body = body.rstrip()
        else:
            current = clean(raw, voted, reference)
            # Only the first line of a c10 message bears its rank: a part of the header's prefix is the same writer.
            same = head.prefix.startswith(current.prefix) if kind == "recorder" else head.prefix == current.prefix
            if not same:
                continue
            body = current.text.rstrip()
        if m := pattern.match(body):
            frames.append(_frame(m, (path, at_line, at_offset, body)))
        elif not _belongs(kind, body):
            break
        end = at_line
    del frames[MAX_FRAMES:]
    words = found.groupdict()
    name, thread = words.get("name"), words.get("thread")
    stack = Stack(
        source=path,
        line=line,
        identity=head.identity.over(outer),
        kind=kind,
        thread=name or thread,
        frames=tuple(frames),
        header=evidence,
        main=_is_main(frames, name),
        time=head.time,
        zone_known=head.zone_known,
    )
    return stack, end, head.prefix


def _frame(m: re.Match[str], place: tuple[str, int, int, str]) -> Frame:
    line = m["line"]
    known = int(line[:18]) if line is not None and line.isdigit() else None
    return Frame(m["file"].strip(), known, m["function"].strip(), place)


def _belongs(kind: str, text: str) -> bool:
    """Whether a line that is no frame may stand inside a stack: quoted source, locals, C frames, "..."."""
    if not text:
        return False
    if kind == "gdb":
        return text[0] in " #"
    return text[0] == " " or (kind == "recorder" and text[0] == "#")


def _is_main(frames: Sequence[Frame], name: str | None) -> bool:
    if name is not None and (name == "MainThread" or name.startswith(("Thread-", "QueueFeederThread"))):
        return name == "MainThread"
    outermost = next((f.function for f in reversed(frames) if f.function not in ("clone", "start_thread")), "")
    return bool(frames) and outermost not in _BOOTSTRAP


def in_text(
    data: bytes,
    starts: Iterable[tuple[int, int]],
    *,
    path: str,
    voted: frozenset[str] = frozenset(),
    outer: Identity = _NOBODY,
    reference: float = 0.0,
) -> list[Stack]:
    """Every stack of a text. starts: (line, offset) of the lines that may be headers, in file order."""

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    return _stacks(read, starts, path, voted, outer, reference)


def _stacks(
    read: _Read, starts: Iterable[tuple[int, int]], path: str, voted: frozenset[str], outer: Identity, reference: float
) -> list[Stack]:
    found: list[Stack] = []
    last: dict[str, tuple[int, Stack]] = {}  # prefix -> (line on which it ended, stack)
    budget = BUDGET
    time: tuple[float, bool] | None = None  # of the last line above that bears one
    searched = 0
    for line, offset in list(starts)[:MAX_STACKS]:
        if budget < 0:
            break
        for size in (USUAL_BYTES, MAX_BYTES):
            data = read(offset, size)
            one = _read_stack(data, path=path, line=line, offset=offset, voted=voted, outer=outer, reference=reference)
            if one is None or len(data) < size or one[1] < line + data.count(b"\n") - 1:
                break
        if one is None:
            continue
        stack, end, prefix = one
        budget -= end - line + 1
        start = max(0, offset - BEFORE)
        before = read(start, offset - start).decode("utf-8", "replace")
        above = _above(before, prefix, voted, reference)
        previous = last.get(prefix)
        if previous is not None and line <= previous[0]:
            continue  # a frame further down in the backtrace that was read from its first one
        own = _of_writer(before, prefix, voted, reference) if prefix.strip() else before
        stack = _named(stack, above, own, previous[1] if previous else None)
        time = _time_before(read, searched, offset, reference) or time
        searched = offset
        if stack.time is None and time is not None:
            stack = stack._replace(time=time[0], zone_known=time[1])
        last[prefix] = (end, stack)
        found.append(stack)
    return found


def _above(before: str, prefix: str, voted: frozenset[str], reference: float) -> str:
    """The last line of the same writer above a header that is not blank."""
    end, first = len(before), before.find("\n") + 1 if len(before) >= BEFORE else 0
    while end >= first:
        start = before.rfind("\n", 0, end) + 1
        raw, end = before[start:end], start - 1
        if not raw.strip():
            continue
        line: CleanLine = clean(raw, voted, reference)
        if line.prefix == prefix and line.text.strip():
            return line.text.rstrip()
    return ""


def _of_writer(before: str, prefix: str, voted: frozenset[str], reference: float) -> str:
    """The lines of one writer, without their prefixes."""
    lines = (clean(raw, voted, reference) for raw in before.split("\n"))
    return "\n".join(line.text for line in lines if line.prefix.strip() == prefix.strip())


def _named(stack: Stack, above: str, before: str, previous: Stack | None) -> Stack:
    """What the lines above say: why the dump was made, and of which process."""
    if stack.kind == "demand":
        if m := _TIMEOUT.search(above):
            return stack._replace(kind="timeout", reason=m[0])
        if m := _FATAL.search(above):
            return stack._replace(kind="fatal", reason=m["what"].strip())
        follows = _FAULT_FRAME.match(above) or above.strip() in ("...", "<no Python frame>")
        if follows and previous is not None and previous.kind in ("timeout", "fatal", "demand"):
            return stack._replace(kind=previous.kind, reason=previous.reason)
        m = next(reversed(list(_FATAL.finditer(before))), None)
        # "Python runtime state: initialized" and the like may stand between.
        if m is not None and before.count("\n", m.end()) <= 4:
            return stack._replace(kind="fatal", reason=m["what"].strip())
        return stack
    if stack.kind == "py-spy":
        m = next(reversed(list(_PROCESS.finditer(before))), None)
        if m is None:
            same = previous is not None and previous.kind == "py-spy"
            return stack._replace(identity=previous.identity) if previous is not None and same else stack
        local = _LOCAL_RANK.search(m["command"])
        rank = None if local else _of_heading(before[: m.start()])
        own = Identity(rank=rank, pid=int(m["pid"][:18]), local_rank=int(local[1]) if local else None)
        return stack._replace(identity=own.over(stack.identity))
    if stack.kind == "gdb" and (m := next(reversed(list(_LWP.finditer(before))), None)):
        stack = stack._replace(thread=m["thread"])
        if m["thread"] == "1":  # gdb's first thread is the process's own
            stack = stack._replace(identity=Identity(pid=int(m["pid"][:18])).over(stack.identity))
    return stack


def _of_heading(above: str) -> int | None:
    """The rank that a line of its own right above a process's dump names; None without one."""
    for line in reversed(above.rstrip("\n").split("\n")[-HEADING_LINES:]):
        if line.startswith(("    ", "Thread ")):
            return None  # of the dump before
        if m := _HEADING.match(line.rstrip()):
            rank = int(m["rank"])
            return rank if rank < MAX_RANKS else None
    return None


def _time_before(read: _Read, since: int, offset: int, reference: float) -> tuple[float, bool] | None:
    """The time of the last line between two offsets that bears one, and whether its zone is known."""
    start = max(since, offset - TIME_BEFORE)
    lines = read(start, offset - start)
    if not may_be_timed(lines):
        return None
    for raw in reversed(lines.split(b"\n")[-400:]):
        time, known = parse_time(strip_ansi(raw[:400].decode("utf-8", "replace")), reference)
        if time is not None:
            return time, known
    return None


def main_threads(stacks: Iterable[Stack]) -> Iterator[tuple[Stack, str]]:
    """One stack a dump: that of the main thread. Processes that are no rank (data workers, launchers) are left out.

    Each with its frames as text: "file:line function" a line each, innermost first.
    """
    for stack in stacks:
        if stack.main and stack.frames:
            text = "\n".join(map(str, stack.frames))
            if not any(word in text for word in _HELPERS) or not HELPERS.search(text):
                yield stack, text


def observations(stacks: Sequence[Stack]) -> list[Observation]:
    """Main threads as observations of `stack-dump`; `frames`: "file:line function" a line each, innermost first."""
    found = []
    for stack, frames in main_threads(stacks):
        shown = next((frame for frame in stack.frames if is_users(frame.file)), stack.frames[0])
        captures = {"kind": stack.kind, "frames": frames}
        if stack.reason:
            captures["reason"] = stack.reason
        found.append(
            Observation(
                signature=SIGNATURE,
                weight=0.9,
                evidence=(shown.at, stack.header),
                identity=stack.identity,
                culprits=(),
                time=stack.time,
                zone_known=stack.zone_known,
                captures=captures,
            )
        )
    return found


def _ends_in_a_frame(read: _Read, size: int, voted: frozenset[str]) -> bool:
    """Whether the last line of a log of this many bytes is a frame of faulthandler's."""
    last = read(max(0, size - TAIL), TAIL).decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    return _FAULT_FRAME.match(clean(last, voted).text) is not None


def _at_the_end(found: Sequence[Observation]) -> list[Observation]:
    """Observations of a log that ends in a dump; the last one of each process says so where its timer made it."""
    last = {o.identity: number for number, o in enumerate(found)}
    return [
        replace(o, captures={**o.captures, AT_THE_END: "yes"})
        if o.captures["kind"] == "timeout" and last[o.identity] == number
        else o
        for number, o in enumerate(found)
    ]


def in_log(source: Source, starts: Sequence[tuple[int, int]], *, reference: float = 0.0) -> list[Observation]:
    """The stacks of a log file as observations. Reads only around `starts`; a file that vanished gives none."""
    if not starts:
        return []
    try:
        fd = os.open(source.file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return []

    def read(offset: int, size: int) -> bytes:
        try:
            return os.pread(fd, size, max(offset, 0))
        except OSError:
            return b""

    try:
        voted = vote(sample_lines(read(0, HEAD)))
        found = observations(_stacks(read, starts, source.path, voted, source.identity, reference))
        timed = any(o.captures["kind"] == "timeout" for o in found)
        return _at_the_end(found) if timed and _ends_in_a_frame(read, os.fstat(fd).st_size, voted) else found
    finally:
        os.close(fd)
