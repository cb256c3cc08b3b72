"""Hosts at the heads of lines, beside the number of a process: `[rank2@x]`, `x rank2 INFO`, `[x/2]`, `x:2:`, `3: x:`.

In the same places the name of a logger stands, or of what is counted. Of one line a name with a number is taken, and
beside a rank also a word that neither logs, code nor prose have, where the line's head is one of a record. A whole file
tells more: where each number stands with one name alone, and there are several names, these are hosts whatever they
are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.host_shapes import numbered, strong, word
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.sure_hosts import plain

_STAMP = r"(?:\d{2,4}[-/]\d\d(?:[-/]\d{2,4})?[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_GAP = r"(?: {0,8}[|:,-] {0,8}| {1,8}|(?=[\[(]))"
_TIMED = rf"[\[(]?{_STAMP}[\])]?{_GAP}"
# What may stand before the columns that name host and rank: a time and a level.
_START = rf"^ {{0,4}}(?:{_TIMED})?(?:[\[(<]?{_LEVEL}[\])>]? {{0,8}}{_GAP})?"
_HOST = rf"(?P<name>{NAME})"
_RANK = r"(?:[Gg]lobal[ _])?(?:[Rr]ank|RANK)[ :=_-]{0,2}(?P<number>\d{1,6})(?![\w.])"
# Not as in `[default1]:[rank1]:`, where torchrun's role and local rank stand.
_BETWEEN = r"(?:(?: ?[|,/:@-] ?| )[\[(<]?|[\])>](?: ?[|,/@-] ?| )?[\[(<]?)"
# How a head ends: a word beside a rank is a host's only where it does, or behind a time or `INFO:`.
_ENDS = rf"(?=[\])>|]|:(?:\s|$)|\s[|-]\s|\s{_LEVEL}\b)"
_BESIDE_RANKS = (
    lazy(rf"{_START}[\[(<]?{_HOST}(?={_BETWEEN}{_RANK}{_ENDS})", re.ASCII | re.M),
    lazy(rf"{_START}[\[(<]?{_RANK}{_BETWEEN}{_HOST}{_ENDS}", re.ASCII | re.M),
    lazy(rf"^(?:{_TIMED}(?:{_LEVEL} {{0,8}}{_GAP})?|{_LEVEL}:)[\[(<]?{_HOST}(?={_BETWEEN}{_RANK})", re.ASCII | re.M),
    lazy(rf"[\[(]{_RANK} ?@ ?{_HOST}(?=[\])])", re.ASCII),
    lazy(rf"[\[(]{_HOST}(?= ?@ ?{_RANK}[\])])", re.ASCII),
)
_NUMBERED_HEADS = (
    rf"[\[(]{_HOST}(?: ?[/,:@#] ?| )(?P<number>\d{{1,5}})[\])]",
    rf"{_HOST}[:/](?P<number>\d{{1,5}})(?:: | ?\| )",
    rf"[\[(]?(?P<number>\d{{1,5}})(?: ?[@/] ?|: ){_HOST}(?:[\])]|: )",
)
_BESIDE_NUMBERS = tuple(lazy(_START + form, re.ASCII | re.M) for form in _NUMBERED_HEADS)
# Where pdsh and docker compose put a host that is known, and `srun -l` the number of a task before it.
_LABEL = lazy(rf"{_START}(?:\d{{1,5}}: {{1,2}})?{_HOST}(?=: | {{0,8}}\| )", re.ASCII | re.M)
_FORMS = tuple(
    lazy(_START + form, re.ASCII)
    for form in (
        rf"[\[(<]?{_HOST}{_BETWEEN}{_RANK}",
        rf"[\[(<]?{_RANK}{_BETWEEN}{_HOST}(?=[\])|:,]|\s|$)",
        *_NUMBERED_HEADS,
    )
)
_FIRST = 24  # lines of a file, of which one in four has the form if its logger has it
_SHARE = 4
_FEWEST = 4  # such lines, and each pair of a name and a number twice over all of them
_NAMES = 400  # of one file


def named_in_heads(lines: Sequence[str]) -> list[str]:
    """The hosts that stand at the heads of a file's lines beside numbers of processes, in the order of the lines.

    lines: of one file, from its beginning on; those that follow may be of any other part.
    """
    first = list(islice((line for line in lines if line.strip()), _FIRST))
    found: dict[str, None] = {}
    for form in _FORMS:
        if sum(form.match(line) is not None for line in first) * _SHARE >= max(len(first), _FEWEST):
            found.update(dict.fromkeys(_hosts([m for line in lines if (m := form.match(line)) is not None])))
    return list(islice(found, _NAMES))


def _hosts(heads: Sequence[re.Match[str]]) -> Iterator[str]:
    """The names in these heads, if they are hosts'; other records that happen to fit the form may be one in ten."""
    of_hosts = [m for m in heads if numbered(m["name"]) or word(m["name"])]
    pairs = {(m["name"], int(m["number"])) for m in of_hosts}
    if len(of_hosts) * 10 < len(heads) * 9 or len(of_hosts) < max(_FEWEST, 2 * len(pairs)):
        return
    names = dict.fromkeys(m["name"] for m in of_hosts)
    apart = len(names) > 1 and len({number for _, number in pairs}) == len(pairs)
    tags = {m["name"] for m in of_hosts if _is_tag(m)}
    yield from (name for name in names if apart or numbered(name) or (plain(name) and name not in tags))


def _is_host(match: re.Match[str]) -> bool:
    """Whether what stands beside a rank is a host by its looks."""
    return numbered(match["name"]) or (plain(match["name"]) and not _is_tag(match))


def _is_tag(match: re.Match[str]) -> bool:
    """Whether a name stands alone in brackets at the beginning of a line, where programs put their own."""
    line = match.string.rfind("\n", 0, match.start("name")) + 1
    closed = match.string[match.end("name") : match.end("name") + 1] in ("]", ")")
    return closed and match.string[line : match.start("name")].strip() in ("[", "(")


def ranked_heads(text: str, memory: Memory) -> str:
    """`text` without hosts at the heads of its lines, beside the number of a process."""

    def replaced(match: re.Match[str], known: bool) -> str:
        name = match["name"]
        if not (known or memory.is_placed(name)):
            return match[0]
        start, end = match.start("name") - match.start(), match.end("name") - match.start()
        return match[0][:start] + memory.host(name, everywhere=telling(name)) + match[0][end:]

    if "ank" in text or "RANK" in text:
        for pattern in _BESIDE_RANKS:
            text = pattern.sub(lambda match: replaced(match, _is_host(match)), text)
    for pattern in _BESIDE_NUMBERS:
        text = pattern.sub(lambda match: replaced(match, strong(match["name"])), text)
    return _LABEL.sub(lambda match: replaced(match, False), text)
