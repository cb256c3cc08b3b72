"""News as a line for people, as a line of JSON, and as environment variables. All text is made inert here."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from forensics.report.inert import inert, one_line
from forensics.report.jsonreport import escaped
from forensics.report.words import ranks_phrase
from forensics.watch.news import News, Sign, State, as_dict, stamp

TEXT = 160  # characters of a line of evidence that are shown
VARIABLE = 2_000  # characters of one environment variable
_STYLES = {"fatal": "\x1b[1;31m", "error": "\x1b[1;31m", "warning": "\x1b[1;33m", "over": "\x1b[1;32m"}
_RESET = "\x1b[0m"


def line(news: News, *, colour: bool = False) -> str:
    """One line: time, severity, who, what, where, advice."""
    sign = news.sign
    over = news.state is State.RECOVERED
    word = "over" if over else sign.severity
    shown = f"{_STYLES.get(word, '')}{word:<7}{_RESET}" if colour and word in _STYLES else f"{word:<7}"
    clock = time.strftime("%H:%M:%S", time.localtime(news.told))
    if over:
        return f"{clock}  {shown}  {_who(sign)}{_headline(sign)} is no longer so"
    parts = [_headline(sign) + (" (again)" if news.again else " (before the watch began)" if news.at_start else "")]
    if sign.what:
        parts.append(one_line(sign.what, TEXT))
    if sign.follows:
        parts.append(f"follows from {inert(sign.follows, 80)}")
    if sign.evidence is not None:
        e = sign.evidence
        place = inert(e.file, 200) + (f":{e.line}" if e.line is not None else "")
        parts.append(f"{place}: {one_line(e.text, TEXT)}" if e.text and e.text != sign.what else place)
    if sign.advice:
        parts.append(f"→ {one_line(sign.advice, 300)}")
    return f"{clock}  {shown}  {_who(sign)}{' | '.join(parts)}"


def _headline(sign: Sign) -> str:
    after = "after " if sign.step_is == "last_seen" else ""
    return one_line(sign.title, 200) + (f", {after}step {sign.step}" if sign.step is not None else "")


def _who(sign: Sign) -> str:
    if sign.ranks:
        who = ranks_phrase(sign.ranks)
    elif sign.local_ranks:
        who = ranks_phrase(sign.local_ranks, "local rank")
    elif sign.devices:
        who = ranks_phrase(sign.devices, "device")
    else:
        who = ""
    node = inert(sign.node, 80) if sign.node else ""
    both = f"{who} on {node}" if who and node else who or node
    return f"{both}: " if both else ""


def json_line(news: News, run: str) -> str:
    """One object of docs/json.md, without a line end."""
    return escaped(json.dumps(as_dict(news, run), ensure_ascii=False, allow_nan=False))


def variables(news: News, run: str) -> Mapping[str, str]:
    """The news as environment variables: FORENSICS_*; what is not known is empty."""
    sign, e = news.sign, news.sign.evidence
    values = {
        "RUN": run,
        "STATE": news.state.value,
        "TOLD": stamp(news.told),
        "NAME": sign.name,
        "TITLE": sign.title,
        "SEVERITY": sign.severity,
        "RANKS": ",".join(map(str, sign.ranks or ())),
        "NODE": sign.node,
        "STEP": sign.step,
        "WHAT": sign.what,
        "FILE": e.file if e is not None else None,
        "LINE": e.line if e is not None else None,
        "TEXT": e.text if e is not None else None,
        "ADVICE": sign.advice,
        "MESSAGE": line(news),
    }
    return {f"FORENSICS_{k}": inert(str(v), VARIABLE) if v is not None else "" for k, v in values.items()}
