"""Series that people log to watch for one particular fault, told by their names.

They are not canonical (parsers/names.py): there is one a layer, a class or a threshold, so that each keeps the name
it was logged under. Readers of every kind of file keep them by one test, and detectors find them by the same patterns.
"""

from __future__ import annotations

import re
from functools import lru_cache

from forensics.parsers.names import canonical
from forensics.patterns import lazy

FROZEN = lazy(r"(?i)(?:^|[/_.])frozen[a-z0-9_]*[/_.](?:norm|mean|std|sum|checksum)$")
# What of a layer never fires: `stats/layer3/dead_frac`, `relu3/zero_frac`, TensorFlow's zero_fraction.
_SHARE = r"(?:frac|fraction|ratio|share)(?:$|[/_.])"
_DEAD = lazy(rf"(?i)(?:^|[/_.])dead[a-z0-9_]*[/_.]{_SHARE}")
_ZERO = lazy(rf"(?i)(?:^|[/_.])zeros?_{_SHARE}")
# Zeros of these are no units that fell silent: pruning makes them on purpose, and rewards are often zero.
_NO_UNITS = lazy(r"(?i)weight|param|prun|spars|grad|reward|adv|pad|mask|token|label|std")
LOGITS = lazy(
    r"(?i)(?:^|[/_.])(?:max_(?:attn_|attention_|output_)?logits?|(?:attn_|attention_|output_)?logits?[_/.]max"
    r"|log_?z|logsumexp)(?:_mean)?$"
)
# Average precision over all sizes: mmdet's bbox_mAP_50, detectron2's bbox/AP50, Ultralytics' metrics/mAP50-95(B),
# YOLOv5's metrics/mAP_0.5:0.95, torchmetrics' map_50.
_IOU = r"(?:50|75|0?[.](?:50?|75))"
_DETECTION = lazy(
    rf"(?i)(?:^|[/_.])(?:(?:bbox|segm|coco|val|box)_)?m?ap(?:[_@-]?{_IOU})?(?:[:_-](?:95|0?[.]95))?(?:\([bmp]\))?$"
)
# How many detections an evaluation counts, where it says that there are none (`metric_lines.detections`).
PREDICTIONS = "predictions"
_UPDATES = lazy(r"(?i)update[a-z_/]*ratio|(?:^|/)update_to_weight")
# F1 as the mean over classes: `val_f1_macro`, and scikit-learn's `macro avg/f1-score`.
MACRO_F1 = lazy(r"(?i)(?:^|[/_. ])(?:f1(?:[_-]?score)?[/_. -]?macro|macro(?:[_ ]?avg)?[/_. -]f1(?:[_-]?score)?)$")
# F1 of the positive class, as scikit-learn's f1_score gives it by itself: `val_f1`, `eval/f1_score`, `f1`.
BINARY_F1 = lazy(r"(?i)^(?:(?P<held_out>val|valid|validation|eval|test|dev)[/_. ]|train[/_. ])?f1(?:[_-]?score)?$")
_RECALL = lazy(r"(?i)^(?P<before>.*?)(?:^|[/_. ])recall(?P<after>(?:[/_.@( -].*|\d+)?)$")
# Parts of a recall's name that name no class: the phase, and a mean over classes.
_NO_CLASS = frozenset(
    "train training val valid validation eval evaluation test dev metrics metric class cls label per for of macro micro"
    " weighted avg average mean score all total overall balanced b m p box mask pose best".split()
)
_EMA = lazy(r"(?i)(?:^|[/_])ema(?:$|[/_])")
_RAW = lazy(r"(?i)(?:^|[/_])raw(?:$|[/_])")


def is_update_ratio(name: str) -> bool:
    """Whether a series is the ratio of an update to its weights, of the model or a part of it."""
    return _UPDATES.search(name) is not None


def is_dead_share(name: str) -> bool:
    """Whether a series is the share of a layer's units that give nothing but 0."""
    if _DEAD.search(name):
        return True
    return _ZERO.search(name) is not None and not _NO_UNITS.search(name)


def is_average_precision(name: str) -> bool:
    """Whether a series is an average precision over objects of all sizes. `Map:` is the bar of a data set."""
    return name != "Map" and _DETECTION.search(name) is not None


def recall_class(name: str) -> str | None:
    """The class whose recall a series is (`val/recall/cat`, `recall_0`, `cat_recall`); None for other names."""
    found = _RECALL.match(name)
    if found is None or "@" in name:
        return None
    parts = re.split(r"[/_.() -]+", f"{found['before']}/{found['after']}")
    if any(part.lower() in ("at", "top") for part in parts):  # among the first k
        return None
    own = [part for part in parts if part and part.lower() not in _NO_CLASS]
    return "_".join(own) or None


def raw_names(name: str) -> tuple[str, ...]:
    """What a metric of averaged weights may be called without the averaging; () for what is none.

    `val/acc_ema` has `val/acc` beside it, or `val/acc_raw`. A training loss that is smoothed has no such weights.
    """
    if not _EMA.search(name):
        return ()
    raw = _EMA.sub("_", name, count=1).strip("_")
    named = canonical(raw)
    if not _is_held_out(raw):
        return ()
    other = re.sub(r"(?i)(?<![a-z])ema(?![a-z])", "raw", name, count=1)
    return (other, raw, *((named,) if named is not None else ()))


def _is_held_out(name: str) -> bool:
    """Whether a name stands for what an evaluation measures."""
    named = canonical(name)
    return is_average_precision(name) if named is None else named.startswith("eval_")


@lru_cache(maxsize=1 << 15)
def is_instrument(name: str) -> bool:
    """Whether a detector looks for series of this name."""
    return (
        any(pattern.search(name) is not None for pattern in (FROZEN, LOGITS, MACRO_F1, BINARY_F1))
        or is_dead_share(name)
        or is_average_precision(name)
        or is_update_ratio(name)
        or recall_class(name) is not None
        or bool(raw_names(name))
        or (_RAW.search(name) is not None and _is_held_out(_RAW.sub("_", name, count=1).strip("_")))
    )


@lru_cache(maxsize=1 << 15)
def name_of(key: str) -> str | None:
    """The name of a metric in the table, whatever carries it: canonical, or an instrument's own; None for others."""
    if (known := canonical(key)) is not None:
        return known
    own = key.strip().strip("'\"").strip()
    return own if 0 < len(own) <= 120 and not own.lower().startswith("probe/") and is_instrument(own) else None
