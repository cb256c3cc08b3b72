"""Whether the detector that a rule names exists, and has the parameters that the rule gives it."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from forensics.signatures.places import Place
from forensics.signatures.schema import EvidenceRule

# What the engine makes for signatures of these names itself: a file of one's own can only replace such a signature.
_COLLECTIVES = ("desync", "stacks", "ras", "silence")
_CHECKPOINTS = (
    "checkpoint_names",
    "checkpoint_values",
    "checkpoint_contents",
    "checkpoint_pointer",
    "checkpoint_series",
)
_TYPES: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
_WORDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}


def wrong_detector(rule: EvidenceRule) -> tuple[Place, str] | None:
    """(key of the rule, what is wrong) with the detector of a rule and its parameters; None if nothing is."""
    if rule.detector is None:
        return None
    known = _known(rule.source)
    if rule.detector not in known:
        near = difflib.get_close_matches(rule.detector, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        return ("detector",), f"there is no {rule.source} detector {rule.detector!r}; {hint}"
    detector = known[rule.detector]
    return None if detector is None else _wrong_parameter(rule, detector)


def _known(source: str) -> Mapping[str, Callable[..., Any] | None]:
    if source == "metrics":
        from forensics.engine.detectors import REGISTRY as detectors

        return detectors
    if source == "file":
        from forensics.engine.configs.registry import REGISTRY as checks

        return {**checks, **dict.fromkeys(_CHECKPOINTS)}
    return dict.fromkeys(_COLLECTIVES) if source == "collectives" else {}


def _wrong_parameter(rule: EvidenceRule, detector: Callable[..., Any]) -> tuple[Place, str] | None:
    given = 2 if rule.source == "metrics" else 1  # what the engine passes: metrics and observations, or a view
    taken = dict(list(inspect.signature(detector).parameters.items())[given:])
    for name, value in rule.parameters.items():
        if name not in taken:
            there = f"there are {', '.join(taken)}" if taken else "it has none"
            return (name,), f"the detector {rule.detector} knows no {name!r}; {there}"
        kind = str(taken[name].annotation)
        if kind in _TYPES and (not isinstance(value, _TYPES[kind]) or isinstance(value, bool) != (kind == "bool")):
            return (name,), f"{name} of the detector {rule.detector} must be {_WORDS[kind]}, not {value!r}"
        if (kind == "int" and value < 1) or (kind == "float" and not math.isfinite(value)):
            return (name,), f"{name} of the detector {rule.detector} cannot be {value!r}"
    for name, parameter in taken.items():
        if parameter.default is parameter.empty and name not in rule.parameters:
            return ("detector",), f"the detector {rule.detector} needs {name}"
    return None
