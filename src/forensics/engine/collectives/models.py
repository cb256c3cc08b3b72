"""Whose model differs, where DDP compared the number of parameters over the ranks.

Each rank names itself and the first one that does not agree with it (`verify_params_across_processes` in
torch/csrc/distributed/c10d/reducer.cpp), so that the rank with another model stands in the words of all others. What
most ranks have is what was meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from forensics.model import Observation

SIGNATURE = "model-mismatch-across-ranks"


def told(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with those of DDP's comparison blaming the ranks that differ from most of the ranks named."""
    compared = [o for o in observations if o.signature == SIGNATURE and _counts(o)]
    counts = {rank: count for o in compared for rank, count in _counts(o).items()}
    (usual, most), *_ = Counter(counts.values()).most_common(1) or [(0, 0)]
    odd = tuple(sorted(rank for rank, count in counts.items() if count != usual))
    if not odd or most <= len(odd):
        return list(observations)
    which = "rank" if len(odd) == 1 else "ranks"
    named = ", ".join(f"{rank} ({counts[rank]:,})" for rank in odd)
    note = f"most of the {len(counts)} ranks that are named have {usual:,} parameters, other than {which} {named}"
    blamed = {id(o) for o in compared}
    return [replace(o, culprits=odd, note=o.note or note) if id(o) in blamed else o for o in observations]


def _counts(o: Observation) -> dict[int, int]:
    """Rank -> number of its parameters, as one message says."""
    told = o.captures
    if not all(told.get(name, "").isdecimal() for name in ("rank_a", "n_a", "rank_b", "n_b")):
        return {}
    return {int(told["rank_a"]): int(told["n_a"]), int(told["rank_b"]): int(told["n_b"])}
