"""What training of detectors prints of an evaluation: the table of YOLOv3 to v9 and Ultralytics, detectron2's lines.

    Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|###| 8/8 [00:02<00:00,  3.1it/s]
      all        128        929      0.712      0.634      0.701      0.478

    copypaste: Task: bbox
    copypaste: AP,AP50,AP75,APs,APm,APl
    copypaste: 21.4473,29.4910,23.2137,8.9807,21.3006,31.7864

    No predictions from the model!

The columns are those of YOLO's `val.py` (`Targets`, later `Labels`, since v6.2 `Instances`) and of `get_desc` of
Ultralytics' validators; the lines are written by `print_csv_format` of detectron2/evaluation/testing.py. The sentence
is that of `COCOEvaluator` and `LVISEvaluator`, once for each task (boxes, masks).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forensics.parsers.instruments import PREDICTIONS, is_average_precision
from forensics.parsers.metric_lines import to_float
from forensics.parsers.metric_lines.rows import KEY_PER_PIECE, Context, shaped
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

_TABLE = lazy(rb"\bClass +Images +(?:Targets|Labels|Instances)(?P<titles>(?: +[A-Za-z][\w@.:()-]*){3,12})")
_ALL = lazy(rb"\ball +\d{1,9} +(?P<objects>\d{1,12})(?P<values>(?: +[-+.\deEnaN]{1,20}){3,12})[ \t\r]*$")
_ROW_WITHIN = 3  # lines below the header, where something else may have been printed
_COPIED = lazy(rb"copypaste: (?P<said>[^\r\n]{1,2000})")
_TASK = "Task: "
_NONE = lazy(rb"No predictions from the model!")

_Row = tuple[int, int, str, float]  # line, place in it, name, value


def evaluations(windows: Sequence[tuple[bytes, int]], context: Context) -> Iterator[pl.DataFrame]:
    """The average precisions of whole evaluations, and where they say that nothing is predicted.

    An evaluation over no objects says nothing, nor does NaN.
    """
    import polars as pl

    rows: list[_Row] = []
    for data, first in windows:
        rows += [*_of_tables(data, first), *_of_copied(data, first), *_of_none(data, first)]
    if rows:
        types = {"line": pl.Int64, "order": pl.Int64, "name": pl.String, "value": pl.Float64}
        frame = pl.DataFrame(rows, schema=types, orient="row").with_columns(sub=pl.lit(0, pl.Int64))
        yield shaped(frame, context, order="order", kind=pl.lit("line"))


def _of_tables(data: bytes, first: int) -> Iterator[_Row]:
    line, counted = first, 0
    for header in _TABLE.finditer(data):
        if header.start() < counted:  # another frame of the same bar
            continue
        titles = _titles(header["titles"].decode("ascii", "replace"))
        for _ in range(1 + _ROW_WITHIN):
            end = data.find(b"\n", counted if counted > header.start() else header.end())
            if end < 0:
                return
            line += data.count(b"\n", counted, end + 1)
            counted = end + 1
            below = data.find(b"\n", counted)
            row = _ALL.search(data, counted, below if below >= 0 else len(data))
            if row is not None:
                yield from _told(line, titles, row["values"].decode().split(), objects=int(row["objects"]))
                break


def _titles(text: str) -> list[str]:
    """The names of the columns; those of masks and poses bear a letter, as in Ultralytics' results.csv."""
    names = []
    group = ""
    for title in text.split():
        kind, opened, name = title.rstrip(":").rpartition("(")
        group = f"({kind[:1]})" if opened else group
        names.append(name.rstrip(")") + group)
        group = "" if name.endswith(")") else group
        if title.endswith(":"):
            break
    return names


def _of_copied(data: bytes, first: int) -> Iterator[_Row]:
    line, counted = first, 0
    task, names = "", list[str]()
    for m in _COPIED.finditer(data):
        line += data.count(b"\n", counted, m.start())
        counted = m.start()
        said = m["said"].decode("utf-8", "replace").strip()
        if said.startswith(_TASK):
            task, names = said.removeprefix(_TASK), []
        elif not names:
            names = [f"{task}/{name}" if task else name for name in said.split(",")]
        else:
            yield from _told(line, names, said.split(","))
            names = []


def _of_none(data: bytes, first: int) -> Iterator[_Row]:
    line, counted = first, 0
    for m in _NONE.finditer(data):
        line += data.count(b"\n", counted, m.start())
        counted = m.start()
        yield line, 0, PREDICTIONS, 0.0


def _told(line: int, names: Sequence[str], values: Sequence[str], objects: int = 1) -> Iterator[_Row]:
    if len(names) != len(values) or objects == 0:
        return
    for order, (name, text) in enumerate(zip(names, values, strict=True)):
        value = to_float(text)
        if is_average_precision(name) and value is not None and math.isfinite(value) and order < KEY_PER_PIECE:
            yield line, order, name, value
