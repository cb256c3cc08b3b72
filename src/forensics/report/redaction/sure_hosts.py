"""Hosts that a place names beyond doubt, whatever they are called: `HOSTNAME=x`, NCCL's `x:123:123 [0] NCCL INFO`.

A name with a digit or a hyphen is known from any place that tells of a host. A plain word could be misread there, and
is learnt only here, where programs print nothing else: variables of the environment, NCCL's prefix, the tables of
torchrun, Slurm's messages, `uname -a`, and settings called `hostname` and `hosts`.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.host_shapes import word
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import of_story

_LIST = rf"{NAME}(?:,{NAME}){{0,200}}"
_WHOLE = r"(?![\w(\[{]|[.:/@-]\w)"  # no name, call or path goes on behind it
_QUOTE = r"\\?[\"']"
_VARIABLE = (
    r"(?<![A-Za-z0-9_$%{])(?:(?:[A-Z0-9]{1,20}_){0,3}HOSTNAME|(?:[A-Z0-9]{1,20}_){0,3}MASTER_ADDR|SLURMD_NODENAME"
    r"|SLURM_(?:JOB_|STEP_|LAUNCH_)?NODE_?LIST|SLURM_SUBMIT_HOST|SLURM_TOPOLOGY_ADDR|COMPUTERNAME|PBS_O_HOST)"
)
# `N=v`, `N="v"`, `'N': 'v'`, and `N: v` alone on its line.
_VARIABLES = lazy(
    rf"{_VARIABLE}(?:={_QUOTE}|=|{_QUOTE}\s?:\s?{_QUOTE}|: (?=\S+\s*$))(?P<names>{_LIST})(?::\d{{2,5}})?{_WHOLE}",
    re.ASCII | re.M,
)
# `hostname=x`, `"hostname": "x"`, `hostname: x` at an end. With signs of code (`hostname=args.host`) it is none.
_SETTINGS = lazy(
    r"(?<![\w.$-])(?:hostname|host_name|host\.name|nodename|nodeName|NodeName|BatchHost|master_addr)"
    rf"(?:={_QUOTE}?|{_QUOTE}\s?:\s?{_QUOTE}|\s?[=:]\s?{_QUOTE}|: (?=\w+\s*(?:$|[,;|)\]}}])))"
    rf"(?P<names>[A-Za-z]{{3,63}}){_WHOLE}",
    re.ASCII | re.M,
)
_JSON = lazy(rf"{_QUOTE}host{_QUOTE}\s?:\s?{_QUOTE}(?P<names>{NAME})(?={_QUOTE})", re.ASCII)
_NCCL = lazy(
    rf"(?:^|[\s\]>|\[])(?P<names>{NAME}):\d+:\d+ (?:- \d+\] |\[\d+\] )?(?:[\w./]+:\d+ )?NCCL ", re.ASCII | re.M
)
_TORCHRUN = lazy(rf"(?<![\w-])host\s{{2,12}}: (?P<names>{NAME})(?=\s*$| \()", re.ASCII | re.M)
_SLURM = (
    lazy(rf"\bsrun: error: (?P<names>{_LIST}): tasks? ", re.ASCII),
    lazy(rf"\bON (?P<names>{NAME}) CANCELLED AT ", re.ASCII),
    lazy(rf"\bNodeList=(?P<names>{_LIST})(?=\s|$)", re.ASCII | re.M),
)
_UNAME = lazy(rf"\bLinux (?P<names>{NAME}) \d+\.\d+\.\d+\S* #\d", re.ASCII)
_OPTIONS = lazy(
    rf"--(?:master[-_]addr[= ](?P<names>{NAME})(?=\s|$)|rdzv[-_]endpoint[= ](?P<rdzv>{NAME})(?=:\d)"
    rf"|(?:nodelist|hostlist)[= ](?P<list>{_LIST})(?=\s|$))",
    re.ASCII | re.M,
)
_GETHOSTNAME = lazy(rf"\bgethostname\(\)\s?(?:=|:|->)\s?{_QUOTE}?(?P<names>{NAME})(?={_QUOTE}|\s*$)", re.ASCII | re.M)
_HOSTNAME = lazy(rf"\bHostname:\s{{1,12}}(?P<names>{NAME})(?=\s*$)", re.ASCII | re.M)
_ENDPOINT = lazy(rf"\brdzv_endpoint\s*[:=]\s*{_QUOTE}?(?P<names>{NAME})(?=:\d)", re.ASCII)  # torchrun's settings
_TFEVENTS = lazy(rf"\btfevents\.\d{{10}}\.(?P<names>{NAME}?)(?=\.\d+\.\d+)", re.ASCII)
# pdsh puts the host before each line of DeepSpeed's.
_PDSH = lazy(rf"^(?P<names>{NAME}): \[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] \[", re.ASCII | re.M)
_DEEPSPEED = lazy(rf"\bon the following workers: (?P<names>{_LIST})(?=\s*$)", re.ASCII | re.M)
# `hosts: [x, y]`; of `nodes`, which graphs have as well, where one of the names is known for a host's.
_BRACKETS = lazy(
    rf"(?<![A-Za-z])(?:(?P<sure>host(?:s|names|list)|machines|node_?list)|[Nn]odes){_QUOTE}?\s?[:=]\s?\[\s?"
    rf"(?P<names>{_QUOTE}?{NAME}{_QUOTE}?(?:\s?,\s?{_QUOTE}?{NAME}{_QUOTE}?){{0,400}})\s?\]",
    re.ASCII,
)
# Texts that hold one of the words are searched.
_PLACES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (_VARIABLES, ("HOSTNAME", "MASTER_ADDR", "SLURM", "COMPUTERNAME", "PBS_O_HOST")),
    (_SETTINGS, ("host", "odename", "odeName", "BatchHost", "master_addr")),
    (_JSON, ('host"', "host'", "host\\")),
    (_NCCL, ("NCCL ",)),
    (_TORCHRUN, ("host  ",)),
    (_SLURM[0], ("srun: error",)),
    (_SLURM[1], (" CANCELLED AT",)),
    (_SLURM[2], ("NodeList=",)),
    (_UNAME, ("Linux ",)),
    (_OPTIONS, ("--master", "--rdzv", "--nodelist", "--hostlist")),
    (_GETHOSTNAME, ("gethostname()",)),
    (_HOSTNAME, ("Hostname:",)),
    (_ENDPOINT, ("rdzv_endpoint",)),
    (_TFEVENTS, ("tfevents.",)),
    (_PDSH, ("] [",)),
    (_DEEPSPEED, ("following workers",)),
)
_EACH = lazy(NAME, re.ASCII)


def plain(name: str) -> bool:
    """Whether a host's name is a word that says nothing else: none of logs, code, programs or prose."""
    return name.isalpha() and word(name) and not of_story(name)


def learn(name: str, memory: Memory) -> None:
    """From now on a plain name of a host, also of one with a domain, is replaced wherever it stands as it is written.

    Names with digits or hyphens are left to the places that tell them anyhow; a word of other things is replaced only
    where a host may stand.
    """
    short, dot, _ = name.partition(".")
    if plain(short):
        memory.word(short, memory.host(name, everywhere=bool(dot)))
    elif word(short):
        memory.place(short)


def _in_brackets(match: re.Match[str], memory: Memory) -> list[str]:
    names = _EACH.findall(match["names"])
    sure = match["sure"] and all(map(plain, names))
    return names if sure or any(memory.is_host(name) or is_stand_in(name) for name in names) else []


def sure_hosts(text: str, memory: Memory) -> str:
    """`text` as it is: hosts that it names beyond doubt are known from then on."""
    for pattern, hints in _PLACES:
        if any(hint in text for hint in hints):
            for match in pattern.finditer(text):
                for name in ",".join(filter(None, match.groups())).split(","):
                    learn(name, memory)
    if "[" in text and ("ode" in text or "host" in text or "machines" in text):
        for match in _BRACKETS.finditer(text):
            for name in _in_brackets(match, memory):
                learn(name, memory)
    return text
