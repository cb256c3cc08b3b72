"""JSON, YAML and TOML as flat items: a dotted path, a value as text, a line.

No object is built from a file: its tokens (JSON) or events (YAML) are walked, so that depth, number and size are
bounded whatever it holds. YAML's aliases are not followed and its tags are not obeyed; a JSON file that ends in the
middle gives what it holds up to there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from forensics.patterns import lazy

JSON_BYTES = 4 << 20
YAML_BYTES = 512 << 10  # PyYAML without its C part reads some 100 kB a second
TOML_BYTES = 64 << 10
_DOTS = 1_000  # in one line: tomllib takes time by their square
DEPTH = 32
ITEMS = 20_000  # of one document
_WIDTH = 4_000  # entries of one container of a table that was read whole (TOML, a pickle)
VALUE = 300  # characters of a value that are kept

NULL, TRUE, FALSE = "null", "true", "false"

_TOKEN = lazy(
    r'[ \t\r\n]*+(?:(?P<text>"(?:[^"\\]++|\\.)*+")|(?P<plain>-?(?:Infinity|NaN|\d[\d.eE+-]*+)|true|false|null)'
    r"|(?P<mark>[\[\]{}:,]))",
    re.S,
)
_PYTHON = {"None": NULL, "~": NULL, "": NULL, "True": TRUE, "False": FALSE, "TRUE": TRUE, "FALSE": FALSE, "Null": NULL}


class Item(NamedTuple):
    """One scalar of a document. path: keys joined by dots, list indices among them; line: from 1."""

    path: str
    value: str
    line: int | None = None


class Document(NamedTuple):
    items: tuple[Item, ...] = ()
    problem: str | None = None  # what could not be read, in words for the coverage row

    def get(self, path: str) -> str | None:
        """The value at a path; None where there is none."""
        return next((item.value for item in self.items if item.path == path), None)

    def below(self, path: str) -> Iterator[Item]:
        """The items whose path begins with `path` and a dot."""
        return (item for item in self.items if item.path.startswith(path + "."))


def plain(value: str) -> str:
    """One spelling of what has several: null, true and false as JSON writes them. Control characters become spaces."""
    value = _PYTHON.get(value, value)
    return re.sub(r"[\x00-\x1f\x7f]+", " ", value[: VALUE + 1])[:VALUE]


def _unquoted(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token[: 8 * VALUE], strict=False)) if len(token) <= 8 * VALUE else token[1 : VALUE + 1]
    except ValueError:
        return token[1:-1]


@dataclass(slots=True)
class _Open:
    """A container that is being read."""

    path: str
    is_object: bool
    key: str | None = None
    index: int = 0

    def child(self) -> str:
        name = self.key if self.is_object else str(self.index)
        return f"{self.path}.{name}" if self.path else str(name)

    def next(self) -> None:
        self.key = None
        self.index += 1


def read_json(text: str) -> Document:
    """The scalars of a JSON document. Never raises."""
    items: list[Item] = []
    stack: list[_Open] = []
    at, line, counted = 0, 1, 0
    cut = len(text) > JSON_BYTES
    text = text[:JSON_BYTES].removeprefix("\ufeff")
    while True:
        m = _TOKEN.match(text, at)
        if m is None:
            rest = text[at : at + 4096].strip()
            whole = not rest and not stack and bool(items or at)
            if whole:
                return Document(tuple(items))
            if cut and at > JSON_BYTES // 2:
                return Document(tuple(items), f"only the first {JSON_BYTES >> 20} MB were read")
            ends = bool(stack) and (not rest or rest[0] == '"' or len(rest) < 10)
            return Document(tuple(items), "ends in the middle" if ends else "is no JSON")
        start = m.start(str(m.lastgroup))
        line += text.count("\n", counted, start)
        counted, at = start, m.end()
        top = stack[-1] if stack else None
        mark = m["mark"]
        if mark in ("{", "["):
            if len(stack) >= DEPTH:
                return Document(tuple(items), f"is nested deeper than {DEPTH} levels")
            stack.append(_Open(top.child()[:VALUE] if top else "", mark == "{"))
        elif mark in ("}", "]"):
            if not stack:
                return Document(tuple(items), "is no JSON")
            stack.pop()
            if not stack:
                trailing = text[at : at + 4096].strip()
                return Document(tuple(items), "holds more than one JSON document" if trailing else None)
            stack[-1].next()
        elif mark is None:
            value = _unquoted(m["text"]) if m["text"] is not None else m["plain"]
            if top is not None and top.is_object and top.key is None:
                top.key = value[:VALUE]
                continue
            if len(items) >= ITEMS:
                return Document(tuple(items), f"only its first {ITEMS:,} values were read")
            if top is None:
                return Document((Item("", plain(value), line),))
            items.append(Item(top.child(), plain(value) if m["text"] is None else _text(value), line))
            top.next()


def _text(value: str) -> str:
    """A quoted string: it means what it says, also where it says None."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", value[: VALUE + 1])[:VALUE]


