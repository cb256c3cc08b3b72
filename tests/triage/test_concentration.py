"""What a cause goes with: planted associations are found, chance is not."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import combinations

import pytest

from forensics.triage.insight.concentration import LEVEL, concentrations
from forensics.triage.insight.statistics import attainable, fisher_greater, holm, midranks, p_words, rank_p, risk_ratio
from forensics.triage.model import Device, JobResult
from tests.triage.rows import row


def jobs(draw: random.Random, count: int) -> list[JobResult]:
    """Jobs whose causes have nothing to do with anything."""
    rows = []
    for n in range(count):
        root = draw.choices(["cuda-oom", "loss-nan", "shm-exhausted", "fd-exhausted", None], [10, 8, 6, 4, 72])[0]
        labels = {
            "hparam.lr": f"{10 ** draw.uniform(-5, -2):.3g}",
            "hparam.decay": str(draw.choice([0, 0, 0, 0.01, 0.02, 0.03, 0.05, 0.1])),
            "hparam.batch": str(draw.choice([16, 32, 64])),
            "hparam.seed": str(n),
            "image": draw.choice(["a", "b", "c"]),
            "version.torch": draw.choice(["2.1", "2.2"]),
            "array_task": str(n),
        }
        nodes = tuple(sorted(draw.sample([f"node-{k}" for k in range(12)], 2)))
        rows.append(row(n, root, labels=labels, nodes=nodes))
    return rows


def with_root(rows: list[JobResult], root: str, share: float, draw: random.Random, chosen: object) -> list[JobResult]:
    """The rows, of which this share of the chosen ones has another cause."""
    assert callable(chosen)
    return [
        replace(r, root=root, roots=(root,), verdict="failed") if chosen(r) and draw.random() < share else r
        for r in rows
    ]


def test_nothing_is_found_by_chance() -> None:
    # 200 triages of jobs without any association: at a level of 5 %, 10 or fewer may name one.
    named = sum(bool(concentrations(jobs(random.Random(seed), 80))[0]) for seed in range(200))
    assert named <= LEVEL * 200


@pytest.mark.parametrize(
    ("factor", "value", "chosen"),
    [
        ("node", "node-3", lambda r: "node-3" in r.nodes),
        ("image", "b", lambda r: r.labels["image"] == "b"),
        ("version.torch", "2.2", lambda r: r.labels["version.torch"] == "2.2"),
        ("hparam.batch", "64", lambda r: r.labels["hparam.batch"] == "64"),
    ],
)
def test_planted_values_are_found(factor: str, value: str, chosen: object) -> None:
    draw = random.Random(5)
    rows = with_root(jobs(draw, 200), "planted", 0.5, draw, chosen)
    found, tried = concentrations(rows)
    (mine,) = [c for c in found if c.cause == "planted"]
    assert (mine.factor, mine.value) == (factor, value)
    assert mine.outside.hits == 0 and mine.inside.hits == len(mine.jobs)
    assert mine.low > 1 and mine.low < mine.ratio < mine.high
    assert mine.p < mine.adjusted <= LEVEL and mine.tried == tried


@pytest.mark.parametrize("low", [True, False])
def test_planted_numbers_are_found_on_their_side(low: bool) -> None:
    draw = random.Random(6)
    rows = with_root(jobs(draw, 200), "planted", 0.6, draw, lambda r: (float(r.labels["hparam.lr"]) < 1e-4) is low)
    (mine,) = [c for c in concentrations(rows)[0] if c.cause == "planted"]
    assert mine.factor == "hparam.lr" and mine.numeric
    assert mine.value.startswith("<= " if low else "> ")
    assert mine.ratio > 2


def test_what_nothing_tells_apart_stands_together() -> None:
    draw = random.Random(7)
    rows = [replace(r, labels=dict(r.labels) | {"driver": f"5{r.labels['image']}"}) for r in jobs(draw, 150)]
    rows = with_root(rows, "planted", 0.5, draw, lambda r: r.labels["image"] == "a")
    (mine,) = [c for c in concentrations(rows)[0] if c.cause == "planted"]
    assert (mine.factor, mine.value, mine.same) == ("image", "a", (("driver", "5a"),))


def test_too_little_says_nothing() -> None:
    two = [row(n, "planted", nodes=("a",)) for n in range(2)] + [row(n, nodes=("b",)) for n in range(2, 60)]
    assert concentrations(two) == ((), 0)
    few = [row(n, "planted", nodes=("a",)) for n in range(3)] + [row(n, nodes=("b",)) for n in range(3, 6)]
    assert concentrations(few) == ((), 0)
    assert concentrations([]) == ((), 0)


def test_copies_and_jobs_that_do_not_state_a_thing_do_not_count() -> None:
    one = row(0, "planted", nodes=("a",))
    copies = [replace(one, path=f"copy/{n}") for n in range(20)]
    others = [row(n, nodes=("b",)) for n in range(1, 40)]
    assert concentrations([one, *copies, *others])[0] == ()
    stating = [row(n, "planted" if n < 8 else None, labels={"image": "a" if n < 10 else "b"}) for n in range(40)]
    silent = [row(n, "planted") for n in range(100, 200)]
    (mine,) = concentrations([*stating, *silent])[0]
    assert (mine.inside.hits, mine.inside.jobs, mine.outside.hits, mine.outside.jobs) == (8, 10, 0, 30)


def test_a_number_has_one_spelling() -> None:
    spelt = ["1e-4", "0.0001", "1.0E-4"]
    rows = [
        row(n, "planted" if n < 9 else None, labels={"hparam.lr": spelt[n % 3] if n < 10 else "0.1"}) for n in range(40)
    ]
    (mine,) = concentrations(rows)[0]
    assert (mine.value, mine.inside.jobs, mine.numeric) == ("0.0001", 10, False)


def test_a_cause_that_another_one_leaves_no_room_for() -> None:
    draw = random.Random(3)
    rates = [draw.uniform(0.0, 1.0) for _ in range(300)]
    memory = [draw.random() < 0.3 for _ in rates]

    def planted(least: float) -> set[tuple[str, str]]:
        """Causes and factors; NaN above a rate of 0.5, memory at random among rates up to `least` of the others."""
        roots = ["nan" if r > 0.5 else "oom" if m and r < least else None for r, m in zip(rates, memory, strict=True)]
        rows = [row(n, root, labels={"hparam.lr": f"{rates[n]:.4f}"}) for n, root in enumerate(roots)]
        return {(c.cause, c.factor) for c in concentrations(rows)[0]}

    assert planted(0.5) == {("nan", "hparam.lr")}
    assert planted(0.2) == {("nan", "hparam.lr"), ("oom", "hparam.lr")}


def test_a_bus_id_without_its_node_is_no_gpu() -> None:
    def on(n: int, node: str | None) -> JobResult:
        device = Device(node=node, bus_id="0000:3b:00" if n < 10 else "0000:5e:00", listed=True)
        return row(n, "gpu-hang" if n < 8 else None, devices=(device,))

    assert [c.value for c in concentrations([on(n, "n1") for n in range(40)])[0]] == ["n1 0000:3b:00"]
    assert concentrations([on(n, None) for n in range(40)])[0] == ()


def test_gpus_are_compared_only_where_a_job_lists_them() -> None:
    def on(n: int, bus: str, root: str | None, *, listed: bool) -> JobResult:
        device = Device(node="n1", bus_id=bus, blamed=root is not None, listed=listed)
        return row(n, root, nodes=("n1",), devices=(device,))

    listed = [
        on(n, "0000:3b:00" if n < 10 else "0000:5e:00", "gpu-hang" if n < 8 else None, listed=True) for n in range(40)
    ]
    assert [c.value for c in concentrations(listed)[0]] == ["n1 0000:3b:00"]
    named = [on(n, "0000:3b:00", "gpu-hang", listed=False) for n in range(8)]
    assert concentrations([*named, *(row(n) for n in range(8, 60))])[0] == ()


def test_unknown_groups_are_causes_and_vague_roots_are_not() -> None:
    rows = [row(n, "python-exception" if n < 8 else None, nodes=("a" if n < 9 else "b",)) for n in range(60)]
    assert concentrations(rows)[0] == ()
    (mine,) = concentrations(rows, {f"runs/{n}": "keyerror-1" for n in range(8)})[0]
    assert mine.cause == "keyerror-1"


def test_fisher_is_the_hypergeometric_tail() -> None:
    for hits, drawn, marked, total in [(3, 5, 4, 12), (1, 5, 4, 12), (4, 4, 4, 10), (2, 9, 4, 12)]:
        tail = sum(
            math.comb(marked, k) * math.comb(total - marked, drawn - k) for k in range(hits, min(drawn, marked) + 1)
        )
        assert fisher_greater(hits, drawn, marked, total) == pytest.approx(tail / math.comb(total, drawn))
    assert fisher_greater(0, 5, 4, 12) == 1.0
    # Fisher's lady tasting tea: 4 of 4 cups named right.
    assert fisher_greater(4, 4, 4, 8) == pytest.approx(1 / 70)
    assert 0 < fisher_greater(900, 1000, 1000, 100_000) < 1e-300 or fisher_greater(900, 1000, 1000, 100_000) == 0


def test_ranks_agree_with_counting() -> None:
    numbers = [1.0, 2, 2, 3, 5, 8, 8, 8, 9, 10, 11, 12]
    ranks, ties = midranks(numbers)
    assert ranks[2.0] == 2.5 and ranks[8.0] == 7 and ties == (8 - 2) + (27 - 3)
    sums = [sum(ranks[x] for x in chosen) for chosen in combinations(numbers, 5)]
    middle = 5 * 13 / 2
    for rank_sum in (20.0, 25.0, 30.0, 44.0):
        exact = sum(abs(s - middle) >= abs(rank_sum - middle) for s in sums) / len(sums)
        assert rank_p(rank_sum, 5, 7, ties) == pytest.approx(exact, abs=0.03)
    assert rank_p(10.0, 4, 1, 5.0**3 - 5) == 1.0


def test_risk_ratio_and_corrections() -> None:
    # Katz et al.: 20 of 100 against 10 of 100.
    ratio, low, high = risk_ratio(20, 100, 10, 100)
    assert (ratio, low, high) == pytest.approx((2.0, 0.986, 4.055), abs=0.01)
    assert all(map(math.isfinite, risk_ratio(3, 3, 0, 50)))
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01], tests=10) == pytest.approx([0.1])
    assert attainable([0.001, 0.001, 0.2, 0.3], 0.05) == pytest.approx(0.025)
    assert attainable([], 0.05) == 0.05
    assert [p_words(p) for p in (0.0123, 2e-7, 0.0)] == ["0.012", "2e-07", "< 1e-300"]


def _batches_and_nodes(fails: object) -> list[JobResult]:
    """80 jobs; of the larger batch half are on node-a, of the smaller a tenth."""
    assert callable(fails)
    rows = []
    for n in range(80):
        large = n < 40
        node = "node-a" if (n % 2 == 0 if large else n % 10 == 0) else f"node-{n % 3}"
        labels = {"hparam.batch": "128" if large else "32"}
        rows.append(row(n, "cuda-oom" if fails(n, large, node) else None, labels=labels, nodes=(node,)))
    return rows


def test_a_node_that_only_ran_more_of_the_larger_batch_is_not_named() -> None:
    found, _ = concentrations(_batches_and_nodes(lambda n, large, node: large and n % 7 != 6))
    assert [(c.factor, c.value) for c in found] == [("hparam.batch", "128")]


def test_a_node_that_fails_with_either_batch_is_named_beside_the_batch() -> None:
    found, _ = concentrations(_batches_and_nodes(lambda n, large, node: node == "node-a" or (large and n % 4 == 1)))
    assert {(c.factor, c.value) for c in found} >= {("node", "node-a")}
