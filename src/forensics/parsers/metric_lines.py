"""Numbers from log lines, whatever framework printed them.

A log repeats a handful of line shapes many thousand times. So one line of a shape is read with care in Python
(`_read`: which number is the step, which the loss, whose rank it is), turned into a regular expression that captures
exactly those numbers (`_template`), and polars applies it to all lines at once. Lines that no template takes are read
one by one, so a rare shape costs time and never correctness.

Strictness: a line counts only where a number that people watch (`_ANCHORS`) stands under its own key, together with a
position (step, epoch, bar), another metric, or nothing else. Argument dumps and configurations hold no such number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from forensics.model import METRICS_COLUMNS, Source, schema
from forensics.parsers import prefixes
from forensics.parsers.names import HELD_OUT, NAMES, canonical, factor

if TYPE_CHECKING:
    import polars as pl

# What people watch. lr, memory, times and counters are taken only from lines that hold one of these.
_STRONG = frozenset({"loss", "eval_loss", "grad_norm"})
_ANCHORS = _STRONG | {
    "loss_part", "policy_loss", "value_loss", "kl", "entropy", "reward", "accuracy", "eval_accuracy", "perplexity",
    "eval_perplexity", "explained_variance", "wer", "eval_wer", "clip_fraction", "margin", "frac_reward_zero_std",
    "eval_reward", "skipped_total", "total_timesteps", "reward_chosen",
}  # fmt: skip

# Lines longer than this are dumps, not metrics; one template would also be compiled from all of it.
_LONGEST = 6000
_WORDS = (
    "loss", "norm", "accura", "acc", "perplex", "ppl", "reward", "entropy", "kl", "rew_", "explained", "wer",
    "clip_frac", "learning_rate", "train lr",
    "verflow", "skipped", "it/s", "s/it", "timesteps", "top1", "batch=", "iteration", "epoch", "loss scale",
)  # fmt: skip
# A cheap necessary condition for a line with metrics: a watched word and a number not far behind it; or a bar.
_LIKELY = (
    r"(?i-u:(?:loss|norm|accura|acc|perplex|ppl|reward|entropy|kl|rew_mean|explained|wer|skipped|timesteps|top1|margin"
    r"|clip_frac|\| +learning_rate|train lr-)[a-z0-9_@/ ().-]{0,32}[\t -/:-@\[-`{-~]{1,24}"
    r"(?:np[.]float[0-9]{2}[(]|tensor[(])?[-+]?(?:[0-9.]|nan|inf))"
)
_BAR = r"[0-9]+%\|[^|\n]*\| *([0-9.]+[kMG]?)/([0-9.]+[kMG]?) \["
_OVERFLOW = (
    r"(?-u:OVERFLOW! |[Gg]radient overflow|[Oo]verflow detected|Grad overflow on iteration|loss scale overflow!"
    r"|dynamic loss scale from |setting loss scale from |Using static loss scale of)"
)
_HEADER = r"(?-u:^(?:\[[A-Za-z]+=[0-9/]+\])*\[batch=[0-9]+/[0-9]+\]:?[ \t]*$|^Epoch [0-9]+/[0-9]+[ \t]*$)"
_HAS = re.compile(
    rb"[ \t]Epoch +GPU_mem |vf_loss |"
    + _LIKELY.replace("(?i-u:", "(?i:").encode()
    + b"|"
    + _BAR.encode()
    + b"|"
    + _OVERFLOW.replace("(?-u:", "(?:").encode()
)

_VALUE = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
    r"|(?i:nan|inf(?:inity)?)(?![A-Za-z_]))"
)
# A number that is no part of a name (`Acc@1`, `mtp_1`), of a unit in a key (`lr(1e-4):`) or of the words around it.
_NUMBER = re.compile(rf"(?<![\w.@])((?>{_VALUE}))(?!\)\s*[:=])(?!\s+iterations)", re.A)
_PAIR = re.compile(
    rf"""["']([^"'{{}}]{{1,80}})["']\s*:\s*(?:np\.float\d+\(|tensor\()?["']?({_VALUE})(?=["')\s,}}])""", re.A
)
_DICT = re.compile(r"\{(?=\s*['\"])[^{}]*\}?")
_LEVEL = re.compile(r"^(?:INFO|WARNING|WARN|DEBUG|ERROR|NOTE)\b[:\s]*")
_UNITS = re.compile(r"^(?:ms|s|sec|it|%|[KMGT]i?B)(?:/\w+)?\s+")
_CUT = re.compile(r"[|,;\[\]{}()\t\"'<>•]|\s{2,}|:\s+|\s-\s|\s—\s")
_KEY = re.compile(r"[A-Za-z][\w /().@#*%-]*", re.A)
_HELD_OUT_LINE = re.compile(
    r"(?<![\w./-])(?:val|valid|validate|validating|validation|eval|evaluate|evaluating|evaluation|test|testing)"
    r"(?![\w./-]*[/.]\w)(?!-)\b",
    re.I,
)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?", re.A)
_STEP_WORD = re.compile(r"\b(?:global[_ ]step|step|iteration|iter)s?[ :=#\[]{1,3}(\d+)\b", re.I | re.A)
_TABLE_ROW = re.compile(rf"^\|\s*([A-Za-z][\w /@.()-]*?)\s*\|\s*({_VALUE})\s*\|\s*$", re.A)
_BLOCK_ROW = re.compile(rf"^\s+(?:Train|Eval) ([\w/.-]+): ({_VALUE})\s*$", re.A)
_BAR_RE = re.compile(
    r"(?P<pct>\d+)%\|[^|\n]{0,200}\| *(?P<n>\d+)/(?P<total>\d+) \[|[━╸╺]{3,}[ \x1b]*(?P<n2>\d+)/(?P<total2>\d+) ", re.A
)
_COLUMN_HEADER = re.compile(
    rb"^(?P<titles>[ \t]*(?:Epoch +GPU_mem(?: +[A-Za-z_]\w*){2,12}"
    rb"|[A-Za-z_]\w*(?:[ \t]*\|[ \t]*[A-Za-z_]\w*){2,12}))[ \t\r]*$",
    re.M,
)
_ITERATION = re.compile(rb"\*{4,} Iteration (\d{1,15}) \*{4,}")
_TORCHTUNE = re.compile(r"^(?P<epoch>\d+)\|(?P<step>\d+)\|Loss: ", re.A)
_OF = re.compile(r"\s*/\s*(\d+)", re.A)
_DATE = re.compile(r"(?<!\d)(\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?", re.A)
_SHORT_DATE = re.compile(r"(?<![\d/])(\d\d/\d\d \d\d:\d\d:\d\d)", re.A)
_UNIX_KEY = re.compile(r'"(?:ts|time|timestamp|created|_timestamp)": ?(1[5-9]\d{8}(?:\.\d+)?)', re.A)
_RANKS = tuple(
    re.compile(p)
    for p in (*prefixes.IN_TEXT_RANK, r"\([Rr]ank[ :=](\d+)\)", r"\b[Rr]ank[ :=](\d+) ?[|,:]", r"OVERFLOW! Rank (\d+) ")
)
_SI = {"K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "": 1.0}
_NO_TRAINING_BAR = re.compile(
    r"valid|eval|test|sanity|load|download|map|token|predict|generat|infer|prepar|shard|fetch|convert|pack|filter|"
    r"upload|writ|sav|resolv|merg|captur|compil|comput|extract|quantiz|rollout|process|check",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Field:
    """One number of a line: what it is and where it stands."""

    role: str  # "value" | "step" | "total" | "epoch" | "rank" | "task" | "local_rank" | "time" | "short_time" | "unix"
    start: int
    end: int
    name: str = ""
    factor: float = 1.0
    suffix: bool = False  # an SI letter may follow directly


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one line says. `kind`: "line", "bar" (repeats itself), "dict" (has no step), "table", "block", "header"."""

    fields: tuple[_Field, ...]
    kind: str = "line"
    lost_loss: bool = False  # a Megatron line without its loss: NaN where no step was skipped
    zone: float = 0.0  # seconds to subtract from the printed time


def has_metrics(sample: bytes) -> bool:
    """Whether a piece of a log may hold metric lines, bars or overflow messages. Cheap; errs on the side of yes."""
    return _HAS.search(sample) is not None


# ---------------------------------------------------------------------------------------------- reading one line


def _peel(text: str, voted: frozenset[str]) -> tuple[int, list[_Field]]:
    """Where the message starts behind its prefixes, and the identities that they hold."""
    fields: dict[str, _Field] = {}
    seen: set[str] = set()
    at = 0
    compiled = _prefix_patterns(voted)
    for _ in range(8):
        rest = text[at:]
        for name, pattern in compiled:
            m = pattern.match(rest)
            if m is None or m.end() == 0:
                continue
            if name in prefixes.VOTED and (name in seen or canonical(m.group(1))):  # `steps: 10 loss: 2` is no host
                continue
            seen.add(name)
            if name == "torchrun_tee" and m.group(0).startswith("[rank") and "rank" in fields:
                continue
            groups = m.groupdict()
            for role in ("rank", "local_rank", "task"):
                if groups.get(role):
                    fields[role] = _Field(role, at + m.start(role), at + m.end(role))
            at += m.start("rest") if groups.get("rest") else m.end()
            break
        else:
            break
    if "rank" not in fields:
        for pattern in _RANKS:
            if m := pattern.search(text[at : at + 300]):
                fields["rank"] = _Field("rank", at + m.start(1), at + m.end(1))
                break
    return at, list(fields.values())


@lru_cache(maxsize=64)
def _prefix_patterns(voted: frozenset[str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    chosen = {name: pattern for name, pattern in prefixes.VOTED.items() if name in voted}
    return tuple((name, re.compile(pattern)) for name, pattern in (prefixes.ALWAYS | chosen).items())


def _when(text: str) -> tuple[list[_Field], float]:
    head = text[:200]
    if m := _DATE.search(head):
        zone = m.group(2)
        offset = 0.0
        if zone and zone != "Z":
            digits = zone[1:].replace(":", "")
            offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1.0 if zone[0] == "-" else 1.0)
        return [_Field("time", m.start(1), m.end(1))], offset
    if m := _UNIX_KEY.search(text[:400]):
        return [_Field("unix", m.start(1), m.end(1))], 0.0
    if m := _SHORT_DATE.search(head):
        return [_Field("short_time", m.start(1), m.end(1))], 0.0
    return [], 0.0


def _key(left: str) -> tuple[str, bool]:
    """The key that a number stands under, from the text between the number before it and it; and if `:`/`=` does."""
    text = left.rstrip(" \t\"'[(")
    for wrapper in ("np.float64", "np.float32", "np.float16", "tensor", "float"):
        text = text.removesuffix(wrapper).rstrip("( \t\"'") if text.endswith(wrapper) and "(" in left else text
    bare = text.rstrip()
    explicit = bare.endswith((":", "=", "->", "=>"))
    bare = bare.rstrip(":=>").removesuffix("-") if explicit else bare
    bare = bare.rstrip(" \t\"'")
    unit = ""
    if m := re.search(r"\s*\([^()]{1,30}\)$", bare):
        unit, bare = m.group(0), bare[: m.start()]
    piece = _CUT.split(bare)[-1].strip()
    piece = _UNITS.sub("", _LEVEL.sub("", piece))
    if ".." in piece or not _KEY.fullmatch(piece):
        return "", explicit
    return piece + unit, explicit


def _read(text: str, voted: frozenset[str]) -> _Reading | None:
    """One cleaned piece of a line -> its numbers; None where it holds no metrics.

    text: without escape codes and carriage returns. Never raises.
    """
    if len(text) > _LONGEST:
        return None
    at, who = _peel(text, voted)
    when, zone = _when(text)
    found = _read_table(text, at) or _read_dicts(text, at) or _read_keyed(text, at)
    if found is None:
        return None
    taken = [(f.start, f.end) for f in found.fields]
    who = [f for f in (*who, *when) if not any(f.start < e and s < f.end for s, e in taken)]
    return _Reading((*found.fields, *who), found.kind, found.lost_loss, zone)


def _read_table(text: str, at: int) -> _Reading | None:
    """Rows of Stable-Baselines tables and of Composer's blocks, and the headers that give such blocks their step."""
    rest = text[at:]
    for pattern, kind in ((_TABLE_ROW, "table"), (_BLOCK_ROW, "block")):
        if m := pattern.match(rest):
            name = canonical(m.group(1))
            start, end = at + m.start(2), at + m.end(2)
            if name == "total_timesteps":
                return _Reading((_Field("value", start, end, name),), kind)
            if name is None or name in ("step", "epoch", "total_steps"):
                return None
            return _Reading((_Field("value", start, end, name, factor(m.group(1))),), kind)
    if m := re.match(
        r"(?:\[epoch=(?P<epoch>\d+)(?:/\d+)?\])?(?:\[\w+=[\d/]+\])*\[batch=(?P<step>\d+)/\d+\]:?\s*$", rest
    ):
        fields = [_Field("step", at + m.start("step"), at + m.end("step"))]
        if m.group("epoch"):
            fields.append(_Field("epoch", at + m.start("epoch"), at + m.end("epoch")))
        return _Reading(tuple(fields), "header")
    if m := re.match(r"Epoch (\d+)/\d+\s*$", rest):
        return _Reading((_Field("epoch", at + m.start(1), at + m.end(1)),), "header")
    return None


def _read_dicts(text: str, at: int) -> _Reading | None:
    """The flat dict or JSON object of a line: HF Trainer, TRL, fairseq's json format, structured loggers."""
    for whole in _DICT.finditer(text, at):
        inner = whole.group(0)
        if "loss" not in inner and "rew" not in inner and "norm" not in inner and "acc" not in inner:
            continue
        if text[whole.start() - 1 : whole.start()] in (":", " ") and text[max(0, whole.start() - 2)] == ":":
            continue  # the value of another object's key: a configuration
        closed = inner.endswith("}")
        fields: list[_Field] = []
        names: dict[str, _Field] = {}
        run_summary = "_runtime" in inner and "train_" in inner
        position = False
        for m in _PAIR.finditer(inner):
            if not closed and inner[m.end() : m.end() + 2].strip("\"')")[:1] != ",":
                continue  # cut in the middle of the number, perhaps
            name = canonical(m.group(1))
            start, end = whole.start() + m.start(2), whole.start() + m.end(2)
            if name is None or name == "total_steps" or (name in names and name != "loss_part"):
                continue
            if name in ("step", "epoch"):
                position = True
                if name == "step" and not text[start:end].isdigit():
                    continue
                names[name] = _Field(name, start, end)
            elif not (run_summary and name in ("loss", "throughput")):
                names[name] = _Field("value", start, end, name, factor(m.group(1)))
            else:
                continue
            fields.append(names[name])
        anchors = _ANCHORS & set(names)
        if not anchors or not (position or anchors & _STRONG or len(anchors) > 2):
            continue
        if not position and "lr" not in names and len(names) < 2:
            continue
        return _Reading(tuple(fields), "line" if "step" in names else "dict")
    return None


def _opening(text: str, at: int, end: int) -> str:
    """The words of a message before its first number; the clock in front of it does not count."""
    clocks = list(_CLOCK.finditer(text, at, max(at, min(end, at + 80))))
    start = clocks[-1].end() if clocks else at
    first = _NUMBER.search(text, start)
    return text[start : first.start() if first else end]


def _read_keyed(text: str, at: int) -> _Reading | None:
    """`key value`, `key: value`, `key=value` with any separator, and positions such as `[0][415/1736]` or a bar's."""
    if _DICT.search(text, at):  # a run's summary, a configuration: read as a dict or not at all
        return None
    fields: dict[str, _Field] = {}
    values: dict[str, _Field] = {}
    parts: list[_Field] = []
    bar = _BAR_RE.search(text, at)
    bar_start, bar_end = bar.span() if bar else (-1, -1)
    after_epoch = False
    last = at
    first_value, before_it = -1, ""
    alone = False
    step_key = ""
    numbers = list(_NUMBER.finditer(text, at))
    if len(numbers) > 200:
        return None
    for m in numbers:
        start, end = m.span(1)
        left = text[last:start]
        last = end
        if bar_start <= start < bar_end:
            continue
        key, explicit = _key(left)
        name = canonical(key) if key else None
        if key in ("Train", "train") and explicit and re.match(r"\s*\[", text[end : end + 3]):
            name = "epoch"
        digits = m.group(1).isdigit()
        if name == "step" or (not key and digits and after_epoch and _OF.match(text, end)):
            better = key.lower().replace(" ", "_") in ("global_step", "num_updates", "training/global_step")
            if digits and ("step" not in fields or (better and step_key not in ("global_step", "num_updates"))):
                fields["step"] = _Field("step", start, end)
                step_key = key.lower().replace(" ", "_")
                fields.pop("total", None)
                if key and not after_epoch and (of := _OF.match(text, end)):
                    fields["total"] = _Field("total", of.start(1), of.end(1))
                    last = of.end()
            after_epoch = False
        elif name == "epoch":
            fields.setdefault("epoch", _Field("epoch", start, end))
            after_epoch = True
        elif name is not None and name != "total_steps":
            suffix = text[end : end + 1] in _SI and not re.match(r"\w", text[end + 1 : end + 2])
            scale = factor(key)
            if name in ("step_time", "data_time") and scale == 1.0 and re.match(r" ?ms\b", text[end : end + 4]):
                scale = 1e-3
            field = _Field("value", start, end, name, scale, bool(text[end : end + 1]) and suffix)
            if first_value < 0:
                first_value, before_it = start, left
            if name == "loss_part":
                parts.append(field)
            else:
                values.setdefault(name, field)
            tail = text[end:].strip().rstrip(".")
            alone = (
                explicit and len(_key(text[at:start])[0]) == len(text[at:start].strip().rstrip(":= \"'->")) and not tail
            )
    if not values and not parts:
        return None
    kind = "line"
    if bar is not None and "step" not in fields:
        which = "n" if bar.group("n") else "n2"
        fields["step"] = _Field("step", bar.start(which), bar.end(which))
        kind = "bar"
    elif bar is not None:
        kind = "bar"
    if tune := _TORCHTUNE.match(text[at:]):
        fields["step"] = _Field("step", at + tune.start("step"), at + tune.end("step"))
        fields["epoch"] = _Field("epoch", at + tune.start("epoch"), at + tune.end("epoch"))
    if "step" not in fields and (keras := re.match(r"(\d+)/(\d+) (?:\[=|━|- \d)", text[at:])):
        fields["step"] = _Field("step", at + keras.start(1), at + keras.end(1))
    if "step" not in fields and (word := _STEP_WORD.search(text, at)):
        fields["step"] = _Field("step", word.start(1), word.end(1))
    if _HELD_OUT_LINE.search(_opening(text, at, first_value)) or _HELD_OUT_LINE.search(before_it):
        values = {
            (name := f"eval_{n}" if n in HELD_OUT else n): replace(f, name=name)
            for n, f in values.items()
            if n in HELD_OUT or n.startswith("eval_")
        }
        parts = []
    names = set(values) | ({"loss_part"} if parts else set())
    anchors = names & _ANCHORS
    lost = "elapsed time per iteration" in text and "step" in fields and not names & {"loss", "loss_part"}
    position = "step" in fields or "epoch" in fields
    if not anchors:
        return None
    if (
        not position
        and not (len(names) >= 2 and anchors & _STRONG)
        and not (alone and anchors & (_STRONG | {"perplexity"}))
    ):
        return None
    if anchors == {"skipped_total"} and "lr" not in names:
        return None
    taken: list[_Field] = []
    for field in sorted((*fields.values(), *values.values(), *parts[:8]), key=lambda f: f.start):
        if not taken or field.start >= taken[-1].end:
            taken.append(field)
    return _Reading(tuple(taken), kind, lost)


# ------------------------------------------------------------------------------------- from one line to all alike

_RARE = r"\.[0-9]+(?:[eE][-+]?[0-9]+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?"
_CAPTURES = {
    "value": rf"([-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|{_RARE}))",
    "value with thousands": rf"([-+]?(?:[0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|{_RARE}))",
    "time": r"([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?)",
    "short_time": r"([0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})",
    "unix": r"([0-9]+(?:\.[0-9]+)?)",
    "epoch": r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)",
}
# What may follow a number must not be able to continue it, or the engine cannot go through the line in one pass.
_OTHER_NUMBER = r"[-+]?[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+)?"
_OTHER_NUMBERS = {",": r"[-+]?[0-9]+(?:\.[0-9]+)*(?:[eE][-+]?[0-9]+)?", ".": r"[-+]?[0-9]+(?:,[0-9]+)*"}
_LITERAL = re.compile(
    r"(?P<space>[ \t]+)|(?P<bar>\|[^|\n]{0,200}\|(?= *\d+/\d))"
    r"|(?P<string>(?<=: )\"[^\"\\]*\"(?=[,}])|(?<=: )'[^'\\]*'(?=[,}]))"
    r"|(?P<number>[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?)|(?P<other>.)",
    re.A | re.S,
)


def _literal(text: str) -> str:
    """The pattern for text between captures: numbers and quoted values are free, padding varies, the rest is as is."""
    out = []
    for m in _LITERAL.finditer(text):
        what = m.lastgroup
        if what == "space":
            before = text[m.start() - 1 : m.start()]
            after = text[m.end() : m.end() + 1]
            wordy = before.isalnum() and after.isalnum()
            out.append("[ \\t]+" if wordy and before.isascii() else "[ \\t]*")
        elif what == "bar":
            out.append(r"\|[^|]*\|")
        elif what == "string":
            quote = m.group(0)[0]
            out.append(f"{quote}[^{quote}]*{quote}")
        elif what == "number":
            out.append(_OTHER_NUMBERS.get(text[m.end() : m.end() + 1], _OTHER_NUMBER))
        else:
            out.append(re.escape(m.group(0)) if m.group(0).isascii() else m.group(0))
    return "".join(out)


def _template(text: str, reading: _Reading) -> str:
    """A pattern for Rust's regex that takes every line of this line's shape, one group a field, in order."""
    out = ["^"]
    at = 0
    for field in sorted(reading.fields, key=lambda f: f.start):
        out.append(_literal(text[at : field.start]))
        thousands = field.role == "value" and text[field.end : field.end + 1] != ","
        out.append(_CAPTURES.get("value with thousands" if thousands else field.role, "([0-9]+)"))
        at = field.end
        if field.suffix:
            out.append("([KMBGTk]?)")
            at += 1
    out.append(_literal(text[at:].rstrip()))
    out.append(r"[ \t]*$")
    pattern = "".join(out)
    return re.sub(r"(?:\[ \\t\]\*){2,}", r"[ \\t]*", pattern)


_DIGITS = re.compile(r"\d+")
_SAMPLE = 48  # lines looked at in each round for templates
_ROUNDS = 24
_FEW = 400  # so few lines are read one by one


def extract(data: bytes, *, first_line: int, source: Source, voted: frozenset[str], reference: float) -> pl.DataFrame:
    """The metrics of a window of whole lines of a log, as rows of `METRICS_COLUMNS`; never raises for what it holds.

    data: the window's bytes, any encoding (decoded as UTF-8 with replacement), lines end with newlines.
    first_line: number of its first line, from 1.
    voted: the ambiguous prefixes that the file uses (`prefixes.vote`).
    reference: seconds since the epoch near which dates without a year are put.

    A row's step is the counter that the line prints: where a loop counts batches within an epoch, it starts again
    with every epoch and `epoch` says which. An HF Trainer dict prints none; it gets that of the bar next to it, else
    null. The rank is the global rank on the line, else a voted task id, else the source's, else the local rank.
    Rows come in the order of the lines.
    """
    import polars as pl

    empty = pl.DataFrame(schema=schema(METRICS_COLUMNS))
    pieces = _pieces(data, first_line)
    context = _Context(voted, reference, source.identity.rank)
    text = pl.col("text")
    frames = [
        *_apply_templates(pieces.filter(text.str.contains(_LIKELY) | text.str.contains(_HEADER)), context),
        *_bars(pieces.filter(text.str.contains(_BAR)), context),
        *_overflows(pieces.filter(text.str.contains(_OVERFLOW)), context),
        *_columns(data, first_line, context),
    ]
    frames = [frame for frame in frames if not frame.is_empty()]
    if not frames:
        return empty
    # Kept apart, so that a few rows need no sorting of the many.
    constant = [frame for frame in frames if frame["kind"][0] == "constant"]
    rows = pl.concat([frame for frame in frames if frame["kind"][0] != "constant"] or [frames[0].clear()])
    if not rows["key"].is_sorted():
        rows = rows.sort("key", maintain_order=True)
    kinds = frozenset(rows["kind"].unique().to_list())
    rows = _inherit(rows, kinds, pieces.filter("rule")["line"])
    rows = _fill_steps(rows, kinds)
    rows = _thin(rows, kinds)
    if constant:
        rows = rows.merge_sorted(_changes(pl.concat(constant).sort("key", maintain_order=True)), key="key")
    return rows.select(
        source=pl.lit(source.path, pl.String),
        line=pl.col("key") // _PER_LINE,
        rank="rank",
        attempt=pl.lit(source.identity.attempt, pl.Int32),
        step="step",
        epoch="epoch",
        time="time",
        name=pl.col("name").cast(pl.String),
        value="value",
    )


def _pieces(data: bytes, first_line: int) -> pl.DataFrame:
    """Candidate pieces of lines (line, sub, text, rule), split at carriage returns and behind bars; no escapes."""
    import polars as pl

    text = data.decode("utf-8", "replace")
    if "\x08" in text:
        text = re.sub("\x08+", "\r", text)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    split = pl.Series("text", text.split("\n"), dtype=pl.String)
    ruled = "-" * 12 in text and "| " in text
    rule = split.str.contains(r"(?-u:-{12,}[ \t]*$)") if ruled else pl.lit(False)
    lines = pl.DataFrame({"text": split}).with_row_index("line", first_line)
    lines = lines.with_columns(pl.col("line").cast(pl.Int64), rule=rule)
    if "\x1b" in text or "\r" in text:  # before the costly work below; elsewhere the patterns themselves are as cheap
        wanted = pl.col("text").str.contains_any(list(_WORDS), ascii_case_insensitive=True)
        lines = lines.filter(wanted | pl.col("rule"))
    if "\x1b" in text:
        lines = lines.with_columns(pl.col("text").str.replace_all(prefixes.ANSI, ""))
    barred = lines["text"].str.contains(r"(?-u:it/s|s/it)")
    if barred.any():  # what is written behind a bar's closing bracket is another message
        behind = pl.col("text").str.replace_all(r"( \[[0-9?][^\]\n\r]*(?:it/s|s/it)[^\]\n\r]*\]) *", "${1}\r")
        lines = lines.with_columns(pl.when(barred).then(behind).otherwise("text").alias("text"))
    if "\r" in text or barred.any():
        # A window can be one line with a hundred thousand frames of a bar.
        lines = (
            lines.with_columns(pl.col("text").str.split("\r"))
            .explode("text")
            .filter(pl.col("text").str.strip_chars() != "")
            .with_columns(sub=pl.int_range(pl.len(), dtype=pl.Int64).over("line"))
        )
    else:
        lines = lines.with_columns(sub=pl.lit(0, pl.Int64))
    return lines.filter(pl.col("text").str.len_bytes() <= _LONGEST)


@dataclass(frozen=True, slots=True)
class _Context:
    """What is the same for all lines of a window."""

    voted: frozenset[str]
    reference: float
    rank: int | None  # of the source


# Rows are ordered by one number: line, piece of the line (the last ones share a number), place in the piece.
_PER_PIECE = 128
_PER_LINE = 2**20 * _PER_PIECE
_KINDS = ("line", "bar", "dict", "table", "block", "header", "frame", "notice", "constant")
_NAME_LIST = ("", *sorted(NAMES))


def _row_schema() -> dict[str, Any]:
    import polars as pl

    return {
        "key": pl.Int64, "kind": pl.Enum(_KINDS), "rank": pl.Int32, "step": pl.Int64, "epoch": pl.Float64,
        "time": pl.Float64, "name": pl.Enum(_NAME_LIST), "value": pl.Float64,
    }  # fmt: skip


def _apply_templates(lines: pl.DataFrame, context: _Context) -> Iterator[pl.DataFrame]:
    """Read a sample of the lines, apply its templates to all, and so on with what is left; the rest one by one."""
    import polars as pl

    left = lines.select("line", "sub", "text")
    for _ in range(_ROUNDS):
        if left.height <= _FEW:
            break
        stride = max(1, left.height // _SAMPLE)
        sample = left["text"].gather_every(stride).head(_SAMPLE).to_list()
        shapes = Counter(_DIGITS.sub("0", text) for text in sample)
        examples = {_DIGITS.sub("0", text): text for text in sample}
        templates: dict[str, _Reading] = {}
        nothing: set[str] = set()
        for shape, _ in shapes.most_common():
            text = examples[shape]
            reading = _read(text, context.voted)
            if reading is None:
                nothing.add("^" + _literal(text) + "$")
            else:
                templates.setdefault(_template(text, reading), reading)
        height = left.height
        for pattern, reading in templates.items():
            try:
                groups = left["text"].str.extract_groups(pattern).struct.unnest()
            except pl.exceptions.ComputeError:  # too large for the engine: its lines are read one by one
                continue
            hit = groups[:, 0].is_not_null()
            if hit.all():
                yield from _rows(left, groups, reading, context)
                left = left.clear()
                break
            if hit.any():
                yield from _rows(left.filter(hit), groups.filter(hit), reading, context)
                left = left.filter(~hit)
        for pattern in nothing:
            if left.height > _FEW:
                try:
                    left = left.filter(~left["text"].str.contains(pattern))
                except pl.exceptions.ComputeError:
                    continue
        if left.height > 0.95 * height:  # no two lines alike
            break
    yield from _one_by_one(left, context)


def _rows(lines: pl.DataFrame, groups: pl.DataFrame, reading: _Reading, context: _Context) -> Iterator[pl.DataFrame]:
    """The rows of all lines of one shape. groups: one String column a captured field, in the order of the line."""
    import numpy as np
    import polars as pl

    said: dict[str, pl.Series] = {}
    values: list[tuple[str, pl.Series]] = []
    seldom: list[tuple[str, pl.Series]] = []
    column = 0
    for field in sorted(reading.fields, key=lambda f: f.start):
        text = groups[:, column]
        column += 1
        if field.role == "value":
            number = _floats(text)
            if field.suffix:
                letters = groups[:, column]
                column += 1
                if field.name != "memory" and (letters != "").any():
                    number = number * letters.replace_strict(_SI, default=1.0, return_dtype=pl.Float64)
            if field.factor != 1.0:
                number = number * field.factor
            (seldom if field.name == "batch_size" else values).append((field.name, number))
        elif field.role == "epoch":
            said["epoch"] = text.cast(pl.Float64, strict=False)
        elif field.role == "total":
            seldom.append(("total_steps", text.cast(pl.Float64, strict=False)))
        elif field.role in ("time", "short_time", "unix"):
            said["time"] = _seconds(text, field.role, context.reference) - reading.zone
        else:
            said[field.role] = text.cast(pl.Int64 if field.role == "step" else pl.Int32, strict=False)
    if reading.kind == "header":
        values.append(("", pl.Series([None] * lines.height, dtype=pl.Float64)))
    wide = _shaped(
        lines.select("line", "sub").with_columns([column.alias(name) for name, column in said.items()]),
        context, kind=pl.lit(reading.kind),
    )  # fmt: skip
    if reading.lost_loss:
        skipped = next((number for name, number in values if name == "skipped_steps"), None)
        lost = wide if skipped is None else wide.filter((skipped == 0).fill_null(True))
        yield lost.with_columns(name=pl.lit("loss").cast(pl.Enum(_NAME_LIST)), value=pl.lit(float("nan")))
    for order, (name, number) in enumerate(seldom, 100):
        rare = wide.with_columns(
            key=pl.col("key") + order,
            kind=pl.lit("constant").cast(pl.Enum(_KINDS)),
            name=pl.lit(name).cast(pl.Enum(_NAME_LIST)),
            value=number,
        )
        if number.n_unique() > 1:
            yield rare.filter(~_unchanged() & pl.col("value").is_not_null())
        else:
            yield rare.filter(pl.col("rank").is_first_distinct() & pl.col("value").is_not_null())
    if not values:
        return
    width = len(values)
    its_names = pl.Series([name for name, _ in values], dtype=pl.Enum(_NAME_LIST))
    long = wide[np.repeat(np.arange(wide.height, dtype=np.uint32), width)].with_columns(
        key=pl.col("key") + pl.Series(np.tile(np.arange(1, width + 1), wide.height)),
        name=its_names.gather(np.tile(np.arange(width, dtype=np.uint32), wide.height)),
        value=pl.Series(np.stack([number.to_numpy() for _, number in values], axis=1).ravel()),
    )
    if any(number.null_count() for _, number in values) and reading.kind != "header":
        known = np.stack([number.is_not_null().to_numpy() for _, number in values], axis=1).ravel()
        long = long.filter(pl.Series(known))
    yield long


def _floats(text: pl.Series) -> pl.Series:
    """Strings as captured -> Float64; thousands commas taken out, NaN and Inf kept."""
    import polars as pl

    number = text.cast(pl.Float64, strict=False)
    if number.null_count() == text.null_count():
        return number
    again = text.str.replace_all(",", "", literal=True).str.strip_chars_end(".").str.to_lowercase()
    return number.fill_null(again.cast(pl.Float64, strict=False))


def _seconds(text: pl.Series, role: str, reference: float) -> pl.Series:
    """Printed times -> seconds since the epoch, local time read as UTC."""
    import polars as pl

    if role == "unix":
        return text.cast(pl.Float64, strict=False)
    if role == "short_time":
        from datetime import UTC, datetime

        year = datetime.fromtimestamp(max(0.0, min(reference, 4e9)), UTC).year
        this = _parse(pl.select((pl.lit(f"{year}/") + text).alias("t"))["t"], "%Y/%m/%d %H:%M:%S")
        before = _parse(pl.select((pl.lit(f"{year - 1}/") + text).alias("t"))["t"], "%Y/%m/%d %H:%M:%S")
        # Two days of grace, as in prefixes.parse_time.
        return pl.select(pl.when(this <= reference + 2 * 86400).then(this).otherwise(before).alias("t"))["t"]
    # The date by its few distinct values, the clock by its digits: six times cheaper than parsing each whole.
    day = text.str.slice(0, 10)
    days = day.unique()
    midnight = days.str.replace_all("/", "-", literal=True).str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64) * 86400
    start = day.replace_strict(days, midnight, default=None, return_dtype=pl.Int64)
    hour, minute, second = (text.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (11, 14, 17))
    fraction = text.str.slice(20)
    seconds = (start + hour * 3600 + minute * 60 + second).cast(pl.Float64)
    if (fraction == "").all():
        return seconds
    return seconds + fraction.cast(pl.Float64, strict=False).fill_null(0.0) / 10.0 ** fraction.str.len_bytes().cast(
        pl.Float64
    )


def _parse(text: pl.Series, form: str) -> pl.Series:
    import polars as pl

    return text.str.to_datetime(form, time_unit="us", strict=False).dt.epoch("us").cast(pl.Float64) / 1e6


def _one_by_one(lines: pl.DataFrame, context: _Context) -> Iterator[pl.DataFrame]:
    """Lines of shapes too rare for a template."""
    import polars as pl

    columns = ("line", "sub", "order", "kind", "rank", "task", "local_rank", "step", "epoch", "time", "name", "value")
    rows: list[tuple[Any, ...]] = []
    for line, sub, text in lines.iter_rows():
        reading = _read(text, context.voted)
        if reading is None:
            continue
        base: dict[str, Any] = {}
        values: list[tuple[str, float]] = []
        for field in sorted(reading.fields, key=lambda f: f.start):
            raw = text[field.start : field.end]
            if field.role == "value":
                number = to_float(raw)
                if number is None:
                    continue
                if field.suffix and field.name != "memory":
                    number *= _SI.get(text[field.end : field.end + 1], 1.0)
                values.append((field.name, number * field.factor))
            elif field.role == "epoch":
                base["epoch"] = to_float(raw)
            elif field.role == "total":
                values.append(("total_steps", float(raw)))
            elif field.role == "unix":
                base["time"] = to_float(raw)
            elif field.role in ("time", "short_time"):
                stamp, _ = prefixes.parse_time(raw, context.reference)
                base["time"] = None if stamp is None else stamp - reading.zone
            elif len(raw) < (19 if field.role == "step" else 10):
                base[field.role] = int(raw)
        if reading.lost_loss and dict(values).get("skipped_steps", 0.0) == 0.0:
            values.insert(0, ("loss", float("nan")))
        if reading.kind == "header":
            values.append(("", float("nan")))
        said = {"line": line, "sub": sub, "kind": reading.kind, **base}
        for order, (name, number) in enumerate(values, 1):
            said.update(order=min(order, _PER_PIECE - 1), name=name, value=number)
            rows.append(tuple(said.get(column) for column in columns))
    if rows:
        types = {
            "kind": pl.String, "name": pl.String, "epoch": pl.Float64, "time": pl.Float64, "value": pl.Float64
        }  # fmt: skip
        frame = pl.DataFrame(rows, schema={c: types.get(c, pl.Int64) for c in columns}, orient="row")
        constant = frame["name"].is_in(["total_steps", "batch_size"])
        yield _shaped(frame.filter(~constant), context)
        yield _shaped(frame.filter(constant), context, kind=pl.lit("constant"))


def to_float(text: str) -> float | None:
    """A number as logs spell it (thousands commas, any case of nan and inf); None for anything else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _whose(frame: pl.DataFrame, context: _Context) -> pl.DataFrame:
    """The rank columns for lines that no template reads (bars, overflows): prefixes vary little, so once per prefix."""
    import polars as pl

    heads = frame["text"].str.extract(r"^((?:\[[^\]\n]*\] ?:?){1,4}|[^ ]+: )", 1).fill_null("")
    firsts = pl.DataFrame({"head": heads, "text": frame["text"]}).unique("head", keep="first", maintain_order=True)
    known: dict[str, dict[str, int]] = {}
    for head, text in firsts.head(4096).iter_rows():
        _, fields = _peel(text, context.voted)
        known[head] = {f.role: int(text[f.start : f.end]) for f in fields if f.end - f.start < 10}
    return frame.with_columns(
        heads.replace_strict({h: r.get(role) for h, r in known.items()}, default=None, return_dtype=pl.Int64).alias(
            role
        )
        for role in ("rank", "task", "local_rank")
    )


def _shaped(frame: pl.DataFrame, context: _Context, **columns: Any) -> pl.DataFrame:
    """A frame as rows: the columns of `_row_schema`, null where nothing is given; who wrote it is settled here.

    frame: `line`, `sub` and any of the row columns, `order`, `rank`, `task`, `local_rank`.
    """
    import polars as pl

    frame = frame.with_columns(**columns)
    order = pl.col("order").cast(pl.Int64) if "order" in frame.columns else pl.lit(0, pl.Int64)
    sub = pl.min_horizontal(pl.col("sub").cast(pl.Int64), pl.lit(_PER_LINE // _PER_PIECE - 1))
    ranks = [pl.col(role).cast(pl.Int32) for role in ("rank", "task") if role in frame.columns]
    ranks.append(pl.lit(context.rank, pl.Int32))
    if "local_rank" in frame.columns:
        ranks.append(pl.col("local_rank").cast(pl.Int32))
    key = pl.col("line").cast(pl.Int64) * _PER_LINE + sub * _PER_PIECE + order
    return frame.with_columns(key=key, rank=pl.coalesce(ranks)).select(
        (pl.col(name) if name in frame.columns or name in ("key", "rank") else pl.lit(None).alias(name)).cast(
            dtype, strict=False
        )
        for name, dtype in _row_schema().items()
    )


def _bars(frame: pl.DataFrame, context: _Context) -> Iterator[pl.DataFrame]:
    """Training progress from tqdm frames: `progress` (n) and `total_steps`, and the frames' own step for others to use.

    Bars of loading, mapping or evaluation are told by their description and unit. Frames that do not move are left out.
    """
    import polars as pl

    if frame.is_empty():
        return
    bar = pl.col("text")
    frame = frame.with_columns(
        desc=bar.str.extract(r"^(.*?):? *[0-9]+%\|", 1).fill_null(""),
        n=bar.str.extract(_BAR, 1).cast(pl.Int64, strict=False),
        total=bar.str.extract(_BAR, 2).cast(pl.Int64, strict=False),
    ).filter(
        pl.col("n").is_not_null()
        & pl.col("total").is_not_null()
        & ~pl.col("text").str.contains(r"(?-u:[0-9?.]+[kMGT]?(?:i?B|examples|ex|tokens|file|files)/s)")
        & ~pl.col("desc").str.contains("(?i)" + _NO_TRAINING_BAR.pattern)
    )
    if frame.is_empty():
        return
    frame = _whose(frame, context)
    epoch = pl.coalesce(
        pl.col("desc").str.extract(r"(?i-u:epoch[ :\[]{0,3}([0-9]+)(?:/[0-9]+)?\]?)", 1),
        pl.col("desc").str.extract(r"^[ \t]*([0-9]+)/[0-9]+ +[0-9.]+[GM] ", 1),  # Ultralytics
    )
    frame = frame.with_columns(epoch=epoch.cast(pl.Float64, strict=False))
    # Nameless bars of different lengths: the longest is the training loop's, the others are evaluations.
    nameless = frame.filter(pl.col("epoch").is_null())
    if nameless["total"].n_unique() > 1:
        main = nameless.group_by("total").agg(pl.len(), pl.col("n").max())["total"].max()
        frame = frame.filter(pl.col("epoch").is_not_null() | (pl.col("total") * 4 > main))
    moved = pl.struct("n", "total", "epoch", "rank", "local_rank")
    frame = frame.filter((moved != moved.shift(1)).fill_null(True))
    yield _shaped(frame, context, order=pl.lit(90), kind=pl.lit("frame"), step="n", name=pl.lit("progress"), value="n")
    yield _shaped(
        frame.filter(pl.col("epoch").is_null()), context, order=pl.lit(101), kind=pl.lit("constant"), step="n",
        name=pl.lit("total_steps"), value="total",
    )  # fmt: skip


def _overflows(frame: pl.DataFrame, context: _Context) -> Iterator[pl.DataFrame]:
    """Skipped steps and changes of the loss scale as DeepSpeed, apex, fairseq and Megatron announce them."""
    import polars as pl

    if frame.is_empty():
        return
    text = pl.col("text")
    number = r"([0-9][0-9.]*(?:e[-+]?[0-9]+)?)"
    new = pl.coalesce(
        text.str.extract(r"(?-u:reducing(?: loss scale)? to " + number + ")", 1),
        text.str.extract(r"(?-u:setting (?:loss )?scale to(?: to)?:? " + number + ")", 1),
        text.str.extract(r"(?-u:loss scale from [0-9.e+]+ (?:to|->) " + number + ")", 1),
        text.str.extract(r"(?-u:Attempted loss scale: " + number + ")", 1),
        text.str.extract(r"(?-u:static loss scale of:? " + number + ")", 1),
    ).str.strip_chars_end(".")
    frame = _whose(frame, context).with_columns(
        scale=new.cast(pl.Float64, strict=False),
        step=text.str.extract(r"(?-u:Grad overflow on iteration:? ([0-9]+))", 1).cast(pl.Int64, strict=False),
        skipped=~text.str.contains(r"(?-u:dynamic loss scale from |setting loss scale from |static loss scale)"),
        kind=pl.when(text.str.contains(r"(?-u:Grad overflow on iteration)"))
        .then(pl.lit("line"))
        .otherwise(pl.lit("notice")),
    )
    stamps = text.str.extract(r"([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?)", 1)
    frame = frame.with_columns(time=_seconds(frame.select(stamps.alias("t"))["t"], "time", context.reference))
    yield _shaped(frame.filter("skipped"), context, order=pl.lit(80), name=pl.lit("overflow"), value=pl.lit(1.0))
    scaled = frame.filter(pl.col("scale").is_not_null())
    yield _shaped(scaled, context, order=pl.lit(81), name=pl.lit("loss_scale"), value="scale")


def _columns(data: bytes, first_line: int, context: _Context) -> Iterator[pl.DataFrame]:
    """Tables whose header names the columns: Ultralytics' (box, cls, dfl loss an epoch) and OpenAI Baselines' (kl, ..).

    Ultralytics prints the terms of its loss and not their sum, which is what it optimises: `loss` is the sum.
    """
    import polars as pl

    if b" GPU_mem " not in data and b" vf_loss " not in data:  # a column that each of them has
        return
    rows = []
    line, counted = first_line, 0
    for header in _COLUMN_HEADER.finditer(data):
        titles = header.group("titles").decode("utf-8", "replace").replace("|", " ").split()
        names = [canonical(title) for title in titles]
        if not set(names) & _ANCHORS:
            continue
        line += data.count(b"\n", counted, header.end())
        counted = header.end()
        title = _ITERATION.findall(data[max(0, header.start() - 400) : header.start()])
        step = int(title[-1]) if title else None
        at = header.end() + 1
        for count in range(1, 2001):
            end = data.find(b"\n", at)
            raw = data[at : end if end >= 0 else None]
            at = end + 1 if end >= 0 else len(data)
            pieces = [piece for piece in raw.split(b"\r") if piece.strip()]
            cells = pieces[-1][:400].decode("utf-8", "replace").replace("|", " ").split() if pieces else []
            numbers = [to_float(cell.split("/")[0].rstrip(":GMK")) for cell in cells[: len(names)]]
            if len(numbers) < len(names) or None in numbers:
                break
            said: dict[str, Any] = {"line": line + count, "sub": len(pieces), "step": step, "epoch": None}
            if "/" in cells[0] and names[0] == "epoch":
                said["epoch"] = numbers[0]
            pairs = [
                (n, v) for n, v in zip(names, numbers, strict=True) if n and n not in ("epoch", "step", "batch_size")
            ]
            parts = [v for n, v in pairs if n == "loss_part" and v is not None]
            if len(parts) > 1 and "loss" not in names:
                pairs.append(("loss", sum(parts)))
            rows += [{**said, "order": order, "name": n, "value": v} for order, (n, v) in enumerate(pairs)]
    if rows:
        types = {"name": pl.String, "value": pl.Float64, "epoch": pl.Float64}
        names_of = ("line", "sub", "step", "epoch", "order", "name", "value")
        frame = pl.DataFrame(rows, schema={name: types.get(name, pl.Int64) for name in names_of})
        yield _shaped(frame, context, kind=pl.lit("line"))


# -------------------------------------------------------------------------------- what only other lines can tell


def _inherit(rows: pl.DataFrame, kinds: frozenset[str], rules: pl.Series) -> pl.DataFrame:
    """Give rows of tables and blocks the step of their block: `total_timesteps` of a table, the header above a block.

    rules: numbers of the lines that are dashes, which part one table from the next.
    """
    import polars as pl

    if "table" in kinds:
        table = pl.col("kind") == "table"
        line = rows.select(pl.col("key") // _PER_LINE)["key"]
        block = rules.search_sorted(line) if len(rules) else pl.Series([0] * rows.height)
        rows = rows.with_columns(block=block.cast(pl.Int64))
        counter = table & (pl.col("name") == "total_timesteps")
        steps = (
            rows.filter(counter)
            .group_by("block")
            .agg(pl.col("value").first().cast(pl.Int64, strict=False).alias("its"))
        )
        rows = (
            rows.join(steps, on="block", how="left", maintain_order="left")
            .with_columns(step=pl.when(table).then("its").otherwise("step"))
            .filter(~counter)
            .drop("block", "its")
        )
    if "header" in kinds:
        head = pl.col("kind") == "header"
        under = pl.col("kind") == "block"
        lacking = (pl.col("kind") == "line") & pl.col("epoch").is_null()
        above = {name: pl.when(head).then(name).forward_fill() for name in ("step", "epoch")}
        rows = rows.with_columns(
            step=pl.when(under).then(above["step"]).otherwise("step"),
            epoch=pl.when(under | lacking).then(above["epoch"]).otherwise("epoch"),
        ).filter(~head)
    return rows.filter(pl.col("name") != "total_timesteps") if "table" in kinds else rows


def _fill_steps(rows: pl.DataFrame, kinds: frozenset[str]) -> pl.DataFrame:
    """The step of HF Trainer dicts and overflow messages, from the frames of the bar around them.

    HF draws its bar again right behind a dict, at exactly its step; where other text follows, the frame before it is
    the nearest. One bar in the window is everybody's clock; of several, each is its own rank's.
    """
    import polars as pl

    if "frame" not in kinds or not kinds & {"dict", "notice"}:
        return rows
    wanting = pl.col("kind").is_in(["dict", "notice"]) & pl.col("step").is_null()
    frame = (pl.col("kind") == "frame") & pl.col("epoch").is_null() & (pl.col("name") == "progress")
    own = pl.col("rank") if rows.filter(frame)["rank"].n_unique() > 1 else pl.lit(0)
    shown = pl.when(frame).then("step")
    line = pl.col("key") // _PER_LINE
    rows = rows.with_columns(
        _before=shown.forward_fill().over(own),
        _after=shown.backward_fill().over(own),
        _after_at=pl.when(frame).then(line).backward_fill().over(own),
    )
    near = (pl.col("_after_at") - line).is_between(0, 1) & (pl.col("kind") == "dict")
    near = near & (pl.col("_after") >= pl.col("_before").fill_null(0)) & (pl.col("_after") > 0)
    step = pl.when(near).then("_after").otherwise("_before")
    return rows.with_columns(step=pl.when(wanting & (step > 0)).then(step).otherwise("step")).drop(
        "_before", "_after", "_after_at"
    )


def _unchanged() -> pl.Expr:
    import polars as pl

    own = ["rank", "name"]
    return pl.col("value").eq_missing(pl.col("value").shift(1).over(own)) & pl.int_range(pl.len()).over(own).gt(0)


def _changes(rows: pl.DataFrame) -> pl.DataFrame:
    """What stays the same for long (total steps, batch size) only where it is first told or changes."""
    return rows.filter(~_unchanged())


def _thin(rows: pl.DataFrame, kinds: frozenset[str]) -> pl.DataFrame:
    """Leave out the repeated frames of bars, and difference counters.

    DeepSpeed's running count of skipped steps is also given as steps since the record before (`skipped_steps`).
    """
    import polars as pl

    own = ["rank", "name"]
    parts = []
    if "bar" in kinds:
        bars = rows["kind"] == "bar"
        again = _unchanged()
        for column in ("step", "epoch"):
            again = again & pl.col(column).eq_missing(pl.col(column).shift(1).over(own))
        drawn = rows.filter(bars)
        parts.append(drawn.filter(~again))
        rows = rows.filter(~bars)
        if "frame" in kinds:  # a frame whose bar carries metrics has its step there already
            carried = (drawn["key"] // _PER_PIECE).unique().implode()
            rows = rows.filter((pl.col("kind") != "frame") | ~(pl.col("key") // _PER_PIECE).is_in(carried))
    counted = rows["name"] == "skipped_total"
    if counted.any():
        since = pl.col("value") - pl.col("value").shift(1).over(own)
        skipped = pl.lit("skipped_steps").cast(rows.schema["name"])
        fresh = rows.filter(counted).with_columns(
            value=pl.when(since >= 0).then(since), name=skipped, key=pl.col("key") + 32
        )
        parts.append(fresh.filter(pl.col("value").is_not_null()))
    return pl.concat([rows, *parts]).sort("key", maintain_order=True) if parts else rows
