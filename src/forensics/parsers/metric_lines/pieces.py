"""Windows of a log become candidate pieces of lines: what may hold a metric, a bar, or one of the rare messages.

Carriage returns, backspaces and bars' closing brackets part the pieces of a line. All of it is done on whole columns;
what is dropped here costs nothing further on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from forensics.parsers import prefixes
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

LONGEST = 6000  # characters; longer pieces are dumps, and one template would also be compiled from all of it

# A cheap necessary condition for a line with metrics: a watched word and a number few words behind it. Words are
# counted, not characters: `.{0,32}` behind a word that is everywhere takes the engine a hundred times as long.
_NUMBER = r"(?:np[.]float[0-9]{2}[(]|tensor[(])?[-+]?(?:[0-9.]|nan|inf)"
_LIKELY = (
    r"(?i-u:(?:loss|norm|accura|acc|perplex|ppl|reward|entropy|kl|rew_mean|explained|wer|skipped|timesteps|top1|margin"
    r"|clip_frac|\| +learning_rate|train lr-|logit|log_?z\b|dead_|zero_frac|frozen|recall"
    r"|mse|nll|bce|elbo|g_gan|d_real|cycle_a|\bcost|\bmae\b|_mae\b"
    r"|(?:\b|_)f1(?:\b|_)|(?:\b|_)m?ap(?:\b|[_0-9]))"
    r"[a-z0-9_@/().-]*(?: +[a-z0-9_@/().-]+){0,3}[\t -/:-@\[-`{-~]+" + _NUMBER + r")"
    r"|(?-u:[ ,|\t]ce[ :=]{1,3}[0-9.n])"
    r"|(?i-u:(?:loss|cost)[a-z ()]{1,40} (?:step|iteration|iter|batch) [0-9]+ ?[:=,])"
    r"|(?-u:^ *[0-9]+: [-0-9.na]+, [-0-9.na]+ avg,)"
)
# A step counter where a message or a field of it begins, and one in a record; the group is the step.
COUNTER_STEP = (
    r"(?-u:(?:(?:^|\r)[ \t]*|[\]\[|,;:][ \t]*|(?:-|INFO|DEBUG) +|[a-z]=[A-Za-z0-9._-]+[ \t]+"
    r"|[Ee]p(?:och)?[ :=#\[]{1,3}[0-9]+\]?[ ,]+)"
    r"(?:[Gg]lobal[_ ]|[Tt]rain(?:ing)?[_ ]|[Oo]ptimizer[_ ])?(?:[Ss]tep|STEP|[Ii]teration|[Ii]ter)"
    r"(?:[ \t]*[:=#\[]{1,2}[ \t]*|[ \t]+)([0-9]{1,15}))"
)
RECORD_STEP = r"(?-u:\"(?:global_)?step\": ?\"?([0-9]{1,15})[\",} ])"
BAR = r"[0-9]+%\|[^|\n]*\| *([0-9.]+[kMG]?)/([0-9.]+[kMG]?) \["
OVERFLOW = (
    r"(?-u:OVERFLOW! |[Gg]radient overflow|[Oo]verflow detected|Grad overflow on iteration|loss scale overflow!"
    r"|dynamic loss scale from |setting loss scale from |Using static loss scale of)"
)
# A line of the summary that pycocotools prints of an evaluation, over objects of all sizes; the group is the overlap.
PRECISION = r"(?-u:Average Precision +\(AP\) @\[ IoU=([0-9.:]+) +\| area= *all \| maxDets= *[0-9]+ \] = )"
# Headers that give the lines under them their step, and the rules between tables; a label of their process may stand
# before them.
_HEADER = (
    r"(?-u:\[batch=[0-9]+/[0-9]+\]:?[ \t]*(?:\r|$)"
    r"|Epoch [0-9]+/[0-9]+[ \t]*(?:\r|$)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,15}: Epoch [0-9]+[ \t\r]*$"
    r"|Learning iteration [0-9]+/[0-9]+[ \t\r]*$"
    r"|\[step=[0-9]+(?:/[0-9]+)?,epoch=[0-9]+(?:/[0-9]+)?\][ \t]*(?:\r|$))"
)
_RULE = r"(?-u:-{12,}[ \t\r]*$)"
# Headers of tables whose columns `notices.columns` knows.
_TITLES = r"[ \t]Epoch +(?:GPU|gpu)_mem |vf_loss "
REPORTED = r"precision +recall +f1-score +support"  # of the tables that `class_reports` reads
# What evaluations of detectors begin with, for `detections.evaluations`.
_EVALUATED = r"[ \t]Class +Images +[TLI]|copypaste: |No predictions from the model!"
# Headers of tables that count in their first column, for `tables.titled`.
COUNTER_TITLE = r"(?:global[ _])?(?:step|iter|iteration|epoch)s?"
BARS = "|│┃"
_COUNTED_TITLES = (
    rf"(?i:^[ \t]*[{BARS}]?[ \t]*{COUNTER_TITLE}[ \t]*[{BARS},\t].*(?:loss|acc|norm|ppl|perplexity|reward|wer))"
)
NULL = lazy(rb'"[\w/]*(?:loss|norm)[\w/]*": ?null')  # of a JSON record, for `notices.nulls`
_FRAME_END = r"(?-u:it/s|s/it)"
# The closing bracket of a frame, with what comes behind it.
_BEHIND_A_BAR = r"( \[[0-9?][^\]\n\r]*(?:it/s|s/it)[^\]\n\r]*\]) *"


class Pieces(NamedTuple):
    """Frames of (line, sub, text): number of the line, of the piece within it, and its text without escape codes."""

    likely: pl.DataFrame  # may hold metrics or are a header
    others: pl.DataFrame  # those that are not
    bars: pl.DataFrame  # frames of progress bars
    rare: pl.DataFrame  # overflow messages
    precisions: pl.DataFrame  # lines of average precision
    rules: pl.Series  # numbers of lines that are dashes
    starts: Sequence[int]  # number of the first line of each window
    titled: bool  # whether there may be tables that `notices.columns` knows
    counted: bool  # whether there may be tables that count in their first column
    evaluated: bool  # whether there may be evaluations of detectors
    reported: bool  # whether there may be reports of all classes
    nulls: bool  # whether there may be losses that are null

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to read."""
        frames = (self.likely, self.others, self.bars, self.rare, self.precisions)
        tables = (self.titled, self.counted, self.evaluated, self.reported, self.nulls)
        return not any(tables) and all(frame.is_empty() for frame in frames)


