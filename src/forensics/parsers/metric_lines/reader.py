"""One piece of a log line, read with care: which number is the step, which the loss, whose rank it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from forensics.parsers import prefixes
from forensics.parsers.instruments import is_instrument, name_of
from forensics.parsers.metric_lines.heads import end_of_head
from forensics.parsers.metric_lines.pieces import LONGEST
from forensics.parsers.names import HELD_OUT, canonical, factor, is_objective
from forensics.parsers.severity import MESSAGES

# What people watch. lr, memory, times and counters are taken only from lines that hold one of these.
STRONG = frozenset({"loss", "eval_loss", "grad_norm", "objective"})
ANCHORS = STRONG | {
    "loss_part", "policy_loss", "value_loss", "kl", "entropy", "reward", "accuracy", "eval_accuracy", "perplexity",
    "eval_perplexity", "explained_variance", "wer", "eval_wer", "clip_fraction", "margin", "frac_reward_zero_std",
    "eval_reward", "skipped_total", "total_timesteps", "reward_chosen",
}  # fmt: skip

# The one objective of a line without a loss (`names.is_objective`): whether it is the loss, its file tells.
OBJECTIVE = "objective"
_STEPS_WITHOUT = frozenset({"skipped_steps", "nan_steps"})  # Megatron-LM counts them on every line

SI = {"K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "": 1.0}
_VALUE = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
    r"|(?i:nan|inf(?:inity)?)(?![A-Za-z_]))"
)
# A number that is no part of a name (`Acc@1`, `mtp_1`, `mAP@.5:.95`), of a unit in a key (`lr(1e-4):`) or of the words
# around it.
_NUMBER = re.compile(rf"(?<![\w.@])(?<!@\.5:)(?<!@0\.5:)((?>{_VALUE}))(?!\)\s*[:=])(?!\s+iterations)", re.A)
_PAIR = re.compile(
    rf"""["']([^"'{{}}]{{1,80}})["']\s*:\s*(?:np\.float\d+\(|tensor\()?["']?({_VALUE})(?=["')\s,}}]|/\d{{1,12}}["'])""",
    re.A,
)
_DICT = re.compile(r"\{(?=\s*['\"])[^{}]*\}?")
_IN_DICT = re.compile(r"loss|mse|nll|elbo|rew|norm|acc|logit|log_?z|dead|zero_frac|recall|(?i:f1|ap\b|ap[_@\d])")
# A level, and the logger's name where logging's own format names it: `INFO:root:Train: 0 [..`.
_LEVEL = re.compile(r"^(?:INFO|WARNING|WARN|DEBUG|ERROR|NOTE)\b(?::[A-Za-z_][\w.]*:(?=[A-Za-z]))?[:\s]*", re.A)
_UNITS = re.compile(r"^(?:/s/gpu|(?:ms|s|sec|it|%|[KMGT]i?B)(?:/\w+)?)\s+")
_PER_SECOND = re.compile(r"/s(?![\w/])", re.A)  # open_clip's `5603.1/s, 700.4/s/gpu`
# The time of a step as loops of one's own print it, value first: `0.42 s/step`, `420ms/it`.
_PER_STEP = re.compile(r" ?(?P<unit>ms|msec|s|secs?|seconds?)/(?:it|iter|iteration|step|batch)(?![\w/])", re.A)
_PACES = frozenset({"", "speed", "pace"})  # keys in front of it
_CUT = re.compile(r"[|,;\[\]{}()\t\"'<>•]|\s{2,}|:\s+|\s-\s|\s—\s")
_KEY_REACH = 200  # characters in front of a number in which its key is looked for; no key is that long
_KEY = re.compile(r"[A-Za-z][\w /().@#*%-]*", re.A)
_HELD_OUT_LINE = re.compile(
    r"(?<![\w./-])(?:val|valid|validate|validating|validation|eval|evaluate|evaluating|evaluation|test|testing)"
    r"(?![\w./-]*[/.]\w)(?!-)\b",
    re.I,
)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?", re.A)
_STEP_WORD = re.compile(r"\b(?:global[_ ]step|step|iteration|iter)s?[ :=#\[]{1,3}(\d+)\b", re.I | re.A)
_TABLE_ROW = re.compile(rf"^\|\s*([A-Za-z][\w /@.()-]*?)\s*\|\s*({_VALUE})\s*\|\s*$", re.A)
_BLOCK_ROW = re.compile(rf"^\s+(?:(?:Train|Eval) ([\w/.-]+): |((?:train|eval|optim)/[\w/. -]+)=)({_VALUE})\s*$", re.A)
# rsl_rl's blocks (Isaac Lab, legged_gym), whose keys are set to the right: `   Mean value_function loss: 0.7114`.
_RSL_ROW = re.compile(
    r"^\s{2,}(?P<key>Mean [a-z_ ]{1,40} loss|Value function loss|Surrogate loss|Mean reward): "
    rf"(?P<value>{_VALUE})\s*$",
    re.A,
)
_RSL_HEAD = re.compile(r"^\s*Learning iteration (?P<step>\d+)/\d+\s*$", re.A)
# nnU-Net v2 gives each number a dated line: `2026-11-20 08:00:00.900875: train_loss -0.2`, under `..: Epoch 0`.
_NNUNET = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?: "
    rf"(?:Epoch (?P<epoch>\d+)|(?P<key>train_loss|val_loss) (?P<value>{_VALUE}))\s*$",
    re.A,
)
# Darknet: `121: 3.1, 2.9 avg loss, 0.001000 rate, 4.1 seconds, ..`; glibc prints the NaN of its division as `-nan`.
_DARKNET = re.compile(
    rf"^\s*(?P<step>\d+): (?P<loss>{_VALUE}), {_VALUE} avg(?: loss)?, (?P<lr>{_VALUE}) rate, "
    rf"(?P<time>{_VALUE}) seconds",
    re.A,
)
_OLMO_HEAD = re.compile(r"(?:^|\s)\[step=(?P<step>\d+)(?:/\d+)?,epoch=(?P<epoch>\d+)(?:/\d+)?\]\s*$", re.A)
_BAR_RE = re.compile(
    r"(?P<pct>\d+)%\|[^|\n]{0,200}\| *(?P<n>\d+)/(?P<total>\d+) \[|[━╸╺]{3,}[ \x1b]*(?P<n2>\d+)/(?P<total2>\d+) ", re.A
)
_TORCHTUNE = re.compile(r"^(?P<epoch>\d+)\|(?P<step>\d+)\|Loss: ", re.A)
# How loops of one's own count the batches of an epoch.
_BATCH = frozenset({"batch", "batch_idx", "minibatch", "mini-batch", "batch idx"})
_WRITER = re.compile(r"(?i:\brank)[ :=]{0,2}\d{1,6}\b", re.A)
_BEHIND_WRITER = re.compile(r"^.{0,60}\brank\d{1,6}\W{1,3}", re.A)
# `[1,  2000] loss: 2.173`, ESPnet's `3epoch:train:801-900batch:` and DCGAN's `[3/25][50/1583]`
_COUNTED = re.compile(
    r"^\[(?P<epoch>\d+), +(?P<step>\d+)\] |\b(?P<epoch2>\d+)epoch:train:\d+-(?P<step2>\d+)batch: "
    r"|^\[(?P<epoch3>\d+)/\d+\] ?\[(?P<step3>\d+)/\d+\]",
    re.A,
)
# A loop's own counter in front of all: `[ 660] train_loss=0.31`, `[0140/2000] loss: 0.31`, `140 train_loss=0.31`,
# `Train [140/2000] Loss: 0.31`.
_LEADING = re.compile(
    r"\s*(?:(?:[Tt]rain(?:ing)?:? )?\[ *(?P<step>\d+)(?: ?/ ?(?P<total>\d+))?\]:?"
    r"|(?P<step2>\d+)(?:/(?P<total2>\d+))?[:,]?)(?: +\| *| +- +| +)(?=[A-Za-z])",
    re.A,
)
_KERAS = re.compile(r" *(\d+)/(\d+) (?:\[=|━|- \d)", re.A)
_UNKNOWN_LENGTH = re.compile(r"(?<![\w.])(?P<n>\d+)it \[|\| *(?P<n2>\d+)/\? \[", re.A)  # a bar without a total
_LOSS_AT = re.compile(
    rf"\b(?:loss|cost)\b[\w ()]{{0,40}}? (?:at|after|on) "
    rf"(?:(?:step|iteration|iter|batch) (?P<step>\d+)|(?P<step2>\d+) (?:steps|iterations|batches))"
    rf" ?[:=] *(?P<loss>{_VALUE})\s*$",
    re.I | re.A,
)
_PASS = re.compile(r"Iter ?\((?:val|test)\)")  # mmengine's own count of a pass over held-out data
# What Megatron-LM prints a loss as, whatever it is called: ` lm loss: 6.243263E+00 |`.
_MEASURED = re.compile(r"\d\.\d{6}E[-+]\d\d", re.A)
_OF = re.compile(r"\s*/\s*(\d+)", re.A)
_DATE = re.compile(r"(?<!\d)(\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?", re.A)
_US_DATE = re.compile(r"(?<![\d/])(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)", re.A)
_SHORT_DATE = re.compile(r"(?<![\d/])(\d\d/\d\d \d\d:\d\d:\d\d)", re.A)
_UNIX_KEY = re.compile(r'"(?:ts|time|timestamp|created|_timestamp)": ?(1[5-9]\d{8}(?:\.\d+)?)', re.A)
_RANKS = tuple(
    re.compile(p)
    for p in (
        *(pattern for _, pattern in prefixes.IN_TEXT_RANK),
        r"\([Rr]ank[ :=](?P<rank>\d+)\)",
        r"\b[Rr]ank[ :=](?P<rank>\d+) ?[|,:]",
        r"OVERFLOW! Rank (?P<rank>\d+) ",
    )
)
_MESSAGE = re.compile(rf'\s*\{{(?:".{{0,400}}?)?"(?:{"|".join(MESSAGES)})": ?"(?P<said>(?:[^"\\]|\\.){{1,2000}})"')

# CLU's LoggingWriter behind absl's head, before `[100] loss=2.31, ..`: Flax' examples, T5X, Scenic.
_CLU = re.compile(
    r"(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,20} logging_writer\.py:\d{1,6}\] |INFO:absl:)(?=\[\d)", re.A
)
# What speaks of an earlier step: `best checkpoint so far: step 300 loss 1.92`, `no improvement since step 300`.
_RECALLS = re.compile(
    r"(?i)(?<!new )\b(?:best|since|previous)\b[^\d\n{}]{0,30}?\b(?:global[ _])?(?:step|iter|iteration)\b\W{1,3}\d"
)
_COUNTS = re.compile(r"(?i)(?<![a-z])(?:step|iter|iteration|epoch)(?![a-z])")


class Field(NamedTuple):
    """One number of a line: what it is and where it stands."""

    # "value" | "step" | "total" | "epoch" | "rank" | "task" | "local_rank" | "time" | "us_time" | "short_time" | "unix"
    role: str
    start: int
    end: int
    name: str = ""
    factor: float = 1.0
    suffix: bool = False  # an SI letter may follow directly


class Reading(NamedTuple):
    """What one line says.

    kind: "line", "bar" (repeats itself), "dict" (has no step), "table" and "block" (rows whose step stands elsewhere)
    or "header" (a step or epoch for the block under it).
    """

    fields: tuple[Field, ...]
    kind: str = "line"
    lost_loss: bool = False  # a Megatron line without its loss: NaN where no step was skipped, or one for a NaN
    zone: float = 0.0  # seconds to subtract from the printed time


def peel(text: str, voted: frozenset[str]) -> tuple[int, list[Field]]:
    """Where the message starts behind its prefixes, and the identities that they hold."""
    fields: dict[str, Field] = {}
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
                    fields[role] = Field(role, at + m.start(role), at + m.end(role))
            at += m.start("rest") if groups.get("rest") else m.end()
            break
        else:
            break
    if "rank" not in fields:
        for pattern in _RANKS:
            if m := pattern.search(text[at : at + 300]):
                fields["rank"] = Field("rank", at + m.start("rank"), at + m.end("rank"))
                break
    return at, list(fields.values())


@lru_cache(maxsize=64)
def _prefix_patterns(voted: frozenset[str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    chosen = {name: pattern for name, pattern in prefixes.VOTED.items() if name in voted}
    return tuple((name, re.compile(pattern)) for name, pattern in (prefixes.ALWAYS | chosen).items())


def _when(text: str) -> tuple[list[Field], float]:
    head = text[:200]
    if m := _DATE.search(head):
        zone = m.group(2)
        offset = 0.0
        if zone and zone != "Z":
            digits = zone[1:].replace(":", "")
            offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1.0 if zone[0] == "-" else 1.0)
        return [Field("time", m.start(1), m.end(1))], offset
    if m := _UNIX_KEY.search(text[:400]):
        return [Field("unix", m.start(1), m.end(1))], 0.0
    if m := _US_DATE.search(head):
        return [Field("us_time", m.start(1), m.end(1))], 0.0
    if m := _SHORT_DATE.search(head):
        return [Field("short_time", m.start(1), m.end(1))], 0.0
    return [], 0.0


@lru_cache(maxsize=4096)
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


def read(text: str, voted: frozenset[str]) -> Reading | None:
    """One cleaned piece of a line -> its numbers; None where it holds no metrics.

    text: without escape codes and carriage returns. Never raises.
    """
    if len(text) > LONGEST:
        return None
    at, who = peel(text, voted)
    if (earlier := _RECALLS.search(text, at)) and not _COUNTS.search(text, at, earlier.start()):
        return None
    when, zone = _when(text)
    if head := _CLU.match(text, at):
        at = head.end()
    found = (
        _read_program(text)
        or _read_table(text, at)
        or _read_dicts(text, at)
        or _read_message(text, at)
        or _read_sentence(text, at)
        or _read_keyed(text, at)
    )
    if found is None:
        return None
    taken = [(f.start, f.end) for f in found.fields]
    who = [f for f in (*who, *when) if not any(f.start < e and s < f.end for s, e in taken)]
    return Reading((*found.fields, *who), found.kind, found.lost_loss, zone)


def _read_program(text: str) -> Reading | None:
    """Lines of single programs: Darknet's, nnU-Net's, and those of the blocks that rsl_rl prints."""
    if m := _DARKNET.match(text):
        names = (("loss", "loss"), ("lr", "lr"), ("time", "step_time"))
        return Reading(
            (Field("step", *m.span("step")), *(Field("value", *m.span(group), name) for group, name in names))
        )
    if m := _RSL_HEAD.match(text):
        return Reading((Field("step", *m.span("step")),), "header")
    m = _RSL_ROW.match(text) or _NNUNET.match(text)
    if m is None:
        return None
    if m["value"] is None:
        return Reading((Field("epoch", *m.span("epoch")),), "header")
    name = canonical(m["key"])
    return None if name is None else Reading((Field("value", *m.span("value"), name),), "block")


def _read_table(text: str, at: int) -> Reading | None:
    """Rows of Stable-Baselines tables and of Composer's blocks, and the headers that give such blocks their step."""
    rest = text[at:]
    for pattern, kind in ((_TABLE_ROW, "table"), (_BLOCK_ROW, "block")):
        if m := pattern.match(rest):
            key = next(part for part in m.groups()[:-1] if part)
            name = name_of(key)
            start, end = at + m.start(m.lastindex or 0), at + m.end(m.lastindex or 0)
            if name == "total_timesteps":
                return Reading((Field("value", start, end, name),), kind)
            if name is None or name in ("step", "epoch", "total_steps"):
                return None
            return Reading((Field("value", start, end, name, factor(key)),), kind)
    if m := re.match(
        r"(?:\[epoch=(?P<epoch>\d+)(?:/\d+)?\])?(?:\[\w+=[\d/]+\])*\[batch=(?P<step>\d+)/\d+\]:?\s*$", rest
    ):
        fields = [Field("step", at + m.start("step"), at + m.end("step"))]
        if m.group("epoch"):
            fields.append(Field("epoch", at + m.start("epoch"), at + m.end("epoch")))
        return Reading(tuple(fields), "header")
    if m := _OLMO_HEAD.search(rest):
        fields = [Field("step", at + m.start("step"), at + m.end("step"))]
        return Reading((*fields, Field("epoch", at + m.start("epoch"), at + m.end("epoch"))), "header")
    if m := re.match(r"Epoch (\d+)/\d+\s*$", rest):
        return Reading((Field("epoch", at + m.start(1), at + m.end(1)),), "header")
    return None


def _read_sentence(text: str, at: int) -> Reading | None:
    """`Training loss (for one batch) at step 200: 1.0312`."""
    if (m := _LOSS_AT.search(text, at)) is None:
        return None
    step = m.span("step" if m["step"] else "step2")
    name = "eval_loss" if _HELD_OUT_LINE.search(text[at : step[0]]) else "loss"
    return Reading((Field("step", *step), Field("value", *m.span("loss"), name)))


def _read_dicts(text: str, at: int) -> Reading | None:
    """The flat dict or JSON object of a line: HF Trainer, TRL, fairseq's json format, structured loggers."""
    for whole in _DICT.finditer(text, at):
        inner = whole.group(0)
        if not _IN_DICT.search(inner):
            continue
        label = text[at : whole.start()].rstrip()
        named = label.endswith(":")
        if named and ("{" in label or label[-2:-1] in ("'", '"')):
            continue  # the value of another object's key: a configuration
        closed = inner.endswith("}")
        fields: list[Field] = []
        names: dict[str, Field] = {}
        run_summary = "_runtime" in inner and "train_" in inner
        position = False
        for m in _PAIR.finditer(inner):
            if not closed and inner[m.end() : m.end() + 2].strip("\"')")[:1] != ",":
                continue  # cut in the middle of the number, perhaps
            name = name_of(m.group(1))
            start, end = whole.start() + m.start(2), whole.start() + m.end(2)
            if name is None or name == "total_steps" or (name in names and name != "loss_part"):
                continue
            if text.startswith("/", end) and name not in ("step", "epoch"):  # `"iter": "880/4000"`
                continue
            if name in ("step", "epoch"):
                position = True
                if name == "step" and not text[start:end].isdigit():
                    continue
                names[name] = Field(name, start, end)
            elif not (run_summary and name in ("loss", "throughput")):
                names[name] = Field("value", start, end, name, factor(m.group(1)))
            else:
                continue
            fields.append(names[name])
        anchors = _anchors(names)
        if not anchors or not (position or anchors & STRONG or len(anchors) > 2):
            continue
        if named and not (position and anchors & STRONG):
            continue  # behind a logger's name stand records, and behind others the settings of a part
        if not position and "lr" not in names and len(names) < 2:
            continue
        return Reading(tuple(fields), "line" if "step" in names else "dict")
    return None


def _read_message(text: str, at: int) -> Reading | None:
    """The message of a JSON record, in which a program says what it would else print as a line."""
    m = _MESSAGE.match(text, at)
    if m is None:
        return None
    start, end = m.span("said")
    return _read_sentence(text[:end], start) or _read_keyed(text[:end], start)


def _leading(text: str, at: int, message: int, first_value: int) -> re.Match[str] | None:
    """The counter in front of a message, which begins behind a logger's head where there is one.

    A number without brackets is one where the first key follows it at once. Behind a head that of a process or a rank
    may stand: a counter names its total there.
    """
    m = _LEADING.match(text, message)
    if m is None or (message > at and not (m["total"] or m["total2"])):
        return None
    if m["step"]:
        return m
    between = text[m.end() : first_value]
    return m if len(_key(between)[0]) == len(between.strip().rstrip(":= \"'->")) else None


def _anchors(names: Iterable[str]) -> set[str]:
    """Those of some names that people watch."""
    return {name for name in names if name in ANCHORS or is_instrument(name)}


def _opening(text: str, at: int, end: int) -> str:
    """The words of a message before its first number; the clock in front of it does not count."""
    clocks = list(_CLOCK.finditer(text, at, max(at, min(end, at + 80))))
    start = clocks[-1].end() if clocks else at
    first = _NUMBER.search(text, start)
    return text[start : first.start() if first else end]


def _leads(text: str, at: int, start: int) -> bool:
    """Whether a number is the first one of a message, behind a clock and the rank of who writes."""
    clocks = list(_CLOCK.finditer(text, at, max(at, min(start, at + 80))))
    return _NUMBER.search(_WRITER.sub("", text[clocks[-1].end() if clocks else at : start])) is None


def _read_keyed(text: str, at: int) -> Reading | None:
    """`key value`, `key: value`, `key=value` with any separator, and positions such as `[0][415/1736]` or a bar's."""
    if _DICT.search(text, at):  # a run's summary, a configuration: read as a dict or not at all
        return None
    fields: dict[str, Field] = {}
    values: dict[str, Field] = {}
    parts: list[Field] = []
    bar = _BAR_RE.search(text, at)
    open_bar, keras = _UNKNOWN_LENGTH.search(text, at), _KERAS.match(text, at)
    bar_start, bar_end = bar.span() if bar else (-1, -1)
    after_epoch = False
    last = at
    message = end_of_head(text, at)
    first_value, before_it = -1, ""
    last_value = (0, 0, False)
    step_key = ""
    may_be_size = False  # the step is a `batch 32`, which one that is called so puts right
    batches = False  # the step counts the batches of a pass over held-out data
    minimised = False  # one of the parts may be the loss
    measured = False  # a loss under a name of one's own
    numbers = list(_NUMBER.finditer(text, at))
    if len(numbers) > 200:
        return None
    for m in numbers:
        start, end = m.span(1)
        left = text[max(last, start - _KEY_REACH) : start]
        last = end
        if bar_start <= start < bar_end:
            continue
        key, explicit = _key(left)
        name = name_of(key) if key else "throughput" if _PER_SECOND.match(text, end) else None
        # A bar prints either this or its inverse, whichever is above 1; Keras rounds to whole milliseconds.
        timed = not (bar or open_bar or keras) and (name == "throughput" or key.lower() in _PACES)
        if (per_step := _PER_STEP.match(text, end) if timed else None) is not None:
            name = "step_time"
        if key in ("Train", "train") and explicit and start >= message:  # NeMo's head names `train:88` of the source
            if re.match(r"\]?\s*\[", text[end : end + 4]):
                name = "epoch"
            elif left.rstrip().endswith("[") and _OF.match(text, end):
                name = "step"
        digits = m.group(1).isdigit()
        # `[7][450/743]` and `[7][450]` count within an epoch.
        counts = after_epoch and (_OF.match(text, end) or (left.strip() == "][" and text[end : end + 1] == "]"))
        if name == "step" or (not key and digits and counts):
            better = key.lower().replace(" ", "_") in ("global_step", "num_updates", "training/global_step")
            if digits and (
                "step" not in fields or may_be_size or (better and step_key not in ("global_step", "num_updates"))
            ):
                fields["step"] = Field("step", start, end)
                step_key, may_be_size = key.lower().replace(" ", "_"), False
                batches = not key or _PASS.fullmatch(key) is not None
                fields.pop("total", None)
                if key and not after_epoch and (of := _OF.match(text, end)):
                    fields["total"] = Field("total", of.start(1), of.end(1))
                    last = of.end()
            after_epoch = False
        elif name == "epoch":
            fields.setdefault("epoch", Field("epoch", start, end))
            after_epoch = True
        elif (
            digits
            and _BEHIND_WRITER.sub("", key.lower()) in _BATCH
            and "step" not in fields
            and ("epoch" in fields or _leads(text, at, start))
        ):
            fields["step"] = Field("step", start, end)  # `Epoch 7, batch 1850`, `Epoch [1/5], Batch [100/938]`
            may_be_size = "epoch" not in fields
            after_epoch = False
        elif name is not None and name != "total_steps":
            suffix = text[end : end + 1] in SI and not re.match(r"\w", text[end + 1 : end + 2])
            scale = factor(key)
            if per_step is not None:
                scale = 1e-3 if per_step["unit"].startswith("ms") else 1.0
            elif name in ("step_time", "data_time") and scale == 1.0 and re.match(r" ?ms\b", text[end : end + 4]):
                scale = 1e-3
            field = Field("value", start, end, name, scale, bool(text[end : end + 1]) and suffix)
            if first_value < 0:
                first_value, before_it = start, left
            if name == "loss_part":
                parts.append(field)
                minimised = minimised or is_objective(key)
            else:
                values.setdefault(name, field)
            last_value = (start, end, explicit)
        elif name is None and _MEASURED.fullmatch(m.group(1)):
            measured = True
    if not values and not parts:
        return None
    start, end, explicit = last_value
    alone = False
    if explicit and end - message < _KEY_REACH and not text[end:].strip().rstrip("."):
        before = text[message:start]
        alone = len(_key(before)[0]) == len(before.strip().rstrip(":= \"'->"))
    kind = "line"
    if bar is not None and "step" not in fields:
        which = "n" if bar.group("n") else "n2"
        fields["step"] = Field("step", bar.start(which), bar.end(which))
        kind = "bar"
    elif bar is not None:
        kind = "bar"
    if tune := _TORCHTUNE.match(text[at:]):
        fields["step"] = Field("step", at + tune.start("step"), at + tune.end("step"))
        fields["epoch"] = Field("epoch", at + tune.start("epoch"), at + tune.end("epoch"))
    if "step" not in fields and "epoch" not in fields and (counted := _COUNTED.search(text[message:])):
        for role in ("step", "epoch"):
            begin, stop = next(counted.span(f"{role}{form}") for form in ("", "2", "3") if counted[f"{role}{form}"])
            fields[role] = Field(role, message + begin, message + stop)
    if open_bar:
        which = "n" if open_bar.group("n") else "n2"
        fields["step"] = Field("step", open_bar.start(which), open_bar.end(which))
        kind = "bar"
    if "step" not in fields and keras:
        fields["step"] = Field("step", *keras.span(1))
    if "step" not in fields and (word := _STEP_WORD.search(text, at)):
        fields["step"] = Field("step", word.start(1), word.end(1))
    if not {"step", "epoch"} & fields.keys() and (leading := _leading(text, at, message, first_value)):
        for role in ("step", "total"):
            group = role if leading["step"] else f"{role}2"
            if leading[group]:
                fields[role] = Field(role, *leading.span(group))
    passed = False
    if _HELD_OUT_LINE.search(_opening(text, at, first_value)) or _HELD_OUT_LINE.search(before_it):
        values = {
            (name := f"eval_{n}" if n in HELD_OUT else n): f._replace(name=name)
            for n, f in values.items()
            if n in HELD_OUT or n.startswith("eval_") or is_instrument(n)
        }
        parts = []
        if batches:
            fields = {role: field for role, field in fields.items() if role not in ("step", "total")}
            passed = True
    if minimised and len(parts) == 1 and not {"loss", "eval_loss"} & values.keys():
        values[OBJECTIVE] = parts.pop()._replace(name=OBJECTIVE)
    names = set(values) | ({"loss_part"} if parts else set())
    anchors = _anchors(names)
    lost = (
        "elapsed time per iteration" in text
        and "step" in fields
        and not measured
        and not names & {"loss", "loss_part", "eval_loss"}
    )
    position = "step" in fields or "epoch" in fields or passed
    if lost and names & _STEPS_WITHOUT:
        return Reading(_apart((*fields.values(), *values.values())), kind, lost)
    if not anchors:
        return None
    if (
        not position
        and not (len(names) >= 2 and anchors & STRONG)
        and not (alone and anchors & (STRONG | {"perplexity"}))
    ):
        return None
    if anchors == {"skipped_total"} and "lr" not in names:
        return None
    return Reading(_apart((*fields.values(), *values.values(), *parts[:8])), kind, lost)


def _apart(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Fields in the order of the line, without those that reach into the one before."""
    taken: list[Field] = []
    for field in sorted(fields, key=lambda f: f.start):
        if not taken or field.start >= taken[-1].end:
            taken.append(field)
    return tuple(taken)
