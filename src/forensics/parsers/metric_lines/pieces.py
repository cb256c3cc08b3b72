"""Windows of a log become candidate pieces of lines: what may hold a metric, a bar, or one of the rare messages.

Carriage returns, backspaces and bars' closing brackets part the pieces of a line. All of it is done on whole columns;
what is dropped here costs nothing further on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from forensics.parsers import prefixes

if TYPE_CHECKING:
    import polars as pl

LONGEST = 6000  # characters; longer pieces are dumps, and one template would also be compiled from all of it

# A cheap necessary condition for a line with metrics: a watched word and a number not far behind it.
_NUMBER = r"(?:np[.]float[0-9]{2}[(]|tensor[(])?[-+]?(?:[0-9.]|nan|inf)"
_LIKELY = (
    r"(?i-u:(?:loss|norm|accura|acc|perplex|ppl|reward|entropy|kl|rew_mean|explained|wer|skipped|timesteps|top1|margin"
    r"|clip_frac|\| +learning_rate|train lr-)[a-z0-9_@/ ().-]{0,32}[\t -/:-@\[-`{-~]{1,24}" + _NUMBER + r")"
    r"|(?-u:[ ,|\t]ce[ :=]{1,3}[0-9.n])"
)
# A step counter where a message or a field of it begins, and one in a record; the group is the step.
COUNTER_STEP = (
    r"(?-u:(?:^[ \t]*|[\]\[|,;:][ \t]*|- +|[0-9][ ,]+)(?:[Gg]lobal[_ ]|[Tt]rain(?:ing)?[_ ]|[Oo]ptimizer[_ ])?"
    r"(?:[Ss]tep|STEP|[Ii]teration|[Ii]ter)(?:[ \t]*[:=#\[]{1,2}[ \t]*|[ \t]+)([0-9]{1,15}))"
)
RECORD_STEP = r"(?-u:\"(?:global_)?step\": ?\"?([0-9]{1,15})[\",} ])"
BAR = r"[0-9]+%\|[^|\n]*\| *([0-9.]+[kMG]?)/([0-9.]+[kMG]?) \["
OVERFLOW = (
    r"(?-u:OVERFLOW! |[Gg]radient overflow|[Oo]verflow detected|Grad overflow on iteration|loss scale overflow!"
    r"|dynamic loss scale from |setting loss scale from |Using static loss scale of)"
)
# Headers that give the lines under them their step, and the rules between tables.
_HEADER = (
    r"(?-u:(?:^|\r)(?:\[[A-Za-z]+=[0-9/]+\])*\[batch=[0-9]+/[0-9]+\]:?[ \t]*(?:\r|$)"
    r"|(?:^|\r)Epoch [0-9]+/[0-9]+[ \t]*(?:\r|$))"
)
_RULE = r"(?-u:-{12,}[ \t]*$)"
_FRAME_END = r"(?-u:it/s|s/it)"
_BEHIND_A_BAR = r"( \[[0-9?][^\]\n\r]*(?:it/s|s/it)[^\]\n\r]*\]) *"


@dataclass(frozen=True, slots=True)
class Pieces:
    """Frames of (line, sub, text): number of the line, of the piece within it, and its text without escape codes."""

    likely: pl.DataFrame  # may hold metrics or a header
    counted: pl.DataFrame  # may hold a step counter; may be among `likely` as well
    bars: pl.DataFrame  # frames of progress bars; may be among `likely` as well
    rare: pl.DataFrame  # overflow messages
    rules: pl.Series  # numbers of lines that are dashes
    starts: Sequence[int]  # number of the first line of each window


@cache
def _any() -> str:
    return "|".join((r"[ \t]Epoch +GPU_mem |vf_loss ", _LIKELY, COUNTER_STEP, RECORD_STEP, BAR, OVERFLOW))


def may_hold_metrics(sample: bytes) -> bool:
    """Whether any of the candidates of `cut` may be in a piece of a log."""
    import polars as pl

    lines = pl.Series([sample.decode("utf-8", "replace")]).str.replace_all(prefixes.ANSI, "").str.split("\n").explode()
    return bool(lines.str.contains(_any()).any())


def cut(windows: Sequence[tuple[bytes, int]]) -> Pieces:
    """Candidate pieces of all windows (bytes of whole lines, number of the first line), in the order of the file."""
    import numpy as np
    import polars as pl

    texts = [data.decode("utf-8", "replace") for data, _ in windows]
    texts = [text[:-1] if text.endswith("\n") else text for text in texts]
    whole = "\n".join(texts)
    if "\x08" in whole:
        whole = re.sub("\x08+", "\r", whole)
    if "\r\n" in whole:
        whole = whole.replace("\r\n", "\n")
    text = pl.Series("text", whole.split("\n"), dtype=pl.String)
    counts = [t.count("\n") + 1 for t in texts]
    numbers = np.concatenate(
        [np.arange(n, dtype=np.int64) + first for (_, first), n in zip(windows, counts, strict=True)]
    )
    lines = pl.DataFrame({"line": pl.Series(numbers), "text": text})
    if "\x1b" in whole:
        lines = lines.with_columns(pl.col("text").str.replace_all(prefixes.ANSI, ""))
    ruled = "-" * 12 in whole and "| " in whole
    rules = lines.filter(pl.col("text").str.contains(_RULE))["line"] if ruled else pl.Series([], dtype=pl.Int64)
    plain, parted = _parted(lines, whole)
    marked = pl.concat([_marked(part) for part in (plain, parted) if not part.is_empty()] or [_marked(plain)])
    if not parted.is_empty() and not plain.is_empty():
        marked = marked.sort("line", "sub")
    columns = ("line", "sub", "text")
    return Pieces(
        likely=marked.filter("likely").select(columns),
        counted=marked.filter("counted").select(columns),
        bars=marked.filter("bar").select(columns),
        rare=marked.filter("rare").select(columns),
        rules=rules,
        starts=tuple(first for _, first in windows),
    )


def _parted(lines: pl.DataFrame, whole: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(lines that are one piece, pieces of the other lines), each with `sub`."""
    import polars as pl

    text = pl.col("text")
    single = pl.lit(0, pl.Int64).alias("sub")
    returns, framed = "\r" in whole, "it/s" in whole or "s/it" in whole
    if not returns and not framed:
        return lines.with_columns(single), lines.clear().with_columns(single)
    lines = lines.with_columns(parted=text.str.contains(r"(?-u:\r|it/s|s/it)" if framed else "\r", literal=not framed))
    plain = lines.filter(~pl.col("parted")).select("line", "text", single)
    # What is written behind a bar's closing bracket is another message. A window can be one line with a hundred
    # thousand frames of a bar.
    pieces = (
        lines.lazy()
        .filter("parted")
        .select("line", (text.str.replace_all(_BEHIND_A_BAR, "${1}\r") if framed else text).str.split("\r"))
        .explode("text")
        .filter(text.str.contains(r"[^ \t]"))
        .with_columns(sub=pl.int_range(pl.len(), dtype=pl.Int64).over("line"))
        .select("line", "text", "sub")
        .collect()
    )
    return plain, pieces


def _marked(pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces that are candidates, with columns that say for what."""
    import polars as pl

    text = pl.col("text")
    marks = ("likely", "counted", "bar", "rare")
    return pieces.with_columns(
        likely=text.str.contains(f"{_LIKELY}|{_HEADER}"),
        counted=text.str.contains(f"{COUNTER_STEP}|{RECORD_STEP}"),
        bar=text.str.contains(BAR),
        rare=text.str.contains(OVERFLOW),
    ).filter(pl.any_horizontal(marks) & (text.str.len_bytes() <= LONGEST))
