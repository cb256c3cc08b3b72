"""Hosts behind labels that people write: `Host: x, GPUs: 8`, `Master node: x`, `Running on x`, `[x] rank 3: ...`.

A label of two words (`Master node`, `hostname`, `submit host`) is followed by a host's name, whatever that looks like,
unless it is a word of states or of machines' parts. What stands behind one word (`Host:`, `Node:`, `MASTER=`), or in a
sentence, is a host where it has a number as hosts have, or where ranks, cards or processes are named right behind it.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.host_shapes import numbered, strong, word
from forensics.report.redaction.memory import Memory, second, telling
from forensics.report.redaction.sure_hosts import plain as sure_plain
from forensics.report.redaction.words import SERVICES

# No name goes on behind it, and nothing is called or indexed.
_ENDS = r"(?![\w(\[]|[./@-]\w|::)"
_MACHINE = r"(?:host|node|machine|server|instance)(?:[ _-]?name)?"
_ROLE = (
    r"(?:master|main|head|chief|leader|first|compute|worker|login|submit(?:ting)?|submission|exec(?:ution)?"
    r"|launch(?:er|ing)?|batch|local|remote|peer|current|this|my|target|source|failed|failing|faulty|bad|slow|lost"
    r"|dead|rendezvous|rdzv|coordinator|allocated|assigned|scheduled)"
)
_TWO_WORDS = (
    rf"(?<![A-Za-z])(?:{_ROLE}[ _-]?(?:{_MACHINE}|addr(?:ess)?)|host[ _-]?name|node[ _-]?name|host[ _-]?list|fqdn)"
)
_IS = r"\\?[\"']?\s?[:=]\s{0,16}\\?[\"']?"
_LABELLED = lazy(rf"(?i)({_TWO_WORDS}{_IS})({NAME}){_ENDS}(?=[\s,;|)\]}}:\"'.\\]|\Z)", re.ASCII)
_HOSTNAME_IS = lazy(
    rf"(?i)((?<![A-Za-z])host[ _-]?name is [\"']?)({NAME}){_ENDS}(?=[\"']?[.,;)]?\s*$)", re.ASCII | re.M
)
# One word, and a name that looks like a host's; two words in a sentence.
_WORDS = r"(?:host|node|machine|server|master|chief)"
_LABELLED_NUMBERED = (
    lazy(rf"(?i)({_TWO_WORDS}\s(?:is|was)\s[\"']?)({NAME}){_ENDS}", re.ASCII),
    lazy(rf"(?i)((?<![A-Za-z.]){_WORDS}(?:{_IS}|\s))({NAME}){_ENDS}", re.ASCII),
    # `Node 0: x`, `node_rank 0 host x`, `Node 0 (hostname: x`
    lazy(
        r"(?i)((?<![A-Za-z.])(?:host|node|machine)(?:[ _-]?(?:rank|id|index))?[ #:=]{1,2}\d{1,6}\)?"
        rf"(?:{_IS}|\s(?:(?:is|on|->|=>)\s)?)(?:\(?(?:host|node)(?:name)?[:=\s]\s?)?)({NAME}){_ENDS}",
        re.ASCII,
    ),
)
# One word, any name, and then ranks, cards or processes.
_BESIDE = (
    r"(?:(?:global|local|node|world)[ _-]?)?"
    r"(?:ranks?|gpus?|world[ _-]?size|pid|ip|tasks?|slots|procs|processes|port|cpus?|cores)\b\s?[:=]?\s?\d"
)
_LABELLED_BESIDE = lazy(
    rf"(?i)((?<![A-Za-z.]){_WORDS}\s?[:=]\s?[\"']?)({NAME})(?=[\"']?[\s,;|)\]]{{1,4}}{_BESIDE})", re.ASCII
)
_BESIDE_SPACED = lazy(
    rf"(?i)((?<![A-Za-z.])(?:host|node|machine) )({NAME})(?=,? (?:(?:global|local|world)[ _-]?)?ranks?[ :=#]?\s?\d)",
    re.ASCII,
)
_LABELLED_ALONE = lazy(
    r"((?<![A-Za-z.])(?:MASTER|CHIEF|HEAD|HOST|NODE|Host|host)(?:=|: )[\"']?)"
    rf"({NAME}){_ENDS}(?=[\"']?(?:\s*$|[,;|)\]}}]|:\d))",
    re.ASCII | re.M,
)
# Sentences in which a process says where it is, or where a job comes from.
_WORKS = (
    r"(?:[Rr]unn?(?:ing|s)?|[Ss]tart(?:ed|ing)|[Ll]aunch(?:ed|ing)|[Ss]cheduled|[Ee]xecut(?:ed|ing)|[Ss]pawn(?:ed|ing)"
    r"|[Dd]ispatched|[Pp]laced|[Aa]llocated|[Gg]ranted|[Rr]estart(?:ed|ing)|[Cc]rashed|[Dd]ied|[Ff]ailed|[Kk]illed"
    r"|[Ee]ncountered|[Oo]ccurred|[Hh]ung|[Ee]xited|[Ll]istening|[Rr]an)"
    r"(?: (?:job|task|process|rank|worker|server|agent|HEAD|WORKER|[a-z]{3,12}_\w{3,20})\S{0,12})?(?: \d{1,4})?"
)
_COMES = r"(?:[Ss]ubmitted|[Ll]ogged in|[Hh]ello)"
_SAID = lazy(
    rf"(\b(?:{_WORKS} on:?|[Ss]tarting \w{{1,20}}(?: \d{{1,4}})? at|{_COMES}(?: on| from| at)|[Cc]onnected to)"
    r"(?: the)?(?: compute| login| head| worker| master)?(?P<label> (?:host|node|machine|server))? )"
    rf"({NAME}){_ENDS}",
    re.ASCII,
)
_SUBMITTED = lazy(rf"(\b[Ss]ubmitted from:? )({NAME}){_ENDS}(?=[\s,;)]*$|[,;)])", re.ASCII | re.M)
_I_AM = lazy(
    r"(\b(?:I am|I'm|[Mm]y name is|[Tt]his is(?= (?:host|node|machine) ))(?P<label> (?:host|node|machine))? )"
    rf"({NAME})(?=[\s,;:.(]|\Z){_ENDS}",
    re.ASCII,
)
_RANK_SAID = lazy(
    r"(\b[Rr]ank[ :=]?\s?\d{1,6}(?:(?:/| of | out of )\d{1,6})?(?: (?:is|runs|running|started|lives))?"
    r"(?: on| at| ?@| ?->| ?=>| from|,? ?\(|,? host)(?: (?:host|node))?\s?)"
    rf"({NAME})(?=[\s,;:.)\]]|\Z){_ENDS}",
    re.ASCII,
)
# `Worker 3 on x`: of what a run counts besides ranks, behind `on` alone.
_NUMBERED_SAID = lazy(
    r"(\b(?:(?:[Ww]orker|[Pp]roc(?:ess)?|[Tt]ask|[Tt]rainer|[Aa]ctor|GPU)[ #:]{1,2}\d{1,6}|[Ww]orker|[Rr]ank)"
    r"(?: (?:is|runs|running|started|lives))?"
    rf" on (?:host |node )?)({NAME})(?=[\s,;:.)\]]|\Z){_ENDS}",
    re.ASCII,
)
# What could not be reached, at the end of what is said: a word is sooner a service's there, and must be none.
_UNABLE = r"(?:[Cc]ould not|[Cc]annot|[Cc]an't|[Ff]ailed to|[Uu]nable to)"
_UNCONNECTED = lazy(rf"(\b{_UNABLE} (?:connect to|ping|ssh to) )({NAME})(?=\.?\s*$|[,;)])", re.ASCII | re.M)
_UNREACHED = lazy(rf"(\b{_UNABLE} (?:reach|contact) )({NAME})(?=\.?\s*$|[,;)])", re.ASCII | re.M)
# Before the last words of a process, as pdsh puts it there.
_BEFORE_ERROR = lazy(
    rf"(^)({NAME})(?=: (?:\[rank\d+\]|Traceback \(most recent|ssh: |srun: |slurmstepd: |pdsh@|[\w.]{{1,80}}Error: ))",
    re.ASCII | re.M,
)
# Programs that are asked about a machine: `nvidia-smi on x: No devices were found`.
_ASKED = lazy(
    r"(\b(?:nvidia-smi|dcgmi|rocm-smi|dmesg|journalctl|ibstat|lspci|hostname|uname|uptime|df|free)"
    rf"(?: -[\w-]{{1,20}}){{0,4}} on )({NAME})(?=[:,;)]|\s*$)",
    re.ASCII | re.M,
)
# What monitors and watchdogs say: names that hosts alone have, behind a preposition or beside a card.
_WATCHED = lazy(
    r"(?i)\b(?:gpu|xid|heartbeat|connection|connect|node|host|response|barrier|join|ssh|nic|link|drain\w*|process|exit|health"
    r"|ecc|nvlink|infiniband|migrat\w*|tasks?|assigned|requeued?|sinfo|dcgm|ping|unreachable|straggler|hang|stuck)\b"
)
_STRONG = lazy(
    rf"((?:\b(?:on|from|to|at|for|drained|via|with|of|by)|[\w]:|^) )({NAME})(?=[\s,;:.)\]]|\Z){_ENDS}", re.ASCII | re.M
)
_BESIDE_CARD = lazy(rf"((?:^|[\[@(\s]))({NAME})(?=[\])]?[\s/,:]{{1,3}}(?i:gpu)[ :#_-]?\d)", re.ASCII | re.M)
# A host beside a rank, in the columns of a logger: `x rank3`, `[x] [rank 3]`, `x|rank3`, `[rank3@x]`, `(rank 3, x)`.
# What stands in brackets before `:[rank3]` is torchrun's own: a role and the local rank.
_HEAD_ENDS = (
    r"(?:^|[\[\]|,>(] ?(?:- )?|>:|[\d:] (?:- )?"
    r"|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]? {0,8}(?:[-|] )?)"
)
_RANK = r"(?:[Rr]ank|RANK)[ :=_-]{0,2}\d{1,6}"
_BEFORE_RANK = lazy(
    rf"({_HEAD_ENDS}[\[(]?)({NAME})(?=(?:[\])](?: ?[|,/@-] ?| )?| ?[|,:/@-] ?| )[\[(]?{_RANK}(?![\w.]))",
    re.ASCII | re.M,
)
_BEHIND_RANK = lazy(
    rf"({_HEAD_ENDS}[\[(]?{_RANK}[\])]?(?: ?[|,@/-] ?| | ?\]?\[)[\[(]?)({NAME})(?=[\])|:]|,? )", re.ASCII | re.M
)
# Between a stamp and a level, or with a process behind it.
_STAMP = r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
_COLUMN = lazy(
    rf"({_STAMP}(?: ?[|-])? ?\[?)((?=[A-Za-z-]+[\w.-]*\d\d){NAME})"
    r"(?=\]?(?:[ :|-]{1,3}\[?\d{1,7}\]?)?[ :|-]{1,3}\[?(?:DEBUG|INFO|WARN|ERROR|CRITICAL|FATAL)|:\d{2,8}\] )",
    re.ASCII | re.M,
)
# In lower case, one of these is in each text that has a label.
_LABELS = ("host", "node", "machine", "server", "master", "chief", "addr", "fqdn", "head")


def labelled(text: str, memory: Memory) -> str:
    """`text` without names of hosts behind labels, in sentences that say where something runs, and beside ranks."""

    def host(name: str) -> str:
        return memory.host(name, everywhere=telling(name))

    def sure(name: str) -> str:
        return host(name) if numbered(name) or word(name) else name

    def perhaps(name: str) -> str:
        return host(name) if numbered(name) else name

    def surely(name: str) -> str:
        return host(name) if strong(name) else name

    def unconfused(name: str) -> str:
        return host(name) if numbered(name) or sure_plain(name) else name

    def unconnected(name: str) -> str:
        unknown = name.islower() and name not in SERVICES and sure_plain(name)
        return host(name) if numbered(name) or unknown else name

    def said(match: re.Match[str]) -> str:
        return match[1] + (sure(match[3]) if match["label"] else perhaps(match[3]))

    lowered = text.lower()
    if any(label in lowered for label in _LABELS):
        for pattern in (_LABELLED, _HOSTNAME_IS):
            text = second(pattern, sure, text)
        for pattern in _LABELLED_NUMBERED:
            text = second(pattern, perhaps, text)
        for pattern in (_LABELLED_BESIDE, _LABELLED_ALONE):
            text = second(pattern, sure, text)
        text = second(_BESIDE_SPACED, unconfused, text)
    if " on " in text or " from " in text or " at " in text or " to " in text:
        text = second(_SUBMITTED, sure, _SAID.sub(said, text))
        for pattern in (_NUMBERED_SAID, _ASKED):
            text = second(pattern, perhaps, text)
    if "connect to " in text or "reach " in text or "contact " in text or "ping " in text or "ssh to " in text:
        text = second(_UNREACHED, perhaps, second(_UNCONNECTED, unconnected, text))
    if "am " in text or "I'm " in text or "his is " in text or "name is " in text:
        text = _I_AM.sub(said, text)
    if "rank" in lowered:
        for pattern in (_RANK_SAID, _BEFORE_RANK, _BEHIND_RANK):
            text = second(pattern, perhaps, text)
    if ": " in text:
        text = second(_BEFORE_ERROR, perhaps, text)
    if "gpu" in lowered:
        text = second(_BESIDE_CARD, surely, text)
    if _WATCHED.search(text):
        text = second(_STRONG, surely, text)
    return second(_COLUMN, perhaps, text) if "-" in text and ":" in text else text
