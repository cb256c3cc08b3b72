"""Settings that a program prints by itself before it trains, in the logs of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from forensics.compare.said import said
from forensics.files import beginning
from forensics.model import Fact, Kind, RunData
from forensics.parsers.prefixes import clean

if TYPE_CHECKING:
    import polars as pl

HEAD = 16 << 10  # bytes of a log in which a program says how it was started
FILES = 64  # logs that are read: of one run they say the same


def printed(data: RunData) -> tuple[Fact, ...]:
    """What logs say before their first metric, as facts `printed.NAME`, `arguments.NAME` and `PACKAGE.version`.

    What the run's facts hold already is left out. A name that a file says several times with several values is a
    measurement and no setting.
    """
    before = _first_metric(data.metrics)
    names = {fact.name for fact in data.facts}
    last_parts = {name.rpartition(".")[2] for name in names}
    found: list[Fact] = []
    logs = [source for source in data.sources if source.kind is Kind.LOG and source.size]
    for source in logs[:FILES]:
        try:
            head = beginning(source.file, HEAD)
        except OSError:
            continue
        lines = head.split(b"\n")[: before.get(source.path, HEAD) - 1]
        stated: dict[str, list[Fact]] = {}
        for name, value, number in said([clean(line.decode("utf-8", "replace")).text for line in lines]):
            if name not in names and not (name.startswith("printed.") and name.rpartition(".")[2] in last_parts):
                stated.setdefault(name, []).append(Fact(name, value, source.path, number))
        found += [facts[0] for facts in stated.values() if len({fact.value for fact in facts}) == 1]
    return tuple(found)


def _first_metric(metrics: pl.DataFrame) -> Mapping[str, int]:
    """source -> line of its first metric."""
    import polars as pl

    return dict(metrics.drop_nulls("line").group_by("source").agg(pl.col("line").min()).iter_rows())
