"""What is wrong with a checkpoint file, and the sign that it is."""

from __future__ import annotations

from typing import NamedTuple

from forensics.model import Evidence, Observation, Source

SIGNATURE = "checkpoint-corrupt"
STATE, NAME, LOST = "checkpoint_state", "checkpoint_file", "missing_files"  # captures of the observations made here
POINTER_SIGNATURE = "checkpoint-latest-dangling"
SAVE_CUT_SIGNATURE = "checkpoint-save-cut"
BEFORE = "whole_before"  # capture: the file of the save before, where the newest one is cut off
CUT, MISSING, LEFT_OVER, POINTER = "cut", "missing", "left-over", "pointer"
WEIGHT = 0.6  # a hint until a process says that it could not load the file


class Damage(NamedTuple):
    """What is wrong with one checkpoint file, in words that hold the numbers."""

    state: str  # CUT: provably not whole; MISSING: it names files that are not here; LEFT_OVER: a save did not finish;
    # POINTER: it names the checkpoint to resume from, which is not here
    text: str
    names: tuple[str, ...] = ()  # of files that are missing or short, as an exception would name them


def observation(source: Source, damage: Damage) -> Observation:
    """The sign that a damaged checkpoint is; what it means for the run is decided where failures to load are known."""
    return Observation(
        signature=POINTER_SIGNATURE if damage.state == POINTER else SIGNATURE,
        weight=WEIGHT,
        evidence=(Evidence(source.path, None, None, damage.text),),
        captures={STATE: damage.state, NAME: source.path} | ({LOST: " ".join(damage.names)} if damage.names else {}),
        note=f"{source.path}: {damage.text}",
    )


def is_checkpoint_sign(o: Observation) -> bool:
    """Whether an observation was made from a checkpoint file and not from what a process said."""
    return STATE in o.captures
