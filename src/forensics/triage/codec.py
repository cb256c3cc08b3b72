"""Rows as JSON and back: one line of text with keys in a fixed order, so that equal results are equal bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from forensics.report.jsonreport import escaped
from forensics.triage.model import Device, JobResult, Place, Sign, Unexplained


def to_dict(result: JobResult) -> dict[str, Any]:
    """The row as dicts, lists, strings, numbers and None; without the names that redaction has of it."""
    return {f.name: _plain(getattr(result, f.name)) for f in dataclasses.fields(result) if f.name != "names"}


def dumps(result: JobResult) -> str:
    """One line of strict JSON without its newline, for `loads`; what acts on a terminal is escaped."""
    row = to_dict(result) | {"names": _plain(result.names)}
    return escaped(json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def plain(value: Any) -> Any:
    """A dataclass as dicts, lists, strings, numbers and None."""
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, float) or value - value == 0 else None
    if isinstance(value, Mapping):
        return {_plain(str(k)): _plain(v) for k, v in sorted(value.items())}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}


def loads(text: str) -> JobResult:
    """The row of a text that `dumps` made. Raises ValueError, KeyError or TypeError for any other."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("a row is an object")
    return from_dict(found)


def from_dict(row: Mapping[str, Any]) -> JobResult:
    """The row of a dict that `dumps` wrote; keys that JobResult does not have are passed over."""
    names = {f.name for f in dataclasses.fields(JobResult)}
    fields = {name: value for name, value in row.items() if name in names}
    for name in ("roots", "codes", "nodes"):
        fields[name] = tuple(fields[name])
    fields["names"] = tuple((str(kind), str(name)) for kind, name in fields.get("names", ()))
    fields["ranks"] = _numbers(fields["ranks"])
    fields["evidence"] = Place(**fields["evidence"]) if fields["evidence"] else None
    fields["signs"] = tuple(
        Sign(**(s | {"ranks": _numbers(s["ranks"]), "devices": _numbers(s["devices"])})) for s in fields["signs"]
    )
    fields["devices"] = tuple(Device(**d) for d in fields["devices"])
    if (rest := fields["unexplained"]) is not None:
        frames = tuple((file, line, function) for file, line, function in rest["frames"])
        fields["unexplained"] = Unexplained(**(rest | {"frames": frames, "last_lines": tuple(rest["last_lines"])}))
    _check(fields)
    return JobResult(**fields)


_NUMBERS = (
    "bytes", "files", "modified", "confidence", "step", "epoch", "attempt", "world_size", "attempts", "gpu_hours",
)  # fmt: skip
_TEXTS = (
    "path", "layout", "fingerprint", "error", "verdict", "root", "title", "severity", "node", "step_unit", "time",
    "fix", "summary", "started", "ended",
)  # fmt: skip


def _check(fields: Mapping[str, Any]) -> None:
    """Raises TypeError where a field that everything else counts on is of another kind."""
    kinds: tuple[tuple[tuple[str, ...], Any], ...] = ((_NUMBERS, int | float), (_TEXTS, str), (("labels",), dict))
    for names, kind in kinds:
        for name in names:
            if fields.get(name) is not None and not isinstance(fields[name], kind):
                raise TypeError(f"{name} is of another kind")
    for name in ("roots", "codes", "nodes"):
        if not all(isinstance(value, str) for value in fields[name]):
            raise TypeError(f"{name} is of another kind")


def _numbers(values: list[int] | None) -> tuple[int, ...] | None:
    return tuple(values) if values is not None else None
