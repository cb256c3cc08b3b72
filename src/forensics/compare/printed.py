"""Settings that a program prints by itself before it trains: `world_size=8` on a line of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forensics.files import beginning
from forensics.model import Fact, Kind, RunData
from forensics.parsers.names import canonical

if TYPE_CHECKING:
    import polars as pl

HEAD = 16 << 10  # bytes of a log in which a program says how it was started
FILES = 64  # logs that are read: of one run they say the same
# Variables of the environment are facts of their own, and in capitals.
_LINE = re.compile(r"^\s*(?:\[?rank ?\d+\]?:?\s+)?([a-z][A-Za-z0-9_]{1,40})\s?=\s?([\w.+-]{1,60})\s*$")
# What differs from process to process and from run to run, or was measured.
_OWN = re.compile(
    r"(?i)(?:^|_)(?:rank|pid|ppid|port|host\w*|node\w*|device|gpu|id|time|elapsed|seconds?|sec|ms|mem\w*|bytes)$"
)


def printed(data: RunData) -> tuple[Fact, ...]:
    """The assignments that stand alone on a line before the first metric of a log, as facts `printed.NAME`.

    A name that a file says several times with several values is a measurement and no setting.
    """
    before = _first_metric(data.metrics)
    known = {fact.name.rpartition(".")[2] for fact in data.facts}
    found: list[Fact] = []
    logs = [source for source in data.sources if source.kind is Kind.LOG and source.size]
    for source in logs[:FILES]:
        try:
            head = beginning(source.file, HEAD)
        except OSError:
            continue
        said: dict[str, list[Fact]] = {}
        for number, line in enumerate(head.split(b"\n")[: before.get(source.path, HEAD) - 1], start=1):
            match = _LINE.match(line.decode("utf-8", "replace").rstrip("\r")) if b"=" in line else None
            if match is not None and not (_OWN.search(match[1]) or canonical(match[1]) or match[1] in known):
                said.setdefault(match[1], []).append(Fact(f"printed.{match[1]}", match[2], source.path, number))
        found += [facts[0] for facts in said.values() if len({fact.value for fact in facts}) == 1]
    return tuple(found)


def _first_metric(metrics: pl.DataFrame) -> Mapping[str, int]:
    """source -> line of its first metric."""
    import polars as pl

    return dict(metrics.drop_nulls("line").group_by("source").agg(pl.col("line").min()).iter_rows())
