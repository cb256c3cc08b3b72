"""Texts of the catalogue, which name nothing of a run: what stands in them where a log would name a host is advice.

`--master_addr away` and `runs on the node named` read like places of hosts. The entries that a report tells of are read
from their files, for most reports tell of few; a user's own entries are theirs to word, and redacted like any text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from forensics.signatures.schema import BUILT_IN

_SLUG = re.compile(r"[a-z0-9-]{1,80}", re.ASCII)
_WORDS = 4  # of a text that is known where another begins or ends with it: shorter ones are also what programs say


def texts_of(slugs: Iterable[str]) -> tuple[str, ...]:
    """Titles, reasons, advice and tells of the built-in entries of these slugs, as reports show them."""
    return tuple(dict.fromkeys(text for slug in dict.fromkeys(slugs) for text in _texts(slug)))


@lru_cache(maxsize=1024)
def _texts(slug: str) -> tuple[str, ...]:
    if not _SLUG.fullmatch(slug):
        return ()
    path = next(BUILT_IN.glob(f"*/{slug}.toml"), None)
    if path is None:
        return ()
    try:
        entry: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return ()
    parts = [part.strip() for text in entry.get("confirm", ()) for part in text.split("::", 1)]
    tells = [look["tell"] for look in entry.get("lookalike", ())]
    return (entry["title"], " ".join(entry["why"].split()), *entry.get("fix", ()), *parts, *tells)


class OurWords:
    """Texts that are kept as they are, alone and where another text begins or ends with one."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._long: tuple[str, ...] = ()

    def keep(self, texts: Iterable[str]) -> None:
        """Knows these texts from now on."""
        self._texts.update(text for text in texts if " " in text)
        self._long = tuple(sorted((t for t in self._texts if t.count(" ") >= _WORDS), key=len, reverse=True))

    def part(self, text: str) -> tuple[int, int] | None:
        """Where in `text` ours stand: all of it, its beginning or its end; None if nowhere."""
        if text in self._texts:
            return 0, len(text)
        for ours in self._long:
            if text.startswith(ours):
                return 0, len(ours)
            if text.endswith(ours):
                return len(text) - len(ours), len(text)
        return None