def read_yaml(text: str) -> Document:
    """The scalars of a YAML document (of several, all). Never raises."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    items: list[Item] = []
    stack: list[_Open] = []
    problem = f"only the first {YAML_BYTES >> 10} kB were read" if len(text) > YAML_BYTES else None
    text = text[:YAML_BYTES]
    if problem:
        text = text[: text.rfind("\n") + 1]
    try:
        for event in yaml.parse(text, Loader=loader):
            top = stack[-1] if stack else None
            if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
                if isinstance(event, yaml.ScalarEvent):
                    value, bare = str(event.value), not event.style
                else:
                    value, bare = f"*{event.anchor}", False
                if top is not None and top.is_object and top.key is None:
                    top.key = value[:VALUE]
                    continue
                if len(items) >= ITEMS:
                    return Document(tuple(items), f"only its first {ITEMS:,} values were read")
                line = event.start_mark.line + 1 if event.start_mark is not None else None
                items.append(Item(top.child() if top else "", plain(value) if bare else _text(value), line))
                if top is not None:
                    top.next()
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(stack) >= DEPTH:
                    return Document(tuple(items), f"is nested deeper than {DEPTH} levels")
                if top is not None and top.is_object and top.key is None:
                    top.key = "?"  # a container as a key
                path = top.child()[:VALUE] if top else ""
                stack.append(_Open(path, isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()
                if stack:
                    stack[-1].next()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        return Document(tuple(items), f"is no YAML{where}")
    return Document(tuple(items), problem)


def read_toml(text: str) -> Document:
    """The scalars of a TOML document, without lines. Never raises."""
    import tomllib

    if len(text) > TOML_BYTES:
        return Document((), f"is larger than {TOML_BYTES >> 10} kB")
    if any(line.count(".") > _DOTS for line in text.split("\n")):
        return Document((), f"is nested deeper than {DEPTH} levels")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError):
        return Document((), "is no TOML")
    return walk(table)


def walk(value: object) -> Document:
    """The scalars of plain containers."""
    items: list[Item] = []
    todo: list[tuple[str, object, int]] = [("", value, 0)]
    visited = 0
    while todo:
        path, at, depth = todo.pop()
        visited += 1  # containers that hold each other many times over give few scalars and many visits
        if visited > 2 * ITEMS:
            return Document(tuple(items), f"only its first {len(items):,} values were read")
        if isinstance(at, Mapping | list | tuple):
            if depth >= DEPTH:
                return Document(tuple(items), f"is nested deeper than {DEPTH} levels")
            pairs = list(at.items()) if isinstance(at, Mapping) else list(enumerate(at))
            inner = [(f"{path}.{k}" if path else str(k), v, depth + 1) for k, v in pairs[:_WIDTH]]
            todo.extend((name[:VALUE], v, d) for name, v, d in reversed(inner))
            continue
        if len(items) >= ITEMS:
            return Document(tuple(items), f"only its first {ITEMS:,} values were read")
        items.append(Item(path, scalar(at)))
    return Document(tuple(items))


def scalar(value: object) -> str:
    """A scalar as text, in JSON's spelling."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    try:
        return _text(str(value))
    except ValueError:  # an integer of more digits than Python prints
        return "a very large number"


# How many values of one container become facts: of a list little is worth it, of a table nearly all.
_OF_LIST = 16
_OF_TABLE = 250
_OF_ROOT = 600


def thinned(items: tuple[Item, ...]) -> Iterator[Item]:
    """The items without the tails of long lists and tables."""
    seen: Counter[str] = Counter()
    for item in items:
        parent, _, name = item.path.rpartition(".")
        seen[parent] += 1
        if seen[parent] <= (_OF_LIST if name.isdigit() else _OF_TABLE if parent else _OF_ROOT):
            yield item
