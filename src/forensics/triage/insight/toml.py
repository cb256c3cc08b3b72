"""Values as TOML text, whatever the text is."""

from __future__ import annotations

import json
import re

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_INVISIBLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def string(text: str) -> str:
    """A basic string on one line; lone surrogates, which TOML cannot hold, become question marks."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def literal(text: str) -> str:
    """A literal string, in which a regex needs no further backslashes; a basic one where the text does not allow it."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return string(plain) if "'" in plain or _CONTROL.search(plain) or _INVISIBLE.search(plain) else f"'{plain}'"


def comment(text: str) -> str:
    """One comment line."""
    return "# " + _INVISIBLE.sub("?", " ".join(_CONTROL.sub(" ", text.encode("utf-8", "replace").decode()).split()))
