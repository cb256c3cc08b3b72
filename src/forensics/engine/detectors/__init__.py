"""Detectors: signatures that show as the shape of a metric.

A detector is a function `(metrics, observations, **parameters) -> tuple[Observation, ...]`. metrics is a table of
`model.METRICS_COLUMNS`; observations are those of the logs. It leaves `signature` empty, and its `weight` says how
surely the shape stands for the signature (1 where nothing speaks against it). Signature files name detectors:

    [[evidence]]
    source = "metrics"
    detector = "scale_collapse"
    halvings = 10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from forensics.engine.counters import counting_batches
from forensics.engine.detectors import (
    averages,
    climbing,
    counter_restart,
    creeping,
    data_order,
    dynamics,
    epochs_anew,
    gradient_histograms,
    held_out,
    held_out_chance,
    held_out_fixed,
    instruments,
    loss_reset,
    loss_scale,
    loss_shape,
    memory,
    modules_nonfinite,
    names,
    nonfinite,
    pace,
    perplexities,
    prior_only,
    ranks,
    rate_negligible,
    rates,
    resume,
    rl,
    series,
    skips,
    spike_tails,
    spikes,
    standstill,
    starved,
    told_step,
    units,
    updates,
)
from forensics.engine.few import Same
from forensics.model import Observation
from forensics.signatures.schema import EvidenceRule, Signature, SignatureError

if TYPE_CHECKING:
    import polars as pl

Detector = Callable[..., tuple[Observation, ...]]

REGISTRY: Mapping[str, Detector] = {
    detector.__name__: detector
    for detector in (
        nonfinite.nan_loss,
        nonfinite.nan_gradients,
        nonfinite.nan_one_rank_first,
        nonfinite.nan_same_step,
        held_out.nan_held_out,
        held_out.held_out_explodes,
        held_out.held_out_rises,
        held_out_fixed.held_out_fixed,
        perplexities.perplexity_differs,
        loss_scale.scale_collapse,
        loss_scale.scale_stall,
        loss_reset.loss_reset,
        loss_shape.loss_divergence,
        creeping.loss_creeps,
        climbing.loss_climbs,
        spikes.loss_spike,
        spike_tails.spike_decays,
        loss_shape.grad_norms_differ,
        resume.epoch_restart,
        counter_restart.counter_restart,
        epochs_anew.epochs_anew,
        told_step.told_step,
        resume.lr_reset,
        resume.weights_not_restored,
        resume.loss_jumps,
        resume.loss_and_gradients_jump,
        resume.optimizer_not_restored,
        rl.kl_explosion,
        rl.kl_negative,
        rl.value_loss_explosion,
        rl.policy_collapse,
        rl.no_learning_signal,
        rl.flat_preference,
        rl.preference_stands,
        dynamics.weights_not_updated,
        dynamics.learning_rate_too_low,
        rate_negligible.rate_negligible,
        dynamics.weights_hardly_move,
        dynamics.updates_too_large,
        dynamics.vanishing_gradients,
        dynamics.clipped_while_scaled,
        dynamics.majority_class,
        prior_only.only_the_prior,
        held_out_chance.held_out_at_chance,
        averages.average_lost,
        averages.average_thrown_back,
        modules_nonfinite.nonfinite_module,
        gradient_histograms.gradients_always_zero,
        units.units_silent,
        units.distribution_collapse,
        updates.modules_not_updated,
        updates.probe_updates_too_large,
        updates.probe_updates_too_small,
        rates.rate_not_scheduled,
        rates.logged_rate_stale,
        ranks.ranks_share_samples,
        ranks.ranks_end_apart,
        pace.throughput_collapse,
        starved.loader_starves,
        pace.slow_rank,
        memory.memory_creep,
        memory.killed_while_memory_grew,
        skips.steps_often_skipped,
        standstill.loss_constant,
        standstill.loss_at_chance,
        standstill.rate_always_zero,
        standstill.updates_end,
        data_order.data_order_repeats,
        instruments.frozen_weights_moved,
        instruments.dead_units,
        instruments.logits_grow,
        instruments.detection_metric_zero,
        instruments.nothing_predicted,
    )
}


def run_detectors(
    catalogue: Mapping[str, Signature], metrics: pl.DataFrame, observations: Sequence[Observation]
) -> tuple[Observation, ...]:
    """The observations of every metrics rule of the catalogue.

    metrics: METRICS_COLUMNS, rows of one source in written order. Raises SignatureError where a signature names a
    detector that does not exist, or parameters that it does not have.
    """
    if metrics.is_empty():
        return ()
    try:
        return tuple(_run(catalogue, metrics, observations))
    finally:
        for remembered in (
            series.remembered_streams,
            nonfinite.remembered_analysis,
            resume.remembered_pairs,
            names.remembered_names,
        ):
            remembered.cache_clear()


@lru_cache(maxsize=1)
def _rules(catalogue: Same[Mapping[str, Signature]]) -> tuple[tuple[Signature, int, EvidenceRule, Detector], ...]:
    """(signature, index of the rule, rule, its detector) of the metrics rules; one catalogue serves many runs."""
    found = []
    for signature in catalogue.value.values():
        for index, rule in enumerate(signature.evidence):
            if rule.source != "metrics" or rule.detector is None:
                continue
            detector = REGISTRY.get(rule.detector)
            if detector is None:
                raise SignatureError(f"{signature.file}: there is no metrics detector {rule.detector!r}")
            found.append((signature, index, rule, detector))
    return tuple(found)


def _run(
    catalogue: Mapping[str, Signature], metrics: pl.DataFrame, observations: Sequence[Observation]
) -> Iterator[Observation]:
    batches: frozenset[str] | None = None  # asked for where a step is to be named
    for signature, index, rule, detector in _rules(Same(catalogue)):
        try:
            seen = detector(metrics, observations, **rule.parameters)
        except TypeError as error:
            raise SignatureError(f"{signature.file}: {rule.detector}: {error}") from error
        for o in seen:
            if o.step is not None and o.step_unit is None and o.evidence:
                batches = counting_batches(metrics) if batches is None else batches
                o = replace(o, step_unit="batch" if o.evidence[0].file in batches else None)
            yield replace(o, signature=signature.name, weight=o.weight * rule.weight, rule=index)
