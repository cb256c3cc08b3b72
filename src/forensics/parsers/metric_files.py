"""Metrics that a run keeps in structured files: JSON lines, HF's trainer_state.json, CSV, MLflow's file store.

Read are: JSON lines of any logger (LLaMA-Factory's trainer_log.jsonl, mmengine's scalars.json, detectron2's
metrics.json, verl's {"step": .., "data": {..}}, fairseq's json format with numbers as strings), trainer_state.json,
a JSON list of records or an object of equally long lists, CSV (Lightning, timm, Ultralytics, Ray, DeepSpeed's
monitor, what TensorBoard gives to download), and the files of MLflow's store (mlruns/<experiment>/<run>/metrics/<name>,
a line `ms value step` each).
NaN and Infinity, which strict JSON forbids, are what one looks for and are kept.

A file that is still being written, or whose writer was killed, ends anywhere: what is whole is read and the second
result says what is not.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from forensics.files import opened
from forensics.model import METRICS_COLUMNS, Evidence, Identity, Observation, Source, schema
from forensics.parsers.instruments import is_instrument, name_of
from forensics.parsers.metric_lines import to_float
from forensics.parsers.metric_windows import read_part
from forensics.parsers.names import canonical, factor
from forensics.parsers.record_identity import HOSTS, RANKS, identity_of
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

_WATCHED = frozenset(
    {"loss", "eval_loss", "grad_norm", "loss_part", "policy_loss", "value_loss", "reward", "kl", "entropy", "accuracy",
     "eval_accuracy", "perplexity", "eval_perplexity", "lr", "loss_scale", "wer", "eval_wer", "eval_reward"}
)  # fmt: skip
# Of these, what a program's settings name as well: one object of them that counts no step is no record of a run.
_SETTABLE = frozenset({"lr", "loss_scale"})
# Several counters in one record: the first of these that it has is its step.
_STEP_KEYS = (
    "global_step", "num_updates", "current_steps", "training/global_step", "train_num_updates", "valid_num_updates",
    "step", "iteration", "iter", "_step", "training_iteration",
    "timesteps", "time/total_timesteps",  # of Stable-Baselines3, whose tables have no other counter of the whole run
)  # fmt: skip
_TIME_KEYS = ("ts", "time", "timestamp", "_timestamp", "wall_time", "created", "date")
_SPEAKERS = 256 << 10  # bytes of the beginning that are looked through for the hosts of ranks
_PLACES = ("loss", "eval_loss", "step")  # of an indented record's lines, the one that stands for it
_CONSTANT = frozenset({"total_steps", "batch_size"})
_WHERE_KEYS = frozenset({*_STEP_KEYS, *_TIME_KEYS, *RANKS, "train_runtime"})
TOGETHER = 512  # lines of JSON that are parsed at once
_NULLED = frozenset({"loss", "grad_norm"})
_BEFORE_NULL, _NULLS = 10, 3  # records with and without these, where null stands for NaN
_NUMBERS = {float, int}  # types of JSON's numbers; bool is another one
MAX_PARTS = 256  # terms of a loss in one record
MAX_KEYS = 20_000  # of one record that are read; runs that log every parameter's norm have some thousands
# Of Lightning's CSVLogger, Ray and RLlib, Ultralytics, timm, which choose the name themselves.
_LOGGERS = frozenset({"metrics.csv", "progress.csv", "results.csv", "summary.csv"})
_LOG_COLUMNS = frozenset("timestamp time datetime date message msg log line severity level".split())
FALLS = 0.2  # share of rows in which a counter may begin anew: resumes, and a row each for training and validation
_TEXT_LOGS = (".log", ".out", ".err", ".txt", ".stdout", ".stderr")
_STORED_VALUE = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
# mlflow/store/tracking/file_store.py: milliseconds since the epoch, value, step (since 1.0); later versions add others.
_STORED = lazy(rf"(?P<ms>1\d{{12}}) (?P<value>{_STORED_VALUE})(?: (?P<step>-?\d{{1,18}})(?: \S+){{0,3}})?", re.A)
_FLAT = lazy(r"\{[^{}]*\}")
# The columns of a scalar that TensorBoard gives to download (tensorboard/plugins/scalar/scalars_plugin.py), and how its
# page calls the file. The browser writes an underscore for a slash, and counts files of one name.
_DOWNLOADED = ["wall time", "step", "value"]
_DOWNLOAD = lazy(r"run-.*-tag-(?P<tag>.+?)(?: ?\(\d{1,4}\))?\.csv")

_T = TypeVar("_T")
_Row = tuple[
    int | None, int | None, int | None, float | None, float | None, str, float
]  # line rank step epoch time name value


def looks_like_metrics(head: bytes, name: str) -> bool:
    """Whether a file is one of those above, from its first kilobytes and its name. Never raises.

    Console logs are not, even where they hold JSON lines: other messages stand between them.
    """
    lower = name.lower().rsplit("/", 1)[-1]
    if lower.endswith(_TEXT_LOGS) or b"\x00" in head[:4096]:
        return False
    text = head.decode("utf-8", "replace").lstrip("\ufeff")
    if lower == "trainer_state.json" or '"log_history"' in text:
        return text.lstrip().startswith("{")
    first = text.split("\n", 1)[0].strip()
    if _STORED.fullmatch(first):
        return "." not in lower and name_of(lower) not in (None, "step", "epoch")
    if first.startswith("{") and first.endswith("}"):
        names = {name for record in _parse_lines([first]) for name in _names(record[1])}
        alone = lower.endswith(".json") and text.strip() == first and "step" not in names
        return bool(names & (_WATCHED - _SETTABLE if alone else _WATCHED)) or _counts_instruments(names)
    if lower.endswith((".json", ".jsonl")) and text.lstrip().startswith(("{", "[")):
        keys = re.findall(r'"([^"\n]{1,80})"\s*:\s*(?:\[\s*)?(?:[-\d]|NaN|Infinity)', text)
        found = {canonical(key) for key in keys}
        flat = text.lstrip().startswith("[") or re.search(r'"[^"\n]*"\s*:\s*\[\s*[-\d]', text) is not None
        return flat and bool(found & {"loss", "eval_loss", "grad_norm", "reward"})
    if lower.endswith((".csv", ".tsv")):
        cells = _cells(first)
        if _is_downloaded(cells):
            return _downloaded_tag(lower) is not None
        found = {canonical(cell) for cell in (*cells, _monitor(lower) or "")}
        watched = found & _WATCHED or any(map(is_instrument, cells))
        if len(cells) < 2 or not watched or any(to_float(cell) is not None for cell in cells):
            return False
        return lower in _LOGGERS or _monitor(lower) is not None or _counts(text)
    return False


def data_table(head: bytes, name: str) -> str | None:
    """Why a CSV file is neither metrics nor an export of a log; None where it may be either, and for other files.

    A data set can have a column `loss` too; what a run logged counts steps, iterations or epochs, or has a name that
    loggers give (`_LOGGERS`).
    """
    lower = name.lower().rsplit("/", 1)[-1]
    if not lower.endswith((".csv", ".tsv")) or looks_like_metrics(head, name):
        return None
    cells = _cells(head.decode("utf-8", "replace").lstrip("\ufeff").split("\n", 1)[0].strip())
    if len(cells) < 2 or any(to_float(cell) is not None for cell in cells):
        return None
    if _is_downloaded(cells):
        return "a scalar downloaded from TensorBoard whose name does not say which one (run-…-tag-….csv)"
    if not _LOG_COLUMNS.isdisjoint(cell.lower().lstrip("@_") for cell in cells):
        return None
    return "a table of data: no column of it counts steps, iterations or epochs"


def _counts(text: str) -> bool:
    """Whether a column of steps, iterations or epochs goes up in the rows of a CSV text, but for a few restarts."""
    lines = [line for line in text.split("\n") if line.strip()]
    header = [cell.strip() for cell in _cells(lines[0])]
    rows = [_cells(line) for line in lines[1:-1] or lines[1:]]
    counters = [n for n, key in enumerate(header) if key in _STEP_KEYS or canonical(key) in ("step", "epoch")]
    for n in counters:
        values = [value for row in rows if n < len(row) and (value := to_float(row[n])) is not None]
        pairs = list(pairwise(values))
        falls = sum(b < a for a, b in pairs)
        if not pairs or (any(b > a for a, b in pairs) and falls <= FALLS * len(pairs)) or len(set(values)) == 1:
            return True
    return False


def read(path: Path, source: Source) -> tuple[pl.DataFrame, str | None]:
    """The rows (`METRICS_COLUMNS`, in the order of the file) and what is wrong with the file, if anything.

    `line` is where the record stands (in an indented trainer_state.json: its loss, or else its step); `step` is the
    record's own counter, None where it has only an epoch or, in DeepSpeed's monitor, only a number of samples. Never
    raises for what the file holds or because it cannot be read.
    """
    try:
        with opened(path) as file:
            part = read_part(file)
    except OSError as error:
        return _frame([], source), f"cannot be read: {error.strerror or type(error).__name__}"
    data = part.data
    if not data.strip():
        return _frame([], source), "is empty"
    if b"\x00" in data[:4096]:
        return _frame([], source), "is binary, not text"
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    name = path.name.lower()
    start = text.lstrip()[:1]
    try:
        if _STORED.fullmatch(text.split("\n", 1)[0].strip()):
            rows, trouble = _from_store(text.split("\n"), source.path), None
        elif name.endswith((".csv", ".tsv")) or start not in ("{", "["):
            rows, trouble = _from_csv(text, name)
        else:
            rows, trouble = _from_json(text)
    except RecursionError:
        return _frame([], source), "is nested too deeply to be metrics"
    if not part.whole:
        rows = [(part.line(row[0]) if row[0] is not None else None, *row[1:]) for row in rows]
        trouble = f"sampled: {len(data) / 1e6:.0f} of {part.size / 1e6:,.0f} MB were read"
    if not rows and trouble is None:
        trouble = "holds no metric that is known by name"
    return _frame(rows, source), trouble


def speakers(source: Source) -> tuple[Observation, ...]:
    """An observation for each rank of which the records at the beginning name the host too, as JSON lines may.

    A rank of which they name two is left out. Raises OSError.
    """
    with opened(source.file) as file:
        head = file.read(_SPEAKERS)
    if not head.startswith(b"{") or not any(f'"{key}"'.encode() in head for key in HOSTS):
        return ()
    hosts: dict[int, dict[str, int]] = {}
    for line, record in _parse_lines(head.decode("utf-8", "replace").split("\n")[:-1]):
        said = identity_of(record)
        if said.rank is not None and said.node is not None:
            hosts.setdefault(said.rank, {}).setdefault(said.node, line)
    return tuple(
        Observation(
            signature="process-seen",
            weight=0.5,
            evidence=(Evidence(source.path, line, None, f"rank {rank} on {host}"),),
            identity=Identity(rank=rank, node=host).over(source.identity),
            culprits=(),
        )
        for rank, told in hosts.items()
        if len(told) == 1
        for host, line in told.items()
    )


def form_of_lines(head: bytes, name: str) -> str | None:
    """ "json", "csv" or "store" for a file of metrics that grows by lines, by its first bytes; None for a document."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff").lstrip()
    first = text.split("\n", 1)[0]
    if _STORED.fullmatch(first.strip()):
        return "store"
    if name.lower().endswith((".csv", ".tsv")) or text[:1] not in ("{", "["):
        return "csv" if "\n" in text else None
    return "json" if next(_parse_lines([first]), None) is not None and "log_history" not in first else None


