"""Kernel logs: dmesg, journalctl, syslog and kmsg in all the forms they are printed in, and what their lines say.

`unfold` and `refine` are all that the pipeline calls. They load the rest only where a log may hold a kernel's lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forensics.model import Observation, Source

if TYPE_CHECKING:
    from forensics.engine.scan import Scan

_HEAD = 16 << 10
# What no kernel log's first kilobytes lack, and few other files' hold.
_LIKELY = re.compile(
    rb"\[ *\d{1,10}\.\d{6}(?: <|\])|\[ *\+\d+\.\d{6}\]|\bkernel: |\bNVRM: |\"MESSAGE\"|\"dmesg\"|^\d{1,3},\d+,\d+,[-c+]"
    rb"|^(?:[a-z]+\d? *:[a-z]+ *: ?)?\[\S+ +\S+ +\d+ \d\d:\d\d:\d\d \d{4}\] "
    rb"|^\S*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]"
    rb"| (?:systemd|slurmd|sshd|kubelet|cron|CRON|rsyslogd)(?:\[\d+\])?: ",
    re.M,
)
_KERNELS = re.compile(r"\[ *\d{1,10}\.\d{6}\]|\bkernel: |\bNVRM: |\bXid \(|\boom-kill|invoked oom|Killed process \d")


def _head(source: Source) -> bytes:
    try:
        with source.file.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""


def unfold(source: Source, scan: Scan, search: Callable[[Any, Callable[..., Any]], None]) -> Scan:
    """The scan of a log, with JSON records of a kernel log or journal as lines of text: `records.unfold`."""
    head = _head(source)
    if not head.lstrip().startswith(b"{") or not _LIKELY.search(head):
        return scan
    from forensics.parsers.kernel import records

    return records.unfold(source.file, head, scan, search)


def refine(
    source: Source, observations: Sequence[Observation], *, reference: float
) -> tuple[tuple[Observation, ...], str | None]:
    """(observations completed by what kernel lines say, form of the kernel log or None): `completion.refine`."""
    if not _LIKELY.search(_head(source)) and not any(_KERNELS.search(o.evidence[0].text) for o in observations):
        return tuple(observations), None
    from forensics.parsers.kernel.completion import refine as complete

    found = complete(source, observations, reference=reference)
    return found.observations, found.form
