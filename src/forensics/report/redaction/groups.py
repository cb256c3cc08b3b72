"""Users in paths below the folder of a group, an institute or an allocation: `/home/GROUP/USER`.

In the same place a user's own folder can lie, with a folder of code below it. So what lies two folders down is taken
for a user's only where the names say so: the group is written as allocations are (`dd-24-12`, `PAS1234`, `01234`), the
login holds the group's name (`bsc/bsc098765`, `b5k/kowal.b5k`), both are made of letters and numbers as sites give
them (`ra000012/u12345`), or the folder above holds those of groups alone (`rech`).
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.homes import is_user, of_structure, of_users
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.stand_ins import is_stand_in

_PATH = lazy(r"(?<![\w.-])(?<!:/)/(?:[\w.@+-]{1,64}/){2,12}[\w.@+-]{0,64}", re.ASCII)
# Folders right above those of groups, mostly on shared file systems.
_ABOVE = lazy(
    r"(?:home\d{0,3}|homes|users|work\d?|projects?\d?|proj\d?|project-?data|(?:[a-z]{1,12}[_-]?)?scratch\d{0,3}|nobackup|data"
    r"|vol\d{1,5}|ess|project|lfs\w{0,8}|[a-z]{1,6}fs\d{0,3}|bs|rds)\Z",
    re.ASCII,
)
_OWN_ROOTS = frozenset(
    "opt usr var tmp app apps builds workspace workspaces content kaggle proc sys dev etc run".split()
)
# Only groups have these: the Idris in Orsay calls all of research `rech`, Tokyo's TSUBAME groups `tga-x`.
_OF_GROUPS = frozenset({"rech"})
_GROUP = lazy(
    r"(?:[a-z]{2,5}-\d{2}-\d{1,3}"  # Ostrava
    r"|F\d{8,12}[A-Z]{0,12}|(?:EHPC|ehpc)-[\w-]{3,24}"  # EuroHPC
    r"|tg[a-z]-[\w-]{2,32}"  # Tokyo
    r"|[A-Z]{1,5}\d{3,10}"  # Ohio, Osaka
    r"|hk-project-[\w-]{2,24}"  # Karlsruhe
    r"|(?:def|rrg|rpp|ctb)-[a-z0-9-]{1,31})\Z",
    re.ASCII,
)
# Sweden writes the year into them, others zeros: these lie below folders of projects.
_DATED = lazy(r"(?:[a-z][a-z0-9]{1,8}\d{4}-\d{1,3}(?:-\d{1,3})?|[a-z]{2,4}00\d{2,5})\Z", re.ASCII)
_OF_PROJECTS = lazy(r"(?:projects?\d?|proj\d?|groups?|nobackup|vol\d{1,5})\Z", re.ASCII | re.I)
_NUMBER = lazy(r"\d{5}\Z", re.ASCII)  # Texas: `/home1/01234/USER`
_LOGIN = lazy(
    r"(?!(?:bs|lr|run|exp|step|iter|ckpt|ep|seed|job|rank|gpu|part|n)\d)"
    r"(?:[a-z]{1,4}\d{4,10}[a-z]{0,2}|[a-z]{2}\d{2}[a-z]{3}\d?)\Z",
    re.ASCII,
)
_NUMBERED = lazy(r"[a-z]{1,4}\d{2,10}[a-z]{0,4}\Z", re.ASCII)
_REST = lazy(r"[_-]?[a-z]{0,2}\d{5,8}\Z", re.ASCII)
_PLGRID = lazy(r"plg(?!rid\Z|g)[a-z0-9]{2,29}\Z", re.ASCII)  # all logins of Poland's PLGrid
# `ws_allocate` makes USER-NAME: `/data/horse/ws/kowal-exp7`, `/pfs/work7/workspace/scratch/ab1234-exp7`.
_WORKSPACE = lazy(r"([a-z][a-z0-9_]{2,20})(-[\w.-]{1,60})\Z", re.ASCII)


def _own(name: str) -> bool:
    return is_user(name) and not of_users(name) and not of_structure(name)


def _of_group(user: str, group: str) -> bool:
    """Whether a login holds the group's name, or both are letters and numbers as sites make them."""
    if len(group) > 2 and user.startswith(group) and _REST.match(user[len(group) :]):
        return True
    held = user.endswith(f".{group}") and user.count(".") == 1 and any(char.isdigit() for char in group)
    return held or (_NUMBERED.match(group) is not None and _LOGIN.match(user) is not None)


def _pair(parts: list[str], at: int, memory: Memory) -> bool:
    """Whether parts[at] is a group and parts[at + 1] a user; both are replaced then."""
    group, user = parts[at], parts[at + 1]
    above = parts[at - 1]
    sure = above in _OF_GROUPS or {above, parts[at - 2]} == {"home", "project"}
    if _DATED.match(group) and any(_OF_PROJECTS.match(part) for part in parts[max(1, at - 2) : at]):
        sure = True
    elif not sure:
        number = _NUMBER.match(group) is not None and above != "data"
        named = _GROUP.match(group) is not None or number or _of_group(user, group)
        sure = named and _ABOVE.match(above) is not None
    known = sure and _own(user)
    if known:
        parts[at : at + 2] = memory.account(group), memory.user(user)
    return known


def _repeated(parts: list[str], at: int, memory: Memory) -> bool:
    """`/work/z01/z01/USER` (Edinburgh), `/home/fr/fr_fr/USER` (Freiburg): the group is there twice."""
    if at + 2 >= len(parts) or not _ABOVE.match(parts[at - 1]):
        return False
    group, again, user = parts[at : at + 3]
    twice = group == again and any(char.isdigit() for char in group)
    if not (twice or again == f"{group}_{group}") or not _own(user):
        return False
    stand_in = memory.account(group)
    parts[at : at + 3] = stand_in, stand_in if twice else memory.account(again), memory.user(user)
    return True


def _below_data(parts: list[str], at: int, memory: Memory) -> bool:
    """`/vol0004/ra000012/data/u12345` (Kobe)"""
    if at + 1 >= len(parts) or not _NUMBERED.match(parts[at - 1]) or not _LOGIN.match(parts[at + 1]):
        return False
    parts[at - 1], parts[at + 1] = memory.account(parts[at - 1]), memory.user(parts[at + 1])
    return True


def _workspace(parts: list[str], at: int, memory: Memory) -> bool:
    below = parts[at - 1] == "ws" or (parts[at - 1] == "scratch" and parts[at - 2] == "workspace")
    match = _WORKSPACE.match(parts[at]) if below and at > 2 else None
    if match is None or is_stand_in(parts[at]) or not _own(match[1]):
        return False
    parts[at] = memory.user(match[1]) + match[2]
    return True


def groups(text: str, memory: Memory) -> str:
    """`text` without users and their groups in paths below a group's folder."""

    def replace(match: re.Match[str]) -> str:
        parts = match[0].split("/")
        if parts[1] in _OWN_ROOTS:
            return match[0]
        for at in range(2, min(len(parts), 8)):
            if _PLGRID.match(parts[at]):
                parts[at] = memory.user(parts[at])
                return "/".join(parts)
            if at + 1 < len(parts) and (_repeated(parts, at, memory) or _pair(parts, at, memory)):
                return "/".join(parts)
            if parts[at] == "data" and _below_data(parts, at, memory):
                return "/".join(parts)
            if _workspace(parts, at, memory):
                return "/".join(parts)
        return match[0]

    return _PATH.sub(replace, text) if text.count("/") > 2 else text