def read_lines(form: str, data: bytes, head: bytes, line: int, source: Source) -> pl.DataFrame:
    """The rows of whole lines of a file that has grown, as of `read`; never raises for what they hold.

    form: of `form_of_lines`. head: the first bytes of the file, whose first line is the header of a CSV file.
    line: the number of the first line of `data`, from 1.
    """
    text = data.decode("utf-8", "replace")
    if form == "json":
        rows = _rows_of_lines(_parse_lines(text.split("\n")))
        before = line - 1
    elif form == "store":
        rows = _from_store(text.split("\n"), source.path)
        before = line - 1
    else:
        header = head.decode("utf-8", "replace").lstrip("\ufeff").lstrip().split("\n", 1)[0]
        rows, _ = _from_csv(f"{header}\n{text}" if line > 1 else text, source.path.lower().rsplit("/", 1)[-1])
        before = line - 2 if line > 1 else 0
    return _frame([(row[0] + before if row[0] is not None else None, *row[1:]) for row in rows], source)


# ------------------------------------------------------------------------------------------------------ records


def _flatten(record: Mapping[str, Any]) -> dict[str, Any]:
    """One level of nesting joined with "/"; verl keeps all numbers under "data", Ray some under "info"."""
    flat: dict[str, Any] = {}
    for key, value in islice(record.items(), MAX_KEYS):
        if isinstance(value, Mapping):
            for inner, number in islice(value.items(), MAX_KEYS - len(flat)):
                flat.setdefault(str(inner) if key == "data" else f"{key}/{inner}", number)
        else:
            flat.setdefault(str(key), value)
    return flat


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return to_float(value.strip()) if 0 < len(value) < 40 else None
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _names(record: Mapping[str, Any]) -> set[str]:
    flat = _flatten(record)
    return {name for key, value in flat.items() if _number(value) is not None and (name := name_of(key))}


