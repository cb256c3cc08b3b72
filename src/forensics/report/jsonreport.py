"""The diagnosis as strict JSON: the contract of docs/json.md."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from forensics import __version__
from forensics.model import Coverage, Diagnosis, Evidence, Finding, Hint

SCHEMA_VERSION = 1

_SURROGATE = re.compile("[\ud800-\udfff]")
# json.dumps escapes C0 alone. C1, bidi and other format controls act on a terminal that shows the file, and U+2028/9
# end a line in JavaScript; all of them can only stand inside strings, so that escaping them loses nothing.
_LIVE = re.compile("[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def _clean(value: Any) -> Any:
    """`value` in types that strict JSON has: no NaN, no lone surrogates, no tuples."""
    if isinstance(value, str):
        return str(value) if value.isascii() else _SURROGATE.sub("\ufffd", str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {_clean(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _numbers(values: tuple[int, ...] | None) -> list[int] | None:
    """Sorted; an empty tuple is null, for nobody is named either way."""
    return sorted(set(values)) if values else None


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {"file": evidence.file, "line": evidence.line, "offset": evidence.offset, "text": evidence.text}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "name": finding.name,
        "signature": finding.codes[0] if finding.codes else finding.name,
        "codes": finding.codes,
        "title": finding.title,
        "role": finding.role.value,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "ranks": _numbers(finding.ranks),
        "local_ranks": _numbers(finding.local_ranks),
        "devices": _numbers(finding.devices),
        "node": finding.node,
        "step": finding.step,
        "step_is": finding.step_is,
        "step_unit": finding.step_unit,
        "epoch": finding.epoch,
        "time": finding.time,
        "time_is": finding.time_is,
        "time_source": finding.time_source,
        "attempt": finding.attempt,
        "count": finding.count,
        "evidence": [_evidence(item) for item in finding.evidence],
        "captures": dict(sorted(finding.captures.items())),
        "explains": finding.explains,
        "explained_by": finding.explained_by,
        "fix": finding.fix,
        "why": finding.why,
        "notes": finding.notes,
        "see_also": finding.see_also,
        "stopped_first": finding.stopped_first,
    }


def _hint(hint: Hint) -> dict[str, Any]:
    return {
        "name": hint.name,
        "signature": hint.codes[0] if hint.codes else hint.name,
        "codes": hint.codes,
        "title": hint.title,
        "check": hint.check,
        "confidence": hint.confidence,
        "evidence": [_evidence(item) for item in hint.evidence],
        "why": hint.why,
        "fix": hint.fix,
        "supports": hint.supports,
    }


def _source(source: Coverage) -> dict[str, Any]:
    return {
        "path": source.path,
        "kind": source.kind,
        "rank": source.rank,
        "node": source.node,
        "bytes": source.bytes,
        "status": source.status.value,
        "reason": source.reason,
    }


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The JSON object of docs/json.md as plain dicts, lists, strings, numbers and None, keys in the documented order.

    Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"; lone surrogates are U+FFFD.
    """
    run = diagnosis.run
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "forensics", "version": __version__},
        "run": {
            "path": run.path,
            "world_size": run.world_size,
            "nodes": run.nodes,
            "attempts": run.attempts,
            "started": run.started,
            "ended": run.ended,
        },
        "verdict": diagnosis.verdict.value,
        "summary": diagnosis.summary,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "ruled_out": [
            {"name": item.name, "reason": item.reason, "evidence": [_evidence(e) for e in item.evidence]}
            for item in diagnosis.ruled_out
        ],
        "missing_evidence": [{"what": item.what, "how": item.how} for item in diagnosis.missing_evidence],
        "coverage": {"sources": [_source(source) for source in diagnosis.coverage]},
        "environment": [
            {"name": fact.name, "value": fact.value, "source": fact.source, "line": fact.line}
            for fact in diagnosis.environment
        ],
        "hints": [_hint(hint) for hint in diagnosis.hints],
        "fingerprint": diagnosis.fingerprint,
    }
    cleaned: dict[str, Any] = _clean(document)
    return cleaned


def render(diagnosis: Diagnosis, *, indent: int | None = 2) -> str:
    """The document as text that ends in a newline; `indent=None` gives one line, for JSON lines."""
    text = json.dumps(to_dict(diagnosis), ensure_ascii=False, allow_nan=False, indent=indent)
    return escaped(text) + "\n"


def escaped(text: str) -> str:
    """JSON text in which what acts on a terminal or ends a line in JavaScript stands as an escape."""
    return text if text.isascii() and "\x7f" not in text else _LIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
