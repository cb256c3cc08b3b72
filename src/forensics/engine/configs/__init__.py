"""Configuration checks: signatures that show in what files state, and not in what a process prints.

A check is a function `(view, **parameters) -> Iterator[Sign]`; its docstring says what it finds. Signature files name
checks:

    [[evidence]]
    source = "file"
    detector = "deepspeed_batch"
    weight = 0.55

A setting proves nothing by itself. Where a log or a metric shows what the signature lists under `causes`, the setting
becomes evidence of that finding. Elsewhere it is a hint (the run is suspect at most, and only where nothing else went
wrong), context, or nothing, as the check says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from forensics.engine.configs.view import CONTEXT, ROOT, SUPPORT, Sign, View
from forensics.model import Evidence, Fact, Observation, RunData
from forensics.signatures.schema import Signature, SignatureError

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

MOST = 8  # signs of one rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Observation):
    """An observation made from what a file states. alone: what it is where nothing shows its effect (view.Sign)."""

    alone: str = CONTEXT


def run_checks(
    catalogue: Mapping[str, Signature], data: RunData, world_size: int | None = None
) -> tuple[Observation, ...]:
    """The observations of every `file` rule of the catalogue that names a check of the registry.

    Raises SignatureError where a rule gives a check parameters that it does not have.
    """
    if not data.facts:
        return ()
    from forensics.engine.configs.registry import REGISTRY

    view = View(data.facts, {s.path: s for s in data.sources}, world_size, _maxima(data))
    found = []
    for signature in catalogue.values():
        for index, rule in enumerate(signature.evidence):
            check = REGISTRY.get(rule.detector or "") if rule.source == "file" else None
            if check is None:
                continue
            try:
                signs = list(islice(check(view, **rule.parameters), MOST))
            except TypeError as error:
                raise SignatureError(f"{signature.file}: {rule.detector}: {error}") from error
            found += [_observation(signature.name, sign, rule.weight, index) for sign in signs if sign.facts]
    return tuple(found)


def _maxima(data: RunData) -> dict[str, float]:
    if data.metrics.is_empty():
        return {}
    import polars as pl

    finite = data.metrics.filter(pl.col("name").is_in(["loss_scale"]) & pl.col("value").is_finite())
    return {str(name): float(value) for name, value in finite.group_by("name").agg(pl.col("value").max()).rows()}


def _observation(signature: str, sign: Sign, weight: float, rule: int) -> Setting:
    return Setting(
        signature=signature,
        weight=round(weight * sign.weight, 3),
        evidence=tuple(_evidence(fact) for fact in sign.facts),
        culprits=(),
        alone=sign.alone,
        note=f"{sign.facts[0].source}: {sign.text}",
        rule=rule,
    )


def _evidence(fact: Fact) -> Evidence:
    return Evidence(fact.source, fact.line, None, f"{fact.name} = {fact.value}")


def is_setting(o: Observation) -> bool:
    """Whether an observation was made from what a file states."""
    return isinstance(o, Setting)


def settle(found: Sequence[Observation], catalogue: Mapping[str, Signature]) -> list[Observation]:
    """Give settings to the findings that they explain; drop those that mean nothing by themselves."""
    if not any(is_setting(o) for o in found):
        return list(found)
    settled = [o for o in found if not is_setting(o)]
    shown: dict[str, Observation] = {}
    for o in settled:
        shown.setdefault(o.signature, o)
    for o in found:
        if not isinstance(o, Setting):
            continue
        effect = next((shown[name] for name in catalogue[o.signature].causes if name in shown), None)
        if effect is not None:
            settled.append(_supporting(o, effect))
        elif o.alone != SUPPORT:
            settled.append(o)
    return settled


def _supporting(setting: Setting, effect: Observation) -> Observation:
    """A setting as evidence of the finding that it explains, at that finding's place."""
    return replace(
        setting,
        signature=effect.signature,
        identity=effect.identity,
        culprits=effect.culprits,
        time=effect.time,
        zone_known=effect.zone_known,
        weight=min(setting.weight, max(effect.weight - 0.01, 0.01)),
        rule=None,
        count=0,  # it is no further occurrence
    )


def divide(candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """(those that settings alone show, the others). The first take no part in explaining the others."""
    hinted: list[Candidate] = []
    others: list[Candidate] = []
    for c in candidates:
        (hinted if all(is_setting(o) for o in c.observations) else others).append(c)
    return hinted, others


def weigh(hinted: Sequence[Candidate], linked: Sequence[Candidate]) -> list[Candidate]:
    """The hints that stand as roots of their own: none where something went wrong. The others become context.

    linked: what is left of the other candidates after they have explained each other.
    """
    standing = []
    for c in hinted:
        if linked:
            c.context = "nothing in the logs or metrics ties it to what went wrong"
        elif all(isinstance(o, Setting) and o.alone != ROOT for o in c.observations):
            c.context = "nothing in the logs or metrics shows an effect of it"
        else:
            standing.append(c)
    return standing
