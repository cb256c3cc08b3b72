"""A process that was ended while it wrote a checkpoint: what the next attempt fails to read follows from that.

A time limit and a preemption are context where the run was started again, as it is meant to be. Where the last line
before the end says that a save began, and the next attempt finds the checkpoint damaged, they are the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.above import lines_above
from forensics.model import Kind, Observation, Source
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

DAMAGED = frozenset({"checkpoint-corrupt", "dcp-checkpoint-incomplete", "deepspeed-checkpoint-unusable"})
KILLS = frozenset({"sigkill-unknown-sender", "host-oom", "host-oom-cgroup", "node-failure"})
SAVING = "saving"  # capture: the line that says that a save began
BEFORE = 4096  # bytes above the end that are read
LINES = 4  # between the beginning of a save and the end, such as warnings and other processes' words on the stop
# "saving checkpoint at iteration 1000 to ..." (Megatron-LM), "Saving model checkpoint to ..." (HF Trainer), "Saving the
# checkpoint" (torchtitan), "[Torch] Saving .../mp_rank_00_model_states.pt..." (DeepSpeed), and what programs say.
_BEGINS = lazy(r"(?i)\b(?:saving|writing|dumping)\b.{0,60}(?:checkpoint|ckpt|model|state|snapshot|\.(?:pt|pth|bin)\b)")
_OVER = lazy(r"(?i)\b(?:saved|wrote|written|finished|complete[ds]?|done|success\w*|took)\b")
_STEP = lazy(r"(?i)\bstep\b|\biter(?:ation)?\b|\bloss\b")
_PATH = re.compile(r"(?:(?<=[\s'\"=(])|^)(?:[a-z0-9]{2,6}:/)?/[^\s'\"]+")
NOTE = "It came while a checkpoint was being written: {text}"


def told(
    found: Sequence[Observation], sources: Iterable[Source], catalogue: Mapping[str, Signature]
) -> list[Observation]:
    """Observations of which those that ended a process in the middle of a save bear the line on that save."""
    if not any(o.signature in DAMAGED for o in found):
        return list(found)
    logs = {s.path: s for s in sources if s.kind is Kind.LOG and s.gap is None}
    return [_with_save(o, logs.get(o.evidence[0].file)) if _ends(o, catalogue) else o for o in found]


def _ends(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    signature = catalogue.get(o.signature)
    return signature is not None and (signature.verdict == "interrupted" or o.signature in KILLS)


def _with_save(o: Observation, source: Source | None) -> Observation:
    at = o.evidence[0].offset
    text = _begun(source, at) if source is not None and at is not None else None
    if text is None:
        return o
    note = NOTE.format(text=text)
    return replace(o, captures={**o.captures, SAVING: text}, note=f"{o.note}. {note}" if o.note else note)


def _begun(source: Source, offset: int) -> str | None:
    """The line close above an offset that says that a save began, where none says that it was over."""
    for line in reversed(lines_above(source, offset, BEFORE)[-LINES:]):
        if _BEGINS.search(line):
            return line[:200]
        if _OVER.search(line) or _STEP.search(line):
            return None
    return None


def revive(found: Sequence[Candidate]) -> list[tuple[Candidate, Candidate]]:
    """(end, damage) for each checkpoint that was damaged by the end of an earlier attempt, which is no context then."""
    pairs = []
    for damage in found:
        if damage.signature.name not in DAMAGED or damage.context is not None:
            continue
        ends = [c for c in found if c.attempt < damage.attempt and c.captured(SAVING)]
        end = max((c for c in ends if _same_checkpoint(c, damage, found)), key=lambda c: c.attempt, default=None)
        if end is not None:
            end.context = None
            pairs.append((end, damage))
    return pairs


def _same_checkpoint(end: Candidate, damage: Candidate, found: Sequence[Candidate]) -> bool:
    """Whether no numbers in the paths say that another checkpoint was damaged than the one whose save was cut off."""
    resumed = [c for c in found if c.signature.name == "run-resumed" and c.attempt == damage.attempt]
    read = {n for c in (damage, *resumed) for o in c.observations for n in _numbers(o.evidence[0].text)}
    written = {n for o in end.observations for n in _numbers(o.captures.get(SAVING, ""))}
    return not (read - written and written - read)


def _numbers(text: str) -> set[int]:
    """The numbers in the absolute paths and addresses of a line, such as 990 of /ckpt/step_990/model.pt."""
    return {int(n) for path in _PATH.findall(text) for n in re.findall(r"\d{1,18}", path)}
