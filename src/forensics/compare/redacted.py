"""A comparison as it may be shared: names, hosts, addresses and secrets are replaced by stand-ins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from forensics.compare.model import Change, Comparison, Sign
from forensics.report.redaction import Redactor

# Words of ours that no log can reach.
_OURS = frozenset({"kind", "role", "unit", "what", "verdict"})


def redacted(comparison: Comparison, told: Sequence[str] = ()) -> Comparison:
    """The comparison with one stand-in for one thing in all its runs.

    told: lines of the runs that give names away (`redaction.told`). Everything is gone through twice, so that a name is
    replaced also where it stands before what gives it away.
    """
    redactor = Redactor()
    _redact(comparison, redactor)
    redactor.learn(told)
    result: Comparison = _redact(comparison, redactor)
    return result


def _redact(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.again(redactor.redact(value))
    if isinstance(value, tuple):
        return tuple(_redact(item, redactor) for item in value)
    if isinstance(value, Change):  # the name of a setting can say that its value is a secret
        places = _redact((value.good_at, value.bad_at), redactor)
        good, bad = (_said(value.name, text, redactor) for text in (value.good, value.bad))
        return Change(redactor.again(redactor.redact(value.name)), good, bad, *places)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        own = _OURS | {"name"} if isinstance(value, Sign) and value.role != "message" else _OURS
        changed = {name: item if name in own else _redact(item, redactor) for name, item in fields.items()}
        return type(value)(**changed)
    return value


def _said(name: str, text: str | None, redactor: Redactor) -> str | None:
    """What a setting is set to; several values are joined by bars, and each is that of the name."""
    if text is None:
        return None
    values = [redactor.setting(name, value) for value in text.split(" | ")]
    return redactor.again(redactor.redact(" | ".join(values)))
