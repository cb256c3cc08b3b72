"""Discovery: a path becomes the sources of a run. What each file is, is told by its content first, then by its name.

Nothing is followed out of the run directory, nothing but regular files is opened, and every file that was found is
accounted for: it becomes a source, or a coverage row that says why not.
"""

from __future__ import annotations

import atexit
import fnmatch
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from forensics import arrays, quoted
from forensics.archives.formats import JOINED, JUPYTER, MARK, RECORDS, format_of, is_torch_zip, without_compression
from forensics.files import beginning
from forensics.model import Coverage, Identity, Kind, Source, Status
from forensics.report.own import is_report

if TYPE_CHECKING:
    from forensics.archives.unpacker import Unpacker

SNIFF = 16 << 10  # bytes of a file's head that tell its kind
MAX_FILES = 200_000
MAX_DEPTH = 40

# Folders that hold programs, not traces of a run.
_SKIPPED_FOLDERS = {".git", "__pycache__", "site-packages", "node_modules", ".venv", "venv", ".mypy_cache"}
_PROGRAM_SUFFIXES = frozenset(
    ".py .pyi .pyx .pxd .ipynb .c .cc .cpp .cxx .cu .cuh .h .hh .hpp .inl .rs .go .java .js .ts .css .cmake .diff"
    " .patch".split()
)
# What comes with a program, by the names that GitHub and packagers know.
_DOCUMENT_NAME = re.compile(
    r"(?:README|CHANGE(?:S|LOG)|NEWS|LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|AUTHORS|CONTRIBUTING|CODE_OF_CONDUCT|INSTALL"
    r"|SECURITY)(?:\.(?:md|txt|in))?$"
    r"|(?:CMakeLists\.txt|(?:GNU)?Makefile|Dockerfile)$",
    re.I,
)
_DOCUMENT_SUFFIXES = frozenset(".rst .tex .html .htm .adoc .xml .ps .svg".split())
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"RIFF", "media file"),
    (b"%PDF-", "PDF"),
    (b"\x7fELF", "ELF binary or core file"),
    (b"PK\x03\x04", "zip archive (a checkpoint saved by torch is one)"),
    (b"\x1f\x8b", "gzip-compressed; unpack it to have it read"),
    (b"\xfd7zXZ", "xz-compressed; unpack it to have it read"),
    (b"BZh", "bzip2-compressed; unpack it to have it read"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it to have it read"),
    (b"\x93NUMPY", "NumPy array"),
    (b"PAR1", "Parquet file"),
    (b"\x89HDF", "HDF5 file"),
    (b"SQLite format 3", "SQLite database"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x03", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
    (b"\xff\xfe\x00\x00", "UTF-32 text; convert it to UTF-8 to have it read"),
    (b"\xff\xfe", "UTF-16 text; convert it to UTF-8 to have it read"),
    (b"\xfe\xff", "UTF-16 text; convert it to UTF-8 to have it read"),
)
# Names of files that hold weights or optimizer states, also those of a save that did not finish.
_CHECKPOINT_NAME = re.compile(
    r"(?:\.(?:pt|pth|ckpt|safetensors|distcp)|\.pth\.tar"
    r"|(?:^|[._-])(?:pytorch_model|model|optimizer|scheduler|training_args)(?:[._-][\w.-]*)?\.bin)"
    r"(?:\.(?:tmp|partial|part|incomplete))?$",
    re.I,
)
# Members of archives that hold data, weights or pictures in any case; they are not unpacked.
_DATA_SUFFIXES = frozenset(
    ".pt .pth .ckpt .safetensors .distcp .bin .npy .npz .png .jpg .jpeg .gif .webp .mp4 .wav .flac .parquet .arrow"
    " .h5 .hdf5 .so .whl .o .a .pyc .idx .tiff .bmp .mp3 .onnx .gguf".split()
)
_SPECIAL = {
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}

_ATTEMPT_LAYOUT = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/(?:filtered_)?(stdout|stderr)\.log$")
# The same files, where the folder of one attempt is what is analysed.
_WITHIN_ATTEMPT = re.compile(r"^(\d{1,4})/(?:(?:filtered_)?(stdout|stderr)\.log|error\.json)$")
_ERROR_FILE_LAYOUT = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/error\.json$")
_RANK_IN_NAME = re.compile(r"(?:global[_-]?rank|(?<![a-z])rank|(?<![a-z])worker_?rank)[_\-.=]?(\d{1,6})(?!\d)", re.I)
_LOCAL_RANK_IN_NAME = re.compile(r"local[_-]?rank[_\-.=]?(\d{1,4})(?!\d)", re.I)
_LOG_DOT_RANK = re.compile(r"\.log\.(\d{1,5})$|(?:^|/)log\.(\d{1,5})$")
# What Python's RotatingFileHandler and logrotate rename `train.log` to. Both count from 1; ranks have a 0.
_ROTATED = re.compile(r"(?P<base>(?:.*/)?(?:[^/]+\.)?log)\.(?P<number>\d{1,4})$")
_NODE_IN_PATH = re.compile(
    r"(?:^|/)((?:node|host|worker|trainer|pod|server|machine)s?[-_]?\d{1,5}"
    r"|(?:node|host|server|machine)(?:[-_](?!x86|v\d)[a-z]\d{0,4}|(?-i:(?<=[a-z])[A-Z])))(?=[/._-]|$)",
    re.I,
)
_ATTEMPT_IN_PATH = re.compile(r"(?:^|[/_.-])(?:attempt|restart|try|retry)[_-]?(\d{1,4})(?=[/_.-]|$)", re.I)
_NODE_IN_NAME = re.compile(
    r"(?<=[._-])(?<!loader[._-])((?:node|host|worker|trainer|pod|server|machine)[-_]?\d{1,5})(?=[._-]|$)", re.I
)
# "<host>_rank<n>", the host in words that hyphens join: "fr_gpu-node2_rank5.json". Between other separators the words
# before "node2" may be those of a job.
_HOST_BEFORE_RANK = re.compile(
    r"(?:^|_)((?:(?!(?:run|job|log|trace|dump|train|fr|std(?:out|err))-)[a-z][a-z0-9]*-){1,4}(?:node|host|worker|server|machine)-?\d{1,5})"
    r"(?=_(?:global_?)?rank[_\-.=]?\d)",
    re.I,
)
# The kubelet's own folders, and the links to them in /var/log/containers.
_POD_IN_PATH = re.compile(
    r"(?:^|/)(?:[^/_]+_([a-z0-9][a-z0-9.-]*)_[0-9a-f-]+/[^/]+/\d+\.log$|([a-z0-9][a-z0-9.-]*)_[^/_]+_[^/_]+-[0-9a-f]{64}\.log$)"
)
_PREVIOUS = re.compile(r"[-_.]prev(?:ious)?(?=\.(?:log|txt|out|err)(?:\.(?:gz|xz|bz2|zst))?$)", re.I)
_RAY_WORKER = re.compile(r"(?:^|/)worker-[0-9a-f]{20,}-[0-9a-f]{4,8}-(\d+)\.(?:out|err)$")
_TASK_SUFFIX = re.compile(
    r"^(?P<stem>.*?(?:[_-]|(?<![a-z])(?:std)?(?:out|err)|(?<![a-z])log))(?P<task>\d{1,5})(?P<end>(?:_log)?\.(?:out|err|log|txt))$"
)
# A stem that ends in the number of a job: "slurm-31337_", "sweep_4411_", "train-839201.".
_OF_JOB = re.compile(r"(?<!\d)\d{2,12}[_-]$")
_SUFFIX_STREAM = re.compile(r"(?:stderr|\.err)(?:\.|$|_)|\.err$", re.I)
_SUFFIX_STDOUT = re.compile(r"(?:stdout|\.out)(?:\.|$|_)|\.out$", re.I)


NOTEBOOK = ".ipynb"
PROGRAM = "program source"
NOT_THERE = "no such file or directory"


class NothingToRead(Exception):
    """The given paths hold nothing that could be analysed; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    path: str  # as the user gave it
    sources: tuple[Source, ...]
    skipped: tuple[Coverage, ...]
    jobs: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of an array: name -> the files of each


@dataclass(frozen=True, slots=True)
class Sniffers:
    """Content tests of the structured kinds; given in, so that discovery depends on no parser."""

    tensorboard: Callable[[bytes], bool]
    flight_recorder: Callable[[bytes, str], bool]
    metrics: Callable[[bytes, str], bool]
    error_file: Callable[[bytes, str], bool] = lambda head, name: False
    run_file: Callable[[bytes, str], bool] = lambda head, name: False
    data_table: Callable[[bytes, str], str | None] = lambda head, name: None
    # What a text is that is no log, from its first bytes, its size and name, and what reads bytes from an offset on.
    other_text: Callable[[bytes, int, str, Callable[[int, int], bytes]], str | None] = lambda *_: None


def identity_of(path: str) -> Identity:
    """What the path of a file says about rank, node, attempt and stream. `path` is relative, with "/"."""
    path = without_compression(path)
    if m := _ERROR_FILE_LAYOUT.search(path):
        return Identity(local_rank=int(m[2]), attempt=int(m[1]), node=_first(_NODE_IN_PATH, path[: m.start()]))
    if m := _ATTEMPT_LAYOUT.search(path):  # torchrun --log-dir
        return Identity(
            local_rank=int(m[2]), attempt=int(m[1]), stream=m[3], node=_first(_NODE_IN_PATH, path[: m.start()])
        )
    if m := _WITHIN_ATTEMPT.match(path):
        return Identity(local_rank=int(m[1]), stream=m[2])
    name = path.rsplit("/", 1)[-1]
    local = _LOCAL_RANK_IN_NAME.search(name)
    rank = _RANK_IN_NAME.search(re.sub(_LOCAL_RANK_IN_NAME, "", name)) or _RANK_IN_NAME.search(
        path.rsplit("/", 1)[0] if "/" in path else ""
    )
    dotted = _LOG_DOT_RANK.search(path)
    number = rank[1] if rank else next((g for g in dotted.groups() if g), None) if dotted else None
    attempt = _ATTEMPT_IN_PATH.search(path)
    pod = _POD_IN_PATH.search(path)
    worker = _RAY_WORKER.search(path)
    return Identity(
        rank=int(number) if number else None,
        local_rank=int(local[1]) if local else None,
        node=(pod[1] or pod[2])
        if pod
        else _first(_NODE_IN_PATH, path) or _first(_HOST_BEFORE_RANK, name) or _first(_NODE_IN_NAME, name),
        pid=int(worker[1]) if worker else None,
        attempt=int(attempt[1]) if attempt else None,
        stream="stderr" if _SUFFIX_STREAM.search(name) else "stdout" if _SUFFIX_STDOUT.search(name) else None,
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    m = pattern.search(text)
    return m[1] if m else None


def number_tasks(sources: Sequence[Source], jobs: Mapping[str, frozenset[str]] = MappingProxyType({})) -> list[Source]:
    """Read `job_0.err`, `job_1.err`, ... as ranks where the numbers of one stem run from 0 without a gap.

    jobs: what `jobs_of_arrays` found: files of these are no ranks.
    """
    apart = frozenset[str]().union(*jobs.values())
    groups: dict[tuple[str, str], set[int]] = {}
    for source in sources:
        if (m := _task(source)) and source.path not in apart:
            groups.setdefault((m["stem"], m["end"]), set()).add(int(m["task"]))
    numbered = []
    for source in sources:
        m = _task(source)
        tasks = groups.get((m["stem"], m["end"]), set()) if m else set()
        gapless = len(tasks) > 1 and tasks == set(range(len(tasks)))
        if (
            m
            and gapless
            and source.path not in apart
            and source.identity.rank is None
            and source.identity.local_rank is None
            and not _names_node(source.identity.node, m["task"])
            and not m["end"].startswith("_log")
        ):
            source = replace(source, identity=replace(source.identity, task=int(m["task"])))
        numbered.append(source)
    return numbered


def _task(source: Source) -> re.Match[str] | None:
    return _TASK_SUFFIX.match(without_compression(source.path))


def jobs_of_arrays(sources: Sequence[Source]) -> dict[str, frozenset[str]]:
    """The jobs of Slurm arrays, each with its files, where what the files of one stem say shows that they are such.

    The name of a job is what its files have in common: `slurm-31337_2`. A file that cannot be read says nothing.
    """
    stems: dict[str, dict[int, list[Source]]] = {}
    for source in sources:
        if source.kind is Kind.LOG and (m := _task(source)) and _OF_JOB.search(m["stem"]):
            stems.setdefault(m["stem"], {}).setdefault(int(m["task"]), []).append(source)
    found: dict[str, frozenset[str]] = {}
    for stem, tasks in stems.items():
        if len(tasks) > 1 and arrays.are_jobs({n: _heads(tasks[n]) for n in sorted(tasks)[: arrays.MOST]}):
            found |= {f"{stem}{n}": frozenset(s.path for s in tasks[n]) for n in sorted(tasks)}
    return found


def _heads(sources: Sequence[Source]) -> bytes:
    """The first bytes of some files, one below the other."""
    heads = []
    for source in sources:
        try:
            heads.append(beginning(source.file, arrays.HEAD))
        except OSError:
            continue
    return b"\n".join(heads)


def restarted(sources: Sequence[Source]) -> list[Source]:
    """Read `pod-prev.log` beside `pod.log` as the attempt before it: what `kubectl logs --previous` was written to."""
    names = {s.path for s in sources}
    after = {s.path: name for s in sources if (name := _PREVIOUS.sub("", s.path)) != s.path and name in names}
    attempt = dict.fromkeys(after, 0) | dict.fromkeys(after.values(), 1)
    return [
        replace(s, identity=replace(s.identity, attempt=attempt[s.path]))
        if s.path in attempt and s.identity.attempt is None
        else s
        for s in sources
    ]


def rotated(sources: Sequence[Source]) -> list[Source]:
    """Read `train.log.2.gz`, `train.log.1` beside `train.log` as what it held before: no ranks, and the oldest first.

    Where there is a `train.log.0`, or no `train.log`, they are left as they are.
    """
    plain = {without_compression(s.path): s for s in sources}
    older: dict[str, dict[int, Source]] = {}
    for path, source in plain.items():
        if (m := _ROTATED.match(path)) and m["base"] in plain:
            older.setdefault(m["base"], {})[int(m["number"])] = source
    older = {base: parts for base, parts in older.items() if 0 not in parts}
    parts_of = {plain[base].path: [parts[n] for n in sorted(parts, reverse=True)] for base, parts in older.items()}
    moved = {part.path for parts in parts_of.values() for part in parts}
    ordered: list[Source] = []
    for source in sources:
        if source.path not in moved:
            named = identity_of(source.path)
            ordered += (replace(part, identity=named) for part in parts_of.get(source.path, ()))
            ordered.append(source)
    return ordered


def local_names(sources: Sequence[Source]) -> list[Source]:
    """Read the ranks (or tasks) in names as local ones where one number stands under several hosts of one attempt."""
    hosts: dict[tuple[int | None, str, int], set[str]] = {}
    for s in sources:
        for what in ("rank", "task"):
            number = getattr(s.identity, what)
            if number is not None and s.identity.node is not None:
                hosts.setdefault((s.identity.attempt, what, number), set()).add(s.identity.node)
    repeated = {what for (_, what, _), nodes in hosts.items() if len(nodes) > 1}
    return [_as_local(s, repeated) for s in sources]


def _as_local(source: Source, repeated: set[str]) -> Source:
    mine = source.identity
    if mine.node is None or mine.local_rank is not None:
        return source
    if "rank" in repeated and mine.rank is not None:
        return replace(source, identity=replace(mine, local_rank=mine.rank, rank=None))
    if "task" in repeated and mine.task is not None:
        return replace(source, identity=replace(mine, local_rank=mine.task, task=None))
    return source


def _names_node(node: str | None, number: str) -> bool:
    """Whether a file's last number is that of its host: worker-2 need not be rank 2, since a master may come first."""
    return node is not None and re.search(rf"[-_]{number}$", node) is not None


def _looks_binary(head: bytes) -> bool:
    """True where control characters that text and terminals do not use are many, or come with bytes that are no UTF-8.

    A fifth of control characters alone is enough; logs in a legacy encoding have none, random bytes have a tenth.
    """
    if not head:
        return False
    control = sum(head.count(bytes([b])) for b in range(32) if b not in (0, 7, 8, 9, 10, 12, 13, 27))
    if head.count(b"\0") > len(head) // 2:
        # A log that was emptied while its writer held it open begins with zeros, and a crash leaves them at its end.
        text = head.strip(b"\0")
        if b"\n" in text and b"\0" not in text:
            return _looks_binary(text)
        control += head.count(b"\0")
    broken = head.decode("utf-8", "replace").count("\ufffd")
    return control > len(head) / 5 or (control > len(head) / 50 and broken > len(head) / 10)


def _is_utf16(head: bytes) -> bool:
    """Whether Latin text in UTF-16 without a byte order mark: every other byte, and hardly one between, is zero."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    return len(head) >= 64 and max(even, odd) > 0.45 * len(head) and min(even, odd) < 0.05 * len(head)


def classify(head: bytes, name: str, sniffers: Sniffers) -> tuple[Kind, str | None]:
    """(kind, why it is not read) of a file, from its first bytes and its name."""
    checkpoint = _CHECKPOINT_NAME.search(name) is not None
    if not head:
        return Kind.CHECKPOINT if checkpoint else Kind.EMPTY, None
    if sniffers.tensorboard(head):
        return Kind.TENSORBOARD, None
    if sniffers.flight_recorder(head, name):
        return Kind.FLIGHT_RECORDER, None
    suffix = PurePosixPath(name).suffix.lower()
    if is_torch_zip(head) or (len(head) > 8 and head[8:9] == b"{" and ".safetensors" in name.lower()):
        return Kind.CHECKPOINT, None
    for magic, what in _MAGIC:
        if head.startswith(magic):
            pickled = head[:1] == b"\x80" and (suffix == ".pkl" or name == ".metadata")
            if pickled or (checkpoint and head[:1] in b"P\x80"):
                return Kind.CHECKPOINT, None
            return Kind.BINARY, what
    if _is_utf16(head):
        return Kind.BINARY, "UTF-16 text; convert it to UTF-8 to have it read"
    if _looks_binary(head):
        if checkpoint:
            return Kind.CHECKPOINT, None
        zeros = not head.strip(b"\0")  # of a long file, `head` is then its end
        return Kind.BINARY, "zero bytes, at its beginning and at its end" if zeros else "binary file of unknown format"
    if suffix in _PROGRAM_SUFFIXES:
        return Kind.CONFIG, PROGRAM
    if is_report(head):
        return Kind.CONFIG, "a report of this program"
    if suffix in _DOCUMENT_SUFFIXES:
        return Kind.CONFIG, "a document and no log"
    if sniffers.error_file(head, name):
        return Kind.ERROR_FILE, None
    if sniffers.metrics(head, name):
        return Kind.METRICS, None
    if sniffers.run_file(head, name):
        return Kind.CONFIG, None
    if (why_not := sniffers.data_table(head, name)) is not None:
        return Kind.CONFIG, why_not
    if _DOCUMENT_NAME.match(name):
        return Kind.CONFIG, "a document and no log"
    return Kind.LOG, None


class _Walk:
    unwraps = True  # texts that stand in JSON; those of a live run are read as they are

    def __init__(self, exclude: Sequence[str], since: float | None, sniffers: Sniffers) -> None:
        self.exclude = exclude
        self.since = since
        self.sniffers = sniffers
        self.sources: list[Source] = []
        self.skipped: list[Coverage] = []
        self.seen: dict[tuple[int, int], str] = {}

    @cached_property
    def unpacker(self) -> Unpacker:
        """One for all archives of a run, whose limits hold for them together."""
        from forensics.archives.unpacker import Unpacker

        return Unpacker()

    def skip(
        self, path: str, reason: str, *, status: Status = Status.SKIPPED, kind: str = "file", size: int = 0
    ) -> None:
        self.skipped.append(Coverage(path, kind, size, status, reason))

    def excluded(self, path: str) -> bool:
        return any(fnmatch.fnmatch(path, g) or fnmatch.fnmatch(path.rsplit("/", 1)[-1], g) for g in self.exclude)

    def folder(self, root: Path, prefix: str) -> None:
        boundary = root.resolve()
        stack: list[tuple[Path, str, int]] = [(root, prefix, 0)]
        while stack:
            folder, at, depth = stack.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda e: e.name)
            except OSError as error:
                self.skip(at or ".", f"cannot list: {error.strerror}", status=Status.UNREADABLE, kind="directory")
                continue
            below = []
            for entry in entries:
                path = f"{at}{_printable(entry.name)}"
                if self.excluded(path):
                    self.skip(path, "excluded")
                    continue
                try:
                    link = entry.is_symlink()
                    if link and not _inside(Path(entry.path), boundary):
                        self.skip(path, "symbolic link that is broken, loops or leaves the run directory")
                        continue
                    is_folder = entry.is_dir()
                except OSError as error:
                    self.skip(path, error.strerror or "cannot be examined", status=Status.UNREADABLE)
                    continue
                if is_folder:
                    if link:
                        self.skip(path, "symbolic link to a folder of this run", kind="directory")
                    elif entry.name in _SKIPPED_FOLDERS:
                        self.skip(path, "holds programs, not traces of a run", kind="directory")
                    elif depth >= MAX_DEPTH:
                        self.skip(path, f"deeper than {MAX_DEPTH} folders", kind="directory")
                    else:
                        below.append((Path(entry.path), path + "/", depth + 1))
                    continue
                if len(self.sources) >= MAX_FILES:
                    self.skip(path, f"more than {MAX_FILES} files")
                    continue
                self.file(Path(entry.path), path)
            stack.extend(reversed(below))

    def file(self, file: Path, path: str) -> None:
        """Add one file; never raises."""
        try:
            info = file.stat()
        except OSError as error:
            return self.skip(path, error.strerror or "cannot be examined", status=Status.UNREADABLE)
        if not stat.S_ISREG(info.st_mode):
            return self.skip(path, _SPECIAL.get(stat.S_IFMT(info.st_mode), "not a regular file"), kind="special")
        key = (info.st_dev, info.st_ino)
        unpacked = MARK in path  # such files are deleted again, and their inodes given to others
        if key in self.seen and info.st_ino and not unpacked:
            return self.skip(path, f"the same file as {self.seen[key]}", size=info.st_size)
        if self.since is not None and info.st_mtime < self.since:
            return self.skip(path, "older than --since", size=info.st_size)
        try:
            fd = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                head = os.read(fd, SNIFF)
                if info.st_size > SNIFF and not head.strip(b"\0"):
                    os.lseek(fd, max(SNIFF, info.st_size - SNIFF), os.SEEK_SET)
                    head = os.read(fd, SNIFF).lstrip(b"\0") or head
            finally:
                os.close(fd)
        except OSError as error:
            return self.skip(path, error.strerror or "cannot be read", status=Status.UNREADABLE, size=info.st_size)
        if not unpacked:
            self.seen[key] = path
        name = path.rsplit("/", 1)[-1]
        packing = format_of(head, name)
        if packing is not None and (packing not in RECORDS or self.unwraps):
            if not self.unpacker.may_go_into(path):
                reason = f"{packing}, within {self.unpacker.limits.depth} other archives; unpack it to have it read"
                return self.skip(path, reason, kind="archive", size=info.st_size)
            return self.archive(file, path, packing, info.st_size)
        kind, why_not = classify(head, name, self.sniffers)
        if why_not is not None:
            return self.skip(path, why_not, kind=kind.value, size=info.st_size)
        # The numbers in a checkpoint's name count shards, and not always ranks.
        identity = Identity() if kind is Kind.CHECKPOINT else identity_of(path)
        # What bears a rank was printed by one.
        if kind is Kind.LOG and identity == Identity() and (why_not := self.other_text(file, head, info.st_size, name)):
            return self.skip(path, why_not, kind=Kind.CONFIG.value, size=info.st_size)
        self.sources.append(Source(path, file, kind, info.st_size, identity))
        return None

    def other_text(self, file: Path, head: bytes, size: int, name: str) -> str | None:
        """What a text is that is no log: source code, a document."""

        def read(offset: int, number: int) -> bytes:
            with file.open("rb") as stream:
                stream.seek(offset)
                return stream.read(number)

        try:
            return self.sniffers.other_text(head, size, name, read)
        except OSError:
            return None

    def remote(self, url: str, prefix: str) -> None:
        """Add what lies behind a URL. Raises NothingToRead where it cannot be listed."""
        from forensics import remote

        def wanted(name: str) -> str | None:
            suffix = PurePosixPath(name).suffix.lower()
            if self.excluded(f"{prefix}{name}"):
                return "excluded"
            if not _SKIPPED_FOLDERS.isdisjoint(name.split("/")[:-1]):
                return "holds programs, not traces of a run"
            if suffix in _PROGRAM_SUFFIXES:
                return PROGRAM
            data = suffix in _DATA_SUFFIXES and not _CHECKPOINT_NAME.search(name)
            return "data, which are not fetched" if data else None

        def readable(head: bytes, name: str) -> str | None:
            if format_of(head, name) is not None:
                return None
            return classify(head, name, self.sniffers)[1]

        choice = remote.Choice(wanted, readable, lambda name: _CHECKPOINT_NAME.search(name) is not None, self.since)
        try:
            for one in remote.fetch(url, choice):
                path = f"{prefix}{_printable(one.name)}"
                if one.file is None:
                    status = Status.UNREADABLE if (one.reason or "").startswith("cannot") else Status.SKIPPED
                    self.skip(path, one.reason or "not fetched", status=status, size=max(one.size, 0))
                    continue
                before = len(self.sources)
                self.file(one.file, path)
                if one.gap is not None:
                    self.sources[before:] = [replace(s, gap=one.gap) for s in self.sources[before:]]
        except remote.Unreachable as error:
            raise NothingToRead(str(error)) from None

    def archive(self, file: Path, path: str, packing: str, size: int) -> None:
        """Add what an archive holds, and a row on the archive itself; never raises."""
        from forensics.archives.limits import Unpacked

        found = Unpacked()

        def wanted(name: str) -> str | None:
            folders, suffix = name.split("/")[:-1], PurePosixPath(name).suffix.lower()
            if self.excluded(f"{path}{MARK}{name}"):
                return "excluded"
            if not _SKIPPED_FOLDERS.isdisjoint(folders):
                return "holds programs, not traces of a run"
            return "data in an archive, which are not unpacked" if suffix in _DATA_SUFFIXES else None

        def readable(head: bytes, name: str) -> str | None:
            return classify(head, name, self.sniffers)[1]

        for member in self.unpacker.members(file, path.rsplit("/", 1)[-1], packing, found, wanted, readable):
            if len(self.sources) >= MAX_FILES:
                found.problem = f"more than {MAX_FILES} files"
                break
            before = len(self.sources)
            self.file(member.file, f"{path}{MARK}{_printable(member.name)}")
            if not any(source.file == member.file for source in self.sources[before:]):
                member.file.unlink(missing_ok=True)
        for name, reason in found.skipped:
            self.skip(f"{path}{MARK}{_printable(name)}", reason)
        parts = [f"{found.problem} ({packing})"] if found.problem else []
        if packing in (JUPYTER, JOINED) and found.count:
            parts.append(f"{packing}, read as the text {'that its cells put out' if packing == JUPYTER else 'of each'}")
        elif packing in RECORDS and found.count:
            parts.append(f"JSON of {packing}, read as the text that it holds")
        elif found.count:
            parts.append(f"{found.count:,} member{'s' * (found.count != 1)} unpacked")
        parts += [f"{n:,} more left out: {reason}" for reason, n in found.more.items()]
        status = Status.PARTIAL if found.count else Status.SKIPPED
        if not found.problem and not found.more:
            status = Status.READ
        elif not found.count and (found.problem or "").startswith(("damaged", "cut")):
            status = Status.UNREADABLE
        self.skip(path, "; ".join(parts), status=status, kind="archive", size=size)


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _inside(link: Path, boundary: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(boundary)
    except (OSError, RuntimeError):
        return False


def discover(
    paths: Sequence[str], sniffers: Sniffers, *, exclude: Sequence[str] = (), since: float | None = None
) -> Run:
    """Every file under `paths` (folders, files, or "-" for standard input), classified.

    since: seconds since the epoch; older files are skipped. Raises NothingToRead where a path does not exist.
    """
    walk = _Walk(exclude, since, sniffers)
    path = _go_through(walk, paths)
    if not any(given.lower().endswith(NOTEBOOK) for given in paths):
        _leave_notebooks(walk)
    _leave_quotes(walk, paths)
    jobs = jobs_of_arrays(walk.sources)
    placed = restarted(local_names(number_tasks(rotated(walk.sources), jobs)))
    return Run(path, tuple(placed), tuple(walk.skipped), jobs)


def _leave_notebooks(walk: _Walk) -> None:
    """Leave out notebooks that lie beside logs: code comes with notebooks whose outputs are of other runs."""
    found = [s for s in walk.sources if f"{NOTEBOOK}{MARK}" in s.path.lower()]
    if not found or not any(s.kind is Kind.LOG for s in walk.sources if s not in found):
        return
    walk.sources[:] = [s for s in walk.sources if s not in found]
    walk.skipped[:] = [row for row in walk.skipped if not row.path.lower().endswith(NOTEBOOK)]
    for source in found:
        path = source.path.rpartition(MARK)[0]
        walk.skip(
            path, "a notebook beside logs; give its path to have it read", kind=Kind.CONFIG.value, size=source.size
        )


def _leave_quotes(walk: _Walk, paths: Sequence[str]) -> None:
    """Leave out what quotes messages of other runs, where the run has logs: notes, and what comes with its code."""
    programs = {row.path.rpartition("/")[0] for row in walk.skipped if row.reason == PROGRAM}
    given = [os.path.normpath(path) for path in paths]

    def is_quote(source: Source) -> bool:
        if quoted.is_prose(source.path) and source.kind is Kind.LOG:
            return not any(os.path.normpath(source.file) == path for path in given)
        return quoted.comes_with_code(source.path, programs)

    quotes: list[Source] = []
    rest: list[Source] = []
    for source in walk.sources:
        (quotes if is_quote(source) else rest).append(source)
    if not quotes or not any(s.kind is Kind.LOG and quoted.is_named_as_log(s.path) for s in rest):
        return
    walk.sources[:] = rest
    for source in quotes:
        why_not = "a document or what comes with code, beside logs; give its path to have it read"
        walk.skip(source.path, why_not, kind=Kind.CONFIG.value, size=source.size)


def listing(paths: Sequence[str], *, exclude: Sequence[str] = ()) -> list[tuple[Path, str]]:
    """(file, path as reports show it) of every file that `discover` would look at in folders and files; opens none.

    Raises NothingToRead where a path does not exist.
    """
    walk = _Names(exclude, None, _NO_SNIFFERS)
    _go_through(walk, paths)
    return walk.names


def examine(file: Path, path: str, sniffers: Sniffers) -> Source | Coverage:
    """What `discover` makes of one file: a source, or why it is none. Archives are not gone into; never raises."""
    walk = _NoArchives((), None, sniffers)
    walk.file(file, path)
    return walk.sources[0] if walk.sources else walk.skipped[0]


class _Names(_Walk):
    """Takes the names of files alone."""

    def __init__(self, exclude: Sequence[str], since: float | None, sniffers: Sniffers) -> None:
        super().__init__(exclude, since, sniffers)
        self.names: list[tuple[Path, str]] = []

    def file(self, file: Path, path: str) -> None:
        if len(self.names) < MAX_FILES:
            self.names.append((file, path))


class _NoArchives(_Walk):
    unwraps = False

    def archive(self, file: Path, path: str, packing: str, size: int) -> None:
        self.skip(path, packing, kind="archive", size=size)


_NO_SNIFFERS = Sniffers(lambda head: False, lambda head, name: False, lambda head, name: False)


def _go_through(walk: _Walk, paths: Sequence[str]) -> str:
    """Let a walk see every given path, and say what the run is called. Raises NothingToRead.

    Of several paths, one that does not exist costs only itself; where none exists there is nothing to read.
    """
    shown_paths = _without_credentials(paths)
    others = len(paths) > 1 and any(p == "-" or _is_url(p) or os.path.lexists(p or "\0") for p in paths)
    for given, label in zip(paths, _labels(shown_paths), strict=True):
        if given == "-":
            _spool_stdin(walk)
            continue
        if _is_url(given):
            walk.remote(given, "" if len(paths) == 1 else f"{label}/")
            continue
        root = Path(given)
        shown = given if len(given) <= 300 else f"{given[:300]}…"
        try:
            if not given:
                raise NothingToRead("an empty path was given")
            if not root.is_symlink():
                root.stat()
            is_folder = root.is_dir()
            if is_folder:
                root.resolve()
        except FileNotFoundError:
            if others:
                walk.skip(_printable(shown), NOT_THERE, status=Status.UNREADABLE, kind="given path")
                continue
            raise NothingToRead(f"{shown}: {NOT_THERE}") from None
        except (OSError, RuntimeError, ValueError) as error:
            raise NothingToRead(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
        if is_folder:
            walk.folder(root, "" if len(paths) == 1 else f"{label}/")
        else:
            walk.file(root, label)
    return " ".join(shown_paths)


def _is_url(path: str) -> bool:
    if "://" not in path:
        return False
    from forensics import remote

    return remote.is_url(path)


def _without_credentials(paths: Sequence[str]) -> list[str]:
    if not any(map(_is_url, paths)):
        return list(paths)
    from forensics import remote

    return [remote.shown(p) for p in paths]


def _labels(paths: Sequence[str]) -> list[str]:
    """How each given path is called in reports: by its name, or by all that tells it from others of the same name."""
    names = [_printable(Path(p).name or p) for p in paths]
    if len(set(names)) == len(names):
        return names
    try:
        whole = {p: os.path.normpath(Path(p).absolute()) for p in paths if p != "-"}
        common = os.path.commonpath(list(whole.values()))
        return [_printable(os.path.relpath(whole[p], common)) if p in whole else p for p in paths]
    except (OSError, ValueError):  # no current directory; drives of Windows; "-" twice
        return [_printable(p) for p in paths]


def _spool_stdin(walk: _Walk) -> None:
    """Standard input is copied to a temporary file (deleted at exit), since a scan reads its file more than once."""
    if sys.stdin is None:
        raise NothingToRead("-: standard input is closed")
    try:
        spool = tempfile.NamedTemporaryFile(prefix="forensics-stdin-", delete=False)  # noqa: SIM115 - outlives this call
        atexit.register(Path(spool.name).unlink, missing_ok=True)
        with spool:
            for chunk in _chunks():
                spool.write(chunk)
    except OSError as error:
        reason = f"cannot be copied to {tempfile.gettempdir()}: {error.strerror or error}"
        raise NothingToRead(f"-: standard input {reason}") from None
    walk.file(Path(spool.name), "stdin")


def _chunks() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(1 << 20):
        yield chunk
