"""Users in paths that no list of sites knows: below folders that are named for homes, and where code lies.

A folder whose name begins or ends with `home` holds homes under any root (`/nethome/x`, `/storage/homefs/x`,
`/zhome/ab/c/x`). Below `project`, `work` and the like a group and then a user have their folders, but data lie there as
well: so these count where the path goes on to a program or its output, two folders further in or more. Right below the
fast disks of a machine (`/raid/x`, `/fast/x`) the same holds of one folder, and right below the roots of shared file
systems (`/lustre/x`, `/mnt/nfs/x`) where a program or a run's output lies further in and the name is not one of code or
data. At any depth a folder is a person's that holds `code`, `repos` or `venvs`.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.homes import is_user, of_structure, of_users
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.words import ORDINARY, PROGRAMS, PUBLIC_OWNERS, TERMS

_PATH = lazy(r"(?:(?<![\w./-])|(?<=file://))/(?:[\w.@+-]{1,64}/){1,16}[\w.@+-]{0,64}", re.ASCII)
# Few letters before it: `smarthome` and `hf_home` are data and caches.
_HOMES = lazy(
    r"(?:[a-z]{1,4}|lustre|beegfs|group|cluster|shared)?home(?:s|fs|dirs?)?[_-]?(?:\d{1,3}|[a-z]|local|nfs)?\Z",
    re.ASCII,
)
_STORE = lazy(r"[a-z]{2,12}-stor\Z", re.ASCII)  # `/itet-stor/USER`
_BETWEEN = lazy(r"(?:[a-z0-9]{1,2}|live)\Z", re.ASCII)  # of homes: first letters, volumes
_DEEPEST = 4  # components in which homes lie
_OF_GROUPS = lazy(r"(?:work\d?|proj|projects?\d?|projdata|labs?|groups?)\Z", re.ASCII)
# Roots of a container, a program or one person, where such folders are theirs.
_OWN_ROOTS = frozenset(
    "home homes Users users user root opt usr var tmp app apps builds workspace workspaces Workspace workdir content "
    "kaggle proc sys dev etc run databricks code src mlruns __w github".split()
)
_GROUP = lazy(r"[a-z][a-z0-9_-]{1,31}\Z", re.ASCII)
_PROGRAM = lazy(r"\.(?:py|pyx|ipynb|sh|sbatch|slurm|log|out|err|cfg|toml|ya?ml)\Z", re.ASCII)
# Disks of machines on which users make themselves a folder; data sets lie beside these.
_DISKS = lazy(
    r"(?:fast|raid|fsx(?:-[a-z]+)?|vast|ssd|nvme|checkpoint|local[_-]?(?:nvme|ssd|disk|scratch))\d{0,3}\Z", re.ASCII
)
# Shared file systems on which users, or groups and below these users, have their folders right below the root.
_SHARED = lazy(
    r"/(?:lustre|gpfs|nfs|efs|work|data|projects?|shared?(?:[_-](?:storage|data|disk|fs|nfs))?|storage|mnt/(?!wsl\b)[\w.-]{2,24}"
    r"|glade/(?:derecho/scratch|work))/",
    re.ASCII,
)
_GROUPED = frozenset({"lustre", "project", "projects"})
# Roots below which people have their folders at any depth, and folders that only a person makes for themselves.
_ROOTS = lazy(
    r"(?:shared?|storage|workspaces?|mnt|tmp|(?:[a-z]+[_-]?)?scratch\d*|projects?|gpfs\w*|lustre\w*|nfs\w*|work\d*|data\d*|efs"
    r"|fsx|vast|weka|beegfs|cephfs?|cluster|local|raid|nvme\d*|ssd|net|pool|vol\w*|disk\d*|media|srv)\Z",
    re.ASCII,
)
_PERSONAL = frozenset(
    "code codes projects repos repo git gits github gitlab venvs venv envs conda research thesis phd dotfiles".split()
)
_RUNS = frozenset({"experiments", "exps"})  # in a container's `/workspace` a repository has these as well
# One of these is in each text in which a path can be somebody's.
_TELLING = (
    "home", "/work", "/proj", "/lab", "/group", "-stor/", "/lustre", "/gpfs", "/nfs", "/efs", "/data", "/mnt/",
    "/glade", "/fast", "/raid", "/fsx", "/vast", "/ssd", "/nvme", "/checkpoint", "/local", "/share", "/storage",
    "/tmp/", "scratch", "/weka", "/beegfs", "/ceph", "/cluster", "/net/", "/pool", "/vol", "/disk", "/media/", "/srv/",
)  # fmt: skip
# What a container gets to see: `--container-mounts=/fsx/USER:/w,/fsx/data:/data`.
_MOUNTED = lazy(r"(?:--(?:container-mounts|bind|volume)|\s-[vB])[= ]\S*\Z", re.ASCII)
_FRAME = lazy(r"\.(?:py|pyx|ipynb|sh|sbatch|slurm)\Z", re.ASCII)
_LETTERS = lazy(r"[a-z]{3,24}\d{0,3}\Z", re.ASCII)
# In names of repositories and of work, which lie there too.
_OF_WORK = lazy(
    r"train|tun(?:e|ing)|model|data|llm|gpt|llama|qwen|diffus|torch|bench|eval|learn|vision|lang|text|speech|audio|video"
    r"|net\Z|code|repo|script|tool|task|exp|rlhf|grpo|verl|slime|axolotl|foundry|olmo|neox|fair|lite?[a-z]*gpt|home|team"
    r"|chat|pipe|baseline|ablat|final|release|debug|sweep|phase|stage|large|small|tiny|cache|store|backup|archive"
    r"|shard|token|pkg|package|lib|sub\Z|mods?\Z|core|coco|kitti|mnist|cifar|wiki|pile\Z|squad|glue|user|group|apps|work|proj|scratch|test|demo|tmp|(?:sft|dpo|ppo|moe|vlm|vla|rag|nmt|asr|tts|ocr|cnn|gan|vit)\d*\Z",
    re.ASCII,
)
_PLAIN = lazy(r"([a-z][a-z._-]{1,24}?)\d{0,3}\Z", re.ASCII)  # `llama-3.1-8b` is a model
# Where a program was started, and what it was started from.
_STARTED = lazy(
    r"(?:\b(?:OLD)?PWD|\bPYTHONPATH|\bSLURM_(?:SUBMIT_DIR|JOB_WORK_DIR)|\bPBS_O_WORKDIR|\bLS_SUBCWD|\bWorkDir|\bWANDB_(?:\w{1,12}_)?DIR|\bHF_HOME|\bTORCH_HOME|\bXDG_\w{1,12}_HOME"
    r"|\bT(?:RITON_CACHE_|ORCHINDUCTOR_CACHE_|MP)DIR|\bPIP_CACHE_DIR|\bCONDA_PREFIX|\bVIRTUAL_ENV|\bcwd"
    r"|\b[Ww]orking[ _]dir(?:ectory)?)"
    r"\\?[\"']?\s?[=:]\s?\\?[\"']?\Z",
    re.ASCII,
)
_OUTPUT = lazy(r"\.(?:pt|pth|ckpt|safetensors|distcp|bin|jsonl)\Z", re.ASCII)
_OF_RUNS = frozenset(
    "ckpt ckpts checkpoints runs run outputs output results logs log wandb exp exps experiments code src repos "
    "projects work train trainer training scripts".split()
)


def _named(name: str) -> bool:
    return name not in ORDINARY and name not in PROGRAMS and name not in PUBLIC_OWNERS


def _below_homes(parts: list[str], memory: Memory) -> bool:
    for at in range(1, min(_DEEPEST, len(parts) - 1)):
        store = at == 1 and _STORE.match(parts[at]) is not None
        if not store and (parts[at] in ("home", "homes") or not _HOMES.match(parts[at])):
            continue
        own = at + 1
        while own < min(at + 3, len(parts) - 1) and (
            _BETWEEN.match(parts[own]) or of_structure(parts[own]) or of_users(parts[own])
        ):
            own += 1
        if is_user(parts[own]):
            parts[own] = memory.user(parts[own])
            return True
    return False


def _own_home(parts: list[str], memory: Memory) -> bool:
    """`/fsx/home-x`: the name is a part of the folder's."""
    for at in range(1, min(_DEEPEST, len(parts) - 1)):
        head, dash, name = parts[at].partition("-")
        if head == "home" and dash and is_user(name) and name not in TERMS and not _BETWEEN.match(name):
            parts[at] = f"home-{memory.user(name)}"
            return True
    return False


