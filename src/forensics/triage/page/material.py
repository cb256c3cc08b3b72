"""What a page is made of."""

from __future__ import annotations

from dataclasses import dataclass

from forensics.triage.model import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The filters of a page that is served, as they stand in its address; `total` jobs are known without them."""

    values: tuple[tuple[str, str], ...] = ()  # ("cause", "nccl-*"), in the order of the address
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`batch.reports` holds the address of each job's report, relative to the page."""

    batch: Batch
    redacted: bool = False
    asked: Asked | None = None  # None for a file
    folder: str = ""  # that all jobs lie in, with its last "/"
    notes: tuple[str, ...] = ()  # what the page does not hold, and why
