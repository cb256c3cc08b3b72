"""The filters of a page as the query of its address: `?cause=nccl-*&node=node-7&since=2d`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from forensics.since import parse_since
from forensics.triage.filters import SEVERITIES, Filter, Unknown, check_verdicts

REPEATED = ("cause", "node", "verdict", "label", "path")
SINGLE = ("severity", "since")
MOST = 40  # filters of one address
LONGEST = 200  # characters of one


class BadQuery(ValueError):
    """An address asks for what is no filter; the message says why."""


def parse(query: str, now: float) -> tuple[Filter, tuple[tuple[str, str], ...]]:
    """The filter of a query, and its fields in their order; empty ones do not count. now: seconds since the epoch.

    Raises BadQuery.
    """
    try:
        pairs = parse_qsl(query, max_num_fields=MOST, errors="replace")
    except ValueError:
        raise BadQuery(f"more than {MOST} filters") from None
    values = tuple((name, value) for name, value in pairs if value)
    for name, value in values:
        if name not in REPEATED and name not in SINGLE:
            raise BadQuery(f"there is no filter {name[:60]!r}; there are: {', '.join((*REPEATED, *SINGLE))}")
        if len(value) > LONGEST:
            raise BadQuery(f"{name}: longer than {LONGEST} characters")
    try:
        check_verdicts([value for name, value in values if name == "verdict"])
    except Unknown as error:
        raise BadQuery(str(error)) from None
    for name in SINGLE:
        if sum(1 for key, _ in values if key == name) > 1:
            raise BadQuery(f"{name}: given twice")
    single = dict(values)
    severity = single.get("severity")
    if severity is not None and severity not in SEVERITIES:
        raise BadQuery(f"severity: one of {', '.join(SEVERITIES)}")
    try:
        since = parse_since(single["since"], now) if "since" in single else None
    except ValueError as error:
        raise BadQuery(f"since: {error}") from None

    def given(field: str) -> tuple[str, ...]:
        return tuple(value for name, value in values if name == field)

    wanted = Filter(
        cause=given("cause"),
        node=given("node"),
        verdict=given("verdict"),
        label=given("label"),
        path=given("path"),
        severity=severity,
        since=since,
    )
    return wanted, values
