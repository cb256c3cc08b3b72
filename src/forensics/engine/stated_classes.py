"""A loss at ln C, or an accuracy at 1/C, where the run's own settings say how many classes, or entries, C are.

The detectors `loss_at_chance` and `held_out_at_chance` see no settings: they know usual numbers, and what a loss shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.detectors.held_out_chance import at_chance
from forensics.engine.detectors.series import remembered_streams
from forensics.engine.detectors.standstill import at_stated_chance
from forensics.model import Fact, Observation

if TYPE_CHECKING:
    import polars as pl

SIGNATURE, HELD_OUT = "loss-at-chance", "input-normalisation-differs"
WEIGHT = 0.6  # as that of the rules of both detectors
# What programs call the number: timm and torchvision, HF configurations, mmdetection, fastai, nanoGPT and Megatron.
CLASSES = frozenset(
    ("num_classes", "num_labels", "n_classes", "nb_classes", "n_class", "num_class", "nclasses", "number_of_classes",
     "vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab")
)  # fmt: skip
LABELS = "id2label"  # of an HF configuration, which holds one entry a class and no number
FEWEST, MOST = 3, 10**7  # hard tasks of two classes end at ln 2
DIFFERENT = 5  # numbers; a run that states more of them compares models


def numbers(facts: Sequence[Fact]) -> Mapping[int, str]:
    """C -> the name that states it; none where a run states many."""
    told = dict(_stated(facts))
    return told if len(told) <= DIFFERENT else {}


def _stated(facts: Sequence[Fact]) -> Iterator[tuple[int, str]]:
    labels: dict[tuple[str, str], set[int]] = {}
    for fact in facts:
        above, _, name = fact.name.rpartition(".")
        if name in CLASSES and fact.value.isdecimal() and FEWEST <= (count := int(fact.value[:9])) <= MOST:
            yield count, name
        elif above.rpartition(".")[2] == LABELS and name.isdecimal():
            labels.setdefault((fact.source, above), set()).add(int(name[:9]))
    for found in labels.values():
        if len(found) >= FEWEST and found == set(range(len(found))):
            yield len(found), LABELS


def told(metrics: pl.DataFrame, facts: Sequence[Fact], observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Observations of a loss, or an accuracy on held-out data, at the chance of a stated number of classes.

    Each where the detector that goes without settings has found none at all.
    metrics: METRICS_COLUMNS. observations: all that were made up to here.
    """
    if not (stated := numbers(facts)):
        return ()
    seen = {o.signature for o in observations}
    made = [
        replace(o, signature=signature, weight=o.weight * WEIGHT)
        for signature, find in ((SIGNATURE, at_stated_chance), (HELD_OUT, at_chance))
        if signature not in seen
        for o in find(metrics, stated)
    ]
    remembered_streams.cache_clear()  # it holds every number of the table
    return tuple(made)