def _of_a_group(parts: list[str], memory: Memory) -> bool:
    if parts[1] in _OWN_ROOTS or not _PROGRAM.search(parts[-1]):
        return False
    for at in range(2, min(_DEEPEST + 1, len(parts) - 4)):
        if of_users(parts[at - 1]):
            return False  # all below is one user's
        group, user = parts[at + 1 : at + 3]
        if _OF_GROUPS.match(parts[at]) and _GROUP.match(group) and is_user(user):
            if group == user or not (_named(group) and _named(user) and is_user(group)):
                return False
            parts[at + 1], parts[at + 2] = memory.account(group), memory.user(user)
            return True
    return False


def _at_root(parts: list[str], memory: Memory, before: str) -> bool:
    """Right below a disk, and a folder of code or of a run between it and the file; or where a program was started."""
    started = _STARTED.search(before) is not None
    if len(parts) < (4 if started else 5) or not _DISKS.match(parts[1]):
        return False
    name, plain = parts[2], _PLAIN.match(parts[2])
    if plain is None or not is_user(name) or not all(_named(word) and is_user(word) for word in (name, plain[1])):
        return False
    of_run = bool(_OF_RUNS.intersection(parts[3:-1])) and _OUTPUT.search(parts[-1])
    if not (started or of_run or _PROGRAM.search(parts[-1])):
        return False
    parts[2] = memory.user(name)
    return True