def _counts_instruments(names: Iterable[str]) -> bool:
    """Whether a record of these names has a series that is watched for one fault, and counts steps or epochs."""
    found = set(names)
    return not found.isdisjoint(("step", "epoch")) and any(map(is_instrument, found))


def _whole(value: object) -> int | None:
    return _integer(_number(value))


def _count(value: object) -> int | None:
    """A step, also as the one of so many: `"880/4000"`."""
    done, of, total = value.partition("/") if isinstance(value, str) else (value, "", "")
    return _whole(done) if not of or _whole(total) is not None else None


def _integer(number: float | None) -> int | None:
    return (
        int(number)
        if number is not None and number == number and abs(number) < 2**62 and number == int(number)
        else None
    )


def _rows(line: int | None, record: Mapping[str, Any]) -> Iterator[_Row]:
    """The rows of one record: all at one line, for what stands at one place is what is looked at together."""
    flat = _flatten(record)
    step = next((s for key in _STEP_KEYS if key in flat and (s := _count(flat[key])) is not None), None)
    rank = next((r for key in RANKS if (r := _whole(flat.get(key))) is not None and 0 <= r < 2**31), None)
    epochs = (e for key in flat if canonical(key) == "epoch" for e in (_number(flat[key]), _count(flat[key])))
    epoch = next((e for e in epochs if e is not None), None)
    if step is None:
        step = next((s for key in flat if canonical(key) == "step" and (s := _count(flat[key])) is not None), None)
    time, clock = _moment(flat)
    summary = "train_runtime" in flat  # HF's last record: means over the whole run
    seen: set[str] = set()
    parts = 0
    for key, value in flat.items():
        name = name_of(key)
        if name is None or name in ("step", "epoch") or key == clock or (summary and name in ("loss", "throughput")):
            continue
        number = _number(value)
        if number is None or (name in seen and name != "loss_part"):
            continue
        if name == "loss_part":
            if parts >= MAX_PARTS:
                continue
            parts += 1
        seen.add(name)
        yield line, rank, step, epoch, time, name, number * factor(key)


