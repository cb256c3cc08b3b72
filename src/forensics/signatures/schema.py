"""What a signature file may say, and the loader that refuses everything else.

A signature file is data: `signatures/<area>/<name>.toml`. `load_catalogue` reads the built-in ones (and a user's own)
into frozen `Signature` objects; `SignatureError` names the file and the field that is wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forensics import cache

# What a signature is to a run:
#   cause      can be the root
#   symptom    real trouble, and a root only where no cause explains it (a collective timeout, an exit by SIGKILL)
#   echo       only ever follows from something else (a peer's closed connection, a launcher's summary, SIGTERM)
#   benign     looks frightening and is normal; shown as context, with the reason
#   milestone  the run says where it is: started, resumed, saved, finished
KINDS = ("cause", "symptom", "echo", "benign", "milestone")
SEVERITIES = ("fatal", "error", "warning", "info")
STATUSES = ("experimental", "stable")
VERDICTS = ("failed", "hung", "diverged", "suspect", "interrupted")
# Whom a sign blames: the rank that shows it, the ranks that it names in a capture, those that never spoke, or nobody.
CULPRITS = ("self", "named", "silent", "none")
SOURCES = ("log", "metrics", "collectives", "exception", "file")


class SignatureError(ValueError):
    """A signature file is wrong; the message names file and field."""


@dataclass(frozen=True, slots=True)
class EvidenceRule:
    """One way in which a signature shows itself. Any one of a signature's rules is enough."""

    source: str  # one of SOURCES
    weight: float = 0.9  # how surely a match alone proves the signature
    # log: a regex on one cleaned line (prefixes, ANSI codes and progress bars taken off), ASCII classes.
    # Named groups that localise: rank, ranks, local_rank, device, pid, node, step, epoch, signal, exitcode.
    pattern: str | None = None
    anchor: str | None = (
        None  # a literal for the scan, where hyperscan cannot take the pattern (look-around, back-reference)
    )
    unless: str | None = None  # regex on the same line that takes the match back
    near: str | None = None  # regex that must match some line within near_lines of it, before or after
    unless_near: str | None = None
    near_lines: int = 30
    at_least: int = 1  # matches in the whole run before it counts
    culprit: str | None = None  # overrides the signature's
    # metrics, collectives: the name of a detector and its parameters
    detector: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    log: str  # one or more lines
    is_not: bool = False  # a near-miss: this signature must stay silent
    captures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookAlike:
    name: str  # slug of what it can be taken for
    tell: str  # what tells them apart
    pattern: str | None = None  # a line that rules this signature out in favour of `name`


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    area: str
    title: str
    kind: str
    severity: str
    why: str
    codes: tuple[str, ...] = ()
    status: str = "experimental"
    verdict: str = "failed"
    culprit: str = "self"
    # Slugs that this one can bring about, on the same rank, on peers or in a later attempt. Any cause already explains
    # any symptom and echo that it precedes; `causes` is for what that rule does not cover (cause to cause).
    causes: tuple[str, ...] = ()
    causes_on_rank: tuple[str, ...] = ()  # the same, but only on the rank that shows the cause
    parent: str | None = None  # slug of the general thing that this one is a case of
    specificity: int = 50  # orders roots that do not explain each other; the parent of a slug has a lower one
    fix: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()  # "what is missing :: how to get it next time"
    references: tuple[str, ...] = ()
    versions: str | None = None
    lookalikes: tuple[LookAlike, ...] = ()
    evidence: tuple[EvidenceRule, ...] = ()
    examples: tuple[Example, ...] = ()
    file: str = ""


_TOP = frozenset(
    "name codes title kind severity status verdict culprit why causes causes_on_rank parent specificity fix confirm "
    "references versions lookalike evidence example".split()
)
_RULE = {f for f in EvidenceRule.__dataclass_fields__ if f != "parameters"}


def _choice(where: str, what: str, value: Any, allowed: Iterable[str]) -> str:
    if value not in allowed:
        raise SignatureError(f"{where}: {what} must be one of {', '.join(allowed)}, not {value!r}")
    return str(value)


