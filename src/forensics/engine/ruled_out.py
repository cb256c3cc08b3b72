"""What else it could have been: look-alikes of the first root, with the line that speaks against each.

A look-alike is ruled out by a line: the root's own, where what it says tells the two apart; or the look-alike's, where
that is there and did no harm. These come first, and what only the logs' silence speaks against comes last. What stands
among the findings, as another root or as what follows from one, did happen and is not ruled out. Where a look-alike
would show in a kind of file that the run does not hold, nothing rules it out, and that file is missing evidence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from forensics.engine.candidates import Candidate
from forensics.engine.kernel import FACT as KERNEL_LOG
from forensics.model import MissingEvidence, RuledOut, RunData
from forensics.signatures.schema import Signature

MOST = 5  # look-alikes that a report names
UNSAID = 3  # of these, such as nothing but silence speaks against
_COMPARES_RANKS = re.compile(r"\branks?\b")
# Detectors that compare the numbers of ranks, and the one that needs no other rank to show the same.
_OF_SEVERAL, _OF_ONE = frozenset({"nan_one_rank_first"}), "nonfinite_module"
_WATCH = 'forensics.probe with sentinel="full" names the model\'s input, or the module, that was the first not finite'


class Witness(StrEnum):
    """Where a signature shows itself."""

    LOGS = "the logs"
    KERNEL = "a kernel log"
    METRICS = "numbers of the training"
    COLLECTIVES = "Flight Recorder dumps"


_HOW = {
    Witness.KERNEL: "dmesg -T > dmesg.txt (or journalctl -k) on that host, beside the logs",
    Witness.METRICS: "print loss, gradient norm and loss scale at every step, or keep the TensorBoard files",
    Witness.COLLECTIVES: (
        "TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before torch 2.8) and TORCH_NCCL_DUMP_ON_TIMEOUT=1, "
        "and keep the dumps"
    ),
}
# What a signature's own list of missing evidence says where it asks for such a file already.
_ASKED = {Witness.KERNEL: "dmesg", Witness.COLLECTIVES: "TORCH_NCCL_DUMP_ON_TIMEOUT"}
# What the kernel alone prints; a scheduler may repeat some of it.
_OF_THE_KERNEL = frozenset({"host-oom", "host-oom-cgroup", "task-blocked-in-kernel", "host-hardware-error"})


def witness(signature: Signature) -> Witness:
    """Where a signature shows itself at all; the logs, where it has several ways."""
    sources = {rule.source for rule in signature.evidence}
    if sources == {"metrics"}:
        return Witness.METRICS
    if sources == {"collectives"}:
        return Witness.COLLECTIVES
    patterns = [rule.pattern or "" for rule in signature.evidence if rule.source == "log"]
    of_driver = bool(patterns) and all("NVRM" in p or "Xid" in p for p in patterns)
    return Witness.KERNEL if signature.name in _OF_THE_KERNEL or of_driver else Witness.LOGS


def _read(data: RunData) -> Mapping[Witness, str]:
    """The kinds of evidence that the run holds, each with what was read of it."""
    held = {Witness.LOGS: ""}
    kernel = [fact.source for fact in data.facts if fact.name == KERNEL_LOG]
    if kernel:
        held[Witness.KERNEL] = f"{kernel[0]} was read, and holds no line of it"
    if data.metrics.height:
        held[Witness.METRICS] = f"{data.metrics.height:,} numbers were read, and do not show it"
    if data.collectives.height:
        held[Witness.COLLECTIVES] = f"{data.collectives.height:,} recorded collectives were read, and do not show it"
    return held


def ruled_out(
    first: Candidate,
    found: Sequence[Candidate],
    standing: Collection[str],
    data: RunData,
    catalogue: Mapping[str, Signature],
) -> tuple[tuple[RuledOut, ...], tuple[MissingEvidence, ...]]:
    """(look-alikes of the first root that a line rules out, evidence that would show or rule out the others).

    standing: names of what stands as a root or follows from one.
    """
    ruled: list[RuledOut] = []  # by a line of their own, or by a kind of evidence that was read for them
    unsaid: list[RuledOut] = []
    missing: list[MissingEvidence] = []
    held = _read(data)
    for look in first.signature.lookalikes:
        if look.name in standing:
            continue
        seen = [c for c in found if c.signature.name == look.name]
        if seen:
            ruled += [_harmless(c) for c in seen if c.context is not None][:1]
            continue
        signature = catalogue.get(look.name)
        where = witness(signature) if signature is not None else Witness.LOGS
        if signature is not None and _asks_other_ranks(signature, look.tell) and not _has_several_ranks(data):
            if any(rule.detector == _OF_ONE for rule in signature.evidence):
                missing.append(MissingEvidence(f"what the model was given, which would show {look.name}", _WATCH))
        elif where in held:
            told, group = (held[where], ruled) if held[where] else ("it is not seen here", unsaid)
            group.append(RuledOut(look.name, f"{told}. What tells it apart: {look.tell}", first.key.evidence[:1]))
        elif not any(where in _ASKED and _ASKED[where] in item for item in first.signature.confirm):
            missing.append(MissingEvidence(f"{where.value}, which would show {look.name}: {look.tell}", _HOW[where]))
    return tuple([*ruled, *unsaid[:UNSAID]][:MOST]), tuple(missing[:2])


def _asks_other_ranks(signature: Signature, tell: str) -> bool:
    detectors = {rule.detector for rule in signature.evidence}
    return _COMPARES_RANKS.search(tell) is not None and not detectors.isdisjoint(_OF_SEVERAL)


def _has_several_ranks(data: RunData) -> bool:
    """Whether numbers of more than one rank are there to be compared."""
    return bool(data.metrics.height) and data.metrics["rank"].drop_nulls().n_unique() > 1


def _harmless(candidate: Candidate) -> RuledOut:
    """Why a look-alike that shows itself is not the cause."""
    return RuledOut(candidate.signature.name, f"its line is there; {candidate.context}", candidate.key.evidence[:1])
