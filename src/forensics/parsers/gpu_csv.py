"""Records of `nvidia-smi --query-gpu=... --format=csv -l`: a header of columns, and a row a card and sample below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forensics.files import beginning
from forensics.model import Kind, Source
from forensics.patterns import lazy

MAX_BYTES = 16 << 20  # of a record; a sample takes some 60 bytes a card
CARD = lazy(r"(?:index|gpu_bus_id|pci\.bus_id|gpu_uuid|uuid)\b")  # columns that name the card


class Row(NamedTuple):
    """One line of a record. line: from 1."""

    line: int
    text: str
    cells: tuple[str, ...]


def records(sources: Iterable[Source], column: bytes) -> Iterator[tuple[Source, Iterator[Row]]]:
    """The records with a column that has `column` in its name. What cannot be read is left out."""
    for source in sources:
        if source.kind not in (Kind.LOG, Kind.METRICS):
            continue
        try:
            if column in beginning(source.file, 4096):
                yield source, _rows(beginning(source.file, MAX_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue


def _rows(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        yield Row(number, line, tuple(cell.strip() for cell in line.split(",")))
