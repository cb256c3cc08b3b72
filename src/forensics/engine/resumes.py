"""What checkpoint files tell about failures: they count where a process met them, and are context everywhere else.

A cut file in a run that trains is often one that is being written, or that was cut when the run's files were collected.
A state that a checkpoint lacks, or a wrapper's prefix in its names, is a choice of whoever saved it, until a load fails
by it or the metrics after the resume show it: then it supports that finding and names the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine.candidates import Candidate
from forensics.model import Fact, Observation, Traceback
from forensics.parsers.checkpoints.damage import (
    BEFORE,
    CUT,
    LOST,
    MISSING,
    NAME,
    POINTER,
    SAVE_CUT_SIGNATURE,
    SIGNATURE,
    STATE,
    is_checkpoint_sign,
)
from forensics.parsers.checkpoints.series import numbered

# What a process says when it cannot load a checkpoint, and the states of files that bear it out.
_BORNE_OUT = {
    SIGNATURE: (CUT,),
    "dcp-checkpoint-incomplete": (CUT, MISSING),
    "deepspeed-checkpoint-unusable": (CUT, MISSING),
    "dcp-rank-failed": (CUT, MISSING),
}
_ORDER = tuple(_BORNE_OUT)  # a report on a rank that failed says the least
# Code that reads checkpoints, by the end of its file's path.
_READERS = (
    "torch/serialization.py",
    "torch/_weights_only_unpickler.py",
    "safetensors/torch.py",
    "torch/distributed/checkpoint/filesystem.py",
    "torch/distributed/checkpoint/state_dict_loader.py",
)
_READING = ("load", "read", "open", "restore", "resume")
# A loader that finds no file where the pointer leads to (DeepSpeed's, Megatron's, and code that calls them).
_LOADS = re.compile(r"load_checkpoint|load_ckpt|load_state|load_base_checkpoint|check_ckpt_list", re.ASCII)
_FINDS_NONE = ("AssertionError", "FileNotFoundError", "ValueError", "IndexError", "RuntimeError", "OSError")
ALONE = 0.85  # a damaged file, and code that reads checkpoints raised an exception
MOST = 64
MET = "failed_to_load"
ENDS = ("failed", "hung", "interrupted")
AT_THE_END = 5  # steps that a run may record while a save is under way
NOT_FOUND = "resume-checkpoint-not-found"


def settle(
    found: Sequence[Observation], tracebacks: Sequence[Traceback], facts: Sequence[Fact] = ()
) -> list[Observation]:
    """Give what checkpoint files show to the failures that it explains.

    Signs of damage that explain none stay as they are, to be shown as context (`set_aside`).
    """
    settled = _damage(found, tracebacks)
    if any(f.name.startswith("checkpoint.") for f in facts):
        from forensics.engine import saved

        return saved.beside_findings(settled, facts)
    return settled


def _damage(found: Sequence[Observation], tracebacks: Sequence[Traceback]) -> list[Observation]:
    files = [o for o in found if is_checkpoint_sign(o)]
    if not files:
        return list(found)
    settled = [o for o in found if not is_checkpoint_sign(o)]
    said = sorted((o for o in settled if o.signature in _BORNE_OUT), key=lambda o: _ORDER.index(o.signature))
    raised = [t for t in tracebacks if t.chained != "ignored"]
    for file in files:
        if file.captures[STATE] == POINTER:
            settled += _pointer(file, settled, raised)
            continue
        borne_out = next((o for o in said if file.captures[STATE] in _BORNE_OUT[o.signature]), None)
        if borne_out is not None:
            settled.append(_at(file, borne_out, borne_out.signature))
            continue
        failures = [t for t in raised if _names(t, file) or (file.captures[STATE] == CUT and _read_by(t))]
        for t in failures[:MOST]:
            settled.append(replace(_at(file, t, SIGNATURE), weight=ALONE, evidence=(*file.evidence, t.final)))
        if not failures:
            settled.append(_cut_save(file) if BEFORE in file.captures else file)
    return settled


def _cut_save(file: Observation) -> Observation:
    earlier = file.captures[BEFORE]
    note = f"{earlier}, the save before, is whole, and can be resumed from; {file.note or file.captures[NAME]}"
    return replace(file, signature=SAVE_CUT_SIGNATURE, culprits=(), note=note)


def _pointer(file: Observation, said: Sequence[Observation], raised: Sequence[Traceback]) -> Sequence[Observation]:
    """What a pointer to a checkpoint that is not here explains: a load that named it, or that found nothing to load."""
    lost = file.captures[LOST]
    named = [t for t in raised if len(lost) >= 6 and lost in t.message]
    for t in (named or [t for t in raised if _found_nothing(t)])[:MOST]:
        return [replace(_at(file, t, file.signature), weight=ALONE, evidence=(t.final, *file.evidence))]
    for o in said if len(lost) >= 6 else ():
        if (o.signature in _BORNE_OUT or o.signature == NOT_FOUND) and any(lost in e.text for e in o.evidence):
            return [replace(_at(file, o, file.signature), weight=ALONE, evidence=(*o.evidence[:1], *file.evidence))]
    return [file]


def _found_nothing(t: Traceback) -> bool:
    return t.exception.rpartition(".")[2] in _FINDS_NONE and any(_LOADS.search(frame[2]) for frame in t.frames[-6:])


def _at(file: Observation, failure: Observation | Traceback, signature: str) -> Observation:
    """The sign of a file, at the place and time where a process met it."""
    return replace(
        file,
        signature=signature,
        identity=failure.identity,
        time=failure.time,
        zone_known=failure.zone_known,
        timed=failure.timed,
        captures={**file.captures, MET: "yes"},
    )


def _names(t: Traceback, file: Observation) -> bool:
    """Whether an exception's message names the file, or one that is missing, by a name long enough to mean no other."""
    names = [file.captures[NAME].rpartition("/")[2], *file.captures.get(LOST, "").split()]
    return any(len(name) >= 6 and name in t.message for name in names)


