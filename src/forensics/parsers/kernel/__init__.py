"""Kernel logs: dmesg, journalctl, syslog and kmsg in all the forms they are printed in, and what their lines say.

`unfold` and `refine` are all that the pipeline calls. They load the rest only where a log may hold a kernel's lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forensics.files import beginning
from forensics.model import Observation, Source

if TYPE_CHECKING:
    from forensics.engine.scan import Scan

_HEAD = 16 << 10
# What the first kilobytes of a kernel or system log hold, and few other files': words anywhere, or a stamp at the
# beginning of one of the first lines.
_WORDS = (
    b" kernel: ",
    b"NVRM: ",
    b'"MESSAGE"',
    b'"dmesg"',
    b" systemd[",
    b" sshd[",
    b" CRON[",
    b" kubelet[",
    b" slurmd",
)
_FIRST = 16
_STAMP = re.compile(
    rb"\s*(?:<\d{1,3}>|[a-z]+\d? *:[a-z]+ *: ?)?(?:\[ *\+?\d{1,10}\.\d{6}(?: <|\])"
    rb"|\[\S+ +\S+ +\d+ \d\d:\d\d:\d\d \d{4}\] "
    rb"|\[[A-Z][a-z]{2} ?\d+ \d\d:\d\d\]|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]|\d{1,3},\d+,\d+,[-c+])"
)
_KERNELS = re.compile(r"\[ *\d{1,10}\.\d{6}\]|\bkernel: |\bNVRM: |\bXid \(|\boom-kill|invoked oom|Killed process \d")


def head_of(source: Source) -> bytes:
    """The first bytes of a log, which `unfold` and `refine` go by; none where it cannot be read."""
    try:
        return beginning(source.file, _HEAD)
    except OSError:
        return b""


def _likely(head: bytes) -> bool:
    """Whether a file can be a kernel log; `completion.form_of` says whether it is."""
    if any(word in head for word in _WORDS):
        return True
    return any(_STAMP.match(line) for line in head[:4096].split(b"\n", _FIRST)[:_FIRST])


def unfold(source: Source, head: bytes, scan: Scan, search: Callable[[Any, Callable[..., Any]], None]) -> Scan:
    """The scan of a log, with JSON records of a kernel log or journal as lines of text: `records.unfold`."""
    if not head.lstrip().startswith(b"{") or not _likely(head):
        return scan
    from forensics.parsers.kernel import records

    return records.unfold(source.file, head, scan, search)


def refine(
    source: Source, head: bytes, observations: Sequence[Observation], *, reference: float
) -> tuple[tuple[Observation, ...], str | None]:
    """(observations completed by what kernel lines say, form of the kernel log or None): `completion.refine`."""
    if not _likely(head) and not any(_KERNELS.search(o.evidence[0].text) for o in observations):
        return tuple(observations), None
    from forensics.parsers.kernel.completion import refine as complete

    found = complete(source, observations, reference=reference)
    return found.observations, found.form
