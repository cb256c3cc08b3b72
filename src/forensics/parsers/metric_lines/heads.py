"""Where the message of a record begins, behind what a logger puts in front of it.

Formats of Python's logging, loguru, rich, absl, glog and scripts of one's own print a time, a level, the logger's name
and a place in the source, with blanks, bars, dashes, colons or brackets between them.
"""

from __future__ import annotations

from forensics.patterns import lazy

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M\b)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)(?![\w:]))?"
_TIME = (
    rf"(?:(?:\d{{4}}[-/]\d\d[-/]\d\d[T _,]|\d\d[-/]\d\d(?:[-/]\d{{2,4}})? ){_CLOCK}"
    rf"|(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} {{1,2}}\d{{1,2}} {_CLOCK}(?: \d{{4}}\b)?|{_CLOCK})"
)
_LEVELS = r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_LEVEL = rf"(?:[\[(<] {{0,2}}(?:(?i:{_LEVELS}) {{0,6}})[\])>]|{_LEVELS}\b)"
# With the time in one pair of brackets: detectron2's `[03/11 10:01:10 d2.utils.events]: `, Tornado's and Optuna's
# `[I 2025-03-11 10:00:00,123] `, NeMo's `[NeMo I 2025-03-11 10:00:00 train:88] `, OpenNMT's `[2025-.. INFO] `.
_BRACKETED = rf"\[(?:NeMo )?(?:[A-Z] )?{_TIME}(?: [^\[\]\n]{{1,80}})?\]"
_GLOG = r"[IWEFDV]\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})? +(?:\d{1,10} +)?[^\s:\]]{1,80}:\d{1,6}\] +"
_NAME = r"[A-Za-z_][\w.-]{0,60}"
# A place in the source, and loguru's `module:function:line`.
_PLACE = (
    r"(?:[\[(][\w./-]{1,80}\.py\b[^\[\]()\n]{0,60}(?:\(\))?[\])]"
    r"|[\w./-]{1,80}\.py(?::[\w<>]{1,60})?(?:: ?\d{1,6}|\(\d{1,6}\))"
    r"|[\w.]{1,80}:[\w<>]{1,60}:\d{1,6})"
)
_RANK = r"\[(?:[Rr]ank|RANK)[ :=]?\d{1,9}\]"
# What may stand between a time and a level: names, places, numbers of processes and threads, milliseconds.
_BETWEEN = rf"(?:{_PLACE}|{_RANK}|[\[(]?[\w.-]{{1,60}}[\])]?)"
_GAP = r"(?: {0,8}[|:,>-] {1,8}| {1,8}|:|(?<=[\])>])(?=[\[(<]))"
_DEFINITE_GAP = r" {0,8}[|>-] {1,8}"
_BEHIND = rf"(?:(?:{_PLACE}|{_RANK}|\[{_NAME}\]){_GAP}|{_NAME}{_DEFINITE_GAP})"

_HEAD = lazy(
    rf" {{0,8}}(?:{_GLOG}"
    rf"|(?:{_BRACKETED}|{_TIME}){_GAP}(?:(?:{_BETWEEN}{_GAP}){{0,3}}?{_LEVEL}{_GAP})?{_BEHIND}{{0,2}}"
    rf"|{_LEVELS}:{_NAME}:(?! )"  # logging.BASIC_FORMAT
    rf"|{_LEVEL}{_GAP}(?:(?:{_BRACKETED}|{_TIME}){_GAP})?{_BEHIND}{{0,2}})"
)


def end_of_head(text: str, at: int) -> int:
    """Where the message begins that a logger's head stands in front of; `at` where none does."""
    m = _HEAD.match(text, at)
    return m.end() if m is not None else at