@cache
def _any() -> str:
    return "|".join(
        (_LIKELY, COUNTER_STEP, RECORD_STEP, BAR, OVERFLOW, PRECISION, _TITLES, _COUNTED_TITLES, _EVALUATED, REPORTED)
    )


def cut(windows: Sequence[tuple[bytes, int]]) -> Pieces:
    """Candidate pieces of all windows (bytes of whole lines, number of the first line), in the order of the file."""
    import polars as pl

    texts = [_decoded(data) for data, _ in windows]
    split = [text.split("\n") for text in texts]
    numbers = [
        pl.int_range(first, first + len(part), dtype=pl.Int64, eager=True)
        for (_, first), part in zip(windows, split, strict=True)
    ]
    lines = pl.DataFrame(
        {
            "line": pl.concat(numbers),
            "text": pl.Series(
                [line for part in split for line in part] if len(split) > 1 else split[0], dtype=pl.String
            ),
        }
    )
    text = pl.col("text")
    if any("\x1b" in whole for whole in texts):
        lines = lines.with_columns(text.str.replace_all(prefixes.ANSI, ""))
    rules = pl.Series([], dtype=pl.Int64)
    if any("-" * 12 in whole and "| " in whole for whole in texts):
        rules = lines.filter(text.str.contains(_RULE))["line"]
    lines = lines.filter(text.str.contains(f"{_any()}|{_HEADER}"))
    if any("\r" in whole or "it/s" in whole or "s/it" in whole for whole in texts):
        pieces = _parted(lines, any("\r" in whole for whole in texts))
    else:
        if max(len(line) for part in split for line in part) > LONGEST // 4:  # a character has four bytes at most
            lines = lines.filter(text.str.len_bytes() <= LONGEST)
        pieces = lines.insert_column(1, pl.Series("sub", [0] * lines.height, dtype=pl.Int64))
    marked = pieces.select(
        likely=text.str.contains(f"{_LIKELY}|{_HEADER}"),
        bar=text.str.contains(BAR),
        rare=text.str.contains(OVERFLOW),
        precise=text.str.contains(PRECISION),
        titled=text.str.contains(_TITLES),
        counted=text.str.contains(_COUNTED_TITLES),
        evaluated=text.str.contains(_EVALUATED),
        reported=text.str.contains(REPORTED),
    )
    likely, others = halves(pieces, marked["likely"])
    return Pieces(
        likely=likely,
        others=others,
        bars=chosen(pieces, marked["bar"]),
        rare=chosen(pieces, marked["rare"]),
        precisions=chosen(pieces, marked["precise"]),
        rules=rules,
        starts=tuple(first for _, first in windows),
        titled=bool(marked["titled"].any()),
        counted=bool(marked["counted"].any()),
        evaluated=bool(marked["evaluated"].any()),
        reported=bool(marked["reported"].any()),
        nulls=any(NULL.search(data) for data, _ in windows),
    )


