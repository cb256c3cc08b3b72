"""What the checkpoints of a run hold, put beside the findings that it explains.

A state that a checkpoint lacks, or a wrapper's prefix in its names, is a choice of whoever saved it, until a load fails
by it or the metrics after the resume show it: then it supports that finding and names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forensics.model import Evidence, Fact, Observation
from forensics.parsers.checkpoints.states import STATES
from forensics.parsers.checkpoints.units import Unit, at_or_before, units

SUPPORT = 0.6  # what a checkpoint holds, beside a finding that it explains
CHECKPOINT = "checkpoint"  # capture: the path of the checkpoint that an observation is about
# The state whose absence in a checkpoint explains what was seen after the resume (parsers.checkpoints.states.STATES),
# and the state that must be there for the checkpoint to be one that a run is resumed from.
_LACKS = {
    "lr-schedule-reset-on-resume": ("scheduler", "optimizer"),
    "epoch-restart-on-resume": ("epoch", "step"),
    "ema-lost-on-resume": ("ema", "model"),
    "resume-rng-not-restored": ("rng", "optimizer"),
    "resume-weights-not-restored": ("model", "optimizer"),
}
_PREFIXES = {
    "state-dict-prefix-module": ("module.",),
    "state-dict-prefix-orig-mod": ("_orig_mod.",),
    "state-dict-prefix-wrapper": ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module."),
    "resume-weights-not-restored": ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module."),
    "state-dict-key-mismatch": (
        "module.",
        "_orig_mod.",
        "_fsdp_wrapped_module.",
        "_checkpoint_wrapped_module.",
        "_forward_module.",
    ),
}
# What values that are not finite in a checkpoint bear out.
_NONFINITE = ("nan-loss", "nan-gradients", "nan-in-backward", "grad-scaler-collapse")
NONFINITE_SIGNATURE = "checkpoint-nonfinite"
NAMES_SIGNATURE, LACKING_SIGNATURE = "checkpoint-names-differ", "checkpoint-without-optimizer"
RESUMED = "run-resumed"


def beside_findings(found: Sequence[Observation], facts: Sequence[Fact]) -> list[Observation]:
    """The observations, with those that the facts about checkpoint files add to them."""
    listed = units(facts)
    settled = _values(found, listed)
    settled += list(_contents(settled, listed))
    return [*settled, *_differing(listed), *_without_optimizer(settled, listed)]


def _beside(seen: Observation, evidence: Sequence[Evidence], note: str, path: str) -> Observation:
    """What a checkpoint tells, as one more sign of what was seen."""
    return replace(
        seen,
        weight=min(SUPPORT, seen.weight),
        evidence=tuple(evidence),
        note=note,
        rule=None,
        count=1,
        captures={**seen.captures, CHECKPOINT: path},
    )


def _values(found: Sequence[Observation], listed: Sequence[Unit]) -> list[Observation]:
    """Give checkpoints with NaN to what was seen of NaN in the run, and say which checkpoint is still finite."""
    signs = [o for o in found if o.signature == NONFINITE_SIGNATURE]
    settled = [o for o in found if o.signature != NONFINITE_SIGNATURE]
    seen = min(
        (o for o in settled if o.signature in _NONFINITE),
        key=lambda o: (_NONFINITE.index(o.signature), -o.weight, o.step or 0),
        default=None,
    )
    if seen is None:
        return list(found)
    for sign in signs:
        note = sign.note or ""
        if sign.step is not None and seen.step is not None and sign.step < seen.step:
            note = f"already before step {seen.step}: {note}"
        settled.append(_beside(seen, sign.evidence, note, sign.captures.get(CHECKPOINT, "")))
    if not signs and (last := at_or_before([u for u in listed if u.step is not None and u.finite], seen.step)):
        text = f"all values of {last.path} are finite"
        note = f"{text}: the run can go on from step {last.step}, once the reason is found"
        settled.append(_beside(seen, [Evidence(last.files[0], None, None, text)], note, last.path))
    return settled


def _contents(found: Sequence[Observation], listed: Sequence[Unit]) -> Iterator[Observation]:
    """What checkpoints lack, or how they name their parameters, beside the findings that this explains."""
    told: set[str] = set()
    for o in found:
        if o.signature in told:
            continue
        if (needs := _LACKS.get(o.signature)) is not None:
            lacking, present = needs
            unit = at_or_before([u for u in listed if present in u.holds and (present != "step" or u.counted)], o.step)
            if unit is not None and unit.whole and lacking not in unit.holds:
                told.add(o.signature)
                text = f"{unit.path} holds {_holds(unit)} and no state of {_CALLED[lacking]}"
                yield _beside(o, [Evidence(unit.files[0], None, None, text)], text, unit.path)
        wanted = _PREFIXES.get(o.signature, ())
        named: list[Unit] = [u for u in listed if any(u.prefixes.get(p) for p in wanted)]
        if o.signature == "resume-weights-not-restored":
            chosen = at_or_before(listed, o.step)
            named = [chosen] if chosen is not None and chosen in named else []
        if named and o.signature not in told:
            told.add(o.signature)
            for unit in named[:2]:
                text = f"in {unit.path} {_prefixed(unit, wanted)}"
                yield _beside(o, [Evidence(unit.files[0], None, None, text)], text, unit.path)


_CALLED = {
    "scheduler": "a learning rate scheduler",
    "epoch": "the epoch",
    "ema": "averaged weights",
    "rng": "random generators",
    "model": "the model",
    "optimizer": "an optimizer",
}


def _holds(unit: Unit) -> str:
    return ", ".join(state for state in STATES if state in unit.holds)


def _prefixed(unit: Unit, wanted: Sequence[str]) -> str:
    parts = [
        f"{unit.prefixes[p]:,} of {unit.parameters:,} parameter names bear {p!r}"
        for p in wanted
        if unit.prefixes.get(p)
    ]
    return ", ".join(parts)


def _differing(listed: Sequence[Unit]) -> Iterator[Observation]:
    """Checkpoints of one model whose parameters bear a wrapper's prefix in one and not in the other."""
    for prefix in ("module.", "_orig_mod."):
        models = [u for u in listed if u.parameters and u.whole and u.names]
        with_it = [u for u in models if u.prefixes.get(prefix) == u.parameters]
        for bearing in with_it[:1]:
            without = next((u for u in models if u.names & bearing.names and not u.prefixes.get(prefix)), None)
            if without is None:
                continue
            texts = [
                Evidence(bearing.files[0], None, None, f"in {bearing.path} {_prefixed(bearing, (prefix,))}"),
                Evidence(without.files[0], None, None, f"in {without.path} none bears {prefix!r}"),
            ]
            yield Observation(
                signature=NAMES_SIGNATURE,
                weight=0.9,
                evidence=tuple(texts),
                culprits=(),
                captures={CHECKPOINT: bearing.path, "prefix": prefix},
                note=f"{texts[0].text}; {texts[1].text}",
            )


def _without_optimizer(found: Sequence[Observation], listed: Sequence[Unit]) -> Iterator[Observation]:
    """The checkpoint that a run went on from holds weights alone."""
    for o in found:
        if o.signature != RESUMED or o.step is None:
            continue
        unit = at_or_before(listed, o.step)
        if unit is None or unit.step != o.step or not unit.whole or unit.holds - {"model", "step", "epoch", "ema"}:
            continue
        if "model" in unit.holds:
            text = f"{unit.path} holds {_holds(unit)} and no state of an optimizer"
            yield replace(
                o,
                signature=LACKING_SIGNATURE,
                evidence=(Evidence(unit.files[0], None, None, text), *o.evidence),
                note=text,
                rule=None,
                captures={CHECKPOINT: unit.path},
            )
            return
