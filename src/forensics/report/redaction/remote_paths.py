"""Hosts before a path, as scp, rsync and NFS write them: `scp: x:/data`, `copying logs to x:/export/logs`.

In the same form stand schemes (`dbfs:/x`), labels (`output:/x`) and volumes of containers (`-v cache:/x`). A host is
sure behind a program that copies or mounts; behind a preposition where the path is below a root of exports, or where
the name has a number as hosts have.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.host_shapes import numbered
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.words import FOLDERS, NO_HOSTS

_REMOTE = lazy(rf"(?:(?<=\A)|(?<=[\s\"'(=,]))({NAME})(?=:/(?!/)(?P<root>[\w.-]{{1,64}}))", re.ASCII)
_EXPORTS = lazy(
    r"(?:exports?|nfs\w{0,8}|vol(?:umes?)?\d{0,3}|ifs|zpool|tank|pool|srv|shares?|archive|backups?)\Z", re.ASCII
)
_COPIES = lazy(r"\b(?:scp|rsync|sftp|nfs4?|u?mount(?:ing|ed|\.nfs4?)?|autofs)\b[^\n=]{0,80}[ :(\"']\Z", re.ASCII)
_TO = lazy(r"(?:\b(?:to|from|at|on|of|via|server|with)|handle:) [\"'(]?\Z", re.ASCII)
_VOLUME = lazy(r"(?:-v|--volumes?|--bind|--mount|-) ?=?[\"']?\Z", re.ASCII)  # of a container, also an item of YAML
_OF_SERVERS = frozenset({"export", "exports", "ifs"})  # what only servers of files have
_NEAR = 100  # characters before a name in which it stands what is done
# What stands before a path besides: schemes, and what the path is.
_LABELS = (
    FOLDERS
    | NO_HOSTS
    | frozenset(
        "file path paths dir directory folder url uri root base prefix cwd pwd workdir dest destination src "
        "source target saved save loaded load loading reading writing found created input config script "
        "interpreter executable python location mount volume volumes image hdfs dbfs wasb abfs gs oss cos http "
        "jar zip classpath pythonpath endpoint get post put delete route socket unix overlay tmpfs proc key value "
        "warning exception scp rsync sftp nfs".split()
    )
)


def remote_paths(text: str, memory: Memory) -> str:
    """`text` without hosts before a path that is on them."""
    if ":/" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        before = match.string[max(0, match.start() - _NEAR) : match.start()]
        if len(name) < 2 or name.lower() in _LABELS or _VOLUME.search(before):
            return name
        exported = _EXPORTS.match(match["root"]) is not None
        counted = numbered(name)
        said = (exported or counted) and (_TO.search(before) or (exported and counted))
        sure = said or _COPIES.search(before) or match["root"] in _OF_SERVERS
        return memory.host(name, everywhere=telling(name)) if sure else name

    return _REMOTE.sub(replaced, text)
