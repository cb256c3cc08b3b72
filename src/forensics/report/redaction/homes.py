"""Users in paths of shared file systems, where the folders above say that one is a user's own."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.words import FOLDERS, ORDINARY

# The first folders of paths on file systems of clusters; behind them come names of volumes, then a word of those below.
_PATH = lazy(
    r"(?<![\w./:-])/(?:gpfs|lustre|pfs|p|beegfs|ceph|cephfs|vast|weka|wekafs|net|nfs|n|mnt|ocean|cluster|work|blue"
    r"|orange|red"
    r"|data|anvil|e(?=/)|cfs|mimer|pool|storage|fs|fsx|efs|juicefs|panfs|orcd|nobackup|hpc|project|projects|leonardo_work"
    r"|expanse|iopsstor|capstor|lus"
    r"|(?:[a-z]+[_-])?scratch)[\w-]{0,12}(?:/[\w.@+-]{1,64}){1,12}",
    re.ASCII,
)
_SCRATCH = r"(?:[a-z]{1,12}[_-]?)?scratch[\w-]{0,12}"
_OF_USERS = lazy(
    rf"(?:{_SCRATCH}|j?users|\w{{1,20}}_usr|[\w-]{{1,32}}-users|userexternal|usertrain|nobackup|people|staff|students)\Z",
    re.ASCII | re.I,
)
# And not of projects.
_SURELY_USERS = lazy(r"(?:j?users|userexternal|usertrain|\w{1,20}_usr|people|staff|students)\Z", re.ASCII | re.I)
_OF_GROUPS = lazy(
    rf"(?:{_SCRATCH}|work\d?|[a-z]+_work|proj(?:ect)?s?\d?|proj-shared|world-shared|groups?|labs?|plgrid|plggrid)\Z",
    re.ASCII | re.I,
)
_OF_ALL = frozenset({"proj-shared", "world-shared"})  # `/lustre/orion/PROJECT/proj-shared/USER` (Oak Ridge)
# `/blue/GROUP/USER` (HiPerGator): no folder between.
_GROUPS_AT_ROOT = frozenset({"blue", "orange", "red"})
# `/p/scratch/PROJECT/USER` (Jülich), `/leonardo_work/PROJECT/USER` (CINECA), `/home/atuin/PROJECT/USER` (Erlangen), and
# users below numbers: `/storage/home/hcoda1/0/USER` (Georgia Tech), `/dss/dsshome1/01/USER` (Munich).
# `/global/cfs/cdirs/PROJECT/USER` (NERSC), `/home/groups/PI/USER`, `/oak/stanford/groups/PI/USER` (Stanford),
# `/groups/GROUP/USER` (ABCI), `/lus/eagle/projects/PROJECT/USER`, `/flare/PROJECT/USER` (Argonne),
# `/nfs/turbo/GROUP/USER` (Michigan), `/gpfs/gibbs/project/GROUP/USER` (Yale), `/mnt/lustre/work/GROUP/USER` (Tübingen),
# `/cluster/work/GROUP/USER` (ETH), `/cluster/tufts/LAB/USER`, `/SAN/FIELD/GROUP/USER` (UCL), `/g/data/PROJECT/USER`
# (NCI), `/g/GROUP/USER` (EMBL), `/gs/bs/GROUP/USER` (Tokyo), `/gscratch/LAB/USER` (Washington); users right below a
# volume: `/vol/bitbucket/USER` (Imperial), `/mnt/petrelfs/USER` (Shanghai).
_OF_SITES = lazy(
    r"((?<![\w./:-])(?:/p/(?:scratch|project\d?|largedata|fastdata|data\d?)|/leonardo_(?:work|scratch)|/home/"
    r"(?:atuin|hpc|vault|woody|saturn)|/global/(?:cfs/cdirs|common/software|project/projectdirs)|(?:/home|/scratch|/oak/stanford|/nfs)?/groups"
    r"|/lus/[a-z]{3,12}/projects|/eagle|/flare|/grand|/nfs/turbo"
    r"|/(?:gpfs|vast)/(?:gibbs|palmer|roberts)/(?:project|pi|scratch)|/mnt/lustre/work"
    r"|/cluster/(?:work|project|tufts)|/SAN/[a-z]\w{1,20}|/g(?:/data\d?[ab]?)?|/gs/(?:bs|fs|hs\d?)|/lustre/fsw|(?:/mmfs1)?/gscratch)/)"
    r"([A-Za-z0-9][\w-]{1,32})/([a-z][a-z0-9._-]{1,31})(?=[/\s\"':,)]|\Z)",
    re.ASCII,
)
_NUMBERED = lazy(
    r"((?<![\w./:-])(?:/storage/(?:home/hcoda|scratch)\d/\d|/dss/dss\w{2,12}/[0-9A-F]{2}|/ptmp|/vol/bitbucket|/mnt/(?:petrelfs|hwfile))/)(?!share|data)([a-z][a-z0-9._-]{1,31})",
    re.ASCII,
)
# Below the first letter of their names: `/pscratch/sd/t/tveit`, `/network/scratch/t/tveit`, `/global/homes/t/tveit`.
_BY_LETTER = lazy(
    r"((?<![\w.:-])/(?:[\w.-]{1,32}/){0,4}?(?:\w*scratch\w*|homes?\d*|users?)/(?:(?!\w/)[\w-]{1,12}/)?(?P<letter>[a-z])/)"
    r"((?P=letter)[a-z0-9._-]{1,31})(?=[/\s\"':,)]|\Z)",
    re.ASCII,
)
# `/scratch/PI_root/PI0/USER` (Michigan).
_BY_ROOT = lazy(
    r"((?<![\w.:-])/scratch/)(?P<group>[a-z]\w{1,31})_root/((?P=group)\d{0,3})/([a-z][a-z0-9._-]{1,31})(?=[/\s\"':,)]|\Z)",
    re.ASCII,
)
# Whatever lies above: only a home holds these.
_HOLDS = lazy(
    r"((?<![\w./:-])/(?:[\w.@-]{1,32}/){1,6})([a-z][a-z0-9._-]{1,31})"
    r"(?=/(?:\.(?:conda|local|config|ssh|bashrc|bash_profile|profile|netrc|vscode-server|pyenv|mamba)|(?:mini|ana)conda\d?|miniforge\d?"
    r"|mambaforge|micromamba)(?:[/\s\"':,)]|\Z))",
    re.ASCII,
)
# Allocations: `project_465000123`, `def-smith`, `gen150`, `p200123`, `01234`, `plggllm`.
_ALLOCATION = lazy(
    r"(?:(?:def|rrg|rpp|ctb)-[a-z0-9-]{1,31}|[a-z]{1,12}[_-]?\d{2,12}[a-z]?|\d{4,6}|plgg\w{2,31}|[a-z]+_lab)\Z",
    re.ASCII | re.I,
)
_STRUCTURE = lazy(
    r"(?:j?users?|gpfs|lustre|beegfs|ceph|vast|ssd|nvme|large|small|fast|home\d*|proj-shared|world-shared"
    r"|sd|cscs|\w*scratch)\Z",
    re.ASCII,
)
_NAME = lazy(r"[a-z][a-z0-9._-]{1,31}\Z", re.ASCII)

# Folders of a site that are no group's.
_SHARED = frozenset("data datasets models shared public modules software containers checkpoints".split())
_SUFFIXES = frozenset("py pt pth json jsonl txt log yaml yml sh out err tar zip".split())


def is_user(name: str) -> bool:
    """Whether a folder's name may be a user's."""
    if name.startswith(("user-", "account-")):
        return False  # a stand-in, also with something behind it
    file = name.rpartition(".")[2] in _SUFFIXES
    named = _NAME.match(name) is not None and _STRUCTURE.match(name) is None
    return named and name not in ORDINARY and name not in FOLDERS and not file


def of_users(name: str) -> bool:
    """Whether a folder of that name holds those of users."""
    return _OF_USERS.match(name) is not None


def of_structure(name: str) -> bool:
    """Whether a folder's name is a volume's or another part of a file system's."""
    return _STRUCTURE.match(name) is not None


