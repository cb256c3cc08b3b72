"""Regular expressions that are compiled when they are first used: most runs hold few of the formats that we know."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Stands for a compiled pattern, and becomes one at the first use of any of its attributes."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._written: Any = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._written)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, put off until the pattern is used. `re.search(lazy(..), text)` and its like do not take it."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
