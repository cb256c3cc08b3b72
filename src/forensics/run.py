"""Discovery: a path becomes the sources of a run. What each file is, is told by its content first, then by its name.

Nothing is followed out of the run directory, nothing but regular files is opened, and every file that was found is
accounted for: it becomes a source, or a coverage row that says why not.
"""

from __future__ import annotations

import atexit
import fnmatch
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from forensics import quoted
from forensics.archives.formats import JOINED, JUPYTER, MARK, RECORDS, compression, format_of
from forensics.archives.limits import Stop
from forensics.archives.split import Split, splits
from forensics.files import beginning, printable
from forensics.kinds import CHECKPOINT_NAME, PROGRAM, PROGRAM_SUFFIXES, Sniffers, classify, utf16
from forensics.model import Coverage, Identity, Kind, Source, Status
from forensics.path_identity import (
    hosts_before_ranks,
    identity_of,
    jobs_of_arrays,
    local_names,
    number_tasks,
    restarted,
    rotated,
)

if TYPE_CHECKING:
    from forensics.archives.unpacker import Unpacker

SNIFF = 16 << 10  # bytes of a file's head that tell its kind
MAX_FILES = 200_000
MAX_DEPTH = 40

# Folders that hold programs, not traces of a run.
_SKIPPED_FOLDERS = {".git", "__pycache__", "site-packages", "node_modules", ".venv", "venv", ".mypy_cache"}
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


NOTEBOOK = ".ipynb"
NOT_THERE = "no such file or directory"