def _moment(flat: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """When a record was written, and under which key it says so; `time` is as often the duration of a step."""
    for key in _TIME_KEYS:
        value = flat.get(key)
        number = _number(value)
        if number is not None and 1e9 < number < 5e9:
            return number, key
        if number is None and isinstance(value, str) and (stamp := parse_time(value, 0.0)[0]) is not None:
            return stamp, key
    return None, None


# --------------------------------------------------------------------------------------------------------- JSON


def _parse_lines(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, record) of the lines that hold a JSON object; others are passed over."""
    objects = ((number, text) for number, line in enumerate(lines, 1) if (text := line.strip())[:1] == "{")
    while part := list(islice(objects, TOGETHER)):
        records = _parsed([text for _, text in part])
        yield from ((number, record) for (number, _), record in zip(part, records, strict=True) if record is not None)


def _parsed(texts: Sequence[str]) -> list[dict[str, Any] | None]:
    """The object that each of some texts is; None for those that are none. Parsed at once where all are whole.

    A text is one line, and no string of JSON goes over the end of one: what one leaves open, the next does not close.
    """
    try:
        found = json.loads("[" + ",\n".join(texts) + "]")
        if len(found) == len(texts) and all(type(record) is dict for record in found):
            return found  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        pass
    return [_object(text) for text in texts]


def _object(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _rows_of_lines(records: Iterable[tuple[int, dict[str, Any]]]) -> list[_Row]:
    """`_rows` of the records of lines, in their order. Those with the same keys are read column by column."""
    layouts: dict[tuple[str, ...], _Layout] = {}
    for line, record in records:
        nested = len(record) > MAX_KEYS or dict in map(type, record.values())
        flat = _flatten(record) if nested else record
        keys = tuple(flat)
        if (layout := layouts.get(keys)) is None:
            layout = layouts[keys] = _Layout(_plan(keys, [True] * len(keys)), [], [])
        layout.lines.append(line)
        layout.table.append(tuple(flat.values()))
    rows: list[_Row] = []
    for keys, (plan, lines, told) in layouts.items():
        table = _with_lost_values(keys, told)
        if plan is not None:
            rows.extend(plan.rows(lines, table))
        else:
            pairs = zip(lines, table, strict=True)
            rows.extend(row for line, cells in pairs for row in _rows(line, dict(zip(keys, cells, strict=True))))
    if len(layouts) > 1:
        rows.sort(key=lambda row: row[0] or 0)  # what one line gave stays in its order
    return rows


def _with_lost_values(keys: Sequence[str], table: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Records of the same keys, with NaN for a loss or norm that is null from some record to the last.

    JSON has no NaN: orjson, pandas and JavaScript write null. Null is also what a record without that number says: so
    all records before have it, at least `_BEFORE_NULL`, and the `_NULLS` and more behind it say all that these do.
    """
    lost = {n for n, key in enumerate(keys) if table[-1][n] is None and canonical(key) in _NULLED}
    if not lost or len(table) < _BEFORE_NULL + _NULLS:
        return table
    start = len(table)
    while start > 0 and all(table[start - 1][n] is None for n in lost):
        start -= 1
    others = [n for n in range(len(keys)) if n not in lost]
    alike = {tuple(record[n] is None for n in others) for record in table}
    whole = all(record[n] is not None for record in table[:start] for n in lost)
    if start < _BEFORE_NULL or len(table) - start < _NULLS or not whole or len(alike) > 1:
        return table
    nan = float("nan")
    spoilt = [tuple(nan if n in lost else value for n, value in enumerate(record)) for record in table[start:]]
    return [*table[:start], *spoilt]


def nulled(lines: Sequence[str]) -> list[tuple[int, int | None, int | None, float | None, str]]:
    """(line from 1, rank, step, epoch, name) of each loss or norm of JSON lines that null stands for (`NaN` apart)."""
    return [
        (line, rank, step, epoch, name)
        for line, rank, step, epoch, _, name, value in _rows_of_lines(_parse_lines(lines))
        if line is not None and name in _NULLED and value != value and "null" in lines[line - 1]
    ]


def _from_json(text: str) -> tuple[list[_Row], str | None]:
    lines = text.split("\n")
    records = list(_parse_lines(lines))
    filled = sum(1 for line in lines if line.strip())
    if records and not (len(records) == 1 and "log_history" in records[0][1]) and len(records) * 2 >= filled:
        rows = _rows_of_lines(records)
        if rows or len(records) > 1:
            return rows, _lines_problem(lines, len(records), filled)
    try:
        whole = json.loads(text)
    except ValueError as error:
        return _salvage(text), f"is cut off or no JSON ({type(error).__name__}); whole records of it were read"
    if isinstance(whole, dict) and isinstance(whole.get("log_history"), list):
        return _trainer_state(whole, lines), None
    if isinstance(whole, list):
        return [row for record in whole if isinstance(record, dict) for row in _rows(None, record)], None
    if isinstance(whole, dict):
        return list(_columns(whole)), None
    return [], "is JSON without records"


def _lines_problem(lines: list[str], records: int, filled: int) -> str | None:
    odd = filled - records
    if odd == 0:
        return None
    if odd == 1 and lines[-1].strip() and lines[-1].lstrip().startswith("{"):
        return "the last line is cut off"
    return f"{odd} of {filled} lines are no JSON objects"


def _trainer_state(state: Mapping[str, Any], lines: list[str]) -> list[_Row]:
    history = [record for record in state["log_history"] if isinstance(record, dict)]
    places = list(_places(lines))
    if len(places) != len(history):
        places = [{} for _ in history]
    rows = [
        row
        for record, where in zip(history, places, strict=True)
        for row in _rows(next((where[key] for key in _PLACES if key in where), None), record)
    ]
    total = _whole(state.get("max_steps"))
    if total and total > 0:
        rows.append(
            (None, None, _whole(state.get("global_step")), _number(state.get("epoch")), None, "total_steps", total)
        )
    return rows


def _places(lines: list[str]) -> Iterator[dict[str, int]]:
    """For each record of an indented log_history: key -> line number."""
    inside = False
    record: dict[str, int] | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not inside:
            inside = text.startswith('"log_history"') and not text.endswith("],")
        elif text.startswith("]"):
            return
        elif text == "{":
            record = {}
        elif text in ("}", "},") and record is not None:
            yield record
            record = None
        elif record is not None and (m := re.match(r'"([^"]+)":', text)):
            record[m.group(1)] = number


def _salvage(text: str) -> list[_Row]:
    """The flat objects of a JSON text that does not end."""
    rows: list[_Row] = []
    line, at = 1, 0
    for m in _FLAT.finditer(text):
        line += text.count("\n", at, m.start())
        at = m.start()
        try:
            record = json.loads(m.group(0))
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and any(canonical(key) in ("step", "epoch") for key in record):
            rows.extend(_rows(line, record))
    return rows


def _columns(whole: Mapping[str, Any]) -> Iterator[_Row]:
    """An object of lists, as Keras' History.history: the index counts epochs from 1."""
    lists = {key: value for key, value in whole.items() if isinstance(value, list) and name_of(key)}
    for index in range(max((len(value) for value in lists.values()), default=0)):
        record = {key: value[index] for key, value in lists.items() if index < len(value)}
        yield from _rows(None, {"epoch": index + 1, **record})


# ---------------------------------------------------------------------------------------------------------- CSV


def _cells(line: str) -> list[str]:
    delimiter = max(",\t;", key=line.count)
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


def _monitor(name: str) -> str | None:
    """The tag of a file of DeepSpeed's CSV monitor: Train_Samples_loss_scale.csv -> loss_scale."""
    m = re.fullmatch(r"train_samples_(.+)\.csv", name)
    return m.group(1) if m else None


def _is_downloaded(header: Sequence[str]) -> bool:
    """Whether a header is that of a scalar downloaded from TensorBoard."""
    return [cell.strip().lower() for cell in header] == _DOWNLOADED


def _downloaded_tag(name: str) -> str | None:
    """The tag of such a file, by its name in small letters, where it is a metric that is known."""
    m = _DOWNLOAD.fullmatch(name)
    tags = (m["tag"], m["tag"].replace("_", "/", 1)) if m is not None else ()
    return next((tag for tag in tags if name_of(tag) not in (None, "step", "epoch")), None)


class _Plan(NamedTuple):
    """What the columns of a table are, found once for all its lines: `_rows` finds it for each record.

    Numbers are places in a line. Only for columns of which each has a meaning of its own.
    """

    steps: tuple[int, ...]  # the first of these that holds a whole number counts
    ranks: tuple[int, ...]
    epochs: tuple[int, ...]
    times: tuple[tuple[int, str], ...]  # with the column's key; none of them is a metric
    metrics: tuple[tuple[int, str, float], ...]  # (place, name, factor)

    def rows(self, lines: Sequence[int], table: Sequence[Sequence[object]]) -> Iterator[_Row]:
        """The rows of lines of the table, as `_rows` gives them. lines: their numbers; table: their cells.

        Cells are texts, or values of JSON.
        """
        cells = list(zip(*table, strict=True))
        nothing: list[None] = [None] * len(lines)
        steps = _first([_steps(cells[i]) for i in self.steps]) or nothing
        ranks = _first([[_as_rank(x) for x in _numbers(cells[i])] for i in self.ranks]) or nothing
        epochs = _first([_numbers(cells[i]) for i in self.epochs]) or nothing
        times = self._times(cells) if self.times else nothing
        of_each = []
        gaps = False
        for i, name, by in self.metrics:
            values = _numbers(cells[i])
            gaps = gaps or None in values
            if by != 1.0:
                values = [None if x is None else x * by for x in values]
            of_each.append(zip(lines, ranks, steps, epochs, times, repeat(name), values, strict=False))
        rows = chain.from_iterable(zip(*of_each, strict=True))
        return (row for row in rows if row[6] is not None) if gaps else rows

    def _times(self, cells: Sequence[Sequence[object]]) -> Sequence[float | None]:
        """`_moment` of each line."""
        first = cells[self.times[0][0]]
        if {*map(type, first)} <= _NUMBERS and all(1e9 < x < 5e9 for x in first):  # type: ignore[operator]
            return _numbers(first)
        keys = [key for _, key in self.times]
        stamps = zip(*(cells[i] for i, _ in self.times), strict=True)
        return [_moment(dict(zip(keys, stamp, strict=True)))[0] for stamp in stamps]


class _Layout(NamedTuple):
    """Lines whose records have the same keys."""

    plan: _Plan | None
    lines: list[int]
    table: list[tuple[object, ...]]


def _numbers(cells: Sequence[Any]) -> list[float | None]:
    """`_number` of each of the cells."""
    kinds = {*map(type, cells)}
    try:
        if kinds <= _NUMBERS or (kinds == {str} and max(map(len, cells)) < 40):
            return list(map(float, cells))
    except (ValueError, OverflowError):
        pass
    return [_number(cell) for cell in cells]


def _steps(cells: Sequence[Any]) -> list[int | None]:
    """`_count` of each of the cells."""
    if any(isinstance(cell, str) and "/" in cell for cell in cells):
        return [_count(cell) for cell in cells]
    return [_integer(number) for number in _numbers(cells)]


def _first(columns: Sequence[list[_T | None]]) -> list[_T | None] | None:
    """Of each line the first value that there is; None without columns."""
    if len(columns) < 2:
        return columns[0] if columns else None
    return [next((x for x in line if x is not None), None) for line in zip(*columns, strict=True)]


def _as_rank(number: float | None) -> int | None:
    whole = _integer(number)
    return whole if whole is not None and 0 <= whole < 2**31 else None


def _plan(header: Sequence[str], told: Sequence[bool]) -> _Plan | None:
    """The plan of a table; None where columns share a name, so that each line must be looked at by itself."""
    columns = [(i, key) for i, key in enumerate(header) if told[i]]
    place = {key: i for i, key in columns}
    named = [(i, key, name) for i, key in columns if (name := name_of(key)) is not None]
    metrics = [(i, key, name) for i, key, name in named if name not in ("step", "epoch")]
    names = [name for _, _, name in metrics]
    if len(place) < len(columns) or len(set(names)) < len(names) or "train_runtime" in place or "loss_part" in names:
        return None
    if any(key in _TIME_KEYS for _, key, _ in metrics):  # it is one or the other, line by line
        return None
    counters = [place[key] for key in _STEP_KEYS if key in place]
    return _Plan(
        tuple(dict.fromkeys((*counters, *(i for i, _, name in named if name == "step")))),
        tuple(place[key] for key in RANKS if key in place),
        tuple(i for i, _, name in named if name == "epoch"),
        tuple((place[key], key) for key in _TIME_KEYS if key in place),
        tuple((i, name, factor(key)) for i, key, name in metrics),
    )


def _from_csv(text: str, name: str) -> tuple[list[_Row], str | None]:
    first = text.lstrip().split("\n", 1)[0]
    delimiter = max(",\t;", key=first.count)
    tag = _monitor(name)
    header: list[str] = []
    known: list[str] = []
    told: list[bool] = []  # of each column, whether it is one of these
    rows: list[_Row] = []
    short = 0
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    parts: dict[str, list[str]] = {}
    plan: _Plan | None = None
    lines: list[int] = []  # numbers and cells of lines that wait to be read together
    table: list[list[str]] = []

    def flush() -> None:
        if plan is not None and lines:
            rows.extend(plan.rows(lines, table))
        lines.clear()
        table.clear()

    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            flush()
            return rows, f"line {reader.line_num} is no CSV: {error}"
        if plan is not None and len(cells) == len(header) and cells[0].isdecimal():
            lines.append(reader.line_num)
            table.append(cells)
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if not header or not any(to_float(cell) is not None for cell in cells if cell.strip()):
            flush()
            if any(name_of(cell) for cell in cells):  # Lightning writes the header again when keys appear
                header = [cell.strip() for cell in cells]
                if _is_downloaded(header):
                    header = ["wall_time", "step", _downloaded_tag(name) or "value"]
                told = [
                    n == 0 or name_of(key) is not None or key in _WHERE_KEYS or key.endswith("_loss")
                    for n, key in enumerate(header)
                ]
                known = list(islice(compress(header, told), MAX_KEYS))
                parts = _loss_parts(known) if len(known) < MAX_KEYS else {}
                plan = _plan(header, told) if tag is None and not parts and len(known) < MAX_KEYS else None
                continue
            if not header:
                return [], "its first line is no header"
        if len(cells) != len(header):
            short += 1
            if reader.line_num < 3 or len(cells) > len(header):
                continue
            if not text.endswith("\n") and cells:
                cells = cells[:-1]  # the last number may lack digits
        flush()
        record: dict[str, Any] = dict(zip(known, compress(cells, told), strict=False))
        if tag is not None:
            samples = _number(record.get("step") or record.get(header[0]))
            value = _number(cells[1]) if len(cells) > 1 else None
            canon = canonical(tag)
            if canon and value is not None:
                rows.append((reader.line_num, None, None, None, None, canon, value))
                if samples is not None:
                    rows.append((reader.line_num, None, None, None, None, "samples_seen", samples))
            continue
        for total, keys in parts.items():
            numbers = [number for key in keys if (number := _number(record.get(key))) is not None]
            if len(numbers) == len(keys):
                record[total] = sum(numbers)
        if parts:
            record.pop("time", None)  # Ultralytics: seconds since the start
        rows.extend(_rows(reader.line_num, record))
    flush()
    if short == 1 and not text.endswith("\n"):
        return rows, "the last line is cut off"
    return rows, f"{short} lines have another number of columns than the header" if short else None


def _from_store(lines: Iterable[str], path: str) -> list[_Row]:
    """The rows of one metric of MLflow's store, which its path below `metrics/` names; other lines are passed over."""
    _, below, key = path.rpartition("/metrics/")
    key = key if below else path.rpartition("/")[2]
    name = name_of(key) or name_of(key.rpartition("/")[2])
    rows: list[_Row] = []
    for number, line in enumerate(lines, 1):
        if (said := _STORED.fullmatch(line.strip())) and name and (value := to_float(said["value"])) is not None:
            step = int(said["step"]) if said["step"] else None
            rows.append((number, None, step, None, int(said["ms"]) / 1000, name, value * factor(key)))
    return rows


def _loss_parts(header: list[str]) -> dict[str, list[str]]:
    """Ultralytics writes the terms of its loss (box, cls, dfl) and not their sum, which is what it optimises."""
    found = {}
    if not any(canonical(key) == "loss" for key in header):
        for total, phase in (("train/loss", "train/"), ("val/loss", "val/")):
            keys = [key for key in header if key.startswith(phase) and key.endswith("_loss")]
            if len(keys) > 1:
                found[total] = keys
    return found


# -------------------------------------------------------------------------------------------------------- frame


def _frame(rows: list[_Row], source: Source) -> pl.DataFrame:
    import polars as pl

    identity = source.identity
    types = schema(METRICS_COLUMNS)
    names = ("line", "rank", "step", "epoch", "time", "name", "value")
    columns = {name: list(map(itemgetter(n), rows)) for n, name in enumerate(names)}
    frame = pl.DataFrame(columns, schema={name: types[name] for name in names}, strict=False)
    frame = frame.with_columns(
        source=pl.lit(source.path, pl.String),
        rank=pl.coalesce("rank", pl.lit(identity.rank, pl.Int32)),
        attempt=pl.lit(identity.attempt, pl.Int32),
    )
    own = ["rank", "name"]
    same = pl.col("value").eq_missing(pl.col("value").shift(1).over(own)) & (pl.int_range(pl.len()).over(own) > 0)
    frame = frame.filter(~(pl.col("name").is_in(list(_CONSTANT)) & same))
    if (frame["name"] == "skipped_total").any():
        since = pl.col("value") - pl.col("value").shift(1).over(own)
        fresh = frame.with_row_index("at").filter(pl.col("name") == "skipped_total")
        fresh = fresh.with_columns(value=pl.when(since >= 0).then(since), name=pl.lit("skipped_steps"))
        frame = pl.concat([frame.with_row_index("at"), fresh.filter(pl.col("value").is_not_null())])
        frame = frame.sort("at", maintain_order=True)
    return frame.select(list(METRICS_COLUMNS))
