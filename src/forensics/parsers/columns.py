"""The columns at the head of a logger's record that name a host and a rank: `<time> gpua013 rank3 ERROR ...`.

The formats of Python's logging put them in any order, with blanks, bars, dashes or brackets between. Before a level, or
in brackets, a rank is the writer's. Behind a level, or another head of a record, the message may begin with it (`ERROR
gpu07 rank3 is gone`), and only a file whose lines have it throughout means its writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from forensics.host_words import NUMBERED, WITHIN
from forensics.patterns import lazy

_TIME = (
    r"\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"  # as in `stamps`
)
_BETWEEN = r"(?:\]?(?: {0,8}[|:,/-] {0,8}| {1,8})\[?|\]\[)"
_END = r"\]?(?: {0,8}[|:,-])? {1,8}"  # of the last column: a bracket behind it is the message's
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)"
# A name in the sense of RFC 1123 with a number before its first dot: loggers have none there, or an underscore.
_HOST = (
    rf"(?:(?:host|hostname|node)[=:] ?)?(?!{NUMBERED}|{WITHIN}|[\w.-]+\.py\b)"
    r"(?P<host>[A-Za-z][A-Za-z-]{0,60}\d[A-Za-z0-9.-]{0,60})"
)
_RANK = r"(?:[Rr]ank|RANK)[ :=_-]?(?P<rank>\d{1,9})"
# Words that make a rank behind them one within a host or a group, and no process's of the run.
WITHIN_A_GROUP = r"(?i:local|node|group|[tdpecsv]p|\w+[-_]parallel|parallel|replica|shard)"
# What stands where loggers do.
_LOGGER = rf"(?!{WITHIN_A_GROUP}\b)[A-Za-z][\w.-]{{0,60}}"
_PID = rf"(?:\d{{1,10}}{_BETWEEN})?"

# Of these the first that fits tells most.
BEFORE_A_LEVEL: tuple[str, ...] = (
    rf"^(?:{_TIME}{_BETWEEN}|\[)?{_HOST}{_BETWEEN}{_PID}{_RANK}{_BETWEEN}{_PID}{_LEVEL}\b",
    rf"^(?:{_TIME}{_BETWEEN}|\[)?{_RANK}{_BETWEEN}{_PID}{_HOST}{_BETWEEN}{_PID}{_LEVEL}\b",
    rf"^(?:{_TIME}{_BETWEEN}|\[)(?:{_LEVEL} ?{_BETWEEN})?{_HOST}(?:\] ?| )\[{_RANK}\]",
    rf"^{_TIME}{_BETWEEN}(?:{_LOGGER}{_BETWEEN})?{_PID}{_RANK}{_BETWEEN}{_PID}{_LEVEL}\b",
)
# For the vote of a file (`prefixes.vote`).
BEHIND_A_LEVEL: dict[str, str] = {
    "host_rank_columns": rf"^(?P<ts>{_TIME}){_BETWEEN}{_LEVEL} ?{_BETWEEN}{_HOST}{_BETWEEN}{_RANK}{_END}",
    "rank_host_columns": rf"^(?P<ts>{_TIME}){_BETWEEN}{_LEVEL} ?{_BETWEEN}{_RANK}{_BETWEEN}{_HOST}{_END}",
    "host_and_rank_columns": rf"^(?P<ts>{_TIME}){_BETWEEN}{_HOST}{_BETWEEN}{_LEVEL} ?{_BETWEEN}{_RANK}{_END}",
}

# A word beside the rank at the head of a line, on either side of it, with or without a time and a level before both:
# `<time> alder rank3 `, `alder:rank3: `, `[rank3@alder] `, `rank 3 (alder): `, `INFO:alder:rank3:`.
_JOIN = r"(?:[\])]? {0,8}[|:,/@-] {0,8}[\[(]?|[\])]? {1,8}[\[(]?|[\])][\[(])"
_STARTS = (
    rf"^(?P<ts>(?:(?:{_TIME}|\[?\d\d/\d\d \d\d:\d\d:\d\d){_JOIN})?)"
    rf"(?:\[?{_LEVEL} {{0,8}}{_JOIN}|[\[(])?"
)
_ENDS = r"(?:[\])]{0,2}(?: {0,8}[|:,-])? {1,8}|[\])]{0,2}: ?)"
_WORD = (
    rf"(?!{_LEVEL}\b|{WITHIN_A_GROUP}\b|{NUMBERED}|{WITHIN}|[\w.-]+\.py\b|[\w.]*(?:Error|Exception)\b"
    r"|[FEWIV]\d{3,4}\b)"  # the head of glog's records and of torch's
    r"[A-Za-z][A-Za-z0-9.-]{0,60}"
)
_BESIDE = {
    "word_rank": rf"{_STARTS}(?P<host>{_WORD}){_JOIN}{_RANK}{_ENDS}",
    # Behind the rank, where a message would begin, between marks that keep it from that.
    "rank_word": (
        rf"{_STARTS}{_RANK}(?:[\])]? {{0,2}}[\[(]| {{0,2}}@ {{0,2}}| {{1,8}}[|-] {{1,8}})"
        rf"(?P<host>{_WORD})(?:[\])]{{1,2}}(?: ?[|:,-])?| {{1,8}}[|-])(?: {{1,8}}|(?<=:))"
    ),
}
# For the vote of a file: the word is a host (`are_hosts`), or before the rank something else.
BESIDE_A_RANK: dict[str, str] = {**_BESIDE, "logger_rank": _BESIDE["word_rank"].replace("(?P<host>", "(?:")}
# What processes do, and loggers are called: they may go with ranks as hosts do.
_ROLES = frozenset(
    "actor agent chief client controller critic data discriminator driver env eval evaluator generator head infer "
    "inference launcher learner main master model node policy ps ref reference reward rollout sampler scheduler server "
    "student teacher test train trainer training val validation worker writer".split()
)

_BEFORE_RANK = lazy(_BESIDE["word_rank"])


def word_before_rank(prefix: str) -> tuple[str, str] | None:
    """(word, rank) of a prefix that ends in both, as `logger_rank` takes it off; None for any other."""
    m = _BEFORE_RANK.fullmatch(f"{prefix} ")
    return (m["host"], m["rank"]) if m is not None else None


def are_hosts(beside: Sequence[tuple[str, str]]) -> bool:
    """Whether the words beside the ranks of a file's lines are the hosts of these. beside: pairs of (word, rank).

    A name with a number in it is one. Without, it goes with the rank: no rank has two, and not all have the same.
    """
    words = {word for word, _ in beside}
    of_rank: dict[str, set[str]] = defaultdict(set)
    for word, rank in beside:
        of_rank[rank].add(word)
    if not words or any(len(theirs) > 1 for theirs in of_rank.values()):
        return False
    if all(any(map(str.isdigit, word)) for word in words):
        return True
    return len(words) > 1 and not any(word.lower() in _ROLES for word in words)


# What begins a record: a time, seconds since the epoch, a level or the letter of one (glog, NeMo).
_BEGINS = rf"[\[(]?(?:\d{{2,13}}[-/: ]|(?:{_LEVEL})\b|[FEWIV]\d{{4}} |NeMo [FEWID] )"
# A rank behind the head of a record, without brackets: `.. train.py:88] rank 3: `, `.. - INFO - rank:3 - `.
# The whole head is taken off; `ts` is the part that may hold a time.
BY_RANK: dict[str, str] = {
    "rank_behind_head": (
        rf"^(?P<ts>{_BEGINS}.{{0,120}}?(?:[\]|>:-]|{_LEVEL}) {{1,8}})(?:[Gg]lobal[_ ])?{_RANK}(?:: ?| ?[|,-] ?| )"
    ),
    # structlog's ConsoleRenderer, which prints what is bound to a logger behind the message
    "bound_rank": (
        rf"^(?P<rest>(?:{_TIME} )?\[(?:debug|info|warning|error|critical|exception) {{0,6}}\] "
        rf"(?=.*? (?:host_?name|node_?name|node)={_HOST}(?:\s|$)|).{{1,2000}}? rank=(?P<rank>\d{{1,9}})(?:\s|$))"
    ),
}
VOTED = frozenset({*BEHIND_A_LEVEL, *BESIDE_A_RANK, *BY_RANK})  # all of them name a rank by the word


def may_name_a_rank(line: str) -> bool:
    """Whether a line holds the word that all of VOTED ask for: few lines of most files do."""
    return "ank" in line or "RANK" in line