def _decoded(data: bytes) -> str:
    text = data.decode("utf-8", "replace").removesuffix("\n")
    return re.sub("\x08+", "\r", text) if "\x08" in text else text


def halves(frame: pl.DataFrame, mask: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows for which a mask without nulls is true, the others). Where one half is all of them nothing is copied."""
    if mask.all():
        return frame, frame.clear()
    return (frame.filter(mask), frame.filter(~mask)) if mask.any() else (frame.clear(), frame)


def chosen(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """The rows for which a mask without nulls is true."""
    if mask.all():
        return frame
    return frame.filter(mask) if mask.any() else frame.clear()


def _parted(lines: pl.DataFrame, returns: bool) -> pl.DataFrame:
    """The pieces of lines, in order, with `sub`. returns: whether there are carriage returns at all."""
    import polars as pl

    text = pl.col("text")
    short = text.str.len_bytes() <= LONGEST
    if returns:
        lines = lines.with_columns(text.str.strip_chars("\r"))
    marks = lines.select(
        returns=text.str.contains("\r", literal=True) if returns else pl.lit(False),
        framed=text.str.count_matches(_FRAME_END),
        closed=text.str.ends_with("]"),
    )
    # What is written behind a bar's closing bracket is another message.
    glued = (marks["framed"] > 1) | ((marks["framed"] == 1) & ~marks["closed"])
    several = glued | marks["returns"]
    single = pl.lit(0, pl.Int64).alias("sub")
    if not several.any():
        return lines.lazy().filter(short).select("line", single, "text").collect()
    # A window can be one line with a hundred thousand frames of a bar.
    behind = text.str.replace_all(_BEHIND_A_BAR, "${1}\r")
    pieces = (
        lines.with_columns(glued=glued)
        .filter(several)
        .lazy()
        .select("line", pl.when("glued").then(behind).otherwise(text).str.split("\r"))
        .select("line", pl.int_ranges(0, text.list.len()).alias("sub"), "text")
        .explode("sub", "text")
        .filter(short & text.str.contains(r"[^ \t]"))
        .collect()
    )
    whole = lines.lazy().filter(~several & short).select("line", single, "text").collect()
    return pl.concat([whole, pieces]).sort("line", "sub") if whole.height else pieces
