"""A loss that stands at ln C where the run's own settings say how many classes, or vocabulary entries, C are.

The detector `loss_at_chance` knows usual numbers only, for it sees no settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.detectors.series import remembered_streams
from forensics.engine.detectors.standstill import at_stated_chance
from forensics.model import Fact, Observation

if TYPE_CHECKING:
    import polars as pl

SIGNATURE = "loss-at-chance"
WEIGHT = 0.6  # as that of the detector's rule
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
    """Observations of a loss at ln of a stated number, where the detector has found none at all.

    metrics: METRICS_COLUMNS. observations: all that were made up to here.
    """
    if any(o.signature == SIGNATURE for o in observations) or not (stated := numbers(facts)):
        return ()
    found = at_stated_chance(metrics, stated)
    remembered_streams.cache_clear()  # it holds every number of the table
    return tuple(replace(o, signature=SIGNATURE, weight=o.weight * WEIGHT) for o in found)
