"""A failed transfer as libfabric's EFA provider reports it: which instances are its ends, and what it says of them.

The provider completes its messages with both ends (prov/efa/src/rdm/efa_rdm_error.c), in its own log and in what
aws-ofi-nccl prints: "Unresponsive receiver (reachable by EFA device but handshake failed) My EFA addr:
fi_addr_efa://[fe80::1]:0:1 My host id: i-0123 Peer EFA addr: fi_addr_efa://[fe80::2]:0:2 Peer host id: i-4567". An id
that it does not know is "N/A".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forensics.patterns import lazy

_ENDS = lazy(
    r"My EFA addr: (?P<address>\S{1,100}) My host id: (?P<own>\S{1,40}) "
    r"Peer EFA addr: (?P<peer_address>\S{1,100}) Peer host id: (?P<peer>[\w/-]{1,40})",
    re.ASCII | re.I,
)
_SAYS = (
    ("was previously responsive", "the far end answered before, and no longer does: its process or its host is gone"),
    (
        "connection previously established",
        "the far end answered before, and no longer does: its process or its host is gone",
    ),
    (
        "handshake failed",
        "the far end's adapter is there, but its process never answered: it had ended, or the security group does not "
        "let all traffic to and from itself pass in both directions",
    ),
    (
        "Unreachable remote",
        "the far end never answered: the security group has to let all traffic to and from itself pass in both "
        "directions, and both instances have to be in one subnet's reach",
    ),
)


class Failed(NamedTuple):
    """The ends of a transfer that failed: instance ids, where the provider knows them, and addresses."""

    own: str | None
    peer: str | None
    address: str
    peer_address: str
    says: str | None  # what the error says of the two ends

    @property
    def text(self) -> str:
        """ "The transfer was to instance i-4567 (fi_addr_efa://[fe80::2]:0:2): the far end answered before, ..." """
        whom = f"instance {self.peer} ({self.peer_address})" if self.peer else self.peer_address
        return f"The transfer was to {whom}" + (f": {self.says}" if self.says else "") + "."


def failed(message: str) -> Failed | None:
    """The ends that a message of the provider names; None where it names none."""
    if (m := _ENDS.search(message)) is None:
        return None
    own, peer = (None if m[name].upper() == "N/A" else m[name] for name in ("own", "peer"))
    says = next((words for mark, words in _SAYS if mark in message), None)
    return Failed(own, peer, m["address"], m["peer_address"], says)
