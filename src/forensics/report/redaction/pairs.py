"""A name and its value in two fields: `name: NODE_NAME` and `value: x`, as Kubernetes, Terraform and Hadoop have it.

The two stand in one entry, in either order, on one line or on several, and other fields may stand between them. Whether
the value is a secret or names someone or something is told by the name, as for a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.named import called_secret
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.variables import held

_QUOTED = r"b?(?P<quote>\\?[\"'])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,1000})(?=(?P=quote))"
_WORD = r"[^\s\0\"'`,;&|<>(){}\[\]\\]"
# A comma ends the value only before another field: hosts are listed so.
_PLAIN = rf"(?P<plain>{_WORD}{{1,1000}}(?:,(?![A-Za-z_][\w.-]{{0,60}}(?:=|:(?!\d))){_WORD}{{1,400}}){{0,200}})"
_FOLDED = r"(?:[>|][+-]?[ \t\r]*\n[ \t]+)?"  # YAML's blocks: the value is the line below
_BEFORE = r"(?:(?<![\w.-])|(?<=\\n)|(?<=\\t))"  # also behind a line's end as a string has it
_TOKEN = lazy(
    # where an entry begins or ends
    r"(?P<edge>[{}]|</?property>)"
    # a field, perhaps the first of an entry of YAML
    rf"|{_BEFORE}(?P<first>-[ \t])?\\?[\"']?(?i:(?P<field>name|key|variable|value))\\?[\"']?"
    rf"[ \t]{{0,20}}[:=][ \t]{{0,20}}{_FOLDED}(?:{_QUOTED}|{_PLAIN})"
    # the same as an element
    r"|<(?P<tag>name|value)>(?P<element>[^<>\n]{1,1000})(?=</(?P=tag)>)"
    # W&B's settings: a name with `value: x` below it
    rf"|{_BEFORE}\\?[\"']?(?P<above>[A-Za-z_][\w.-]{{1,80}})\\?[\"']?[ \t]?:[ \t]?(?:\{{[ \t\r\n]*|[ \t\r]*\n[ \t]+)"
    r"(?=(?:\\?[\"']?desc\\?[\"']?[ \t]?:[^\n]{0,200}\s+)?\\?[\"']?value\\?[\"']?[ \t]?:)",
    re.ASCII,
)
_NAME = lazy(r"[A-Za-z_][\w./-]{1,79}\Z", re.ASCII)
_LINES, _CHARACTERS = 4, 600  # between the two at most


class Pair(NamedTuple):
    """A name and its value, which stands at `start` of the text."""

    name: str
    value: str
    start: int


class _Part(NamedTuple):
    text: str
    start: int
    end: int
    first: bool  # of an entry


def _near(one: _Part, other: _Part, text: str) -> bool:
    between = (one.end, other.start) if one.end <= other.start else (other.end, one.start)
    return between[1] - between[0] <= _CHARACTERS and text.count("\n", *between) <= _LINES


def _part(match: re.Match[str]) -> tuple[bool, _Part]:
    """Whether a token is a value, and what it holds."""
    group = next(name for name in ("quoted", "plain", "element", "above") if match[name] is not None)
    held = match[group].rstrip(",") if group == "plain" else match[group]
    is_value = (match["field"] or match["tag"] or "").lower() == "value"
    return is_value, _Part(held, match.start(group), match.end(), match["first"] is not None)


def pairs(text: str) -> Iterator[Pair]:
    """The pairs of a text, in their order."""
    if "alue" not in text and "VALUE" not in text:
        return
    name = value = None
    for match in _TOKEN.finditer(text):
        if match["edge"]:
            name = value = None
            continue
        is_value, part = _part(match)
        if is_value:
            value = part
        else:
            # A name begins an entry, or ends one that began with its value.
            value = None if part.first or match["above"] or name is not None else value
            name = part if _NAME.match(part.text) else None
        if name is None or value is None:
            continue
        if _near(name, value, text):
            yield Pair(name.text, value.text, value.start)
        # A value that begins an entry is perhaps that of the name below it.
        name, value = None, value if is_value and value.first else None


def paired(text: str, memory: Memory) -> str:
    """`text` without what stands in a pair whose name says that it is a secret, or whom or what it names."""
    done, parts = 0, []
    for pair in pairs(text):
        shown = _shown(pair, memory)
        if shown != pair.value and pair.start >= done:
            parts += [text[done : pair.start], shown]
            done = pair.start + len(pair.value)
    return "".join(parts) + text[done:] if parts else text


def _shown(pair: Pair, memory: Memory) -> str:
    if is_stand_in(pair.value):
        return pair.value
    if called_secret(pair.name, pair.value):
        return memory.secret(pair.value)
    return held(pair.name, pair.value, memory)


def named_in_pairs(text: str) -> Iterator[str]:
    """The pairs of a text that give something away, each as one line."""
    for pair in pairs(text):
        if _shown(pair, Memory()) != pair.value:
            yield f'{{"name": "{pair.name}", "value": "{pair.value}"}}'
