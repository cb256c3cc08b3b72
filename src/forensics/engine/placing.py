"""Ranks, hosts, attempts and times: every row and line of a run gets those that the evidence allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forensics.engine import (
    attempts,
    clocks,
    composed,
    hosts,
    identity,
    launched,
    named,
    order,
    scheduling,
    shifted_clocks,
)
from forensics.engine import kernel as joins
from forensics.engine import pods as kubernetes
from forensics.model import RunData
from forensics.signatures.schema import Signature


@dataclass(frozen=True, slots=True)
class Placed:
    """A run whose rows and lines have their ranks, hosts, attempts and times, and what these were told by."""

    data: RunData
    launches: attempts.Launches | None
    world: identity.World
    kernels: bool  # whether messages of a kernel are of it
    nodes: Mapping[int, str]  # rank -> host
    offsets: Mapping[str, clocks.Offset]  # host -> by what its times have been set right
    times: order.Timeline


def place(data: RunData, catalogue: Mapping[str, Signature]) -> Placed:
    """Tell ranks, hosts, attempts and clocks of a run from all of its files together."""
    data = composed.placed(launched.placed(named.confirmed(identity.number_attempts(data))))
    kernels = joins.concerns(data)
    data = joins.align(data) if kernels else data
    data = kubernetes.align(scheduling.settled(data))
    launches = attempts.find(data, catalogue)
    data = attempts.number(data, launches)
    data = joins.number_tasks(data) if kernels else data
    world = identity.know_world(data)
    if kernels:
        data = joins.place(data, world)
        world = identity.know_world(data)  # what is of other hosts is known by now
    data = identity.place_ranks(data, world)
    data = joins.in_zone_of_victims(data) if kernels else data
    world = identity.know_world(data)  # rows that bore a local rank have shown further ranks
    nodes = hosts.nodes_of_ranks(data, world)
    measured = clocks.measure(data, nodes) or shifted_clocks.by_spans(data, nodes, catalogue)
    offsets = clocks.known(data, measured, nodes)
    data = clocks.set_right(data, offsets, nodes)
    times = order.timeline(data, measured, offsets, clocks.hosts_of(data, nodes))
    return Placed(data, launches, world, kernels, nodes, offsets, times)
