"""By which signatures ranks tell that a peer is gone: one list for each question that is asked of them."""

from __future__ import annotations

# What a rank says whose NCCL met an error at another's end: an error of the system may be the rank's own as well. Where
# ranks had given up a wait before, by which the run is torn down, it is the effect of that.
LOST_PEER = frozenset({"nccl-remote-error", "nccl-system-error"})
# Of NCCL, gloo and the store what is surely of a peer that is gone.
GONE = frozenset({"nccl-remote-error", "gloo-connection-closed", "nccl-peer-closed", "store-connection-lost"})
# What torch raises in a process whose NCCL has met an error, whoever's that is.
NCCL_ENDS = frozenset({"nccl-remote-error", "nccl-system-error", "nccl-internal-error", "nccl-watchdog-abort"})
# What a rank says when another one does not come, or is gone.
MISSED = frozenset({"nccl-remote-error", "nccl-watchdog-abort", "gloo-connection-closed", "collective-timeout"})
