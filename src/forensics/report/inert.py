"""Text from a log, made safe to show.

A log is written by programs that nobody vouches for: it can hold escape sequences that recolour or rename a terminal,
bidirectional overrides that reorder what one reads, and bytes that are no text. Nothing of that may act on the reader,
and nothing of it may vanish either, for it can be the evidence.
"""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"

# Letters and marks by category, and invisible all the same (Unicode's Default_Ignorable_Code_Point fillers).
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# Cf covers bidi controls, zero-width characters, soft hyphens, byte order marks and tags; Zl, Zp are line breaks.
_UNSAFE = frozenset({"Cc", "Cf", "Zl", "Zp"})


def _shown(char: str, keep_newlines: bool) -> str:
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    if char == "\n":
        return char if keep_newlines else "\\n"
    if char == "\t":
        return "    "
    if 0xD800 <= code <= 0xDFFF:
        # Undecodable bytes read with errors="surrogateescape" lie at U+DC80..U+DCFF (PEP 383): show the byte.
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"
    if unicodedata.category(char) in _UNSAFE or char in _FILLERS:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return char


def inert(text: str, limit: int | None = 2000, *, keep_newlines: bool = False) -> str:
    """`text` with everything that acts on a reader's screen shown as an escape (`\\x1b`, `\\u202e`).

    Tabs become four spaces; line breaks (`\\n`, `\\r\\n`) become a visible `\\n`, or stay one newline each with
    `keep_newlines`. The result has at most `limit` characters (None: no limit), an ellipsis being the last where it
    was cut; escapes are never cut in half. Never raises, and changes nothing that it made itself.
    """
    if limit is not None:
        # Each character yields at least one ("\r\n" two for one), so more than this is never looked at.
        text = text[: 2 * max(limit, 1) + 2]
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        pieces: list[str] | str = text
    else:
        pieces = [_shown(char, keep_newlines) for char in text]
    if limit is None:
        return "".join(pieces)
    whole = "".join(pieces)
    if len(whole) <= limit:
        return whole
    if limit < 1:
        return ""
    kept: list[str] = []
    room = limit - len(ELLIPSIS)
    for piece in pieces:
        if len(piece) > room:
            break
        kept.append(piece)
        room -= len(piece)
    return "".join(kept) + ELLIPSIS


def one_line(text: str, limit: int | None = 2000) -> str:
    """`inert` for prose: runs of white space, line breaks included, become one space."""
    if limit is not None:
        text = text.lstrip()[: 4 * max(limit, 1)]
    return inert(" ".join(text.split()), limit)