def _path(match: re.Match[str], memory: Memory) -> str:
    parts = match[0].split("/")
    for at in range(1, len(parts) - 1):
        group = parts[at] in _GROUPS_AT_ROOT and at == 1
        of_groups = _OF_GROUPS.match(parts[at]) is not None
        if of_groups and len(parts[at + 1]) == 1 and parts[at + 1].isdecimal() and at + 3 < len(parts):
            at += 1  # `/gpfs/work3/0/prjs1234/u` (Snellius), `/gpfs/work5/0/u`
        following = parts[at + 1]
        if of_groups and parts[at].isdecimal() and not _ALLOCATION.match(following) and is_user(following):
            parts[at + 1] = memory.user(following)
            return "/".join(parts)
        if (group or (of_groups and _ALLOCATION.match(following))) and at + 2 < len(parts):
            own = at + 2
            if _OF_USERS.match(parts[own]) and own + 1 < len(parts):  # /project/p200123/users/u
                own += 1
            if is_user(parts[own]):
                parts[at + 1], parts[own] = memory.account(following), memory.user(parts[own])
                return "/".join(parts)
        if parts[at] in _OF_ALL and at > 1 and _ALLOCATION.match(parts[at - 1]) and is_user(following):
            parts[at - 1], parts[at + 1] = memory.account(parts[at - 1]), memory.user(following)
            return "/".join(parts)
        if (
            _OF_USERS.match(parts[at])
            and _STRUCTURE.match(following)
            and at + 3 < len(parts)
            and is_user(parts[at + 2])
            and not _OF_USERS.match(parts[at + 2])
        ):
            parts[at + 2] = memory.user(parts[at + 2])
            return "/".join(parts)
        own_folder = _OF_USERS.match(parts[at]) and not _OF_USERS.match(following)
        if own_folder and is_user(following) and (_SURELY_USERS.match(parts[at]) or not _ALLOCATION.match(following)):
            parts[at + 1] = memory.user(following)
            if at > 3 and _ALLOCATION.match(parts[at - 1]):  # /lustre/orion/gen150/scratch/u
                parts[at - 1] = memory.account(parts[at - 1])
            return "/".join(parts)
    return match[0]


