"""The image of the container that a run was in, as container runtimes and clusters print it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from forensics.parsers.run_files.base import item
from forensics.parsers.run_files.documents import Item
from forensics.patterns import lazy

_REFERENCE = r"[a-z0-9][\w.-]{0,120}(?:[/:@#][\w.-]{1,120}){1,12}"  # registry, path, tag, digest; enroot has one "#"
# (a word that must stand in the text, the line)
_LINES = (
    ("pyxis: import", lazy(rf"\bpyxis: import(?:ing|ed) docker image: ({_REFERENCE})")),
    ("Status: ", lazy(rf"^Status: (?:Downloaded newer image|Image is up to date) for ({_REFERENCE})\s*$", re.M)),
    ("Container ID:", lazy(rf"^ {{2,}}Image: {{2,}}({_REFERENCE})\s*$", re.M)),  # kubectl describe pod
    ("ulled image ", lazy(rf'\bSuccessfully pulled image "({_REFERENCE})"')),
    ("Container image ", lazy(rf'\bContainer image "({_REFERENCE})" already present on machine')),
)
LITERALS = tuple(literal for literal, _ in _LINES)
_MOST = 16


def images(text: str) -> Iterator[Item]:
    """The one image that a text names; none where several are, since one of them may be a sidecar's."""
    found: dict[str, int] = {}
    for literal, pattern in _LINES:
        if literal in text:
            for m in islice(pattern.finditer(text), _MOST):
                found.setdefault(m[1].replace("#", "/"), m.start())
    if len(found) == 1:
        name, at = found.popitem()
        yield item("container.image", name, text.count("\n", 0, at) + 1)
