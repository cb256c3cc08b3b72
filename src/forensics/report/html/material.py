"""What a page is made of: the diagnosis, the pictures, and the lines around the evidence; redacted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from forensics.model import Diagnosis, RunData
from forensics.report.html.context import Context, Place, contexts, without_keys
from forensics.report.plots.model import Pictures

if TYPE_CHECKING:
    from forensics.report.redaction import Redactor


@dataclass(frozen=True, slots=True)
class Material:
    diagnosis: Diagnosis
    pictures: Pictures = field(default_factory=Pictures)
    contexts: Mapping[Place, Context] = field(default_factory=dict)  # by the file and line that the diagnosis shows
    told: tuple[str, ...] = ()  # lines of the run that give names away, for redaction
    redacted: bool = False


def gather(diagnosis: Diagnosis, data: RunData | None, *, lines: bool = True) -> Material:
    """Everything for a page of this run; of a diagnosis without `data` no pictures and no lines around evidence."""
    if data is None:
        return Material(diagnosis)
    from forensics.report.plots import pictures
    from forensics.report.redaction import told

    around = contexts(diagnosis, data) if lines else {}
    return Material(diagnosis, pictures(data, diagnosis), around, told(data))


def redact(material: Material, patterns: Sequence[str] = ()) -> Material:
    """The material without names, hosts, addresses and secrets; the same thing has the same stand-in everywhere.

    patterns: the user's own, as `redaction.Redactor` takes and refuses them.
    """
    from forensics.report.redaction import Redactor, redact_diagnosis, redact_tree

    redactor = Redactor(patterns=patterns)
    around = {place: without_keys(context) for place, context in material.contexts.items()}
    redact_diagnosis(material.diagnosis, redactor, told=material.told)  # learns
    for context in around.values():  # so do these: a host may stand in one of them only
        _redacted(context, redactor)
    redact_tree(material.pictures, redactor)
    return replace(
        material,
        diagnosis=redact_diagnosis(material.diagnosis, redactor),
        pictures=redact_tree(material.pictures, redactor),
        contexts={
            (redact_tree(file, redactor), line): _redacted(context, redactor)
            for (file, line), context in around.items()
        },
        told=(),
        redacted=True,
    )


def _redacted(context: Context, redactor: Redactor) -> Context:
    # Those around are read for what they say of these, and not kept.
    texts = redactor.lines([text for _, text, _ in context.lines], context.above, context.below)
    lines = tuple((number, text, key) for (number, _, key), text in zip(context.lines, texts, strict=True))
    return Context(redactor.again(redactor.redact(context.file)), context.line, lines)
