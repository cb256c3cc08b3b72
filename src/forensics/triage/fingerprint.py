"""What tells whether a job has changed: a quick key from sizes and times, and a fingerprint from names and content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forensics.files import opened
from forensics.model import Kind, Source
from forensics.run import MAX_DEPTH, MAX_FILES, Run

RACY = 2.0  # seconds: a file changed this shortly before it was looked at may change again and keep its time
WHOLE = 64 << 20  # bytes of a checkpoint that are hashed in full; of larger ones the ends and SAMPLES blocks between
ENDS = 4 << 20
SAMPLES = 16
SAMPLE = 64 << 10
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Quick:
    """key: "" where it must not be trusted. modified: of the newest file, seconds since the epoch; None without any."""

    key: str
    modified: float | None


def quick(parts: Sequence[str], now: float) -> Quick:
    """The quick key of a job: names, sizes and times of its files, without opening one. Never raises.

    parts: paths of this machine; a URL has no quick key. now: seconds since the epoch.
    """
    digest = hashlib.sha256()
    newest: int | None = None
    trusted = True
    number = 0
    for index, part in enumerate(parts):
        if "://" in part:
            return Quick("", None)
        for name, info in _files(Path(part)):
            number += 1
            if number > MAX_FILES:
                return Quick("", newest / 1e9 if newest is not None else None)
            digest.update(f"{index}\0{name}\0{info.st_size}\0{info.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
            newest = max(newest or 0, info.st_mtime_ns)
            trusted = trusted and info.st_mtime < now - RACY
    return Quick(digest.hexdigest() if trusted and number else "", newest / 1e9 if newest is not None else None)


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(relative name, stat) of what lies under a path, in the order of names; links are not followed below it."""
    try:
        info = root.stat()
    except (OSError, ValueError):
        return
    if not stat.S_ISDIR(info.st_mode):
        yield root.name, info
        return
    stack = [(str(root), "", 0)]
    while stack:
        folder, prefix, depth = stack.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda e: e.name)
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            name = f"{prefix}{entry.name}"
            if stat.S_ISDIR(status.st_mode):
                if depth < MAX_DEPTH:
                    stack.append((entry.path, f"{name}/", depth + 1))
            else:
                yield name, status


def fingerprint(run: Run, *, of_several: bool = False) -> str:
    """SHA-256 (hex) of a discovered job: of each file its name and content, of what is not read its name and size.

    A file that can no longer be read counts with its name and the reason. Times do not count. of_several: what lies in
    it may be several jobs, and is read so.
    """
    digest = hashlib.sha256(b"several\0" if of_several else b"")
    for source in run.sources:
        digest.update(f"{source.path}\0{source.kind.value}\0{source.size}\0".encode("utf-8", "replace"))
        try:
            digest.update(_content(source))
        except OSError as error:
            digest.update(f"unreadable {error.errno}".encode())
    for row in run.skipped:
        digest.update(f"{row.path}\0{row.kind}\0{row.bytes}\0{row.status.value}\n".encode("utf-8", "replace"))
    return digest.hexdigest()


def _content(source: Source) -> bytes:
    digest = hashlib.sha256()
    with opened(source.file) as file:
        if source.kind is Kind.CHECKPOINT and source.size > WHOLE:
            step = (source.size - 2 * ENDS) // SAMPLES
            spans = [(0, ENDS), *((ENDS + i * step, SAMPLE) for i in range(SAMPLES)), (source.size - ENDS, ENDS)]
        else:
            spans = [(0, source.size)]  # what is written later belongs to the next triage
        for start, length in spans:
            file.seek(start)
            while length > 0 and (block := file.read(min(length, _BLOCK))):
                digest.update(block)
                length -= len(block)
    return digest.digest()
