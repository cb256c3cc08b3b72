"""Events as rows: the numbers, texts and session starts of the records of one file.

Field numbers are those of TensorFlow's `event.proto` and `summary.proto`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from forensics.model import schema
from forensics.parsers.tensorboard import histograms, hparams
from forensics.parsers.tensorboard.tensors import CONTENT, Scalar, numbers, scalar, tensor
from forensics.parsers.tensorboard.wire import (
    BYTES,
    DOUBLE,
    EVENT_WIRE,
    FIXED32,
    VARINT,
    Malformed,
    fields,
    signed,
    varint,
)

if TYPE_CHECKING:
    import polars as pl

EVENT_COLUMNS: dict[str, str] = {"step": "Int64", "time": "Float64", "tag": "String", "value": "Float64"}
MAX_TEXT = 20_000  # characters kept of one text summary; the arguments of a trainer take five thousand
MAX_TEXTS = 1_000  # text summaries kept of one file
MAX_SESSIONS = 10_000  # starts of sessions kept of one file
LIMITS = {"texts": MAX_TEXTS, "starts of sessions": MAX_SESSIONS}
HPARAMS = "_hparams_/"  # what stands before the tags of hyperparameters here; the plugin's own tags begin like that
_START = 1  # SessionLog.status

# What nearly every record of a scalar looks like: wall_time, step (left out where it is 0), summary.
_USUAL = re.compile(rb"\x09.{8}(?:\x10([\x80-\xff]{0,9}[\x00-\x7f]))?(\x2a.*)", re.DOTALL)
_LAYOUTS = 4  # layouts remembered a length; real files have one
_LEARN_BYTES = 1024  # longer summaries hold other things too, and hardly repeat
_LEARN_TAGS = 100_000  # tags remembered; beyond them records are merely read more slowly


class Session(NamedTuple):
    """A SessionLog START: what was written before it, with its step or a later one, is superseded."""

    row: int  # number of the first row of `scalars` behind it
    step: int
    time: float  # seconds since the epoch


@dataclass(slots=True)
class _Layout:
    """Where the value stands in summaries of one length, and the tag by all the other bytes."""

    start: int
    stop: int
    code: Struct
    tags: dict[bytes, str] = field(default_factory=dict)


class Rows:
    """The rows of one file so far; the growing end as lists, the rest as frames."""

    def __init__(self) -> None:
        self.text: list[tuple[str, int, str]] = []
        self.sessions: list[Session] = []
        self._flushed = 0  # rows that are in frames already
        self._steps: list[int] = []
        self._times: list[float] = []
        self._tags: list[str] = []
        self._values: list[float] = []
        self._done: list[pl.DataFrame] = []
        self._layouts: dict[int, list[_Layout]] = {}
        self._plugins: dict[str, str] = {}
        self._learned = 0
        self._left_out: dict[str, int] = {}  # what -> how many of them were beyond a limit

    def problem(self) -> str | None:
        """What was left out because there is more of it than is kept of one file; None where nothing was."""
        left_out = self._left_out.items()
        return "; ".join(f"{n:,} {what} beyond the first {LIMITS[what]:,} left out" for what, n in left_out) or None

    def add(self, payloads: Sequence[bytes]) -> list[int]:
        """Take the rows out of Events, and give the indices of those that are none."""
        strange: list[int] = []
        steps, times, tags, values = self._steps, self._times, self._tags, self._values
        usual, layouts_of, time_of = _USUAL.fullmatch, self._layouts.get, DOUBLE.unpack_from
        last_step: bytes | None = None
        number = 0
        for index, payload in enumerate(payloads):
            rest: bytes | None = None
            match = usual(payload)
            if match is not None:
                step, rest = match.groups()
                tag = None
                for layout in layouts_of(len(rest), ()):
                    tag = layout.tags.get(rest[: layout.start] + rest[layout.stop :])
                    if tag is None:
                        continue
                    if step != last_step:
                        last_step = step
                        number = signed(varint(step, 0, len(step))[0]) if step else 0
                    steps.append(number)
                    times.append(time_of(payload, 1)[0])
                    tags.append(tag)
                    values.append(layout.code.unpack_from(rest, layout.start)[0])
                    break
                if tag is not None:
                    continue
            try:
                self._add_any(payload, rest)
            except Malformed:
                strange.append(index)
        self.flush()
        return strange

    def _add_any(self, payload: bytes, rest: bytes | None) -> None:
        found = _event(payload, self._plugins)
        for one in found.scalars:
            self._steps.append(found.step)
            self._times.append(found.time)
            self._tags.append(one.tag)
            self._values.append(one.value)
        if found.starts:
            if len(self.sessions) < MAX_SESSIONS:
                self.sessions.append(Session(self._flushed + len(self._steps), found.step, found.time))
            else:
                self._leave_out("starts of sessions", 1)
        if found.texts:
            room = max(0, MAX_TEXTS - len(self.text))
            self.text.extend((tag, found.step, text) for tag, text in found.texts[:room])
            self._leave_out("texts", len(found.texts) - room)
        if rest is not None and len(rest) <= _LEARN_BYTES and len(found.scalars) == 1 and not found.texts:
            self._learn(rest, found.scalars[0], len(payload) - len(rest))

    def _leave_out(self, what: str, count: int) -> None:
        if count > 0:
            self._left_out[what] = self._left_out.get(what, 0) + count

    def _learn(self, rest: bytes, one: Scalar, before: int) -> None:
        """Remember the layout of a record, so that the next ones like it need no parsing."""
        length, start = varint(rest, 1, len(rest))
        if one.code is None or start + length != len(rest) or self._learned >= _LEARN_TAGS:
            return
        first, stop = one.start - before, one.start - before + one.code.size
        layouts = self._layouts.setdefault(len(rest), [])
        for layout in layouts:
            if layout.start == first and layout.code is one.code:
                break
        else:
            if len(layouts) >= _LAYOUTS:
                return
            layout = _Layout(first, stop, one.code)
            layouts.append(layout)
        layout.tags[rest[:first] + rest[stop:]] = one.tag
        self._learned += 1

    def following(self) -> Rows:
        """Empty rows for the records that come next, with what was learned of those before."""
        rows = Rows()
        rows._layouts, rows._plugins, rows._learned = self._layouts, self._plugins, self._learned
        return rows

    def flush(self) -> None:
        """Turn the lists into a frame, an eighth of their size."""
        if not self._steps:
            return
        self._done.append(_frame(self._steps, self._times, self._tags, self._values))
        self._flushed += len(self._steps)
        self._steps, self._times, self._tags, self._values = [], [], [], []

    def frame(self) -> pl.DataFrame:
        """All rows, in file order."""
        import polars as pl

        self.flush()
        return pl.concat(self._done) if self._done else _frame([], [], [], [])


def _frame(steps: list[int], times: list[float], tags: list[str], values: list[float]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({"step": steps, "time": times, "tag": tags, "value": values}, schema=schema(EVENT_COLUMNS))


@dataclass(slots=True)
class _Found:
    """What one Event holds."""

    time: float = 0.0
    step: int = 0
    scalars: list[Scalar] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    starts: bool = False


def _event(payload: bytes, plugins: dict[str, str]) -> _Found:
    """The content of one Event; `plugins` remembers the plugin of each tag. Raises Malformed."""
    found = _Found()
    for number, wire, value, start, stop in fields(payload, 0, len(payload)):
        if EVENT_WIRE.get(number, wire) != wire:
            raise Malformed("event")
        if number == 1:
            found.time = DOUBLE.unpack_from(payload, start)[0]
        elif number == 2:
            found.step = signed(value)
        elif number == 5:
            for inner, inner_wire, _, first, last in fields(payload, start, stop):
                if inner == 1 and inner_wire == BYTES:
                    _summary_value(payload, first, last, plugins, found)
        elif number == 7:
            for inner, inner_wire, status, _, _ in fields(payload, start, stop):
                if inner == 1 and inner_wire == VARINT:
                    found.starts = status == _START
    return found


def _summary_value(data: bytes, start: int, stop: int, plugins: dict[str, str], found: _Found) -> None:
    """One Summary.Value: tag 1, simple_value 2, histo 5, tensor 8, metadata 9."""
    tag = ""
    simple: int | None = None
    histogram: tuple[int, int] | None = None
    held: tuple[int, int] | None = None
    plugin: str | None = None
    content = b""
    for number, wire, _, first, last in fields(data, start, stop):
        if number == 1 and wire == BYTES:
            tag = data[first:last].decode("utf-8", "replace")
        elif number == 2 and wire == FIXED32:
            simple = first
        elif number == 5 and wire == BYTES:
            histogram = (first, last)
        elif number == 8 and wire == BYTES:
            held = (first, last)
        elif number == 9 and wire == BYTES:
            plugin, content = _plugin(data, first, last)
    # Writers may give the metadata with the first value of a tag only.
    if plugin:
        plugins.setdefault(tag, plugin)
    else:
        plugin = plugins.get(tag, "")
    if simple is not None:
        code = CONTENT[1]
        found.scalars.append(Scalar(tag, code.unpack_from(data, simple)[0], simple, code))
    elif plugin == "hparams":
        found.texts.extend((f"{HPARAMS}{name}", text) for name, text in hparams.session(content))
    elif histogram is not None:
        _add_histogram(tag, histograms.from_proto(data, *histogram), found)
    elif held is not None and plugin == "histograms":
        values = numbers(data, tensor(data, *held))
        _add_histogram(tag, histograms.from_rows(values) if values else None, found)
    elif held is not None and plugin in ("scalars", ""):
        one = scalar(data, tensor(data, *held), tag, plugin == "scalars")
        if one is not None:
            found.scalars.append(one)
    elif held is not None and plugin == "text":
        text = "\n".join(
            data[first:last].decode("utf-8", "replace")
            for number, wire, _, first, last in fields(data, *held)
            if number == 8 and wire == BYTES
        )
        found.texts.append((tag, text[:MAX_TEXT]))


def _add_histogram(tag: str, histogram: histograms.Histogram | None, found: _Found) -> None:
    if histogram is not None:
        found.scalars.extend(Scalar(f"{tag}/{name}", value, -1, None) for name, value in histogram.numbers())


def _plugin(data: bytes, start: int, stop: int) -> tuple[str, bytes]:
    """(plugin name, its content) of a SummaryMetadata: plugin_data 1, in it plugin_name 1 and content 2."""
    name, content = "", b""
    for number, wire, _, first, last in fields(data, start, stop):
        if number == 1 and wire == BYTES:
            for inner, inner_wire, _, a, b in fields(data, first, last):
                if inner == 1 and inner_wire == BYTES:
                    name = data[a:b].decode("utf-8", "replace")
                elif inner == 2 and inner_wire == BYTES:
                    content = data[a:b]
    return name, content
