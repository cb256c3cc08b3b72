"""Logs that are named after a host of which the run holds the kernel's log: `train-c11.log` beside what c11 logged."""

from __future__ import annotations

import re
from dataclasses import replace

from forensics.engine.identity import kernel_sources
from forensics.model import Identity, Kind, RunData


def of_logs(data: RunData) -> dict[str, Identity]:
    """Path -> identity of logs without a host whose names hold, as a word, one host alone that a kernel calls itself.

    A host's first label stands for all of its name. One without a digit (`login`, `train`) may be any word.
    """
    kernels = kernel_sources(data)
    hosts = {o.identity.node for o in data.observations if o.evidence[0].file in kernels and o.identity.node}
    labels = {host.partition(".")[0].lower(): host for host in hosts if re.search(r"[A-Za-z].*\d", host)}
    if not labels:
        return {}
    words = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, labels))})(?![a-z0-9])")
    found = {}
    for source in data.sources:
        if source.kind is not Kind.LOG or source.path in kernels or source.identity.node is not None:
            continue
        named = {labels[word] for word in words.findall(source.path.rpartition("/")[2].lower())}
        if len(named) == 1:
            found[source.path] = replace(source.identity, node=named.pop())
    return found
