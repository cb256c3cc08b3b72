"""How a file is packed, and how names change by it."""

from __future__ import annotations

import re

from forensics.archives import records
from forensics.archives.collected import SYSTEMS
from forensics.archives.cri import looks_like_parts
from forensics.archives.joined import looks_joined
from forensics.archives.journal import looks_like_journal
from forensics.archives.notebook import looks_like_notebook
from forensics.archives.pyspy import looks_like_stacks
from forensics.archives.slurm import looks_like_jobs
from forensics.patterns import lazy

SLURM, PYSPY, JOURNAL, PARTS = "Slurm", "py-spy", "a journal's fields", "lines in parts"
JUPYTER = "a notebook"
JOINED = "files joined by tail or head"
RECORDS = (SLURM, PYSPY, JOURNAL, PARTS, JUPYTER, JOINED, *SYSTEMS)  # JSON, which holds a text; and texts in one text
MARK = "!/"  # between an archive's path and a member's: a.tar.gz!/rank0.log
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))
_EXTENSION = lazy(r"\.(?:gz|gzip|xz|bz2|bzip2|zst|zstd|Z)$", re.I)
_ONLY_COMPRESSED = lazy(r"(?<![^/])([^/]+?)(?:\.(?:gz|gzip|xz|bz2|bzip2|zst|zstd))?!/\1$", re.I)
_SHORT_TAR = lazy(r"\.t(?:gz|xz|bz2?|zst)$", re.I)


def format_of(head: bytes, name: str) -> str | None:
    """How a file is packed; None for what is not unpacked.

    One of "gzip", "xz", "bzip2", "zstd", "tar", "zip", and of `RECORDS`. head: the first bytes of the file. Checkpoints
    of torch are zip files too; a zip is an archive of files only where it is named .zip and its first member is none of
    a checkpoint.
    """
    if (what := compression(head)) is not None:
        return what
    if head.startswith(b"PK\x03\x04") and name.lower().endswith(".zip") and not is_torch_zip(head):
        return "zip"
    if looks_like_jobs(head):
        return SLURM
    if looks_like_stacks(head):
        return PYSPY
    if looks_like_journal(head):
        return JOURNAL
    if looks_like_parts(head):
        return PARTS
    if looks_like_notebook(head, name):
        return JUPYTER
    if looks_joined(head):
        return JOINED
    if (form := records.form_of(head)) is not None:
        return form.system
    return "tar" if tar_header(head[:512]) else None


def compression(head: bytes) -> str | None:
    """How the one file is compressed that begins so: "gzip", "xz", "bzip2" or "zstd"; None where it is not."""
    return next((what for magic, what in _MAGIC if head.startswith(magic)), None)


def is_torch_zip(head: bytes) -> bool:
    """Whether a zip file is one that torch wrote: its first entry is `<name>/data.pkl` or a tensor's data."""
    if not head.startswith(b"PK\x03\x04") or len(head) < 30:
        return False
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return re.search(rb"/(?:data\.pkl|data/\d+|constants\.pkl|\.format_version)$", name) is not None


def without_compression(path: str) -> str:
    """A path as it would be if a file that holds one other were that: a/rank0.log for a/rank0.log.gz!/rank0.log."""
    while (outer := _ONLY_COMPRESSED.sub(r"\1", path)) != path:
        path = outer
    return path


def plain_name(name: str) -> str:
    """The name of a compressed file's content: rank0.log for rank0.log.gz."""
    if _SHORT_TAR.search(name):
        return _SHORT_TAR.sub(".tar", name)
    return _EXTENSION.sub("", name) or name


def text_name(name: str) -> str:
    """The name of the text that a JSON document holds: jobs.txt for jobs.json."""
    return f"{name.removesuffix('.json')}.txt"


def octal(raw: bytes) -> int:
    """A number in a tar header: octal text, or base 256 where the first bit is set (GNU)."""
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big")
    text = raw.split(b"\0")[0].strip()
    return int(text, 8) if text else 0


def tar_header(block: bytes) -> bool:
    """Whether 512 bytes are a tar header: its checksum is that of its bytes, the field of the checksum as spaces."""
    if len(block) < 512 or not block.strip(b"\0"):
        return False
    try:
        stated = octal(block[148:156])
    except ValueError:
        return False
    return stated == sum(block[:148]) + 8 * 32 + sum(block[156:512]) and stated > 8 * 32
