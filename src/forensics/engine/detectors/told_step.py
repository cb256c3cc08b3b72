"""A run that says at which step it resumes, and counts from its first step again (C12).

For runs of which no earlier record is left, or whose learning rate and epochs tell nothing: `counter_restart` compares
two records, and knows more. Here the program's own words are enough, so they have to be plain: "resuming", a step, and
records that count on from 1 without an epoch whose batches they could be.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "lr", "grad_norm")
_TOTAL = "total_steps"
SAYS_SO = re.compile(r"(?i)\b(?:resum(?:e|es|ed|ing)|continu(?:e|es|ed|ing))\b")
# Weights of another run, and counters that are meant to begin anew.
BY_DESIGN = re.compile(r"(?i)pre-?train|fine-?tun|\bstage|\bphase|warm-?start|\breset|\bfold\b")
# Steps that may be the batches of an epoch.
_OF_AN_EPOCH = re.compile(r"(?i)\bbatch(?:es)?\b|\bskip|\bepoch\b")


def told_step(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 10, ahead: int = 10
) -> tuple[Observation, ...]:
    """A line says that the run resumes at some step, and the records below it begin with the first one.

    records: the fewest below the line, all of them onwards; a shorter record could be a phase of its own.
    ahead: intervals between records that the step which was told must be ahead of the first record.
    Not where the records say that they count to less than the step which was told: those are the batches of an epoch.
    """
    told = [
        o
        for o in observations
        if o.signature == "run-resumed"
        and o.evidence[0].line is not None
        and o.captures.get("step", "").isdecimal()
        and SAYS_SO.search(o.evidence[0].text)
        and not BY_DESIGN.search(o.evidence[0].text)
        and not _OF_AN_EPOCH.search(o.evidence[0].text)
    ]
    if not told:
        return ()
    signs: list[Sign] = []
    ends = {(s.source, s.rank): s.column(_TOTAL) for s in streams(metrics, (_TOTAL,))} if has(metrics, _TOTAL) else {}
    for stream in streams(metrics, _NAMES):
        if stream.binary or "loss" not in stream.columns or stream.names & RL_NAMES:
            continue
        last = max((v for v in ends.get((stream.source, stream.rank), ()) if v is not None), default=math.inf)
        marks = [
            o
            for o in told
            if o.evidence[0].file == stream.source and is_of(o, stream) and int(o.captures["step"]) <= last
        ]
        signs += [sign for mark in marks if (sign := _look(stream, mark, marks, records, ahead)) is not None]
    return merge(signs, [sign.stream for sign in signs], ())


def is_of(mark: Observation, stream: Stream) -> bool:
    """Whether a line may be of the process that wrote a record."""
    return stream.rank is None or mark.identity.rank is None or stream.rank == mark.identity.rank


def _look(stream: Stream, mark: Observation, marks: Sequence[Observation], records: int, ahead: int) -> Sign | None:
    line, step = mark.evidence[0].line or 0, int(mark.captures["step"])
    end = min((o.evidence[0].line or 0 for o in marks if (o.evidence[0].line or 0) > line), default=math.inf)
    below = [
        i
        for i, (n, s, loss) in enumerate(zip(stream.lines, stream.steps, stream.column("loss"), strict=True))
        if n is not None and line < n < end and s is not None and loss is not None
    ]
    if len(below) < records or any(stream.epochs[i] is not None for i in below):
        return None
    steps = [s for i in below if (s := stream.steps[i]) is not None]
    gap = max(1, round(median(b - a for a, b in itertools.pairwise(steps))))
    onwards = all(map(operator.lt, steps, steps[1:]))
    if not onwards or steps[0] > gap or step < ahead * gap + steps[0]:
        return None
    at = below[0]
    note = (
        f"the run says that it resumes at step {step}, and its next record is of step {steps[0]}"
        f" (loss {number(stream.column('loss')[at] or 0.0)}), from which it counts on"
    )
    return Sign(stream, at, (stream.evidence(at, *_NAMES), mark.evidence[0]), note, "loss")
