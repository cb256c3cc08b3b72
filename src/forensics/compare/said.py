"""What lines say of how a program was started, in the forms in which scripts print it by hand.

lr=3e-4                                    an assignment alone on a line
Overriding: learning_rate = 6e-4           the same as nanoGPT's configurator has it
args: lr=3e-4 batch=8                      a row of them behind a word that says what they are
learning_rate: 0.0003                      a line of a list, of which at least three follow each other
number of parameters: 124.44M              the size of the model
torch 2.4.1+cu124 | CUDA 12.4              versions, where a line holds nothing else
Environment: {'torch': '2.4.1', 'gpus': 8}  a dictionary, in Python's form or JSON's
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from forensics.parsers.names import canonical
from forensics.parsers.version_lines import package, versions, without_logger

ROW = 3  # lines of `name: value` that make a list of settings; one alone is as often a state or a measurement


class Stated(NamedTuple):
    """A setting, as a fact would have it, and the number of its line, from 1."""

    name: str
    value: str
    line: int


_VALUE = r"[\w.+-]{1,60}"
# Variables of the environment are facts of their own, and in capitals.
_ASSIGNED = re.compile(rf"^\s*(?:Overriding:\s+)?([a-z][A-Za-z0-9_]{{1,40}})\s?=\s?({_VALUE})\s*$")
_ROW = re.compile(
    r"(?i)^\s*(?:parsed |training |command[- ]line )?(?:args|arguments|config(?:uration)?|cfg|hparams"
    r"|hyper-?param(?:eter)?s|settings|params|options|flags)\s?:\s*(?=\w+=)(?P<pairs>[^\n]{3,4000})$"
)
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_.]{0,60})=(\"[^\"]{0,200}\"|'[^']{0,200}'|\[[^\]]{0,200}\]|[^\s,;]{1,200})")
_LISTED = re.compile(rf"^[\s│├└─┃┣┗━╰]*(?:[-*]\s+)?([a-z][A-Za-z0-9_]{{1,40}})\s*:\s+['\"]?({_VALUE})['\"]?\s*$")
_SIZE = re.compile(
    r"(?i)^\W{0,4}(?:model (?:has|size)\W{1,3})?(?:total |trainable |number of |num[_ ]|# ?){0,3}param(?:eter)?s"
    r"\s?[:=]\s?(\d[\d.,]*\s?[KMBT]?)\s*$"
)
_ENVIRONMENT = re.compile(
    r"(?i)^\s*(?:(?:run|runtime|software|system|training|library|package) )?"
    r"(?:environment|env|versions|platform|packages|info)(?: info(?:rmation)?)?\s?[:=]\s*(\{.{2,4000}\})\s*$"
)
_VERSION = re.compile(r"v?(?:\d+\.\d[\w.+-]{0,40}|\d{4,6})$")
# What differs from process to process and from run to run, or was measured.
_OWN = re.compile(
    r"(?i)(?:^|[_ .-])(?:rank|pid|ppid|port|host\w*|node\w*|device|gpu|id|time|elapsed|seconds?|sec|ms|mem\w*|bytes)$"
)
# Names of metrics under which settings are listed as well.
_SET = frozenset({"lr", "batch_size", "total_steps"})


def said(lines: Sequence[str]) -> Iterator[Stated]:
    """The settings that lines state, in order, save that lists come last. lines: without prefixes of launchers."""
    listed: list[Stated | None] = []
    for number, line in enumerate(lines, start=1):
        text = without_logger(line)
        found = _LISTED.match(text)
        listed.append(Stated(f"printed.{found[1]}", found[2], number) if found and _setting(found[1]) else None)
        yield from _of_line(text, number)
    for told, block in groupby(listed, key=lambda item: item is not None):
        rows = [item for item in block if item is not None]
        if told and len({row.name for row in rows}) >= ROW:
            yield from rows


def _setting(name: str) -> bool:
    metric = canonical(name)
    return not _OWN.search(name) and (metric is None or metric in _SET or name.endswith("epochs"))


def _of_line(text: str, number: int) -> Iterator[Stated]:
    if found := _ASSIGNED.match(text):
        if not _OWN.search(found[1]) and (canonical(found[1]) is None or text.lstrip().startswith("Overriding")):
            yield Stated(f"printed.{found[1]}", found[2], number)
    elif found := _ROW.match(text):
        pairs = [pair for pair in _PAIR.findall(found["pairs"]) if not _OWN.search(pair[0])]
        yield from (Stated(f"arguments.{name}", value.strip("'\""), number) for name, value in pairs)
    elif found := _SIZE.match(text):
        yield Stated("printed.parameters", found[1].replace(",", "").strip(), number)
    elif found := _ENVIRONMENT.match(text):
        yield from (Stated(name, value, number) for name, value in _environment(found[1]))
    else:
        yield from (Stated(f"{name}.version", version, number) for name, version in versions(text))


def _environment(text: str) -> Iterator[tuple[str, str]]:
    """The names and values of a dictionary that says what a program runs on; nothing of what is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of a backslash in a text
            table = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            return
    for name, value in table.items() if isinstance(table, dict) else ():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool | None) or _OWN.search(name):
            continue
        shown = str(value)[:200]
        if (of := package(name)) is not None and _VERSION.match(shown):
            yield f"{of}.version", shown
        elif re.fullmatch(r"[A-Z][A-Z0-9_]{1,60}", name):
            yield f"env.{name}", shown
        elif re.fullmatch(r"[A-Za-z][\w .-]{0,60}", name):
            yield f"environment.{name}", shown