def _read_by(t: Traceback) -> bool:
    return any(
        frame[0].replace("\\", "/").endswith(_READERS) and any(word in frame[2].lower() for word in _READING)
        for frame in t.frames
    )


def set_aside(candidates: Sequence[Candidate]) -> None:
    """Make damaged files that no process failed to load context."""
    for c in candidates:
        if all(is_checkpoint_sign(o) and MET not in o.captures for o in c.observations):
            missing = all(o.captures[STATE] in (MISSING, POINTER) for o in c.observations)
            # Those who collect a run's traces seldom take all weights along.
            why = "the rest may not have been copied along" if missing else "it may be half written, or half copied"
            c.context = f"no process says that it failed to load it: {why}"


def interrupted(candidates: Sequence[Candidate], linked: list[Candidate], reached: Mapping[int, int]) -> None:
    """Let what ended the run explain a newest checkpoint that is cut off, where training had come no further than it.

    Where training went on for longer than a save that runs beside it takes, something else cut the file, or its copy.
    reached: attempt -> the last step that it recorded.
    """
    ends = [c for c in linked if c.explained_by is None and c.signature.verdict in ENDS and c.signature.kind != "echo"]
    if not ends:
        return
    last = max(c.attempt for c in ends)
    end = next(c for c in ends if c.attempt == last)
    for c in candidates:
        if c.signature.name != SAVE_CUT_SIGNATURE or c.context is None or last not in reached:
            continue
        steps = [numbered(o.captures[NAME])[1][-1] for o in c.observations]
        if all(abs(reached[last] - step) <= AT_THE_END for step in steps):
            c.context, c.explained_by = None, end
            end.explains.append(c)
            key = end.key
            said = ". ".join(filter(None, (key.note, c.observations[0].note)))
            end.observations[end.observations.index(key)] = replace(key, note=said)
            linked.append(c)
