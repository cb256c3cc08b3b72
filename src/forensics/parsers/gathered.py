"""Output of many hosts that clush or dshbak has gathered: a block each, under its host's name.

    ---------------
    node04
    ---------------
    Traceback (most recent call last):
      ...

`pdsh ... | dshbak` prints rules of 16 dashes, `clush -b` of 15, and both put hosts whose output is the same together
(`node[01-03]`, with their number behind it from `clush` 1.5 on). What stands below one host's name is that host's; of
several nothing tells whose it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from forensics.files import beginning
from forensics.model import Evidence, Identity, Observation, Source, Traceback
from forensics.patterns import lazy

MAX_BYTES = 16 << 20  # of a file, all of which is looked through
_RULE = rb"-{15,16}\r?\n"
_HEAD = lazy(
    r"(?:^|\n)(?P<rule>-{15,16})\r?\n(?P<hosts>[A-Za-z][\w.,\[\]-]{0,250})(?: \(\d{1,6}\))?\r?\n(?P=rule)(?:\r?\n|$)"
)
# Words that other programs put between two such lines, with a number behind them.
_TITLES = lazy(
    r"(?:epoch|step|stage|phase|run|job|rank|fold|trial|round|iter|part|exp|test|task|section|attempt)[-_.]?\d", re.I
)


class Block(NamedTuple):
    """A line with the names of hosts, and the one host whose output is below it; None of several."""

    line: int  # 1-based
    host: str | None


def may_tell(head: bytes) -> bool:
    """Whether a file can be gathered output, by its first bytes."""
    return re.search(rb"(?:^|\n)" + _RULE, head) is not None and bool(blocks(head.decode("utf-8", "replace")))


def blocks(text: str) -> list[Block]:
    """The blocks of a text, in its order; none where what stands between two rules is no host anywhere.

    A title may look like a host (`llama3`): there have to be hosts that are put together, or two that are called alike.
    """
    found: list[Block] = []
    shapes: list[str] = []
    line, at = 1, 0
    for m in _HEAD.finditer(text):
        hosts = m["hosts"]
        line += text.count("\n", at, m.start("hosts"))
        at = m.start("hosts")
        if not any(map(str.isdigit, hosts)) or _TITLES.match(hosts):
            return []
        several = re.search(r"[\[,]", hosts) is not None
        found.append(Block(line, None if several else hosts))
        shapes += [re.sub(r"\d+", "#", hosts)] if not several else []
    return found if len(shapes) < len(found) or len(set(shapes)) < len(shapes) else []


def placed(
    source: Source, observations: Sequence[Observation], tracebacks: Sequence[Traceback]
) -> tuple[tuple[Observation, ...], tuple[Traceback, ...]]:
    """What was read of a gathered file, with the host of its block where no line says another. Raises OSError."""
    told = blocks(beginning(source.file, MAX_BYTES).decode("utf-8", "replace"))
    lines = [block.line for block in told]

    def at(identity: Identity, evidence: Evidence) -> Identity:
        n = bisect_right(lines, evidence.line) if evidence.line is not None else 0
        host = told[n - 1].host if n else None
        return (
            replace(identity, node=host)
            if host is not None and identity.node in (None, source.identity.node)
            else identity
        )

    return (
        tuple(replace(o, identity=at(o.identity, o.evidence[0])) for o in observations),
        tuple(replace(t, identity=at(t.identity, t.header)) for t in tracebacks),
    )
