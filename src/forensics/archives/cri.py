"""Logs of Kubernetes' runtimes in which lines stand in parts: the lines, put together.

    2026-11-20T09:00:30.123456789Z stderr P torch.OutOfMemoryError: CUDA out of
    2026-11-20T09:00:30.123456789Z stderr F  memory. Tried to allocate 2.00 GiB.

"P" marks a part whose end follows in a later line of the stream (kubernetes: pkg/kubelet/kuberuntime/logs). containerd
cuts lines at 16 KiB; conmon, of CRI-O and Podman, ends a part wherever a read of its pipe does. A line stands where its
last part does, behind that one's head, and its other parts leave empty lines, so that all keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from forensics.patterns import lazy

LINE = 1 << 20  # bytes of a line that is put together; the rest stands on the next
_HEAD = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (stdout|stderr) "
_PIECE = lazy(_HEAD + rb"([FP])(?::\S{1,100})? ?", re.ASCII)  # with tags behind it, as its interface allows
_PART = lazy(rb"(?m)^" + _HEAD + rb"P ", re.ASCII)


def looks_like_parts(head: bytes) -> bool:
    """Whether a file that begins with these bytes is such a log, and any of its lines there is a part."""
    return _PIECE.match(head) is not None and _PART.search(head) is not None


def text(raw: BinaryIO) -> Iterator[bytes]:
    """The lines of such a log."""
    begun: dict[bytes, bytearray] = {}  # stream -> the parts so far, end to end: one line may be of thousands
    last: dict[bytes, bytes] = {}  # stream -> head of its last part
    while line := raw.readline(LINE):
        m = _PIECE.match(line)
        if m is None:
            yield line
            continue
        stream, body = m[1], line[m.end() :]
        held = begun.setdefault(stream, bytearray())
        if m[2] == b"P" and len(held) + len(body) < LINE:
            held += body.removesuffix(b"\n")
            last[stream] = m[0]
            yield b"\n" if line.endswith(b"\n") else b""
            continue
        yield _whole(m[0], held) + body
        held.clear()
    for stream, held in begun.items():
        if held:
            yield _whole(last[stream], held) + b"\n"


def _whole(head: bytes, parts: bytearray) -> bytes:
    return head.replace(b" P", b" F", 1) + parts
