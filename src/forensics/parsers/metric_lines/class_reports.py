"""The reports of scikit-learn's `classification_report`: the recall of each class.

                  precision    recall  f1-score   support

               0       0.89      1.00      0.94      1780
               1       0.00      0.00      0.00       220

        accuracy                           0.89      2000
       macro avg       0.45      0.50      0.47      2000

The row `accuracy` is there where each sample has one of the classes shown (sklearn/metrics/_classification.py, since
0.21); reports of several labels a sample, and of some of the classes, have `micro avg` instead and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forensics.parsers.instruments import recall_class
from forensics.parsers.metric_lines.pieces import REPORTED
from forensics.parsers.metric_lines.rows import KEY_PER_PIECE, Context, shaped
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

_HEADER = lazy(REPORTED.encode())
_CLASS = lazy(
    rb"(?P<name>[^ \t\r][^\r\n]{0,120}?) +[01]\.\d{1,8} +(?P<recall>[01]\.\d{1,8}) +[01]\.\d{1,8}"
    rb" +\d{1,12}(?:\.0)?[ \t\r]*"
)
_ACCURACY = lazy(rb"(?:[^\r\n]{0,200}[ \t])?accuracy +[01]\.\d{1,8} +\d{1,12}(?:\.0)?[ \t\r]*")
_CLASSES = 100  # of a report; larger ones are left out


def recalls(windows: Sequence[tuple[bytes, int]], context: Context) -> Iterator[pl.DataFrame]:
    """The recalls of all classes, as `recall/NAME`, of the reports that a log holds in full."""
    import polars as pl

    rows = [row for data, first in windows for row in _of_window(data, first)]
    if rows:
        types = {"line": pl.Int64, "order": pl.Int64, "name": pl.String, "value": pl.Float64}
        frame = pl.DataFrame(rows, schema=types, orient="row").with_columns(sub=pl.lit(0, pl.Int64))
        yield shaped(frame, context, order="order", kind=pl.lit("line"))


def _of_window(data: bytes, first: int) -> Iterator[tuple[int, int, str, float]]:
    line, counted = first, 0
    for header in _HEADER.finditer(data):
        line += data.count(b"\n", counted, header.start())
        counted = header.start()
        found: list[tuple[int, int, str, float]] = []
        begin = data.rfind(b"\n", 0, header.start()) + 1
        label = data[begin : header.start()].rstrip()  # of a process, before each line
        at = data.find(b"\n", header.end()) + 1
        for below in range(1, _CLASSES + 4) if at else ():
            end = data.find(b"\n", at)
            text = data[at : end if end >= 0 else len(data)].removeprefix(label).lstrip()
            if (row := _CLASS.fullmatch(text)) is not None:
                order = min(len(found), KEY_PER_PIECE - 1)
                found.append((line + below, order, _name(row["name"], order), float(row["recall"])))
            elif text.strip():
                if _ACCURACY.fullmatch(text):
                    yield from found
                break
            if end < 0:
                break
            at = end + 1


def _name(said: bytes, order: int) -> str:
    """The name of the recall of a class; of one that is called as a mean or a phase is, with its place."""
    name = f"recall/{said.decode('utf-8', 'replace')}"
    return name if recall_class(name) else f"{name}_{order}"
