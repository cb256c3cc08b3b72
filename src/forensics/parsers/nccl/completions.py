"""A failed transfer as the InfiniBand transport reports it: between whom, how, and whether it says anything.

Three spellings: "error 12, opcode 0, len 0, vendor err 129" (to 2.19), "status=12 opcode=129 len=65536 vendor err 129"
(to 2.27), "status=IBV_WC_RETRY_EXC_ERR(12) ... vendor_err=129" (from 2.28).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forensics.patterns import lazy

_COMPLETION = lazy(r"Got completion (?:from peer (?P<peer>\S+?)(?:<\d+>)? )?with (?P<rest>.*)", re.ASCII | re.DOTALL)
_STATUS = lazy(r"(?:status=(?:[\w ./-]{0,60}\()?|error )(?P<status>\d{1,3})", re.ASCII)
_VENDOR = lazy(r"vendor[ _]err[ =](?P<vendor>\d{1,10})", re.ASCII)
_REQUEST = lazy(r"(?:req_type=|vendor[ _]err[ =]\d+ \(?)(?P<request>Send|Recv|Flush|Unused|GIN)", re.ASCII | re.I)
_LOCAL = lazy(r"localGids? ?(?P<gid>[0-9a-fA-F:.]+)", re.ASCII)
_REMOTE = lazy(r"remoteGids? ?(?P<gid>[0-9a-fA-F:.]+)", re.ASCII)
_HCA = lazy(r"\bhca (?P<hca>[\w.-]+)", re.ASCII)

# ibv_wc_status of the InfiniBand verbs, and what it says about the two ends.
STATUS = {
    1: ("IBV_WC_LOC_LEN_ERR", "a message was longer than the buffer that waited for it"),
    2: ("IBV_WC_LOC_QP_OP_ERR", "this end's queue was set up wrongly"),
    4: ("IBV_WC_LOC_PROT_ERR", "the adapter may not touch the memory that it was given (GPUDirect, ACS, IOMMU)"),
    5: ("IBV_WC_WR_FLUSH_ERR", "the queue had failed before: look for the first completion with another status"),
    9: ("IBV_WC_REM_INV_REQ_ERR", "the far end refused the request"),
    10: ("IBV_WC_REM_ACCESS_ERR", "the far end's memory may not be touched: its process or its GPU is gone"),
    11: ("IBV_WC_REM_OP_ERR", "the far end could not carry it out: its process or its GPU failed"),
    12: ("IBV_WC_RETRY_EXC_ERR", "the far end never answered: the link, a switch, or the far host is down"),
    13: ("IBV_WC_RNR_RETRY_EXC_ERR", "the far end was there and never ready to receive: its process hangs"),
    21: ("IBV_WC_FATAL_ERR", "the adapter itself failed"),
    22: ("IBV_WC_RESP_TIMEOUT_ERR", "the far end did not answer in time"),
}


class Completion(NamedTuple):
    """Operation code and length are left out: where the status is not 0 they are not defined."""

    status: int
    peer: str | None
    vendor: int | None
    request: str | None  # "send" | "recv" | "flush"
    local_gid: str | None
    remote_gid: str | None
    adapter: str | None  # of this host: "mlx5_0"

    @property
    def text(self) -> str:
        """ "Status 12 (IBV_WC_RETRY_EXC_ERR): the far end never answered ...; from mlx5_0 to 10.0.1.9." """
        name, says = STATUS.get(self.status, ("", "the adapter gave up a transfer"))
        ends = [f"from {self.adapter}"] if self.adapter else []
        ends += [f"from {self.local_gid}"] if self.local_gid and not self.adapter else []
        far = self.peer or self.remote_gid
        ends += [f"to {far}"] if far else []
        ends += [f"({self.remote_gid})"] if self.remote_gid and far != self.remote_gid else []
        what = f" in a {self.request}" if self.request else ""
        vendor = f" (vendor code {self.vendor})" if self.vendor is not None else ""
        link = f"; the link {' '.join(ends)}" if ends else ""
        return f"Status {self.status}{f' ({name})' if name else ''}{what}{vendor}: {says}{link}."


def completion(message: str) -> Completion | None:
    """The failed transfer that a warning tells of; None for other messages, and where it bears no status."""
    if (m := _COMPLETION.search(message)) is None or (status := _STATUS.match(m["rest"])) is None:
        return None
    rest = m["rest"]

    def part(pattern: re.Pattern[str]) -> str | None:
        return found[1] if (found := pattern.search(rest)) is not None else None

    vendor, request = part(_VENDOR), part(_REQUEST)
    return Completion(
        int(status["status"]),
        m["peer"],
        None if vendor is None else int(vendor),
        None if request is None else request.lower(),
        part(_LOCAL),
        part(_REMOTE),
        part(_HCA),
    )