def _perhaps_own(name: str) -> bool:
    """Whether a folder may be called after a user: a word of code, data or work is sooner that."""
    words = (name, name.rstrip("0123456789"))
    return (
        _LETTERS.match(name) is not None and not _OF_WORK.search(name) and all(map(is_user, words)) and _named(words[1])
    )


def _of_a_file_system(parts: list[str], memory: Memory, root: str, before: str) -> bool:
    """`/lustre/USER/x/train.py`, `/mnt/nfs/USER/x/train.py`, `/project/GROUP/USER/x/train.py`."""
    own = root.count("/")
    below = parts[own + 1 : -1]
    of_run = bool(_OF_RUNS.intersection(below)) and (below[0] in _OF_RUNS or _OUTPUT.search(parts[-1]))
    shown = of_run or _FRAME.search(parts[-1]) or _STARTED.search(before)
    if not (below or _STARTED.search(before)) or not shown or not _perhaps_own(parts[own]):
        return False
    if parts[own] in below:
        return False  # a repository, and the package of its name in it
    if parts[1] in _GROUPED and own == 2 and len(below) > 1 and _perhaps_own(parts[own + 1]):
        parts[own], own = memory.account(parts[own]), own + 1
    parts[own] = memory.user(parts[own])
    return True


def _above_own_folders(parts: list[str], memory: Memory) -> bool:
    """`/workspace/USER/code/x`, `/scratch/GROUP/USER/projects/x`: right above the first folder that people make."""
    if not _ROOTS.match(parts[1]):
        return False
    personal = _PERSONAL if parts[1].startswith("workspace") else _PERSONAL | _RUNS
    at = next((at for at in range(3, len(parts)) if parts[at] in personal), 0)
    if not 3 <= at <= _DEEPEST + 3 or not _perhaps_own(parts[at - 1]) or parts.count(parts[at - 1]) > 1:
        return False
    parts[at - 1] = memory.user(parts[at - 1])
    return True


def _mounted(parts: list[str], memory: Memory, before: str) -> bool:
    if not _DISKS.match(parts[1]) or not _perhaps_own(parts[2]) or not _MOUNTED.search(before):
        return False
    parts[2] = memory.user(parts[2])
    return True


def customary_homes(text: str, memory: Memory) -> str:
    """`text` without users, and their groups, in paths that only custom tells."""

    def replace(match: re.Match[str]) -> str:
        parts = match[0].split("/")
        before = match.string[max(0, match.start() - 200) : match.start()]
        found = any(rule(parts, memory) for rule in (_below_homes, _own_home, _of_a_group))
        if not found and (root := _SHARED.match(match[0])):
            found = _of_a_file_system(parts, memory, root[0], before)
        found = found or _above_own_folders(parts, memory) or _mounted(parts, memory, before)
        return "/".join(parts) if found or _at_root(parts, memory, before) else match[0]

    return _PATH.sub(replace, text) if "/" in text and any(word in text for word in _TELLING) else text
