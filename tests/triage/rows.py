"""Rows of triages that were never run."""

from __future__ import annotations

from typing import Any

from forensics.triage.model import JobResult, Sign, Unexplained


def row(number: int, root: str | None = None, **changes: Any) -> JobResult:
    """The row of job `number`; healthy without a root."""
    given: dict[str, Any] = {
        "path": f"runs/{number}",
        "layout": "folder",
        "fingerprint": f"{number:064x}",
        "bytes": 1,
        "files": 1,
        "modified": None,
        "verdict": "failed" if root else "healthy",
        "root": root,
        "roots": (root,) if root else (),
    }
    return JobResult(**(given | changes))


def raised(number: int, exception: str, message: str, *frames: tuple[str, int, str], **changes: Any) -> JobResult:
    """A job that an exception without a signature ended."""
    rest = Unexplained(exception=exception, message=message, frames=frames or (("/home/a/proj/data.py", 12, "load"),))
    return row(number, "python-exception", unexplained=rest, **changes)


def fault(number: int, cause: str, node: str | None, hour: int, **changes: Any) -> JobResult:
    """A job with a hardware sign on a node at an hour of one day."""
    time = f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
    sign = Sign(name=cause, role="root", severity="fatal", confidence=0.9, node=node, time=time)
    return row(
        number, cause, **({"nodes": (node,) if node else (), "node": node, "signs": (sign,), "time": time} | changes)
    )
