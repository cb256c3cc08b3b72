"""Signs of something wrong, and the news that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from forensics.model import Diagnosis, Evidence, Finding, Role, Verdict
from forensics.signatures.schema import Signature

SCHEMA_VERSION = 1
_TOLD = ("cause", "symptom")
_NOBODYS = "insufficient-evidence"  # says that nothing is known, which is no news
# Detectors of what no later record takes back; the others judge the shape of a curve.
_SURE = frozenset(
    {"nan_loss", "nan_gradients", "nan_one_rank_first", "nan_same_step", "nonfinite_module", "scale_collapse"}
)
_XID = frozenset({"xid", "sxid"})  # captures that a driver's error is told by
_LASTING = ("metrics", "collectives")  # evidence that shows a state: where it shows no more, the state is over


class State(StrEnum):
    STARTED = "started"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that is wrong now: a finding, or what only watching shows.

    time: as the run printed it, ISO 8601. lasting: it is over as soon as it is not seen any more. subject: what tells
    it from others of its name; the title where it is empty. trend: the shape of a curve, which more records can change.
    """

    name: str
    title: str
    severity: str
    kind: str  # "cause", "symptom" (of the catalogue), or "watch"
    what: str | None = None
    codes: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = None
    local_ranks: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    node: str | None = None
    step: int | None = None
    step_is: str | None = None
    time: str | None = None
    attempt: int | None = None
    evidence: Evidence | None = None
    advice: str | None = None
    see_also: tuple[str, ...] = ()
    follows: str | None = None  # name of what it follows from
    lasting: bool = True
    subject: str = ""
    trend: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What is told: a sign that is new, or one that is over. told: seconds since the epoch."""

    state: State
    sign: Sign
    told: float
    at_start: bool = False  # it was there when the watch began
    again: bool = False  # it was over before


def signs(diagnosis: Diagnosis, catalogue: Mapping[str, Signature]) -> list[Sign]:
    """The findings of a diagnosis that are trouble: causes and symptoms that the run did not survive.

    What a card told the driver is a warning also where training goes on: a run seldom does for long.
    """
    if diagnosis.verdict is Verdict.RECOVERED:
        return []
    names = {f.id: f.name for f in diagnosis.findings}
    warned = [
        replace(_sign(f, catalogue[f.name], names), severity="warning")
        for f in diagnosis.findings
        if f.name in catalogue and _is_outlived_xid(f, catalogue[f.name])
    ]
    return warned + [
        _sign(f, catalogue[f.name], names)
        for f in diagnosis.findings
        if f.role is not Role.CONTEXT
        and f.name != _NOBODYS
        and f.name in catalogue
        and catalogue[f.name].kind in _TOLD
        and f.severity != "info"
    ]


def survived(diagnosis: Diagnosis) -> set[str]:
    """The names of findings that turned out to do no harm, or that a later start of the run got over."""
    if diagnosis.verdict is Verdict.RECOVERED:
        return {f.name for f in diagnosis.findings}
    names = {f.name for f in diagnosis.findings if f.role is Role.CONTEXT and not _names_xid(f)}
    return names - {f.name for f in diagnosis.findings if f.role is not Role.CONTEXT}


def _names_xid(finding: Finding) -> bool:
    return not _XID.isdisjoint(finding.captures)


def _is_outlived_xid(finding: Finding, signature: Signature) -> bool:
    """Whether a card's error is context for no other reason than that training went on (engine.survival).

    Not so errors of other hosts and processes, or from before the start.
    """
    outlived = any(words in finding.why for words in ("training went on", "went on training"))
    return finding.role is Role.CONTEXT and _names_xid(finding) and signature.severity != "info" and outlived


def _sign(finding: Finding, signature: Signature, names: Mapping[str, str]) -> Sign:
    shown = finding.evidence[0] if finding.evidence else None
    by_metric = shown is not None and shown.offset is None
    return Sign(
        name=finding.name,
        title=finding.title,
        severity=finding.severity,
        kind=signature.kind,
        what=finding.notes[0] if finding.notes else None,
        codes=finding.codes,
        ranks=finding.ranks,
        local_ranks=finding.local_ranks,
        devices=finding.devices,
        node=finding.node,
        step=finding.step,
        step_is=finding.step_is,
        time=finding.time,
        attempt=finding.attempt,
        evidence=shown,
        advice=finding.fix[0] if finding.fix else None,
        see_also=finding.see_also,
        follows=names.get(finding.explained_by or ""),
        lasting=by_metric and any(rule.source in _LASTING for rule in signature.evidence),
        trend=by_metric and any(r.source == "metrics" and r.detector not in _SURE for r in signature.evidence),
    )


def as_dict(news: News, run: str) -> dict[str, Any]:
    """The object of docs/json.md. run: the path of the run as it was given."""
    sign = news.sign
    e = sign.evidence
    return {
        "schema_version": SCHEMA_VERSION,
        "event": "news",
        "run": run,
        "state": news.state.value,
        "told": stamp(news.told),
        "at_start": news.at_start,
        "again": news.again,
        "name": sign.name,
        "signature": sign.codes[0] if sign.codes else sign.name,
        "codes": list(sign.codes),
        "kind": sign.kind,
        "title": sign.title,
        "what": sign.what,
        "severity": sign.severity,
        "ranks": list(sign.ranks) if sign.ranks else None,
        "local_ranks": list(sign.local_ranks) if sign.local_ranks else None,
        "devices": list(sign.devices) if sign.devices else None,
        "node": sign.node,
        "step": sign.step,
        "step_is": sign.step_is,
        "time": sign.time,
        "attempt": sign.attempt,
        "evidence": None if e is None else {"file": e.file, "line": e.line, "offset": e.offset, "text": e.text},
        "advice": sign.advice,
        "see_also": list(sign.see_also),
        "follows_from": sign.follows,
    }


def stamp(seconds: float) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
