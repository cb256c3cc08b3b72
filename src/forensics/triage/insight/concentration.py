"""What a cause concentrates on: nodes, GPUs, images, versions, hyper-parameters.

Of the jobs that state a thing, those with a value are compared with those with another one; a job that does not state
it says nothing. What goes together need not be a cause: whoever set the value may have changed something else too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from forensics.triage.insight.model import Concentration, Share
from forensics.triage.insight.rows import once
from forensics.triage.insight.statistics import (
    attainable,
    fisher_greater,
    fisher_least,
    holm,
    midranks,
    rank_p,
    risk_ratio,
)
from forensics.triage.model import VAGUE, Device, JobResult

LEVEL = 0.05  # chance that a triage without any real difference names one at all
LEAST_HITS = 3  # jobs with cause and value: two can be one mistake made twice
LEAST_JOBS = 3  # with the value, and with another one
LEAST_IN_ALL = 10  # jobs that state the thing
LEAST_RANKED = 5  # jobs with and without the cause, for a rank test
NUMBERS = 5  # distinct numbers from which a setting is ranked and not compared value by value
MOST_ALIKE = 0.5  # share of the most frequent number above which ranks say little
MOST_SHOWN = 100
MOST_VALUES = 2_000  # of one factor: the most frequent ones
_LABELS = ("image", "driver", "cuda")
# Of what describes the very same jobs, the first is named and the others stand beside it.
_ORDER = ("gpu", "node", "gpu model", "image", "driver", "cuda")


@dataclass(slots=True)
class _Factor:
    """Sets of jobs as bits: job n is bit n."""

    values: dict[str, int]
    stated: int
    numbers: dict[int, float] | None = None  # job -> number, where it is ranked
    ranks: dict[int, float] = field(default_factory=dict)  # job -> rank of its number
    ties: float = 0.0  # of `midranks`


@dataclass(frozen=True, slots=True)
class _Cause:
    jobs: tuple[int, ...]
    bits: int


@dataclass(frozen=True, slots=True)
class _Test:
    cause: str
    factor: str
    value: str
    least: float  # the smallest p that it can give


def concentrations(
    results: Iterable[JobResult], groups: Mapping[str, str] = {}
) -> tuple[tuple[Concentration, ...], int]:
    """(What is more frequent among jobs with a value than chance explains, least likely first; tests behind it).

    groups: path of each job of an unknown group -> the name of the group. Jobs that were not analysed do not count, and
    jobs with the same content count once.
    """
    jobs = once(r for r in results if r.error is None)
    if len(jobs) < LEAST_IN_ALL:
        return (), 0
    factors = _factors(jobs)
    causes = _causes(jobs, groups)
    tests = list(_tests(causes, factors))
    floor = attainable([t.least for t in tests], LEVEL)
    tests = [t for t in tests if t.least <= floor]
    ps = [_p(t, causes, factors[t.factor]) for t in tests]
    adjusted = holm(ps)
    called = []
    for test, p, sure in zip(tests, ps, adjusted, strict=True):
        if sure <= LEVEL:
            found = _described(test, p, sure, len(tests), causes, factors, jobs)
            if found.ratio > 1 and found.inside.hits >= LEAST_HITS and (found.numeric or found.low > 1):
                called.append(found)
    called.sort(key=lambda c: (c.p, -c.ratio, c.cause, c.factor, c.value))
    beyond = _beyond_clearer(_best_of_each(called)[:MOST_SHOWN], factors, causes)
    return _left_by_others(beyond, jobs, groups), len(tests)


def _beyond_clearer(
    called: Sequence[Concentration], factors: Mapping[str, _Factor], causes: Mapping[str, _Cause]
) -> list[Concentration]:
    """What is unlikely also among the jobs that are alike in what the same cause clearly concentrates on.

    A node that ran more of the jobs with too large a batch has more of their failures, and is no worse for it.
    """
    kept: list[Concentration] = []
    for found in called:
        clearer = (k for k in kept if k.cause == found.cause and k.factor != found.factor and not k.numeric)
        if found.numeric or all(_stands_within(found, k, factors, causes[found.cause]) for k in clearer):
            kept.append(found)
    return kept


def _stands_within(found: Concentration, clearer: Concentration, factors: Mapping[str, _Factor], cause: _Cause) -> bool:
    """Whether chance does not explain it either among the jobs with the clearer value, or among those without.

    True where neither tells: then the two values go together, and which of them it is cannot be said.
    """
    of, by = factors[found.factor], factors[clearer.factor]
    both = of.stated & by.stated
    ps = []
    for stratum in (both & by.values[clearer.value], both & ~by.values[clearer.value]):
        members, failed = of.values[found.value] & stratum, cause.bits & stratum
        drawn, marked, total = members.bit_count(), failed.bit_count(), stratum.bit_count()
        if 0 < drawn < total and 0 < marked < total:
            ps.append(fisher_greater((members & failed).bit_count(), drawn, marked, total))
    return not ps or min(ps) * len(ps) <= LEVEL


def _left_by_others(
    called: Sequence[Concentration], jobs: Sequence[JobResult], groups: Mapping[str, str]
) -> tuple[Concentration, ...]:
    """What is as unlikely among the jobs that did not fail of a clearer cause with the same factor.

    A job that failed of one thing cannot fail of another: where a high rate ends in NaN, running out of memory goes
    with a low one, and says nothing of it.
    """
    kept: list[Concentration] = []
    rest: dict[tuple[str, frozenset[str]], tuple[dict[str, _Factor], dict[str, _Cause]]] = {}
    for found in called:
        others = frozenset(k.cause for k in kept if k.factor == found.factor and k.cause != found.cause)
        if others:
            key = (found.factor, others)
            if key not in rest:
                left = [job for job in jobs if others.isdisjoint(_causes_of(job, groups))]
                rest[key] = _factors(left, only=found.factor), _causes(left, groups)
            factors, causes = rest[key]
            if not _stands(found, factors, causes):
                continue
        kept.append(found)
    return tuple(kept)


def _stands(found: Concentration, factors: Mapping[str, _Factor], causes: Mapping[str, _Cause]) -> bool:
    """Whether a concentration is still called among other jobs, with the correction that it had."""
    factor = factors.get(found.factor)
    if factor is None or found.cause not in causes or (factor.numbers is None) is found.numeric:
        return False
    if not found.numeric and found.value not in factor.values:
        return False
    failed = (causes[found.cause].bits & factor.stated).bit_count()
    if not 0 < failed < factor.stated.bit_count():
        return False
    p = _p(_Test(found.cause, found.factor, "" if found.numeric else found.value, 0.0), causes, factor)
    return p * found.adjusted <= LEVEL * found.p


def _bits(jobs: Iterable[int], size: int) -> int:
    data = bytearray(size // 8 + 1)
    for job in jobs:
        data[job >> 3] |= 1 << (job & 7)
    return int.from_bytes(data, "little")


def _causes(jobs: Sequence[JobResult], groups: Mapping[str, str]) -> dict[str, _Cause]:
    found: dict[str, list[int]] = defaultdict(list)
    for n, job in enumerate(jobs):
        for cause in _causes_of(job, groups):
            found[cause].append(n)
    return {
        cause: _Cause(tuple(members), _bits(members, len(jobs)))
        for cause, members in found.items()
        if len(members) >= LEAST_HITS
    }


def _causes_of(job: JobResult, groups: Mapping[str, str]) -> tuple[str, ...]:
    roots = job.roots or ((job.root,) if job.root else ())
    group = (groups[job.path],) if job.path in groups else ()
    return (*(root for root in roots if root not in VAGUE), *group)


def stated(job: JobResult) -> dict[str, tuple[str, ...]]:
    """Factor -> the values that a job states: several nodes and GPUs, one of everything else."""
    found: dict[str, tuple[str, ...]] = {}
    if job.nodes:
        found["node"] = job.nodes
    # Of GPUs that a failure names nothing is known in the jobs that did not fail: only lists of them compare.
    if gpus := tuple(dict.fromkeys(gpu for d in job.devices if d.listed and (gpu := _gpu(d)))):
        found["gpu"] = gpus
    for name, value in job.labels.items():
        if name == "gpu":
            found["gpu model"] = (value,)
        elif name.startswith("hparam."):
            found[name] = (_one_spelling(value),)
        elif name in _LABELS or name.startswith("version."):
            found[name] = (value,)
    return found


def _gpu(device: Device) -> str | None:
    """What names a GPU among those of all machines; None where only its place in an unknown one is known."""
    if device.serial is not None:
        return device.serial
    return f"{device.node} {device.bus_id}" if device.node is not None and device.bus_id is not None else None


def _one_spelling(value: str) -> str:
    """`0.0001` for `1e-4`: launchers write one number in several ways."""
    try:
        return f"{float(value):.12g}"
    except ValueError:
        return value


def _factors(jobs: Sequence[JobResult], only: str | None = None) -> dict[str, _Factor]:
    """only: the one factor that is asked for."""
    seen: dict[str, dict[str, list[int]]] = {}
    for n, job in enumerate(jobs):
        for factor, told in stated(job).items():
            for value in told if only in (None, factor) else ():
                seen.setdefault(factor, {}).setdefault(value, []).append(n)
    factors = {}
    for name, values in seen.items():
        if len(values) < 2:
            continue
        said = {n for members in values.values() for n in members}
        if len(said) < LEAST_IN_ALL:
            continue
        numbers = _numbers(values) if name.startswith("hparam.") else None
        kept: dict[str, int] = {}
        if numbers is None:
            often = sorted(values, key=lambda v: (-len(values[v]), v))[:MOST_VALUES]
            kept = {v: _bits(values[v], len(jobs)) for v in often if len(values[v]) >= LEAST_JOBS}
            if not kept:
                continue
        made = factors[name] = _Factor(kept, _bits(said, len(jobs)), numbers)
        if numbers is not None:
            ranks, made.ties = midranks(list(numbers.values()))
            made.ranks = {job: ranks[number] for job, number in numbers.items()}
    return factors


def _numbers(values: Mapping[str, Sequence[int]]) -> dict[int, float] | None:
    """Job -> number, where all values are numbers, differ enough, and are not mostly one."""
    found: dict[int, float] = {}
    counts: Counter[float] = Counter()
    for text, members in values.items():
        try:
            number = float(text)
        except ValueError:
            return None
        if not math.isfinite(number):
            return None
        counts[number] += len(members)
        found.update(dict.fromkeys(members, number))
    if len(counts) < NUMBERS or max(counts.values()) > MOST_ALIKE * len(found):
        return None
    return found


def _tests(causes: Mapping[str, _Cause], factors: Mapping[str, _Factor]) -> Iterable[_Test]:
    """Every comparison that enough jobs take part in; what compares the same jobs with the same is one."""
    for cause, failed in sorted(causes.items()):
        tried: set[tuple[int, int]] = set()
        for name in sorted(factors, key=_rank_of):
            factor = factors[name]
            total, marked = factor.stated.bit_count(), (failed.bits & factor.stated).bit_count()
            if marked < LEAST_HITS or marked == total:
                continue
            if factor.numbers is not None:
                if min(marked, total - marked) >= LEAST_RANKED:
                    yield _Test(cause, name, "", 2 * math.exp(-_log_choices(total, marked)))
                continue
            for value, members in factor.values.items():
                drawn = members.bit_count()
                if total - drawn < LEAST_JOBS or (members, factor.stated) in tried:
                    continue
                tried.add((members, factor.stated))
                yield _Test(cause, name, value, fisher_least(drawn, marked, total))


def _log_choices(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _rank_of(factor: str) -> tuple[int, str]:
    return (_ORDER.index(factor) if factor in _ORDER else len(_ORDER), factor)


def _p(test: _Test, causes: Mapping[str, _Cause], factor: _Factor) -> float:
    failed = causes[test.cause].bits & factor.stated
    if factor.numbers is not None:
        ranks = [factor.ranks[job] for job in causes[test.cause].jobs if job in factor.ranks]
        return rank_p(sum(ranks), len(ranks), len(factor.ranks) - len(ranks), factor.ties)
    members = factor.values[test.value]
    hits, drawn = (members & failed).bit_count(), members.bit_count()
    marked, total = failed.bit_count(), factor.stated.bit_count()
    if hits * total <= drawn * marked:  # no more than by chance; p is about 0.5 or more, and need not be known
        return 1.0
    return fisher_greater(hits, drawn, marked, total)


def _described(
    test: _Test,
    p: float,
    adjusted: float,
    tried: int,
    causes: Mapping[str, _Cause],
    factors: Mapping[str, _Factor],
    jobs: Sequence[JobResult],
) -> Concentration:
    factor = factors[test.factor]
    failed = causes[test.cause].bits & factor.stated
    value = test.value
    if factor.numbers is not None:
        value, members = _side(factor.numbers, failed, len(jobs))
    else:
        members = factor.values[value]
    hits, inside = (members & failed).bit_count(), members.bit_count()
    other_hits, outside = failed.bit_count() - hits, factor.stated.bit_count() - inside
    ratio, low, high = risk_ratio(hits, inside, other_hits, outside)
    same = tuple(
        (name, other)
        for name in sorted(factors, key=_rank_of)
        for other, bits in factors[name].values.items()
        if factor.numbers is None
        and (name, other) != (test.factor, value)
        and bits == members
        and factors[name].stated == factor.stated
    )
    return Concentration(
        cause=test.cause,
        factor=test.factor,
        value=value,
        numeric=factor.numbers is not None,
        inside=Share(hits=hits, jobs=inside),
        outside=Share(hits=other_hits, jobs=outside),
        ratio=ratio,
        low=low,
        high=high,
        p=p,
        adjusted=adjusted,
        tried=tried,
        jobs=tuple(jobs[n].path for n in causes[test.cause].jobs if members >> n & 1),
        same=same[:20],
    )


def _side(numbers: Mapping[int, float], failed: int, size: int) -> tuple[str, int]:
    """("> 0.001", the jobs on that side): the side of the median of all jobs on which the cause is more frequent."""
    middle = median(numbers.values())
    above = _bits((n for n, number in numbers.items() if number > middle), size)
    below = _bits((n for n, number in numbers.items() if number <= middle), size)
    high, low = ((bits & failed).bit_count() / bits.bit_count() if bits else 0.0 for bits in (above, below))
    return (f"> {middle:g}", above) if high >= low else (f"<= {middle:g}", below)


def _best_of_each(called: Sequence[Concentration]) -> list[Concentration]:
    """Of one cause and setting only the clearest value; of nodes and GPUs all, since several can be bad."""
    kept: list[Concentration] = []
    seen: set[tuple[str, str]] = set()
    for found in called:
        key = (found.cause, found.factor)
        if found.factor not in ("node", "gpu"):
            if key in seen:
                continue
            seen.add(key)
        kept.append(found)
    return kept
