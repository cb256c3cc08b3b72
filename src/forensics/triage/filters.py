"""Which rows a triage shows, and which of them make it fail."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forensics.model import Verdict
from forensics.triage.insight.model import UnknownGroup
from forensics.triage.insight.unknown import named
from forensics.triage.model import CRASHED, FAULT, NOTHING, OUT_OF_MEMORY, TIMED_OUT, UNREADABLE, JobResult

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature

ERROR = "error"  # in place of a verdict: a job that was not analysed
VERDICTS = (*(v.value for v in Verdict), ERROR)
BRACKETED = frozenset(
    f"({word})" for word in (*(v.value for v in Verdict), CRASHED, FAULT, NOTHING, OUT_OF_MEMORY, TIMED_OUT, UNREADABLE)
)  # `JobResult.cause` of rows without a root
CONDITIONS = ("any", "failed", "never")  # of `failing`, beside severities and causes
_GROUP = re.compile(r"[a-z0-9_-]+-[0-9a-f]{8}")
AGREES = 3600.0  # seconds between a job's last time and the change of its files, in the same zone
SEVERITIES = ("info", "warning", "error", "fatal")  # ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A row must meet every field that is given, and one value of each.

    cause: slugs, codes, globs on slugs, names of unknown groups once these are known (`among`), or "(timeout)" and the
    like. label: "name=value" or "name", globs in both; a number is met however it is written.
    since: seconds since the epoch; compared with the failure's time, else the end's, else the newest file's.
    """

    cause: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    severity: str | None = None
    label: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    since: float | None = None
    grouped: frozenset[str] = frozenset()  # paths of the jobs of unknown groups that `cause` names

    def among(self, unknown: Iterable[UnknownGroup]) -> Filter:
        """The filter with what its causes name among the unknown groups."""
        return replace(self, grouped=named(unknown, self.cause)) if self.cause else self

    def __call__(self, result: JobResult) -> bool:
        return (
            (not self.cause or result.path in self.grouped or any(has_cause(result, c) for c in self.cause))
            and (not self.node or _on_node(self.node, (result.node,) if result.node else result.nodes))
            and (not self.verdict or (result.verdict or ERROR) in self.verdict)
            and (self.severity is None or at_least(result, self.severity))
            and (not self.label or any(_has_label(result, wanted) for wanted in self.label))
            and (not self.path or _any(self.path, (result.path,)))
            and (self.since is None or (moment(result) or 0.0) >= self.since)
        )


def is_group(cause: str) -> bool:
    """Whether a cause is written as names of unknown groups are (`Kind.name`)."""
    return _GROUP.fullmatch(cause) is not None


class Unknown(Exception):
    """A filter or condition names something that no row can have; the message says what there is."""


def check_causes(causes: Sequence[str], catalogue: Mapping[str, Signature], also: Sequence[str] = ()) -> None:
    """Raises Unknown for a cause that is no slug, code, glob, or name in brackets, and not in `also`."""
    from forensics.signatures.index import near_names

    codes = {code for signature in catalogue.values() for code in signature.codes}
    for cause in causes:
        if cause in catalogue or cause in codes or cause in BRACKETED or cause in also or set(cause) & set("*?["):
            continue
        if is_group(cause):  # which groups there are is known when all jobs are (`check_groups`)
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


def check_groups(names: Iterable[str], unknown: Sequence[UnknownGroup]) -> None:
    """Raises Unknown for a name of which there is no unknown group."""
    for name in names:
        if not named(unknown, (name,)):
            there = ", ".join(group.name for group in unknown[:5]) or "none"
            raise Unknown(f"there is no group {name[:100]!r} of unknown failures; there are: {there}")


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


def _on_node(globs: Sequence[str], nodes: Sequence[str]) -> bool:
    """A node meets its name with a domain, too, where rows have it without one (triage/hosts.py)."""
    return _any((*globs, *(glob.partition(".")[0] for glob in globs if not glob[:1].isdigit())), nodes)


def _has_label(result: JobResult, wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    number = _number(value)
    return any(
        fnmatch.fnmatchcase(key, name)
        and (not equals or fnmatch.fnmatchcase(found, value) or (number is not None and _number(found) == number))
        for key, found in result.labels.items()
    )


def _number(text: str) -> float | None:
    """0.01 for "1e-2": launchers and people write one number in several ways."""
    try:
        return float(text) if re.search(r"\d", text) else None
    except ValueError:
        return None


def failing(conditions: Sequence[str], unknown: Iterable[UnknownGroup] = ()) -> Callable[[JobResult], bool]:
    """Whether a row makes the triage fail: "any" trouble, "failed", a severity or graver, or a cause (as in Filter).

    "any" is what tables and pages count as failed (`JobResult.failed`), and what was not analysed; "failed" is the
    verdict of that name alone.

    unknown: the groups that a condition may name.
    """
    grouped = named(unknown, conditions)

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
                met = has_cause(result, condition) or result.path in grouped
            if met:
                return True
        return False

    return fails


def age(result: JobResult, now: float) -> float | None:
    """Hours since a job failed or was last heard of."""
    at = moment(result)
    return round(max(now - at, 0.0) / 3600, 2) if at is not None else None
