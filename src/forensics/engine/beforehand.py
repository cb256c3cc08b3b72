"""What a run suffered from before it ended of something: a pace that was lost, memory that crept up.

Such a shape may have led to the end (memory that creeps ends in an OOM) or have nothing to do with it. The end is what
the run has to be told of; the shape is shown beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

AREA = "performance"


def set_aside(live: Sequence[Candidate], ends_a_run: Collection[str]) -> None:
    """Make signatures of AREA context in an attempt that ended of a cause, symptom or echo that ends runs.

    ends_a_run: the verdicts of those.
    """
    ended = {c.attempt for c in live if c.context is None and c.signature.verdict in ends_a_run}
    for c in live:
        if c.context is None and c.signature.area == AREA and c.attempt in ended:
            c.context = "the run ended of something else afterwards, which this may have led to"
