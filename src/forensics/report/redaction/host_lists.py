"""Lists of hosts: as Slurm writes them (`gpu[001-064]`), in brackets, one after another, with slots and by rank."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.host_shapes import numbered, of_graph, stem, word
from forensics.report.redaction.memory import Memory, second, telling
from forensics.report.redaction.shapes import IS
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.sure_hosts import plain

_NODE_LIST_PLACE = lazy(
    rf"(?i)((?:\b(?:slurm_)?(?:step_|job_|launch_)?(?:node_?list|nodes){IS}"
    r"|--nodelist[= ]|--exclude[= ]|#SBATCH [^\n]{0,80}?-[wx][= ])"
    r"\(?)([a-z][\w.-]{0,60}(?:\[[\d,-]{1,400}\])?(?:[\w.-]{0,40})(?:,[a-z][\w.-]{0,60}(?:\[[\d,-]{1,400}"
    r"\])?){0,200})(?=[\s)\"',;]|\Z)",
    re.ASCII,
)
# Padded numbers, or a name that is no word, tell `node[001-064]` and `dgx-a[1-8]` from a slice `x[0-7]` and a shape.
_NODE_LIST = lazy(
    r"(?<![\w.-])(?:[A-Za-z][A-Za-z0-9.-]{0,60}\[(?=[\d,-]*(?<!\d)0\d)"
    r"|[A-Za-z][A-Za-z0-9]{0,40}-[A-Za-z0-9.-]{0,40}\[(?=\d+-))"
    r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?){0,200}\](?![\w\[(=])",
    re.ASCII,
)
# Slurm's own messages: `started 7 of 8 tasks on gpu[17-18]`.
_NODE_LIST_SAID = lazy(
    r"(\b(?:srun|slurm\w*|sbatch|salloc|sacct|scontrol)\b[^\n]{0,200}?\b(?:on|nodes?|hosts?|from) )"
    r"([A-Za-z][\w.-]{0,60}\[(?=\d+[,-])\d+(?:-\d+)?(?:,\d+(?:-\d+)?){0,200}\])(?![\w\[(=])",
    re.ASCII,
)
_MOST_SHOWN = 32  # hosts of a list that are shown one by one
# What lists of hosts are called; of graphs and of services there are `nodes`, `workers` and `servers` as well.
_SURE = r"(?:(?:worker_|ps_|master_)?hosts|host[ _]?(?:names|list|file)|node[ _]?(?:list|names)|machines)"
_PERHAPS = r"(?:nodes(?:_array)?|workers|servers|(?:node|host|machine)\(s\))"
_CALLED = rf"(?<![A-Za-z_])(?P<sure>(?:\w{{1,20}}_)?{_SURE})?(?(sure)|{_PERHAPS})"
_IN_USE = r"(?: (?:allocated|assigned|used|in use|selected)(?: (?:to|for|by|in) (?:this |the )?job)?)?"
# A list in a setting: `trainer.nodes: [gpu-17, gpu-18]`, `"hosts": ["gpu-17", "gpu-18"]`, `hosts={'a', 'b'}`.
_LISTED = rf"\\?[\"']?{NAME}(?::\d{{1,5}})?\\?[\"']?"
_BRACKETS = lazy(rf"(?i)({_CALLED}{IS}\s?[\[({{]\s?)({_LISTED}(?:\s?,\s?{_LISTED}){{0,400}})(?=\s?[\])}}])", re.ASCII)
# The same without brackets, and in sentences: `Nodes: x1 x2`, `using 2 nodes: x1, x2`, `running on hosts x1,x2`.
_IN_ROW = lazy(
    rf"(?i)((?:{_CALLED}{_IN_USE}(?:\s?[=:]\s{{0,8}}[\"']?))"
    r"|\b(?:(?:using|on|over|across|with)(?: \d{1,5})?(?: nodes| hosts| machines):?"
    r"|\d{1,5} (?:nodes|hosts|machines):|(?:ran|running|started|launched) on:?(?! (?:nodes|hosts|machines))) "
    r"|--(?:hosts|nodes|machines|workers|(?:node|host)[_-]?(?:list|names))[= ])"
    rf"({NAME}(?::\d{{1,5}})?(?:(?:\s?,\s?|[ \t]){NAME}(?::\d{{1,5}})?){{0,400}})",
    re.ASCII,
)
# Where each rank or node is: `rank_to_host={0: 'x1', 1: 'x2'}`.
_BY_NUMBER = lazy(
    r"(?i)(\b(?:host|node|rank|machine|mapping|map|placement|topology)[\w -]{0,40}(?:\s?[=:]\s?|\s)\{\s?)"
    rf"([\"']?\d{{1,6}}[\"']?: ?[\"']{NAME}[\"'](?:, ?[\"']?\d{{1,6}}[\"']?: ?[\"']{NAME}[\"']){{0,400}})(?=\s?\}})",
    re.ASCII,
)
# `nodes: [{'name': 'x1', 'gpus': 8}, {'name': 'x2'}]`
_OBJECTS = lazy(rf"(?i)({_CALLED}{IS}\[\s?)(\{{[^\[\]\n]{{1,8000}})", re.ASCII)
_NAMED = lazy(rf"([\"'](?:name|id|host|hostname|addr(?:ess)?)[\"']\s?:\s?[\"'])({NAME})(?=[\"'])", re.ASCII)
_OPTION = lazy(
    rf"(--?(?:worker_hosts|ps_hosts|chief_hosts|hosts)[= ]"
    rf"|\b(?:mpirun|mpiexec|orterun|prterun|horovodrun|prun)\b[^\n]{{0,300}}?\s-(?:H|host|hosts)[= ])"
    rf"({NAME}(?::\d{{1,5}})?(?:,{NAME}(?::\d{{1,5}})?){{0,400}})",
    re.ASCII,
)
_SLOTS = lazy(rf"^()({NAME})(?=:\d{{1,3}}\s*$)", re.ASCII | re.M)  # a line of a hostfile of Horovod and MPICH
_EACH = lazy(rf"(?<![\w.-]){NAME}(?![\w.-])", re.ASCII)
_LINE_ENDS = lazy(r"[\"']?\s*$", re.M)
_KEY = lazy(rf"(: ?[\"'])({NAME})(?=[\"'])", re.ASCII)


def _shown(names: str, memory: Memory) -> str:
    return _EACH.sub(lambda match: memory.host(match[0], everywhere=telling(match[0])), names)


def _alike(names: list[str]) -> bool:
    """Whether names are numbered alike, as hosts of one cluster are and as parts of models are not."""
    stems = {stem(name) for name in names if not is_stand_in(name)}
    return len(stems) < 2 and "" not in stems and not any(map(of_graph, names))


def _bracketed(match: re.Match[str], memory: Memory) -> str:
    """Names of a list that is called one of hosts; of `nodes`, which graphs have too, such as are numbered alike."""
    names = _EACH.findall(match[3])
    if not match["sure"] and not _alike(names):
        return match[0]
    return match[1] + _shown(match[3], memory)


def _row(match: re.Match[str], memory: Memory) -> str:
    """The names at the beginning that are numbered alike; all, if nothing but names and the end are behind them."""
    text = match[3]
    names = _EACH.findall(text)
    first = stem(names[0]) if names else ""
    end = 0
    for found in _EACH.finditer(text):
        if not (is_stand_in(found[0]) or (numbered(found[0]) and stem(found[0]) == first)):
            break
        end = found.end()
    whole = _LINE_ENDS.match(match.string, match.end()) is not None
    called = match["sure"] or match[1][:5] == "Nodes" or match[1][:1].isdigit()
    if end:
        mixed = whole and called and all(is_stand_in(name) or numbered(name) or plain(name) for name in names)
        end = len(text) if mixed else end
        return match[1] + _shown(text[:end], memory) + text[end:]
    several = len(names) > 1 or (match["sure"] and ":" in text)  # `ps_hosts=x:2222`
    if not (whole and called and several and all(map(word, names))):
        return match[0]
    return match[1] + _shown(text, memory)


def host_lists(text: str, memory: Memory) -> str:
    """`text` without lists of hosts; each host of one is known from then on."""

    def place(match: re.Match[str]) -> str:
        names = match[2]
        if "[" in names or names.count(",") >= _MOST_SHOWN:
            return match[1] + memory.of("nodes", names)
        if any(map(of_graph, names.split(","))):
            return match[0]
        if "," in names:
            return match[1] + _shown(names, memory)
        return match[1] + (memory.host(names) if telling(names.replace(".", "")) else names)

    def shown(names: str) -> str:
        return _shown(names, memory)

    def perhaps(name: str) -> str:
        return memory.host(name) if numbered(name) else name

    def by_number(match: re.Match[str]) -> str:
        names = [found[2] for found in _KEY.finditer(match[2])]
        sure = "host" in match[1].lower() and all(numbered(name) or word(name) for name in names)
        if not sure and not (_alike(names) and all(map(numbered, names))):
            return match[0]
        return match[1] + second(_KEY, shown, match[2])

    if "[" in text:
        text = second(_NODE_LIST_SAID, lambda names: memory.of("nodes", names), text)
        text = _NODE_LIST.sub(lambda match: memory.of("nodes", match[0]), text)
    lowered = text.lower()
    if any(name in lowered for name in ("node", "host", "machine", "worker", "server", "ran on", "ing on", "ed on")):
        if "[" in text or "(" in text or "{" in text:
            text = _BRACKETS.sub(lambda match: _bracketed(match, memory), text)
        text = _IN_ROW.sub(lambda match: _row(match, memory), text)
    if "node" in lowered or "exclude" in lowered or "#SBATCH" in text:
        text = _NODE_LIST_PLACE.sub(place, text)
    if "{" in text:
        text = _OBJECTS.sub(lambda match: match[1] + second(_NAMED, perhaps, match[3]), text)
        text = _BY_NUMBER.sub(by_number, text)
    if "hosts" in text or " -H" in text or " -host" in text:
        text = second(_OPTION, shown, text)
    return second(_SLOTS, perhaps, text) if ":" in text else text
