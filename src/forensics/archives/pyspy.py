"""`py-spy dump --json`, as the stacks that it prints without that option.

A list of threads, each with its frames from the innermost on (py-spy: src/stack_trace.rs); several lists may follow
each other, of a loop over processes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from forensics.archives.limits import Stop

DOCUMENT = 64 << 20  # bytes; a thread with 100 frames takes some 30 KB
_BEGINS = re.compile(rb"\s*\[\s*\{")
_KEYS = (b'"os_thread_id"', b'"owns_gil"', b'"frames"', b'"pid"')
_DECODER = json.JSONDecoder(strict=False)


def looks_like_stacks(head: bytes) -> bool:
    """Whether a file that begins with these bytes is such a dump. The frames of a thread stand before its last keys."""
    return _BEGINS.match(head) is not None and all(key in head for key in _KEYS)


def text(raw: BinaryIO) -> Iterator[bytes]:
    """The lines of `py-spy dump`, process by process. Raises Stop where the rest is damaged or too long."""
    data = raw.read(DOCUMENT + 1)
    document = data[:DOCUMENT].decode("utf-8", "replace")
    at = document.find("[")
    while at >= 0:
        try:
            threads, at = _DECODER.raw_decode(document, at)
        except (ValueError, RecursionError):
            raise Stop("damaged: it is no whole JSON document") from None
        last: int | None = None
        for thread in threads if isinstance(threads, list) else ():
            if not isinstance(thread, dict) or type(pid := thread.get("pid")) is not int:
                continue
            lines = list(_thread(thread))
            if pid != last:
                lines = [f"Process {pid}: {_command(thread)}", "", *lines]
                last = pid
            yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        at = document.find("[", at)
    if len(data) > DOCUMENT:
        raise Stop(f"only its first {DOCUMENT >> 20} MiB were read")


def _thread(thread: Mapping[str, Any]) -> Iterator[str]:
    number, name = thread.get("os_thread_id"), thread.get("thread_name")
    number = number if type(number) is int else thread.get("thread_id")
    state = ("active" if thread.get("active") else "idle") + ("+gil" if thread.get("owns_gil") else "")
    yield f"Thread {number if type(number) is int else 0} ({state})" + (f': "{_line(name)}"' if name else "")
    frames = thread.get("frames")
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict) and isinstance(frame.get("name"), str):
            file, line = frame.get("short_filename") or frame.get("filename"), frame.get("line")
            yield f"    {_line(frame['name'])} ({_line(file)}" + (f":{line})" if type(line) is int and line else ")")


def _command(thread: Mapping[str, Any]) -> str:
    about = thread.get("process_info")
    return _line(about.get("command_line")) if isinstance(about, dict) else ""


def _line(value: Any) -> str:
    return re.sub(r"\s+", " ", value)[:1000] if isinstance(value, str) else ""
