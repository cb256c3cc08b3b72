"""One line of a kernel log: where its message begins, when it was written, on which host, how severe it is.

The forms are those that dmesg (util-linux sys-utils/dmesg.c), journalctl (systemd src/shared/logs-show.c), rsyslog's
traditional and RFC 3339 templates, /dev/kmsg and pstore print. Times since boot are printk's (`[%5ld.%06ld]`), wall
times the host's; neither bears a year in every form, and only some a zone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from forensics.parsers.stamps import MONTHS

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_SECONDS = r"\[ *(?P<seconds>\d{1,10}\.\d{6})(?: <[ \d.]{1,20}>)?\] ?"
_CALLER = r"(?:\[ *[TC]\d+\] ?)?"
_LEVEL = r"(?:<(?P<priority>\d{1,3})>|(?P<facility>[a-z]+\d?) *:(?P<level>[a-z]+) *: ?)?"
_TAG = r"(?P<tag>[\w./@-]{1,64}?)(?:\[(?P<pid>\d{1,10})\])?: ?"
_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,253})"
_END = rf"{_TAG}(?:{_SECONDS})?(?P<message>.*)$"  # of a system log's line
_CTIME_STAMP = rf"(?P<stamp>\S{{1,4}} +\S{{1,4}} +\d{{1,2}} {_CLOCK} \d{{4}})"
_MICROS_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:?\d\d)"
_SYSLOG_STAMP = rf"(?P<stamp>[A-Z][a-z]{{2}} +\d{{1,2}} (?:\d{{4}} )?{_CLOCK}(?: \d{{4}})?)"
_ZONE = r"(?: (?P<zone>[A-Z][A-Z0-9+:-]{1,6}))?"

# Tried in this order; each matches only where the ones before it do not.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.S))
    for name, pattern in (
        ("kmsg", r"^(?P<priority>\d{1,3}),\d+,(?P<micros>\d{1,17}),[-c+](?:,[^;]{0,60})?;(?P<message>.*)$"),
        ("dmesg", rf"^{_LEVEL}{_SECONDS}{_CALLER}(?P<message>.*)$"),
        ("dmesg -T", rf"^{_LEVEL}\[{_CTIME_STAMP}\] ?{_CALLER}(?P<message>.*)$"),
        ("dmesg iso", rf"^{_LEVEL}{_MICROS_STAMP} {_CALLER}(?P<message>.*)$"),
        ("dmesg -e", rf"^{_LEVEL}\[(?P<minute>[A-Z][a-z]{{2}} ?\d{{1,2}} \d\d:\d\d)\] ?{_CALLER}(?P<message>.*)$"),
        ("dmesg -e", rf"^{_LEVEL}\[ *\+(?P<delta>\d{{1,9}}\.\d{{6}})\] ?{_CALLER}(?P<message>.*)$"),
        ("journal unix", rf"^(?P<epoch>1\d{{9}}\.\d{{6}}) {_HOST} {_END}"),
        ("journal full", rf"^[A-Z][a-z]{{2}} (?P<stamp>{_ISO}){_ZONE} {_HOST} {_END}"),
        ("syslog", rf"^(?:<\d{{1,3}}>)?{_SYSLOG_STAMP} (?:{_HOST} )?{_END}"),
        ("syslog iso", rf"^(?:<\d{{1,3}}>)?(?P<stamp>{_ISO}) (?:{_HOST} )?{_END}"),
    )
)  # fmt: skip
_LEVELS = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warn": 4, "notice": 5, "info": 6, "debug": 7}
_CTIME = re.compile(
    r"(?:\S{1,4} +)??(?:(?P<month>[A-Z][a-z]{2})|(?P<number>\d{1,2})月) *(?P<day>\d{1,2}) (?:(?P<year>\d{4}) )?"
    r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?(?: (?P<late_year>\d{4}))?$"
)
_ISO_PARTS = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:(Z)|([+-])(\d\d):?(\d\d))?$"
)
_KERNEL_TAGS = ("kernel",)
# What a line of a system's own log bears as its tag, besides "kernel".
_SYSTEM_TAGS = (
    "systemd", "slurmd", "slurmstepd", "kubelet", "containerd", "dockerd", "earlyoom", "systemd-oomd", "mcelog",
    "rasdaemon", "nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "systemd-networkd", "mmfs", "cron",
    "sshd", "systemd-logind", "systemd-coredump", "audit", "dbus-daemon", "NetworkManager", "chronyd", "crond",
    "rsyslogd", "sudo", "lnet", "opensm",
)  # fmt: skip
SAMPLE = 200  # lines of a file's head by which it is recognised
SHARE = 0.5  # of its stamped lines that a kernel or system daemon must have written


@dataclass(frozen=True, slots=True)
class KernelLine:
    """What stands around the message of one line."""

    form: str
    message: str
    seconds: float | None = None  # since boot
    stamp: str | None = None  # wall time as printed
    minute: str | None = None  # dmesg -e: the minute at which a group of lines begins
    delta: float | None = None  # dmesg -e: seconds since the line before
    epoch: float | None = None  # journal unix
    utc: bool = False  # the zone printed beside the stamp is UTC
    level: int | None = None  # 0 emergency ... 7 debug
    host: str | None = None
    tag: str | None = None  # who wrote it, where a system log says so; "kernel" for the kernel
    pid: int | None = None  # of the writer

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel's own ring buffer holds the line: forms without a tag print nothing else."""
        return self.tag is None or self.tag in _KERNEL_TAGS


