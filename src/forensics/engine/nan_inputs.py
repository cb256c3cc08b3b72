"""What programs warn of in their inputs: the cause of a loss that is NaN only where it was still finite then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.model import Observation
from forensics.signatures.schema import Signature

NAN_IN_DATA, NAN_LOSS = "nan-in-data", "nan-loss"


def told(found: Sequence[Observation], catalogue: Mapping[str, Signature]) -> list[Observation]:
    """The observations, less warnings of inputs that are not finite which come after the loss was not.

    A model whose weights are NaN hands such inputs to what it feeds. Only warnings that count for a loss near them,
    whoever logs it: an exception tells of a batch in its own right.
    """
    lost = [o for o in found if o.signature == NAN_LOSS]
    if not lost:
        return list(found)
    return [o for o in found if not (_is_warning(o, catalogue) and any(_after(o, loss) for loss in lost))]


def _is_warning(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    if o.signature != NAN_IN_DATA or o.rule is None:
        return False
    return catalogue[o.signature].evidence[o.rule].within == "log"


def _after(o: Observation, loss: Observation) -> bool:
    """Whether a warning comes after a loss: by their steps, by the lines of one log, or by the clock."""
    if (o.identity.attempt or 0) != (loss.identity.attempt or 0):
        return False
    if o.step is not None and loss.step is not None:
        return o.step > loss.step
    a, b = o.evidence[0], loss.evidence[0]
    if a.file == b.file and a.line is not None and b.line is not None:
        return a.line > b.line
    return o.timed and loss.timed and o.time is not None and loss.time is not None and o.time > loss.time
