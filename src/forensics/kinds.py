"""What a file is: told by its first bytes, then by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from forensics.archives.formats import is_torch_zip
from forensics.model import Kind
from forensics.report.own import is_report

PROGRAM = "program source"
PROGRAM_SUFFIXES = frozenset(
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
CHECKPOINT_NAME = re.compile(
    r"(?:\.(?:pt|pth|ckpt|safetensors|distcp)|\.pth\.tar"
    r"|(?:^|[._-])(?:pytorch_model|model|optimizer|scheduler|training_args)(?:[._-][\w.-]*)?\.bin)"
    r"(?:\.(?:tmp|partial|part|incomplete))?$",
    re.I,
)


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


def classify(head: bytes, name: str, sniffers: Sniffers) -> tuple[Kind, str | None]:
    """(kind, why it is not read) of a file, from its first bytes and its name."""
    checkpoint = CHECKPOINT_NAME.search(name) is not None
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
    if utf16(head) is not None:
        return Kind.BINARY, "UTF-16 text; convert it to UTF-8 to have it read"
    if _looks_binary(head):
        if checkpoint:
            return Kind.CHECKPOINT, None
        zeros = not head.strip(b"\0")  # of a long file, `head` is then its end
        return Kind.BINARY, "zero bytes, at its beginning and at its end" if zeros else "binary file of unknown format"
    if suffix in PROGRAM_SUFFIXES:
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


def utf16(head: bytes) -> str | None:
    """The codec of a text in UTF-16, as Windows PowerShell's `>` writes it; None for anything else.

    Without a byte order mark it is Latin text alone: every other byte, and hardly one between, is zero. Behind a mark
    there have to be lines, for other files begin with the same two bytes.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        of_utf32 = head.startswith(b"\xff\xfe\x00\x00")
        return "utf-16" if not of_utf32 and "\n" in head.decode("utf-16", "replace") else None
    even, odd = head[::2].count(0), head[1::2].count(0)
    if len(head) < 64 or max(even, odd) <= 0.45 * len(head) or min(even, odd) >= 0.05 * len(head):
        return None
    return "utf-16-be" if even > odd else "utf-16-le"
