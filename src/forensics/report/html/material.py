"""What a page is made of: the diagnosis, the pictures, and the lines around the evidence; redacted together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from forensics.model import Diagnosis, RunData
from forensics.report.html.context import Context, Place, contexts, without_keys
from forensics.report.plots.model import Pictures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Material:
    diagnosis: Diagnosis
    pictures: Pictures = Pictures()
    contexts: Mapping[Place, Context] = field(default_factory=dict)  # by the file and line that the diagnosis shows
    redacted: bool = False


def gather(diagnosis: Diagnosis, data: RunData | None, *, lines: bool = True) -> Material:
    """Everything for a page of this run; without `data` (a diagnosis alone) no pictures and no lines around evidence."""
    if data is None:
        return Material(diagnosis)
    from forensics.report.plots import pictures

    return Material(diagnosis, pictures(data, diagnosis), contexts(diagnosis, data) if lines else {})


def redact(material: Material, patterns: Sequence[str] = ()) -> Material:
    """The material without names, hosts, addresses and secrets; the same thing has the same stand-in everywhere.

    patterns: the user's own, as `redaction.Redactor` takes and refuses them.
    """
    from forensics.report.redaction import Redactor, redact_diagnosis

    redactor = Redactor(patterns=patterns)
    around = {place: without_keys(context) for place, context in material.contexts.items()}
    redact_diagnosis(material.diagnosis, redactor)  # learns
    for part in (tuple(around.values()), material.pictures):  # so do these: a host may stand in one of them only
        _mapped(part, redactor.redact)
    return replace(
        material,
        diagnosis=redact_diagnosis(material.diagnosis, redactor),
        pictures=_mapped(material.pictures, redactor.redact),
        contexts={
            (redactor.redact(file), line): _mapped(context, redactor.redact) for (file, line), context in around.items()
        },
        redacted=True,
    )


def _mapped(value: T, change: Callable[[str], str]) -> T:
    """A copy of frozen dataclasses and tuples with `change` applied to every string in them."""
    result: Any = value
    if type(value) is str:
        result = change(str(value))
    elif isinstance(value, tuple):
        result = tuple(_mapped(item, change) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        result = type(value)(**{f.name: _mapped(getattr(value, f.name), change) for f in fields(value)})
    return result  # type: ignore[no-any-return]
