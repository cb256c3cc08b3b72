"""Kills that a kernel and a launcher tell of under two numbers: a container counts its processes from 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.kernel.relevance import TRAINING, of_a_host

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

# Control groups as Kubernetes, containerd, CRI-O, Docker, Podman and LXC name those of their containers.
_OF_CONTAINERS = re.compile(r"kubepods|cri-containerd|crio-|docker[-/]|libpod|lxc[./]|containerd")
_WORKERS = "pt_"  # how PyTorch calls the processes of a DataLoader, whose end is not that of their rank


def same_kill(c: Candidate, killed: Sequence[Candidate]) -> bool:
    """Whether the one process that a kernel says it killed is the one that a launcher saw killed, by another number.

    The kernel's number is the host's, and the launcher's one that containers count up to: nothing but the number sets
    them apart. On a host without containers two numbers are two processes.
    """
    pids = {o.captures["pid"] for o in c.observations if "pid" in o.captures}
    theirs = {o.captures["pid"] for e in killed for o in e.observations if "pid" in o.captures}
    names = {o.captures["process"] for o in c.observations if "process" in o.captures}
    if len(pids) != 1 or len(theirs) != 1 or not names:
        return False
    if any(not TRAINING.match(name) or name.startswith(_WORKERS) for name in names):
        return False
    if any(map(of_a_host, theirs)):
        return False
    if any(map(of_a_host, pids)):
        return True
    groups = (o.captures.get(name, "") for o in c.observations for name in ("cgroup", "unit"))
    return any(map(_OF_CONTAINERS.search, groups))
