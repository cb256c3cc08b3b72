"""Headers that safetensors found too large where a Git LFS pointer lies in the run: no file was damaged.

The first eight bytes of a pointer, read as the length of a header, are beyond the limit of the format; in a damaged
file they seldom are. The message names no file: it is taken for the pointer's where one bears the format's suffix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forensics.model import Observation, Source
from forensics.parsers.checkpoints import lfs
from forensics.parsers.checkpoints.damage import SIGNATURE, is_checkpoint_sign
from forensics.patterns import lazy

POINTER = "checkpoint-not-a-checkpoint"
WEIGHT = 0.95
# SafetensorError's HeaderTooLarge, by its name before safetensors 0.6 and in words since (safetensors/src/tensor.rs).
_TOO_LARGE = lazy(r"deserializing header: (?:HeaderTooLarge|header too large)")


def told(found: Sequence[Observation], sources: Sequence[Source]) -> list[Observation]:
    """The observations, with the failures that pointers explain under the name of that cause."""
    met = [o for o in found if o.signature == SIGNATURE and not is_checkpoint_sign(o) and _is_too_large(o)]
    if not met or not (pointers := [e for e in lfs.pointers(sources) if e.file.endswith(".safetensors")]):
        return list(found)
    named = {id(o) for o in met}
    note = f"{pointers[0].file} is a Git LFS pointer, and not the file of weights that it stands for"
    note += f"; {len(pointers) - 1} more beside it are" if len(pointers) > 1 else ""
    return [
        replace(o, signature=POINTER, weight=WEIGHT, rule=None, evidence=(*o.evidence, pointers[0]), note=note)
        if id(o) in named
        else o
        for o in found
    ]


def _is_too_large(o: Observation) -> bool:
    return any(_TOO_LARGE.search(e.text) for e in o.evidence)
