"""Which rows a triage shows, and which of them make it fail."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forensics.model import Verdict
from forensics.triage.model import CRASHED, FAULT, NOTHING, OUT_OF_MEMORY, TIMED_OUT, UNREADABLE, JobResult

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature

ERROR = "error"  # in place of a verdict: a job that was not analysed
VERDICTS = (*(v.value for v in Verdict), ERROR)
BRACKETED = frozenset(
    f"({word})" for word in (*(v.value for v in Verdict), CRASHED, FAULT, NOTHING, OUT_OF_MEMORY, TIMED_OUT, UNREADABLE)
)  # `JobResult.cause` of rows without a root
CONDITIONS = ("any", "failed", "never")  # of `failing`, beside severities and causes
AGREES = 3600.0  # seconds between a job's last time and the change of its files, in the same zone
SEVERITIES = ("info", "warning", "error", "fatal")  # ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A row must meet every field that is given, and one value of each.

    cause: slugs, codes, globs on slugs, or "(timeout)" and the like. label: "name=value" or "name", globs in both.
    since: seconds since the epoch; compared with the failure's time, else the end's, else the newest file's.
    """

    cause: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    severity: str | None = None
    label: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    since: float | None = None

    def __call__(self, result: JobResult) -> bool:
        return (
            (not self.cause or any(has_cause(result, c) for c in self.cause))
            and (not self.node or _any(self.node, (result.node,) if result.node else result.nodes))
            and (not self.verdict or (result.verdict or ERROR) in self.verdict)
            and (self.severity is None or at_least(result, self.severity))
            and (not self.label or any(_has_label(result, wanted) for wanted in self.label))
            and (not self.path or _any(self.path, (result.path,)))
            and (self.since is None or (moment(result) or 0.0) >= self.since)
        )


class Unknown(Exception):
    """A filter or condition names something that no row can have; the message says what there is."""


def check_causes(causes: Sequence[str], catalogue: Mapping[str, Signature], also: Sequence[str] = ()) -> None:
    """Raises Unknown for a cause that is no slug, code, glob, or name in brackets, and not in `also`."""
    from forensics.signatures.index import near_names

    codes = {code for signature in catalogue.values() for code in signature.codes}
    for cause in causes:
        if cause in catalogue or cause in codes or cause in BRACKETED or cause in also or set(cause) & set("*?["):
            continue
        if also and cause.lower() in also:
            raise Unknown(f"{cause[:100]!r} is written {cause.lower()}")
        if cause.startswith("("):
            raise Unknown(f"there is no {cause[:100]!r}; there are {', '.join(sorted(BRACKETED))}")
        close = difflib.get_close_matches(cause.lower(), also, n=2)
        near = [*close, *(n for n in near_names(catalogue, cause) if n in catalogue or n in codes)][:5]
        hint = f"did you mean {', '.join(near)}?" if near else "see: forensics signatures list"
        words = f" or one of {', '.join(also)}" if also else ""
        raise Unknown(f"{cause[:100]!r} is no slug, code, or glob{words}; {hint}")


def check_verdicts(verdicts: Sequence[str]) -> None:
    """Raises Unknown for a verdict that no row can have."""
    for verdict in verdicts:
        if verdict not in VERDICTS:
            raise Unknown(f"there is no verdict {verdict[:100]!r}; there are {', '.join(VERDICTS)}")


def has_cause(result: JobResult, cause: str) -> bool:
    names = (result.cause, *result.roots)
    return cause in result.codes or any(fnmatch.fnmatchcase(name, cause) for name in names)


def at_least(result: JobResult, severity: str) -> bool:
    """Whether a row's root is of this severity or a graver one."""
    return result.severity in SEVERITIES[SEVERITIES.index(severity) :]


def moment(result: JobResult) -> float | None:
    """When a job failed or was last heard of, seconds since the epoch.

    A time without a zone is this machine's, unless as UTC it is the one that agrees with the job's files, the newest
    of which was changed when or soon after the job was last heard of.
    """
    for text in (result.time, result.ended):
        if text is not None:
            try:
                at = datetime.fromisoformat(text)
                if at.tzinfo is not None:
                    return at.timestamp()
                here, utc = at.timestamp(), at.replace(tzinfo=UTC).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
            changed = result.modified
            return utc if changed is not None and abs(utc - changed) < min(abs(here - changed), AGREES) else here
    return result.modified


def _any(globs: Sequence[str], values: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(value, glob) for value in values for glob in globs)


def _has_label(result: JobResult, wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    return any(
        fnmatch.fnmatchcase(key, name) and (not equals or fnmatch.fnmatchcase(found, value))
        for key, found in result.labels.items()
    )


def failing(conditions: Sequence[str]) -> Callable[[JobResult], bool]:
    """Whether a row makes the triage fail: "any" trouble, "failed", a severity or graver, or a cause (as in Filter)."""

    def fails(result: JobResult) -> bool:
        for condition in conditions:
            if condition == "never":
                continue
            if condition == "any":
                met = result.failed or result.error is not None
            elif condition == "failed":
                met = result.verdict == "failed"
            elif condition in SEVERITIES:
                met = at_least(result, condition)
            else:
                met = has_cause(result, condition)
            if met:
                return True
        return False

    return fails