def _strings(where: str, what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SignatureError(f"{where}: {what} must be a list of strings")
    return tuple(value)


def _rule(where: str, table: Mapping[str, Any]) -> EvidenceRule:
    known = {key: value for key, value in table.items() if key in _RULE}
    parameters = {key: value for key, value in table.items() if key not in _RULE}
    source = _choice(where, "evidence.source", table.get("source"), SOURCES)
    if source == "log" and (parameters or "pattern" not in known):
        raise SignatureError(
            f"{where}: log evidence needs a pattern, and knows no {', '.join(parameters) or 'detector'}"
        )
    if source in ("metrics", "collectives", "file") and "detector" not in known:
        raise SignatureError(f"{where}: {source} evidence needs a detector")
    if "culprit" in known:
        _choice(where, "evidence.culprit", known["culprit"], CULPRITS)
    weight = known.get("weight", 0.9)
    if not 0 < weight <= 1:
        raise SignatureError(f"{where}: weight must lie in (0, 1]")
    return EvidenceRule(**known, parameters=parameters)


def parse(text: str, area: str, file: str = "<text>") -> Signature:
    """One signature from TOML text. Raises SignatureError."""
    try:
        return build(tomllib.loads(text), area, file)
    except tomllib.TOMLDecodeError as error:
        raise SignatureError(f"{file}: {error}") from None


def build(table: Mapping[str, Any], area: str, file: str) -> Signature:
    """One signature from a table that was read from TOML. Raises SignatureError."""
    if unknown := set(table) - _TOP:
        raise SignatureError(f"{file}: unknown field {', '.join(sorted(unknown))}")
    for required in ("name", "title", "kind", "severity", "why"):
        if not isinstance(table.get(required), str):
            raise SignatureError(f"{file}: {required} is missing")
    return Signature(
        name=table["name"],
        area=area,
        title=table["title"],
        kind=_choice(file, "kind", table["kind"], KINDS),
        severity=_choice(file, "severity", table["severity"], SEVERITIES),
        why=" ".join(table["why"].split()),
        codes=_strings(file, "codes", table.get("codes", [])),
        status=_choice(file, "status", table.get("status", "experimental"), STATUSES),
        verdict=_choice(file, "verdict", table.get("verdict", "failed"), VERDICTS),
        culprit=_choice(file, "culprit", table.get("culprit", "self"), CULPRITS),
        causes=_strings(file, "causes", table.get("causes", [])),
        causes_on_rank=_strings(file, "causes_on_rank", table.get("causes_on_rank", [])),
        parent=table.get("parent"),
        specificity=int(table.get("specificity", 50)),
        fix=_strings(file, "fix", table.get("fix", [])),
        confirm=_strings(file, "confirm", table.get("confirm", [])),
        references=_strings(file, "references", table.get("references", [])),
        versions=table.get("versions"),
        lookalikes=tuple(LookAlike(**item) for item in table.get("lookalike", [])),
        evidence=tuple(_rule(file, item) for item in table.get("evidence", [])),
        examples=tuple(Example(**item) for item in table.get("example", [])),
        file=file,
    )


def _tables(root: Path) -> dict[str, dict[str, Any]]:
    """The TOML tables below a folder, by "<area>/<file>". Parsing 300 files takes longer than a small analysis."""
    paths = sorted(root.rglob("*.toml"))
    stats = [(str(p), (info := p.stat()).st_size, info.st_mtime_ns) for p in paths]
    name = f"catalogue-{hashlib.sha256(repr(stats).encode()).hexdigest()[:32]}.json"
    if data := cache.load(name):
        with contextlib.suppress(ValueError):
            return dict(json.loads(data))
    tables = {}
    for path in paths:
        try:
            tables[f"{path.parent.name}/{path.name}"] = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SignatureError(f"{path}: {error}") from None
    cache.store("catalogue", name, json.dumps(tables).encode())
    return tables


def load_catalogue(*folders: Path) -> dict[str, Signature]:
    """Every signature of the built-in catalogue and of `folders`, by slug; a user's own replaces one of the same name.

    Raises SignatureError for a file that is wrong.
    """
    catalogue: dict[str, Signature] = {}
    for root in (Path(__file__).parent, *folders):
        for file, table in _tables(root).items():
            area, _, base = file.partition("/")
            signature = build(table, area, file)
            if f"{signature.name}.toml" != base:
                raise SignatureError(f"{file}: the file of {signature.name!r} must be named {signature.name}.toml")
            catalogue[signature.name] = signature
    return catalogue
