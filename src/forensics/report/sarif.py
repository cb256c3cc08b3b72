"""SARIF 2.1.0 (OASIS): findings as results of a static-analysis tool, for code scanning and editors.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; section numbers below are of that document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from forensics import __version__
from forensics.model import Coverage, Diagnosis, Evidence, Finding, Role, Status
from forensics.report import words
from forensics.report.fingerprint import VERSION
from forensics.report.inert import inert, one_line

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BASE = "RUN"  # what locations are relative to: the run directory, wherever it lies
_RELATED = 20  # further places of a result
_NOT_READ = 200  # notifications


def _message(text: str, limit: int = 4000) -> dict[str, str]:
    return {"text": _clean(one_line(text, limit)) or "-"}


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _artifact(path: str) -> dict[str, str]:
    """3.4: a relative URI. A log's path can hold anything, also what would make it absolute."""
    return {
        "uri": quote(path.lstrip("/").replace("\\", "/").encode("utf-8", "replace"), safe="/!-._~") or ".",
        "uriBaseId": BASE,
    }


def _location(evidence: Evidence) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(evidence.file)}
    region: dict[str, Any] = {}
    if evidence.line is not None and evidence.line > 0:
        region["startLine"] = evidence.line
    elif evidence.offset is not None and evidence.offset >= 0:
        region["byteOffset"] = evidence.offset
    if region and evidence.text.strip():
        region["snippet"] = {"text": _clean(inert(evidence.text, 3000, keep_newlines=True))}
    if region:
        physical["region"] = region
    return {"physicalLocation": physical}


def _level(finding: Finding) -> str:
    """3.27.10; what follows from a cause is a note, as is what is worth knowing."""
    if finding.role is not Role.ROOT:
        return "note"
    return {"fatal": "error", "error": "error", "warning": "warning"}.get(finding.severity, "note")


def _result(finding: Finding, rules: Mapping[str, int], fingerprint: str | None, first: bool) -> dict[str, Any]:
    text = words.located(finding) + (f". {finding.why}" if finding.why.strip() else "")
    result: dict[str, Any] = {
        "ruleId": finding.name,
        "ruleIndex": rules[finding.name],
        "level": _level(finding),
        "message": _message(text),
        "locations": [_location(e) for e in finding.evidence[:1] if e.file],
        "properties": {
            "role": finding.role.value,
            "confidence": finding.confidence if math.isfinite(finding.confidence) else None,
            "ranks": sorted(finding.ranks) if finding.ranks else None,
            "node": _clean(inert(finding.node)) if finding.node else None,
            "step": finding.step,
            "attempt": finding.attempt,
            "explainedBy": finding.explained_by,
        },
    }
    if related := [_location(e) for e in finding.evidence[1 : 1 + _RELATED] if e.file]:
        result["relatedLocations"] = related
    if math.isfinite(finding.confidence) and finding.role is Role.ROOT:
        result["rank"] = round(100 * max(0.0, min(1.0, finding.confidence)), 1)  # 3.27.25: 0 to 100
    if first and fingerprint:
        result["partialFingerprints"] = {f"forensicsFailure/v{VERSION}": fingerprint}
    return result


def _rule(finding: Finding, signature: Signature | None) -> dict[str, Any]:
    """3.49, with the catalogue's own words where it is at hand, for a finding's can be about this run alone."""
    title, why = (signature.title, signature.why) if signature else (finding.title, finding.why or finding.title)
    fixes: Sequence[str] = signature.fix if signature else finding.fix
    text = " ".join(why.split()) + "".join(f"\n{number}. {fix}" for number, fix in enumerate(fixes, 1))
    return {
        "id": finding.name,
        "shortDescription": _message(title, 1000),
        "fullDescription": _message(why, 1000),
        "help": {"text": _clean(inert(text, 8000, keep_newlines=True)) or "-"},
        "defaultConfiguration": {"level": "error" if finding.severity in ("fatal", "error") else "warning"
                                 if finding.severity == "warning" else "note"},
        "properties": {"tags": [_clean(inert(code)) for code in finding.codes]},
    }  # fmt: skip


def _notification(source: Coverage) -> dict[str, Any]:
    level = "warning" if source.status is Status.UNREADABLE else "note"
    return {
        "level": level,
        "message": _message(f"{source.status.value}: {source.reason or 'no reason given'}", 600),
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(source.path)}}],
    }


def render(diagnosis: Diagnosis, catalogue: Mapping[str, Signature] | None = None) -> str:
    """The log file as JSON text. Rule ids are slugs of the catalogue; locations are relative to the run (`RUN`)."""
    catalogue = catalogue or {}
    rules: dict[str, int] = {}
    described: list[dict[str, Any]] = []
    for finding in diagnosis.findings:
        if finding.name not in rules:
            rules[finding.name] = len(rules)
            described.append(_rule(finding, catalogue.get(finding.name)))
    roots = diagnosis.of_role(Role.ROOT)
    results = [_result(f, rules, diagnosis.fingerprint, bool(roots) and f is roots[0]) for f in diagnosis.findings]
    order = (Status.UNREADABLE, Status.PARTIAL, Status.SKIPPED)
    unread = sorted((c for c in diagnosis.coverage if c.status in order), key=lambda c: order.index(c.status))
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "forensics", "version": __version__, "rules": described}},
                "originalUriBaseIds": {BASE: {"description": {"text": "The run directory that was analysed."}}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [_notification(c) for c in unread[:_NOT_READ]],
                    }
                ],
                "results": results,
                "columnKind": "unicodeCodePoints",
                "properties": {
                    "verdict": diagnosis.verdict.value,
                    "summary": _clean(one_line(diagnosis.summary)),
                    "fingerprint": diagnosis.fingerprint,
                    "coverage": words.coverage_phrase(diagnosis.coverage),
                },
            }
        ],
    }
    # A lone surrogate in any of it would be no UTF-8.
    return _clean(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)) + "\n"
