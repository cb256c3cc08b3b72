"""`journalctl -o export` and `-o verbose`: the fields of a record on lines of their own, as the lines that it prints.

    __REALTIME_TIMESTAMP=1795158000000000          Fri 2026-11-20 09:00:00.123456 UTC [s=..;i=..;b=..;m=..;t=..;x=..]
    _HOSTNAME=gpu-07                                   _HOSTNAME=gpu-07
    MESSAGE=step 1 loss 2.0                            MESSAGE=step 1 loss 2.0

(systemd: src/shared/logs-show.c, docs/JOURNAL_EXPORT_FORMATS.md). In the first form a value that is no printable text
stands behind a line with its name alone, as its length in eight bytes and its bytes; an empty line ends a record. In
the second one the lines of a longer value go on behind the same indent as its name's.

Each line of the text has the number of the line on which its message stands in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from forensics.archives.collected import journal
from forensics.parsers.stamps import MONTHS, parse_time
from forensics.patterns import lazy

VALUE = 1 << 20  # bytes of one value, or of one line; longer ones are cut
_EXPORT = lazy(rb"__CURSOR=[^\n]{1,500}\n(?:[A-Z_0-9]{1,64}=[^\n]{0,2000}\n){2}", re.ASCII)
_VERBOSE = lazy(
    rb"(?:-- (?:Journal|Logs) begin[^\n]{1,200}\n)?"
    rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S{1,10} \[s=[0-9a-f]{1,64};[^\n]{1,300}\]\n"
    rb" {4}[A-Z_0-9]{1,64}=",
    re.ASCII,
)
_HEAD = lazy(rb"[A-Z][a-z]{2} (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) (?P<zone>\S{1,10}) \[s=", re.ASCII)
_FIELD = lazy(rb" {4}([A-Z_0-9]{1,64})=(.*)", re.ASCII | re.S)

_MONTHS = {number: name for name, number in MONTHS.items()}
_UNKNOWN = "1970-01-01T00:00:00.000000+00:00"  # of a record that was given no time


def looks_like_journal(head: bytes) -> bool:
    """Whether a file that begins with these bytes is in one of the two forms."""
    return _EXPORT.match(head) is not None or _VERBOSE.match(head) is not None


def text(raw: BinaryIO) -> Iterator[bytes]:
    """The lines of the messages, each behind its time, host, program and pid."""
    first = raw.readline(VALUE)
    raw.seek(0)
    yield from _of_export(raw) if first.startswith(b"__CURSOR=") else _of_verbose(raw)


class _Record:
    """The fields of one record, the lines that it takes up in the file and on which of them its message begins."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.lines = 0
        self.at = 0
        self.front = ""  # a stamp in a zone that is not known

    def add(self, name: bytes, value: bytes, lines: int = 1) -> None:
        if name == b"MESSAGE" and "MESSAGE" not in self.fields:
            self.at = self.lines
        self.fields.setdefault(name.decode("ascii", "replace"), value.decode("utf-8", "replace"))
        self.lines += lines

    def shown(self) -> bytes:
        """As many lines as the record has, the message on the one on which it stands."""
        said = journal({"_BOOT_ID": "", **self.fields})
        if not said:
            return b"\n" * self.lines
        front = said[0].front or ""
        if self.front and front.startswith(_UNKNOWN):
            front = self.front + front.removeprefix(_UNKNOWN)
        body = "\r".join(front + line for line in said[0].text.rstrip().splitlines() or [""])
        return b"\n" * self.at + body.encode("utf-8", "replace") + b"\n" * (self.lines - self.at)


def _of_export(raw: BinaryIO) -> Iterator[bytes]:
    record = _Record()
    while line := raw.readline(VALUE):
        name, equals, value = line.rstrip(b"\r\n").partition(b"=")
        if not name:
            record.lines += 1
            yield record.shown()
            record = _Record()
        elif equals:
            record.add(name, value, line.count(b"\n"))
        else:
            held, lines = _sized(raw)
            record.add(name, held, line.count(b"\n") + lines)
    yield record.shown()


def _sized(raw: BinaryIO) -> tuple[bytes, int]:
    """(a value that stands behind its length, how many lines it and the length take up)."""
    length = raw.read(8)
    left, value, lines = int.from_bytes(length, "little"), b"", length.count(b"\n")
    while left >= 0 and (piece := raw.read(min(left + 1, VALUE))):  # with the line end behind it
        left -= len(piece)
        lines += piece.count(b"\n")
        value += piece[: VALUE - len(value)]
    return value.removesuffix(b"\n"), lines


def _of_verbose(raw: BinaryIO) -> Iterator[bytes]:
    record = _Record()
    name = b""
    while line := raw.readline(VALUE):
        if (m := _HEAD.match(line)) is not None:
            yield record.shown()
            record, name = _Record(), b""
            _date(record, m["time"].decode("ascii"), m["zone"])
            record.lines = line.count(b"\n")
        elif (m := _FIELD.match(line.rstrip(b"\r\n"))) is not None:
            name = m[1]
            record.add(name, m[2], line.count(b"\n"))
        else:
            if name == b"MESSAGE" and line.startswith(b"    "):
                record.fields["MESSAGE"] += "\n" + line.strip().decode("utf-8", "replace")
            record.lines += line.count(b"\n")
    yield record.shown()


def _date(record: _Record, time: str, zone: bytes) -> None:
    """Give a record the time of its head; one in a zone that is none that is known in the form that bears none."""
    told, _ = parse_time(time, 0.0)
    if told is None:
        return
    record.fields["__REALTIME_TIMESTAMP"] = str(round(told * 1e6)) if zone in (b"UTC", b"GMT") else "0"
    if zone not in (b"UTC", b"GMT"):
        record.front = f"{_MONTHS[int(time[5:7])]} {int(time[8:10]):2} {time[11:]}"
