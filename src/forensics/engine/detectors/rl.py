"""Reinforcement learning and preference tuning: KL, value loss, reward and the signal that is left to learn from.

RL curves are noisy and their scales are a matter of the task, so only shapes that no healthy run shows are reported:
jumps of an order of magnitude that stay, and signals that are exactly zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.loss_shape import exploded
from forensics.engine.detectors.names import finite
from forensics.engine.detectors.ranked import correlation, trend
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_SHOWN = ("kl", "reward", "reward_std", "frac_reward_zero_std", "value_loss", "entropy", "loss", "grad_norm")
# What stands beside the divergence of two policies. That of a variational autoencoder, or of a student from its
# teacher, is a part of the loss, which a schedule of its weight drives up and down.
_OF_POLICIES = (RL_NAMES - {"kl"}) | {"entropy", "response_length"}
_NAMES = (*_SHOWN, "explained_variance", "response_length", "margin", "accuracy", "logp_chosen", "lr")


def _each(metrics: pl.DataFrame, name: str, look: Callable[[Stream], Sign | None]) -> tuple[Observation, ...]:
    if not (metrics["name"] == name).any():
        return ()
    parts = [p for s in streams(metrics, _NAMES) if name in s.columns for p in segments(s)]
    signs = [sign for part in parts if (sign := look(part)) is not None]
    return merge(signs, parts, ())


def _sign(part: Stream, at: int, others: Sequence[int], note: str, metric: str, weight: float = 1.0) -> Sign:
    shown = dict.fromkeys((at, *others))
    return Sign(part, at, tuple(part.evidence(i, *_SHOWN) for i in shown), note, metric, weight)


def kl_explosion(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    jump: float = 20.0,
    least: float = 2.0,
    nats: float = 50.0,
    stays: int = 3,
    climb: int = 10,
    growth: float = 50.0,
    target: float = 6.0,
    records: int = 100,
) -> tuple[Observation, ...]:
    """The KL divergence jumps by an order of magnitude and stays there, grows beyond any bound, or is about to.

    Only of policies: another metric of reinforcement learning or preference tuning has to stand beside it.
    jump: from the level before to the next record; R2 gives 10 for slow growth over a whole run, which a run with a
        small KL coefficient may show as well. least: size that it reaches (a healthy approx_kl is below 0.1, a healthy
        sequence KL of RLHF begins near 0 and rises slowly to its target of about 6).
    nats: R2's absolute bound. stays: records, to the end, that must stay up.
    climb: last records, each above the one before, over which it became five times as large and a hundred times what it
        was early on, so that it ends above ten nats: nothing holds it any more, and the record just ends too early.
    growth, target, records: of one that grows over the whole run and ever faster: its end over its first quarter, the
        target that it has left behind (nats), and the fewest records that show it.
    """

    def look(part: Stream) -> Sign | None:
        at, kl = part.curve("kl")
        numbers = [v for v in kl if math.isfinite(v)]
        if len(kl) < stays + 1 or len(numbers) < len(kl) or not part.names & _OF_POLICIES:
            return None
        for k in range(1, len(kl) - stays + 1):
            level = median(kl[max(0, k - 20) : k])
            rest = kl[k:]
            if level < 1e-3 or kl[k] < max(1.0, jump * level) or min(rest) < 10 * level or max(rest) < least:
                continue
            note = (
                f"kl jumps from {number(level)} to {number(kl[k])} at {part.where(at[k])} and stays up"
                f" ({number(kl[-1])} at the end)"
            )
            return _sign(part, at[k], (at[k - 1], at[-1]), note, "kl")
        early = median(kl[: max(2, len(kl) // 4)])
        if len(kl) >= 8 and median(kl[-stays:]) > nats and abs(early) < nats / 5 and min(kl[-stays:]) > nats / 2:
            k = next(k for k in range(len(kl)) if kl[k] > nats)
            note = f"kl grows from {number(early)} to {number(kl[-1])}; it passes {number(nats)} at {part.where(at[k])}"
            return _sign(part, at[k], (at[0], at[-1]), note, "kl")
        last = kl[-climb - 1 :]
        if len(kl) >= 4 * climb and all(a < b for a, b in itertools.pairwise(last)) and last[-1] > max(10, 5 * last[0]):
            if early <= 0 or last[-1] < 100 * early:
                return None
            k = next(k for k in range(len(kl)) if min(kl[k:]) > 10 * early)
            note = (
                f"kl stays about {number(early)}, and from {part.where(at[k])} on grows from record to record to"
                f" {number(kl[-1])} at the end"
            )
            return _sign(part, at[k], (at[max(0, k - 1)], at[-1]), note, "kl", 0.95)
        end, lowest = median(kl[-stays:]), min(kl[-stays:])
        grown = early >= 1e-3 and end > max(target, growth * early) and lowest > 5 * early
        if len(kl) >= records and grown and _ever_faster(kl):
            lows = [*itertools.accumulate(reversed(kl), min)][::-1]  # of each record and all behind it
            k = next(k for k, low in enumerate(lows) if low > 5 * early and median(kl[k:]) > 10 * early)
            note = (
                f"kl grows over the whole run, from {number(early)} in its first quarter to {number(end)} at the end,"
                f" and ever faster; it leaves its first level for good at {part.where(at[k])}"
            )
            return _sign(part, at[k], (at[0], at[-1]), note, "kl", 0.9)
        return None

    return _each(metrics, "kl", look)


def _ever_faster(kl: Sequence[float], correlated: float = 0.8, faster: float = 1.3) -> bool:
    """Whether a KL divergence goes up all along (R2: Spearman above 0.8) and its last quarter is the steepest.

    A healthy one goes up fast and then ever more slowly, to the level where coefficient and reward are in balance. One
    that grows as the square of the steps is 1.5 times steeper from the third quarter to the last than before.
    """
    quarter = len(kl) // 4
    second, third, last = (median(kl[k * quarter : (k + 1) * quarter]) for k in (1, 2, 3))
    if last - third < faster * max(third - second, 0.0) or third < second:
        return False
    # The very end has not levelled off either.
    if median(kl[-(quarter // 2) :]) < faster * median(kl[-quarter : -(quarter // 2)]):
        return False
    return correlation(kl, range(len(kl))) > correlated


def kl_negative(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, below: float = -5.0, stays: int = 3
) -> tuple[Observation, ...]:
    """The KL estimate is far below zero, which no KL divergence can be.

    below: TRL warns at -1; the one-sample estimate is slightly negative in healthy runs. stays: last records below it.
    """

    def look(part: Stream) -> Sign | None:
        at, kl = part.curve("kl")
        if len(kl) < stays or not all(math.isfinite(v) and v < below for v in kl[-stays:]):
            return None
        k = len(kl)
        while k > 0 and kl[k - 1] < below:
            k -= 1
        note = (
            f"kl is {number(kl[k])} at {part.where(at[k])} and {number(kl[-1])} at the end, and can never be negative"
        )
        return _sign(part, at[k], (at[max(0, k - 1)], at[-1]), note, "kl")

    return _each(metrics, "kl", look)


def value_loss_explosion(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, factor: float = 1e3, records: int = 20
) -> tuple[Observation, ...]:
    """The value loss becomes non-finite, or a thousand times what it was beyond what the reward explains.

    One that is lost together with the whole loss, and had not grown before, did not explode: that is `nan_loss`.

    factor: the scale of a value loss follows the square of the returns (R3), so growth by 10 or 100 is healthy where
        the reward improves, and more where the reward itself has become many times as large. records: the fewest to
        judge by.
    """

    def look(part: Stream) -> Sign | None:
        at, value = part.curve("value_loss")
        bad = next((k for k, v in enumerate(value) if not math.isfinite(v)), None)
        if bad is not None and not any(math.isfinite(v) for v in value[bad:]) and len(value) >= 3:
            if _lost_by(part, at[bad]) and not exploded(value[:bad]):
                return None
            note = f"the value loss is {number(value[bad])} from {part.where(at[bad])} on"
            return _sign(part, at[bad], (at[max(0, bad - 1)],), note, "value_loss")
        if len(value) < records or bad is not None:
            return None
        early, late = median(value[: len(value) // 4]), value[-5:]
        if early <= 0 or min(late) < factor * early:
            return None
        rewards = [r for r in part.column("reward") if r is not None and math.isfinite(r)]
        if rewards and median(rewards[-5:]) > median(rewards[: max(1, len(rewards) // 4)]):
            start, end = median(rewards[:5]), median(rewards[-5:])
            larger = max(abs(end), end - start) / abs(start) if start else math.inf
            if min(late) < factor * early * max(larger, 1.0) ** 2:
                return None
        k = next(k for k in range(len(value)) if value[k] > 0.1 * factor * early and min(value[k:]) > 10 * early)
        note = f"the value loss grows from {number(early)} to {number(value[-1])}, from {part.where(at[k])} on"
        return _sign(part, at[k], (at[0], at[-1]), note, "value_loss", 0.9)

    return _each(metrics, "value_loss", look)


def _lost_by(part: Stream, at: int) -> bool:
    """Whether the loss is not finite at a record or before it; tables give each metric of one step its own line."""
    step = part.steps[at]
    return any(
        v is not None and not math.isfinite(v) and (i <= at or (step is not None and part.steps[i] == step))
        for i, v in enumerate(part.column("loss"))
    )


def policy_collapse(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    deviations: float = 4.0,
    stays: int = 20,
    alone: bool = False,
    lost: float = 0.8,
    ruined: float = 1.5,
) -> tuple[Observation, ...]:
    """The reward falls far below its best and stays there, together with entropy, response length or KL.

    deviations: of the reward around its best level (R1 gives 2 of the first half; noise alone reaches that).
    stays: records to the end (R1). A companion is required: entropy at a tenth of its start, responses 60 % shorter, or
        a KL five times its median (R1); a fall of the reward alone may be the environment or the data.
    alone: look for that fall alone, without a companion: at least `lost` of all that the reward had risen is gone, for
        a tenth of the record and five times `stays` or more.
    ruined: part of all that it had risen by which it falls where 1.5 times `stays` do: it ends far below its beginning,
        which no untrained policy explains.
    """

    def look(part: Stream) -> Sign | None:
        at, reward = part.curve("reward")
        if len(reward) < 3 * stays or not all(math.isfinite(v) for v in reward):
            return None
        import polars as pl

        level = pl.Series(reward).rolling_median(10, min_samples=10).to_list()
        best_at = max(range(9, len(reward)), key=lambda k: level[k])
        noise = 1.4826 * median(
            abs(r - m) for r, m in zip(reward[9 : best_at + 1], level[9 : best_at + 1], strict=True)
        )
        best, worst = level[best_at], min(level[9:])
        limit = best - max(deviations * noise, 0.5 * (best - min(level[9 : best_at + 1])), 0.05 * abs(best))
        # A reward that only ever fell was never learned.
        if best_at < stays or worst >= limit or max(reward[-stays:]) >= limit:
            return None
        k = next(k for k in range(best_at + 1, len(reward)) if max(reward[k:]) < limit or k == len(reward) - stays)
        companion = _companion(part, at[k])
        if (companion is None) is not alone:
            return None
        low = median(reward[-stays:])
        note = f"the reward falls from {number(best)} to {number(low)} at {part.where(at[k])} and stays there"
        if companion is not None:
            note += f"; {companion}"
        else:
            first = median(reward[:10])
            gained, fall = best - first, best - low
            enough = 1.5 * stays if fall >= ruined * gained else 5 * stays
            if gained <= 0 or fall < lost * gained or len(reward) - k < max(enough, len(reward) // 10):
                return None
            note += f" for {len(reward) - k} records; it began at {number(first)}"
        return _sign(part, at[k], (at[best_at], at[-1]), note, "reward", 0.9)

    return _each(metrics, "reward", look)


def _companion(part: Stream, at: int) -> str | None:
    def around(name: str) -> tuple[list[float], list[float]]:
        values = part.column(name)
        return (
            [v for v in values[:at] if v is not None and math.isfinite(v)],
            [v for v in values[at:] if v is not None and math.isfinite(v)],
        )

    before, after = around("entropy")
    if len(before) >= 5 and len(after) >= 5 and abs(median(after)) < 0.1 * abs(median(before[:5])):
        return f"the entropy is {number(median(after))}, and was {number(median(before[:5]))}"
    before, after = around("response_length")
    if len(before) >= 5 and len(after) >= 5 and median(after) < 0.4 * median(before):
        return f"responses are {number(median(after))} long, and were {number(median(before))}"
    before, after = around("kl")
    if len(before) >= 5 and len(after) >= 5 and median(after) > max(5 * median(before), 0.1):
        return f"kl is {number(median(after))}, and was {number(median(before))}"
    return None


def no_learning_signal(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, stays: int = 3, share: float = 0.5
) -> tuple[Observation, ...]:
    """Every group of completions has one and the same reward, so that all advantages and the loss are zero.

    stays: last records in which reward_std is 0 (and frac_reward_zero_std 1, where it is logged). share: part of all
        records that must be so; single batches without spread are normal, and so is a GRPO loss of 0.0.
    """

    def look(part: Stream) -> Sign | None:
        at, spread = part.curve("reward_std")
        zero_share = part.column("frac_reward_zero_std")
        loss, grad = part.column("loss"), part.column("grad_norm")

        def dead(k: int) -> bool:
            i = at[k]
            share_here = zero_share[i]
            return (
                spread[k] == 0.0
                and (share_here is None or share_here == 1.0)
                and not (grad[i] or 0.0) > 1e-6
                and not abs(loss[i] or 0.0) > 1e-4
            )

        flags = [dead(k) for k in range(len(spread))]
        if len(flags) < stays or not all(flags[-stays:]) or sum(flags) < share * len(flags):
            return None
        k = len(flags)
        while k > 0 and flags[k - 1]:
            k -= 1
        note = (
            f"reward_std is exactly 0 in {sum(flags)} of {len(flags)} records, from {part.where(at[k])} to the end:"
            " all completions of a prompt earn the same reward, and nothing is left to learn from"
        )
        return _sign(part, at[k], (at[-1],), note, "reward_std")

    return _each(metrics, "reward_std", look)


def flat_preference(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 50
) -> tuple[Observation, ...]:
    """Preference tuning whose margin is exactly 0 and whose loss is exactly ln 2 in every record.

    A policy that learns too slowly shows ln 2 with jitter (`preference_stands`); without any, policy and reference are
    one model (L9).
    records: the fewest to judge by; the first ones of a healthy run are ln 2 as well.
    """

    def look(part: Stream) -> Sign | None:
        at, margin = part.curve("margin")
        losses = part.column("loss")
        loss = [v for i in at if (v := losses[i]) is not None]
        if len(margin) < records or any(margin) or len(loss) < records:
            return None
        if any(abs(v - math.log(2)) > 1e-4 for v in loss):
            return None
        note = f"the margin is exactly 0 and the loss exactly ln 2 in all {len(margin)} records"
        return Sign(
            part, at[0], tuple(part.evidence(i, "loss", "margin", "accuracy") for i in (at[0], at[-1])),
            note, "margin",
        )  # fmt: skip

    return _each(metrics, "margin", look)


def preference_stands(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 100,
    near: float = 0.005,
    margin: float = 0.01,
    guessing: float = 0.05,
    deviations: float = 3.0,
) -> tuple[Observation, ...]:
    """Preference tuning that jitters about where it began in all of its records: the policy has hardly been moved.

    near, margin, guessing: how far the loss is from ln 2 in nine of ten records, the margin of the second half from 0
        (its mean, and half of the records) and the mean accuracy there from 1/2 (L9: 0.005, 0.01 and 0.05).
    records: the fewest (L9: 100 steps).
    deviations: of the rank correlation of margin or loss with time from what no trend shows; a policy that learns, if
        slowly, has one. A rate that still grows is a warm-up.
    """

    def look(part: Stream) -> Sign | None:
        at, margins = part.curve("margin")
        told = part.by_step("loss")
        losses = [v for i in at if (v := told[i]) is not None]
        later = margins[len(margins) // 2 :]
        if min(len(margins), len(losses)) < records or not all(map(math.isfinite, [*margins, *losses])):
            return None
        if not any(margins) or sum(abs(v - math.log(2)) > near for v in losses) > 0.1 * len(losses):
            return None
        if max(abs(sum(later)) / len(later), median(map(abs, later))) > margin:
            return None
        right = finite(part.column("accuracy"))
        right = right[len(right) // 2 :]
        if right and abs(sum(right) / len(right) - 0.5) > guessing:
            return None
        rates = finite(part.column("lr"))
        if trend(margins) > deviations or trend(losses) < -deviations or _still_grows(rates):
            return None
        rate = f" at a learning rate of up to {number(max(rates))}" if rates else ""
        note = (
            f"the loss is within {number(near)} of ln 2 and the margin {number(sum(later) / len(later))} on average,"
            f" without a trend in {len(margins)} records{rate}"
        )
        shown = tuple(part.evidence(i, "loss", "margin", "accuracy", "lr") for i in (at[0], at[-1]))
        return Sign(part, at[0], shown, note, "margin")

    return _each(metrics, "margin", look)


def _still_grows(rates: Sequence[float]) -> bool:
    """Whether a learning rate is at its highest at the end, and was lower half-way."""
    return bool(rates) and rates[-1] >= max(rates) and rates[-1] > rates[len(rates) // 2]
