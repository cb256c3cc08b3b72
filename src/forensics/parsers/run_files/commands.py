"""Options of the command that started a run, where the shell or a launcher prints it before it runs it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from forensics.parsers.run_files.base import is_private, item
from forensics.parsers.run_files.documents import Item
from forensics.patterns import lazy

# `bash -x` (one "+" a level of the shell), and DeepSpeed's runner.
_COMMAND = lazy(r"^(?:\++ |\[[^\n]{1,60}\] \[runner\.py:\d+:main\] cmd = )(?=[^\n]*\.py )([^\n]{1,4000})$", re.M)
LITERALS = (".py ",)
_OPTION = lazy(r"--([A-Za-z][\w.-]{0,60})(?:=(.*))?", re.S)
_OVERRIDE = lazy(r"[+~]{0,2}([A-Za-z_][\w.]{0,80})=(.*)", re.S)  # Hydra's
_MOST_COMMANDS = 16


def options(words: Sequence[str] | Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """(name, value) of `--lr 0.3` and `--lr=0.3`; "true" for an option without a value.

    words: an argument each, or by its number where some are not known.
    """
    line = words if isinstance(words, Mapping) else dict(enumerate(words))
    for at, word in line.items():
        if m := _OPTION.fullmatch(word):
            after = line.get(at + 1, "")
            value = m[2] if m[2] is not None else "true" if not after or _OPTION.fullmatch(after) else after
            yield m[1].replace("-", "_"), value


def traced_commands(text: str) -> Iterator[Item]:
    """The options of a Python script, as `command.<name>`; those of what launches it are none of its own."""
    if ".py " not in text:
        return
    found: dict[str, tuple[set[str], int]] = {}
    for m in islice(_COMMAND.finditer(text), _MOST_COMMANDS):
        try:
            words = shlex.split(m[1])
        except ValueError:  # a quote that is not closed
            words = m[1].split()
        script = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
        if script is None:
            continue
        own = words[script + 1 :]
        overrides = [(o[1], o[2]) for word in own if (o := _OVERRIDE.fullmatch(word))]
        for name, value in (*options(own), *overrides):
            if not is_private(name):
                found.setdefault(name, (set(), text.count("\n", 0, m.start()) + 1))[0].add(value)
    for name, (values, line) in found.items():
        if len(values) == 1:  # of several scripts, each may have its own
            yield item(f"command.{name}", values.pop(), line)