class NothingToRead(Exception):
    """The given paths hold nothing that could be analysed; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    path: str  # as the user gave it
    sources: tuple[Source, ...]
    skipped: tuple[Coverage, ...]
    jobs: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of an array: name -> the files of each


class _Walk:
    goes_into_archives = True
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
            names = [e.name for e in entries if not self.excluded(f"{at}{printable(e.name)}")]
            parted = splits(names) if self.goes_into_archives else {}
            put_together: set[str] = set()
            for entry in entries:
                path = f"{at}{printable(entry.name)}"
                if self.excluded(path):
                    self.skip(path, "excluded")
                    continue
                if entry.name in put_together:
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
                if (split := parted.get(entry.name)) is not None and self.in_parts(folder, split, at):
                    put_together.update(split.parts)
                    continue
                self.file(Path(entry.path), path)
            stack.extend(reversed(below))

    def in_parts(self, folder: Path, split: Split, prefix: str) -> bool:
        """Add what an archive that lies in parts holds, and a row for each; False where they are no such thing.

        Never raises.
        """
        files = [folder / name for name in split.parts]
        try:
            told = [file.lstat() for file in files]
            if not all(stat.S_ISREG(info.st_mode) for info in told):
                return False
            if self.since is not None and max(info.st_mtime for info in told) < self.since:
                return False
            first, *others = (beginning(file, SNIFF) for file in files)
            packing = format_of(first, split.whole)
            if packing is None or packing in RECORDS or any(compression(head) for head in others):
                return False  # files of their own, each packed by itself
            path = f"{prefix}{printable(split.whole)}"
            whole = self.unpacker.put_together(files, split.whole)
        except (Stop, OSError):
            return False
        for name, info in zip(split.parts, told, strict=True):
            reason = f"a part of {path}, and read with it"
            self.skip(f"{prefix}{printable(name)}", reason, status=Status.READ, kind="archive", size=info.st_size)
        self.archive(whole, path, packing, sum(info.st_size for info in told))
        whole.unlink(missing_ok=True)
        return True

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
        size = info.st_size
        if self.unwraps and (codec := utf16(head)) is not None:
            try:
                file = self.unpacker.in_utf8(file, codec)
                head, size = beginning(file, SNIFF), file.stat().st_size
            except (Stop, OSError) as error:
                return self.skip(path, f"UTF-16 text: {error}", status=Status.UNREADABLE, size=size)
        name = path.rsplit("/", 1)[-1]
        packing = format_of(head, name)
        if packing is not None and (packing not in RECORDS or self.unwraps):
            if not self.unpacker.may_go_into(path):
                reason = f"{packing}, within {self.unpacker.limits.depth} other archives; unpack it to have it read"
                return self.skip(path, reason, kind="archive", size=size)
            return self.archive(file, path, packing, size)
        kind, why_not = classify(head, name, self.sniffers)
        if why_not is not None:
            return self.skip(path, why_not, kind=kind.value, size=size)
        # The numbers in a checkpoint's name count shards, and not always ranks.
        identity = Identity() if kind is Kind.CHECKPOINT else identity_of(path)
        # What bears a rank was printed by one.
        if kind is Kind.LOG and identity == Identity() and (why_not := self.other_text(file, head, size, name)):
            return self.skip(path, why_not, kind=Kind.CONFIG.value, size=size)
        self.sources.append(Source(path, file, kind, size, identity))
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

    def remote(self, url: str, label: str, *, alone: bool) -> None:
        """Add what lies behind a URL, under its label unless it is all that was given.

        Raises NothingToRead where it cannot be listed.
        """
        from forensics import remote

        prefix = "" if alone else f"{label}/"

        def wanted(name: str) -> str | None:
            suffix = PurePosixPath(name).suffix.lower()
            if self.excluded(f"{prefix}{name}"):
                return "excluded"
            if not _SKIPPED_FOLDERS.isdisjoint(name.split("/")[:-1]):
                return "holds programs, not traces of a run"
            if suffix in PROGRAM_SUFFIXES:
                return PROGRAM
            data = suffix in _DATA_SUFFIXES and not CHECKPOINT_NAME.search(name)
            return "data, which are not fetched" if data else None

        def readable(head: bytes, name: str) -> str | None:
            if format_of(head, name) is not None:
                return None
            return classify(head, name, self.sniffers)[1]

        choice = remote.Choice(wanted, readable, lambda name: CHECKPOINT_NAME.search(name) is not None, self.since)
        try:
            for one in remote.fetch(url, choice):
                path = label if one.given and not alone else f"{prefix}{printable(one.name)}"
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
            return classify(head, name, self.sniffers)[1] if utf16(head) is None else None

        for member in self.unpacker.members(file, path.rsplit("/", 1)[-1], packing, found, wanted, readable):
            if len(self.sources) >= MAX_FILES:
                found.problem = f"more than {MAX_FILES} files"
                break
            before = len(self.sources)
            self.file(member.file, f"{path}{MARK}{printable(member.name)}")
            if not any(source.file == member.file for source in self.sources[before:]):
                member.file.unlink(missing_ok=True)
        for name, reason in found.skipped:
            self.skip(f"{path}{MARK}{printable(name)}", reason)
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
    placed = restarted(local_names(hosts_before_ranks(number_tasks(rotated(walk.sources), jobs))))
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

    goes_into_archives = False

    def __init__(self, exclude: Sequence[str], since: float | None, sniffers: Sniffers) -> None:
        super().__init__(exclude, since, sniffers)
        self.names: list[tuple[Path, str]] = []

    def file(self, file: Path, path: str) -> None:
        if len(self.names) < MAX_FILES:
            self.names.append((file, path))


class _NoArchives(_Walk):
    goes_into_archives = False
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
            walk.remote(given, label, alone=len(paths) == 1)
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
                walk.skip(printable(shown), NOT_THERE, status=Status.UNREADABLE, kind="given path")
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
    names = [printable(Path(p).name or p) for p in paths]
    if len(set(names)) == len(names):
        return names
    try:
        whole = {p: os.path.normpath(Path(p).absolute()) for p in paths if p != "-"}
        common = os.path.commonpath(list(whole.values()))
        return [printable(os.path.relpath(whole[p], common)) if p in whole else p for p in paths]
    except (OSError, ValueError):  # no current directory; drives of Windows; "-" twice
        return [printable(p) for p in paths]


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
