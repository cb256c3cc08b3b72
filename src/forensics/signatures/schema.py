"""What a signature file may say, and the loader that refuses everything else.

A signature file is data: `signatures/<area>/<name>.toml`. `load_catalogue` reads the built-in ones (and a user's own)
into frozen `Signature` objects; `SignatureError` names the file, the line and the field that is wrong.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from forensics import __version__, cache
from forensics.files import beginning
from forensics.signatures.places import Place, line_of

# What a signature is to a run:
#   cause      can be the root
#   symptom    real trouble, and a root only where no cause explains it (a collective timeout, an exit by SIGKILL)
#   echo       only ever follows from something else (a peer's closed connection, a launcher's summary, SIGTERM)
#   benign     looks frightening and is normal; shown as context, with the reason
#   milestone  the run says where it is: started, resumed, saved, finished
#   knowledge  nothing that a run writes by itself shows it: explained on request, with how to make it visible
KINDS = ("cause", "symptom", "echo", "benign", "milestone", "knowledge")
SEVERITIES = ("fatal", "error", "warning", "info")
STATUSES = ("experimental", "stable")
VERDICTS = ("failed", "hung", "diverged", "suspect", "interrupted")
# Whom a sign blames: the rank that shows it, the ranks that it names in a capture, those that never spoke, or nobody.
CULPRITS = ("self", "named", "silent", "none")
WITHIN = ("traceback", "log")  # what bounds the neighbourhood of a line beside near_lines
SOURCES = ("log", "metrics", "collectives", "exception", "file")
BUILT_IN = Path(__file__).resolve().parent  # the built-in signatures, a folder an area
INDEX = BUILT_IN / "index.toml"  # other words for them, and which of one code comes first

LONGEST_PATTERN = 4000  # characters; the longest built-in one has a quarter of that
LARGEST = 1 << 20  # bytes of one file; the longest built-in one has some 20,000
MOST_RULES = 200  # evidence rules of one signature
WIDEST = 10_000  # near_lines: each match reads that many lines before and after it
HIGHEST = 100  # specificity; the built-in ones lie between 0 and 80
# A code is what people type: letters and a number, as DP15, or OPS-3 of one's own.
_CODE = re.compile(r"[A-Z][A-Z_]{0,15}-?[0-9]{1,5}")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class SignatureError(ValueError):
    """A signature file is wrong; the message names file and field, and `place` the table and key."""

    def __init__(self, message: str, place: Place = ()) -> None:
        super().__init__(message)
        self.place = place


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
    # "traceback": near and unless_near see no further than the traceback that the line is part of and those that it
    # hangs on. Lines in no traceback have what is around them. "log": they see what other ranks print in it as well.
    within: str | None = None
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
    seen_in: str | None = (
        None  # program and version whose real output it is, e.g. "torch 2.13"; None: made from a source
    )
    # A confuser: the whole catalogue looks at this log, in which signs of other causes stand beside this one's, and its
    # first root must be this slug. Another's slug: this signature must lose here.
    root: str | None = None


class LookAlike(NamedTuple):
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
    see_also: tuple[str, ...] = ()  # slugs that are the usual next question
    references: tuple[str, ...] = ()
    versions: str | None = None
    lookalikes: tuple[LookAlike, ...] = ()
    evidence: tuple[EvidenceRule, ...] = ()
    examples: tuple[Example, ...] = ()
    file: str = ""


_TOP = frozenset(
    "name codes title kind severity status verdict culprit why causes causes_on_rank parent specificity fix confirm "
    "see_also references versions lookalike evidence example".split()
)
_RULE: Mapping[str, type] = {
    "source": str, "weight": float, "pattern": str, "anchor": str, "unless": str, "near": str, "unless_near": str,
    "near_lines": int, "within": str, "at_least": int, "culprit": str, "detector": str,
}  # fmt: skip
_EXAMPLE: Mapping[str, type] = {"log": str, "is_not": bool, "captures": dict, "seen_in": str, "root": str}
_LOOKALIKE: Mapping[str, type] = {"name": str, "tell": str, "pattern": str}
_LISTS = ("codes", "causes", "causes_on_rank", "fix", "confirm", "see_also", "references")
_TABLES = frozenset({"lookalike", "evidence", "example"})
_CHOICES = {
    "kind": KINDS, "severity": SEVERITIES, "status": STATUSES, "verdict": VERDICTS, "culprit": CULPRITS,
}  # fmt: skip
_WORDS = {str: "text", float: "a number", int: "a whole number", bool: "true or false", dict: "a table"}


def _choice(where: str, what: str, value: Any, allowed: Iterable[str], place: Place = ()) -> str:
    if value not in allowed:
        message = f"{where}: {what} must be one of {', '.join(allowed)}, not {value!r}"
        raise SignatureError(message, place or (what,))
    return str(value)


def _strings(where: str, table: Mapping[str, Any], what: str) -> tuple[str, ...]:
    value = table.get(what, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SignatureError(f"{where}: {what} must be a list of strings", (what,))
    return tuple(value)


def _is(value: Any, kind: type) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)


def _items(where: str, table: Mapping[str, Any], what: str) -> list[Mapping[str, Any]]:
    """The tables of `[[what]]`."""
    value = table.get(what, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise SignatureError(f"{where}: {what} must be written as [[{what}]] tables", (what,))
    return value


def _checked(
    where: str, what: str, n: int, item: Mapping[str, Any], fields: Mapping[str, type], needed: Iterable[str]
) -> Mapping[str, Any]:
    """The nth table of `[[what]]`, with no other than `fields`, each of its type."""
    for key, value in item.items():
        if key not in fields:
            message = f"{where}: {what} {n + 1} knows no {key!r}; there are {', '.join(fields)}"
            raise SignatureError(message, (what, n, key))
        if not _is(value, fields[key]):
            message = f"{where}: {what} {n + 1}: {key} must be {_WORDS[fields[key]]}, not {value!r}"
            raise SignatureError(message, (what, n, key))
    for key in needed:
        if key not in item:
            raise SignatureError(f"{where}: {what} {n + 1}: {key} is missing", (what, n))
    return item


def _validate_rule(where: str, n: int, table: Mapping[str, Any]) -> None:
    known = {key: value for key, value in table.items() if key in _RULE}
    parameters = {key: value for key, value in table.items() if key not in _RULE}
    place: Place = ("evidence", n)
    source = _choice(where, "evidence.source", table.get("source"), SOURCES, (*place, "source"))
    if source == "log" and (parameters or "pattern" not in known):
        raise SignatureError(
            f"{where}: log evidence needs a pattern, and knows no {', '.join(parameters) or 'detector'}",
            (*place, next(iter(parameters), "source")),
        )
    if source in ("metrics", "collectives", "file") and "detector" not in known:
        raise SignatureError(f"{where}: {source} evidence needs a detector", (*place, "source"))
    _checked(where, "evidence", n, known, _RULE, ())
    if "culprit" in known:
        _choice(where, "evidence.culprit", known["culprit"], CULPRITS, (*place, "culprit"))
    if "within" in known:
        _choice(where, "evidence.within", known["within"], WITHIN, (*place, "within"))
        if not known.keys() & {"near", "unless_near"}:
            raise SignatureError(
                f"{where}: within bounds near and unless_near, and there is neither", (*place, "within")
            )
    if not 0 < known.get("weight", 0.9) <= 1:
        raise SignatureError(f"{where}: weight must lie in (0, 1]", (*place, "weight"))
    for key, least, largest in (("near_lines", 0, WIDEST), ("at_least", 1, 1 << 31)):
        if not least <= known.get(key, 1) <= largest:
            raise SignatureError(f"{where}: {key} must lie between {least} and {largest}", (*place, key))
    for key in ("pattern", "anchor", "unless", "near", "unless_near"):
        if len(known.get(key, "")) > LONGEST_PATTERN:
            raise SignatureError(f"{where}: {key} is longer than {LONGEST_PATTERN} characters", (*place, key))


def parse(text: str, area: str, file: str = "<text>") -> Signature:
    """One signature from TOML text. Raises SignatureError, whose message begins with "file:line:"."""
    import tomllib

    try:
        return build(tomllib.loads(text), area, file)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SignatureError(f"{file}:{unparsed(text, error)}") from None
    except SignatureError as error:
        line = line_of(text, error.place)
        message = str(error).removeprefix(f"{file}: ")
        raise SignatureError(f"{file}:{line}: {message}", error.place) from None


def build(table: Mapping[str, Any], area: str, file: str) -> Signature:
    """One signature from a table that was read from TOML. Raises SignatureError."""
    validate(table, file)
    return assemble(table, area, file)


def validate(table: Mapping[str, Any], file: str) -> None:
    """Raises SignatureError for a table that is no signature; what passes can be assembled."""
    if unknown := sorted(set(table) - _TOP):
        raise SignatureError(f"{file}: unknown field {', '.join(unknown)}", (unknown[0],))
    for required in ("name", "title", "kind", "severity", "why"):
        if required not in table:
            raise SignatureError(f"{file}: {required} is missing")
        if not isinstance(table[required], str):
            raise SignatureError(f"{file}: {required} must be text, not {table[required]!r}", (required,))
    if not _SLUG.fullmatch(table["name"]):
        raise SignatureError(f"{file}: name must be letters, digits and hyphens, not {table['name']!r}", ("name",))
    for key, allowed in _CHOICES.items():
        if key in table:
            _choice(file, key, table[key], allowed)
    for key in _LISTS:
        _strings(file, table, key)
    for key, kind in (("parent", str), ("specificity", int), ("versions", str)):
        if key in table and not _is(table[key], kind):
            raise SignatureError(f"{file}: {key} must be {_WORDS[kind]}, not {table[key]!r}", (key,))
    for key in ("causes", "causes_on_rank"):
        if table["name"] in table.get(key, ()):
            raise SignatureError(f"{file}: {key} names the signature itself", (key,))
    if table.get("parent") == table["name"]:
        raise SignatureError(f"{file}: parent names the signature itself", ("parent",))
    for code in table.get("codes", ()):
        if not _CODE.fullmatch(code):
            raise SignatureError(
                f"{file}: a code is capital letters and a number, such as OPS3, not {code!r}", ("codes",)
            )
    if not 0 <= table.get("specificity", 0) <= HIGHEST:
        message = f"{file}: specificity must lie between 0 and {HIGHEST}, not {table['specificity']}"
        raise SignatureError(message, ("specificity",))
    rules = _items(file, table, "evidence")
    if len(rules) > MOST_RULES:
        raise SignatureError(f"{file}: more than {MOST_RULES} evidence rules", ("evidence", MOST_RULES))
    if table["kind"] == "knowledge" and rules:
        raise SignatureError(f"{file}: knowledge is what no evidence shows; it has no evidence rules", ("evidence", 0))
    for n, item in enumerate(_items(file, table, "lookalike")):
        _checked(file, "lookalike", n, item, _LOOKALIKE, ("name", "tell"))
    for n, item in enumerate(rules):
        _validate_rule(file, n, item)
    for n, item in enumerate(_items(file, table, "example")):
        _checked(file, "example", n, item, _EXAMPLE, ("log",))


def assemble(table: Mapping[str, Any], area: str, file: str) -> Signature:
    """The signature of a table that was validated before, in this start or in an earlier one."""
    given = {key: value for key, value in table.items() if key not in _TABLES}
    given.update({key: tuple(given[key]) for key in _LISTS if key in given})
    given["why"] = " ".join(given["why"].split())
    return Signature(
        **given,
        area=area,
        lookalikes=tuple(LookAlike(**item) for item in table.get("lookalike", ())),
        evidence=tuple(map(_rule, table.get("evidence", ()))),
        examples=tuple(Example(**item) for item in table.get("example", ())),
        file=file,
    )


def _rule(table: Mapping[str, Any]) -> EvidenceRule:
    known = {key: value for key, value in table.items() if key in _RULE}
    return EvidenceRule(**known, parameters={key: value for key, value in table.items() if key not in _RULE})


def text_of(path: Path) -> str:
    """The text of a signature file. Raises SignatureError for one that cannot be read or is no UTF-8."""
    try:
        data = beginning(path, LARGEST + 1)
    except OSError as error:
        raise SignatureError(f"{path}: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise SignatureError(f"{path}: larger than {LARGEST >> 10} KB, which no signature needs")
    if data.startswith(codecs.BOM_UTF8):
        raise SignatureError(f"{path}:1: begins with a byte order mark, which TOML does not allow; save it without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SignatureError(f"{path}:{not_utf8(data, error)}") from None


def not_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    """ "line: what is wrong" of bytes that are no UTF-8, which TOML has to be."""
    line = data.count(b"\n", 0, error.start) + 1
    return f"{line}: is no UTF-8 text (byte 0x{data[error.start]:02x})"


def unparsed(text: str, error: Exception) -> str:
    """ "line: what is wrong" of a text that tomllib refuses, which names the line at the end of its message."""
    if isinstance(error, RecursionError):
        return "1: nested too deeply"
    at = re.search(r"\(at line (\d+),", str(error))
    return f"{at[1] if at else text.count(chr(10)) + 1}: {error}"


def load_catalogue(*folders: Path, examples: bool = True) -> dict[str, Signature]:
    """Every signature of the built-in catalogue and of `folders`, by slug; a user's own replaces one of the same name.

    examples: an analysis does without them, and they are half of what there is to load.

    Raises SignatureError for a file that is wrong, and in `folders` for a pattern that is unsafe or does not compile.
    """
    catalogue: dict[str, Signature] = {}
    for root in (BUILT_IN, *folders):
        if not root.is_dir():
            raise SignatureError(f"{root}: is no folder")
        for signature in _folder(root, built_in=root == BUILT_IN, examples=examples):
            catalogue[signature.name] = signature
    return catalogue


def _folder(root: Path, *, built_in: bool, examples: bool) -> list[Signature]:
    """The signatures below a folder. Tables that were found right are kept for later starts (`cache`).

    Parsing and checking 500 files takes longer than a small analysis.
    """
    try:
        paths = signature_files(root)
        stats = [(str(p), (info := p.stat()).st_size, info.st_mtime_ns) for p in paths]
    except OSError as error:
        raise SignatureError(f"{error.filename or root}: {error.strerror or error}") from None
    rules = Path(__file__).stat()
    key = (__version__, rules.st_size, rules.st_mtime_ns, built_in, stats)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    if data := cache.load(_cached(digest, examples)):
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
            return [assemble(table, area, shown) for table, area, shown in json.loads(data)]
    checked = [(_checked_table(path, built_in), *_shown(path, built_in)) for path in paths]
    short = [({k: v for k, v in table.items() if k != "example"}, area, shown) for table, area, shown in checked]
    for whole, tables in ((True, checked), (False, short)):
        with contextlib.suppress(TypeError):  # a date is TOML, and no JSON
            cache.store(f"catalogue-{whole:d}", _cached(digest, whole), json.dumps(tables).encode())
    return [assemble(*item) for item in (checked if examples else short)]


def signature_files(root: Path) -> list[Path]:
    """The files of signatures below a folder, sorted; the index of the built-in ones, which is no signature, is none.

    Raises OSError.
    """
    found = (p for p in root.rglob("*.toml") if p.name != INDEX.name or p.resolve() != INDEX)
    return sorted(found, key=lambda p: p.parts)


def _cached(digest: str, examples: bool) -> str:
    return f"catalogue-{examples:d}-{digest}.json"


def _shown(path: Path, built_in: bool) -> tuple[str, str]:
    """(area, how the file is called: by area and name, and a user's own by the path where it can be mended)."""
    area = path.parent.name if built_in else path.parent.resolve().name  # `.` and `..` have other names
    return area, f"{area}/{path.name}" if built_in else str(path)


def _checked_table(path: Path, built_in: bool) -> dict[str, Any]:
    """The table of a signature file. Raises SignatureError, with the line, where anything is wrong with it."""
    import tomllib

    area, shown = _shown(path, built_in)
    text = text_of(path)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SignatureError(f"{path}:{unparsed(text, error)}") from None
    try:
        signature = build(table, area, shown)
        if f"{signature.name}.toml" != path.name:
            message = f"{shown}: the file of {signature.name!r} must be named {signature.name}.toml"
            raise SignatureError(message, ("name",))
        if not built_in:
            _refuse_unsafe(signature)
            _refuse_detectors(signature)
    except SignatureError as error:
        line = line_of(text, error.place)
        raise SignatureError(f"{shown}:{line}: {str(error).removeprefix(f'{shown}: ')}", error.place) from None
    return table


def _refuse_unsafe(signature: Signature) -> None:
    from forensics.signatures.safety import unsafe, unscannable

    for n, rule in enumerate(signature.evidence):
        for key in ("pattern", "unless", "near", "unless_near"):
            expression = getattr(rule, key)
            if expression is not None and (reason := unsafe(expression)):
                raise SignatureError(f"{signature.file}: {key}: {reason}", ("evidence", n, key))
        scanned = rule.pattern if rule.source == "log" and rule.anchor is None else None
        if scanned is not None and (reason := unscannable(scanned)):
            raise SignatureError(f"{signature.file}: pattern: {reason}", ("evidence", n, "pattern"))


def _refuse_detectors(signature: Signature) -> None:
    from forensics.signatures.rules import wrong_detector

    for n, rule in enumerate(signature.evidence):
        if wrong := wrong_detector(rule):
            place, reason = wrong
            raise SignatureError(f"{signature.file}: {reason}", ("evidence", n, *place))


def notes(catalogue: Mapping[str, Signature], folders: Iterable[Path]) -> list[str]:
    """What is odd about users' own signatures and stops nothing, a line each: empty folders, names of no signature.

    catalogue: with the signatures of `folders`. Raises SignatureError for a file that went meanwhile.
    """
    found = []
    for folder in folders:
        own = [s for s in catalogue.values() if Path(folder) in Path(s.file).parents]
        if not any(folder.rglob("*.toml")):
            found.append(f"{folder}: holds no signatures (*.toml)")
        for signature in own:
            if unknown := unknown_names(signature, catalogue):
                text = text_of(Path(signature.file))
                found += [f"{signature.file}:{line_of(text, place)}: {message}" for place, message in unknown]
    return list(dict.fromkeys(found))


def unknown_names(signature: Signature, catalogue: Mapping[str, Signature]) -> list[tuple[Place, str]]:
    """(place, message) for each slug that a signature names and the catalogue does not have."""
    named: list[tuple[Place, str, str]] = [
        *(((key,), key, name) for key in ("causes", "causes_on_rank", "see_also") for name in getattr(signature, key)),
        *((("lookalike", n, "name"), "lookalike", look.name) for n, look in enumerate(signature.lookalikes)),
        *((("example", n, "root"), "root", e.root) for n, e in enumerate(signature.examples) if e.root is not None),
    ]
    if signature.parent is not None:
        named.insert(0, (("parent",), "parent", signature.parent))
    return [
        (place, f"{key} names {name!r}, which is no signature") for place, key, name in named if name not in catalogue
    ]
