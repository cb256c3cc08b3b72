"""Checkpoints: whether they are whole, what they hold, and (asked for) whether their values are finite.

Nothing is ever unpickled: pickles are followed opcode by opcode (`opcodes`), and no class of theirs is looked up.
"""

from forensics.parsers.checkpoints.damage import (
    CUT,
    LEFT_OVER,
    MISSING,
    NAME,
    SIGNATURE,
    STATE,
    Damage,
    is_checkpoint_sign,
    observation,
)
from forensics.parsers.checkpoints.folders import check_folders
from forensics.parsers.checkpoints.integrity import check, check_stream

__all__ = [
    "CUT",
    "LEFT_OVER",
    "MISSING",
    "NAME",
    "SIGNATURE",
    "STATE",
    "Damage",
    "check",
    "check_folders",
    "check_stream",
    "is_checkpoint_sign",
    "observation",
]