def read_line(text: str) -> KernelLine | None:
    """A line of a kernel or system log without what stands before its message; None for any other line."""
    for form, pattern in _FORMS:
        m = pattern.match(text)
        if m is None:
            continue
        got = m.groupdict()
        priority, level = got.get("priority"), got.get("level")
        if got.get("facility") is not None and level not in _LEVELS:
            continue
        micros = got.get("micros")
        seconds = int(micros) / 1e6 if micros else float(got["seconds"]) if got.get("seconds") else None
        return KernelLine(
            form=form,
            message=got["message"],
            seconds=seconds,
            stamp=got.get("stamp"),
            minute=got.get("minute"),
            delta=float(got["delta"]) if got.get("delta") else None,
            epoch=float(got["epoch"]) if got.get("epoch") else None,
            utc=got.get("zone") in ("UTC", "GMT"),
            level=int(priority) & 7 if priority else _LEVELS.get(level or ""),
            host=got.get("host"),
            tag=got.get("tag"),
            pid=int(got["pid"]) if got.get("pid") else None,
        )
    return None


def recognise(lines: Iterable[str]) -> str | None:
    """The form of a kernel or system log from its first lines; None where they are of something else.

    A log of a service that goes through the same journal is none: half of its lines must come from the kernel or from
    the daemons of the system.
    """
    forms: dict[str, int] = {}
    system = stamped = seen = 0
    for line in lines:
        if not line.strip():
            continue
        seen += 1
        if (found := read_line(line)) is not None:
            stamped += 1
            forms[found.form] = forms.get(found.form, 0) + 1
            system += found.by_kernel or found.tag in _SYSTEM_TAGS
        if seen >= SAMPLE:
            break
    if not stamped or 2 * stamped < seen or system < SHARE * stamped:
        return None
    return max(forms, key=lambda form: forms[form])


def wall_time(line: KernelLine, reference: float) -> tuple[float | None, bool]:
    """(seconds since the epoch, zone known) of a line's own stamp; (None, False) where it bears none.

    reference: seconds since the epoch near which a stamp without a year lies.
    """
    if line.epoch is not None:
        return line.epoch, True
    if line.stamp is not None:
        time, known = parse_stamp(line.stamp, reference)
        return time, known or (line.utc and time is not None)
    if line.minute is not None:
        return parse_stamp(line.minute, reference)
    return None, False


def parse_stamp(text: str, reference: float) -> tuple[float | None, bool]:
    """(seconds since the epoch, zone known) of a stamp: ISO, syslog's, ctime's, `Nov19 10:33`. Never raises."""
    if m := _ISO_PARTS.match(text):
        year, month, day, hour, minute, second = (int(m.group(i)) for i in range(1, 7))
        time = _epoch(year, month, day, hour, minute, second)
        if time is None:
            return None, False
        fraction = float(f"0.{m.group(7)}") if m.group(7) else 0.0
        offset = 0
        if m.group(9):
            offset = (int(m.group(10)) * 3600 + int(m.group(11)) * 60) * (-1 if m.group(9) == "-" else 1)
        return time + fraction - offset, bool(m.group(8) or m.group(9))
    if m := _CTIME.match(text):
        number = MONTHS.get(m["month"]) if m["month"] else int(m["number"])
        if number is None:
            return None, False
        parts = (number, int(m["day"]), int(m["hour"]), int(m["minute"]), int(m["second"] or 0))
        fraction = float(f"0.{m['fraction']}") if m["fraction"] else 0.0
        printed = m["year"] or m["late_year"]
        time = _epoch(int(printed), *parts) if printed else _latest_before(reference, parts)
        return (time + fraction if time is not None else None), False
    return None, False


def _epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _latest_before(reference: float, parts: tuple[int, int, int, int, int]) -> float | None:
    """A date without a year, in the latest year that does not put it after `reference` (two days of grace)."""
    if not math.isfinite(reference):
        return None
    try:
        year = datetime.fromtimestamp(reference, UTC).year
    except (ValueError, OverflowError, OSError):
        return None
    dates = [d for d in (_epoch(y, *parts) for y in (year + 1, year, year - 1)) if d is not None]
    return next((d for d in dates if d <= reference + 2 * 86400), dates[-1] if dates else None)
