"""Rows of listings that programs print, in which the column alone says what a word is: `ls -l`, `ps aux`, `squeue`."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.words import ORDINARY

_MODE = r"[-dlbcps](?:[r-][w-][xsStT-]){3}[.+@]?"
_WHO = r"[A-Za-z_][\w.-]{0,31}\$?"
_NODES = r"[A-Za-z][\w.-]{0,60}(?:\[[\d,-]{1,400}\])?"
_STATES = (
    "COMPLETED|FAILED|CANCELLED[^|]*|TIMEOUT|RUNNING|PENDING|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED"
    "|BOOT_FAIL|DEADLINE|REQUEUED"
)
_LS = lazy(rf"({_MODE}\s{{1,8}}\d+\s)({_WHO})(\s{{1,12}})({_WHO})(?=\s{{1,12}}\d[\d.,]*[KMGTP]?i?\s)", re.ASCII)
_TAR = lazy(rf"({_MODE}\s)({_WHO})(/)({_WHO})(?=\s{{1,16}}\d+\s)", re.ASCII)
_PS = lazy(
    r"(?:(?<=\A)|(?<=\n)|(?<=: ))([a-z_][a-z0-9_.+-]{1,31})(?=\s{1,16}\d+\s{1,8}\d+(?:\.\d)?\s{1,8}\d+"
    r"(?:\.\d)?\s{1,12}\d+"
    r"\s{1,12}\d+\s\S{1,8}\s{1,8}[RSDZTtIX][<NLsl+]{0,5}\s)",
    re.ASCII,
)
# squeue: JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)
_SQUEUE = lazy(
    rf"(\b\d+(?:_\S{{1,20}})?\s{{1,12}}\S{{1,30}}\s{{1,12}})(\S{{1,60}})(\s{{1,12}})({_WHO})(\s{{1,12}}"
    rf"(?:R|PD|CG|CD|F|TO|NF|CA|S|PR|OOM)\s{{1,16}}(?:\d+-)?[\d:]{{1,12}}\s{{1,12}}\d+\s)({_NODES}|\()",
    re.ASCII,
)
# PBS' qstat: Job id, Name, User, Time Use, S, Queue
_QSTAT = lazy(
    rf"(?:(?<=\A)|(?<=\n))(\d{{1,12}}(?:\[\d*\])?\.)({_WHO})(\s{{1,20}}\S{{1,40}}\s{{1,20}})({_WHO})(?=\s{{1,20}}(?:[\d:]{{1,12}}|0)\s[A-Z]\s\S)",
    re.ASCII,
)
# sacct -P and -p without its head: a job, then cells of which one is a state; the columns are as the caller chose.
_SACCT = lazy(
    rf"(?:(?<=\A)|(?<=\s))(\d+(?:[._]\w+)?\|)([^\n]{{0,400}}?)(\|(?:{_STATES})\|)([^\n\s]{{0,400}})", re.ASCII
)
_CELL = lazy(rf"(?:(?<=\|)|(?<=\A))({_NODES})(?=\||\Z)", re.ASCII)
# sinfo -N: NODELIST NODES PARTITION STATE
_SINFO = lazy(
    rf"(?:(?<=\A)|(?<=\s))({_NODES})(?=\s{{1,40}}\d+\s{{1,20}}[\w-]{{1,40}}\*?\s{{1,20}}(?:idle|alloc|mix|drain|down"
    rf"|drng|fail|maint"
    r"|comp|resv|unk)\w{0,8}[*~#$@+^-]?(?:\s|\Z))",
    re.ASCII,
)
# sinfo: PARTITION AVAIL TIMELIMIT NODES STATE NODELIST
_SINFO_BY_PARTITION = lazy(
    rf"((?:(?<=\A)|(?<=\s))[\w-]{{1,40}}\*?\s{{1,20}}(?:up|down|drain|inact)\s{{1,20}}(?:infinite|n/a"
    rf"|[\d:-]{{4,16}})\s{{1,20}}\d+\s{{1,20}}"
    rf"(?:idle|alloc|mix|drain|down|drng|fail|maint|comp|resv|unk)\w{{0,8}}[*~#$@+^-]?\s{{1,20}})({_NODES}"
    rf"(?:,{_NODES})*)",
    re.ASCII,
)
# kubectl get pods -o wide: NAME READY STATUS RESTARTS AGE IP NODE; kubectl get nodes: NAME STATUS ROLES AGE VERSION
_PODS = lazy(
    r"(?<!\S)([a-z0-9][a-z0-9.-]{1,200})(\s{1,40}\d{1,3}/\d{1,3}\s{1,12}[A-Z][\w:/-]{2,40}\s{1,12}\d+"
    r"(?: \([^()\n]{1,20}\))?"
    r"\s{1,12}(?:\d+[smhdy]){1,3})(?:(\s{1,12}\S{3,45}\s{1,12})([a-z0-9][a-z0-9.-]{1,200}))?",
    re.ASCII,
)
_KUBE_NODES = lazy(
    r"(?<!\S)([a-z0-9][a-z0-9.-]{1,200})(?=\s{1,40}(?:Not)?Ready\S{0,24}\s{1,12}\S{1,60}\s{1,12}"
    r"(?:\d+[smhdy]){1,3}\s{1,12}v\d)",
    re.ASCII,
)


def _host(name: str, memory: Memory) -> str:
    if name.lower() in ORDINARY or name == "(":
        return name
    return memory.of("nodes", name) if "[" in name else memory.host(name, everywhere=telling(name))


def _of_sinfo(match: re.Match[str], memory: Memory) -> str:
    """A word within a line is one of a sentence: `mlx5_core 0000:3b:00.0: Port 1 link down`."""
    first = not match.string[: match.start()].rpartition("\n")[2].strip(" \t|")
    return _host(match[1], memory) if first or telling(match[1]) or "[" in match[1] else match[1]


def _owned(match: re.Match[str], memory: Memory) -> str:
    return match[1] + memory.user(match[2]) + match[3] + memory.user(match[4])


def _cells(text: str, memory: Memory, kind: str) -> str:
    def cell(match: re.Match[str]) -> str:
        name = match[1]
        if name.lower() in ORDINARY or name.isupper():
            return name
        return _host(name, memory) if kind == "host" else memory.of(kind, name)

    return _CELL.sub(cell, text)


def listings(text: str, memory: Memory) -> str:
    """`text` without users, groups, pods and nodes in rows of listings."""
    if "rw" in text or "r-x" in text or "r--" in text:
        text = _LS.sub(lambda match: _owned(match, memory), text)
        text = _TAR.sub(lambda match: _owned(match, memory), text)
    if "." in text:
        text = _QSTAT.sub(lambda m: m[1] + _host(m[2], memory) + m[3] + memory.user(m[4]), text)
    if "  " in text:
        text = _PS.sub(lambda match: memory.user(match[1]), text)
        text = _SQUEUE.sub(
            lambda m: m[1] + memory.of("run", m[2]) + m[3] + memory.user(m[4]) + m[5] + _host(m[6], memory), text
        )
        text = _SINFO_BY_PARTITION.sub(lambda match: match[1] + _host(match[2], memory), text)
        text = _SINFO.sub(lambda match: _of_sinfo(match, memory), text)
        if "Ready" in text:
            text = _KUBE_NODES.sub(lambda match: _host(match[1], memory), text)
        if "/" in text:
            text = _PODS.sub(lambda m: _host(m[1], memory) + m[2] + (m[3] + _host(m[4], memory) if m[3] else ""), text)
    if "|" in text:
        text = _SACCT.sub(lambda m: m[1] + _cells(m[2], memory, "account") + m[3] + _cells(m[4], memory, "host"), text)
    return text