def shared_homes(text: str, memory: Memory) -> str:
    """`text` without users and their groups in paths on file systems of clusters."""
    if "/" not in text:
        return text

    def site(match: re.Match[str]) -> str:
        if not is_user(match[3]) or match[2] in _SHARED or _OF_USERS.match(match[2]) or of_structure(match[2]):
            return match[0]
        return f"{match[1]}{memory.account(match[2])}/{memory.user(match[3])}"

    def letter(match: re.Match[str]) -> str:
        return match[1] + (memory.user(match[3]) if is_user(match[3]) else match[3])

    def root(match: re.Match[str]) -> str:
        group = memory.account(match["group"])
        return f"{match[1]}{group}/{group}/{memory.user(match[4])}"

    if "_root/" in text:
        text = _BY_ROOT.sub(root, text)
    if "/." in text or "conda" in text or "mamba" in text or "miniforge" in text:
        text = _HOLDS.sub(lambda match: match[1] + (memory.user(match[2]) if is_user(match[2]) else match[2]), text)
    if "scratch" in text or "/home" in text or "/user" in text:
        text = _BY_LETTER.sub(letter, text)
    text = second(_NUMBERED, memory.user, _OF_SITES.sub(site, text))
    return _PATH.sub(lambda match: _path(match, memory), text)
