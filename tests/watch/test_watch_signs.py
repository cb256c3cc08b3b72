"""What only watching shows, each by itself: rhythm, lag, pace, room; and what is kept of a run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from forensics.model import METRICS_COLUMNS, Evidence, Identity, Observation, schema
from forensics.watch.disk import Disk, Room, room
from forensics.watch.lag import Progress
from forensics.watch.ledger import MORE_RANKS, ROUNDS, Ledger
from forensics.watch.live import filling, steps
from forensics.watch.logs import Piece
from forensics.watch.memory import FIRST, LAST, Memory, thinned
from forensics.watch.news import Sign, State
from forensics.watch.pace import Pace
from forensics.watch.rhythm import FEWEST, Rhythm

# --- rhythm ----------------------------------------------------------------------------------------------------------


def beating(ranks: int, beats: int, gap: float = 10.0, least: float = 5.0) -> Rhythm:
    rhythm = Rhythm(least)
    for n in range(beats):
        for rank in range(ranks):
            rhythm.note(rank, n * gap)
    return rhythm


def test_a_silence_is_measured_by_its_own_rhythm() -> None:
    rhythm = beating(1, FEWEST + 1)
    last = FEWEST * 10.0
    assert rhythm.silent(0, last + 20, 1.0) is None  # twice the longest interval
    found = rhythm.silent(0, last + 20.5, 1.0)
    assert found is not None and found.usual == pytest.approx(10) and found.lasts == pytest.approx(20.5)
    assert rhythm.silent(0, last + 20.5, 10.0) is None  # three looks
    assert Rhythm(5.0).silent(0, 1e9, 1.0) is None
    assert beating(1, FEWEST).silent(0, 1e9, 1.0) is None  # one interval too few


def test_rare_long_intervals_are_part_of_a_rhythm() -> None:
    rhythm = Rhythm(5.0)
    at = 0.0
    for n in range(40):
        at += 300.0 if n == 20 else 10.0
        rhythm.note(0, at)
    assert rhythm.silent(0, at + 599, 1.0) is None
    assert rhythm.silent(0, at + 601, 1.0) is not None


def test_one_that_is_silent_while_the_others_go_on() -> None:
    rhythm = beating(4, 10)
    for n in range(10, 14):
        for rank in (0, 1, 3):
            rhythm.note(rank, n * 10.0)
    assert [s.who for s in rhythm.alone(range(4), 132.0, 1.0)] == [2]


def test_nobody_is_alone_where_all_stop() -> None:
    rhythm = beating(4, 10)
    for rank in (0, 1, 3):  # they wrote once more, and have a longer rhythm
        rhythm.note(rank, 100.0)
    assert rhythm.alone(range(4), 112.0, 1.0) == []
    assert rhythm.alone(range(4), 500.0, 1.0) == []


def test_a_rank_that_alone_goes_on_makes_no_silence_of_the_others() -> None:
    rhythm = beating(4, 10)
    for n in range(10, 30):
        rhythm.note(0, n * 10.0)
    assert rhythm.alone(range(4), 300.0, 1.0) == []


def test_a_rhythm_from_before_the_watch() -> None:
    rhythm = Rhythm(5.0)
    rhythm.note(0, 100.0)
    rhythm.seed(0, [2.0] * FEWEST)
    assert rhythm.silent(0, 104.0, 1.0) is None and rhythm.silent(0, 106.0, 1.0) is not None
    rhythm.seed(1, [2.0] * FEWEST)
    assert rhythm.limit(1, 1.0) is None


# --- lag -------------------------------------------------------------------------------------------------------------


def _rows(*files: tuple[str, int | None, range, float | None]) -> pl.DataFrame:
    """Rows of one metric. files: (path, attempt, steps, time of the first step, from which they are a second apart)."""
    rows = [
        {"source": path, "line": n, "attempt": attempt, "step": step, "name": "loss", "value": 1.0,
         "time": None if time is None else time + n}
        for path, attempt, of, time in files
        for n, step in enumerate(of)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=schema(METRICS_COLUMNS))


@pytest.mark.parametrize("time", [None, 100.0])
def test_of_several_files_of_a_rank_the_latest_tells_its_step(time: float | None) -> None:
    ranks = {"rank0.log": 0, "rank0.log.1": 0, "a0/rank1.log": 1, "a1/rank1.log": 1}
    rotated = _rows(("rank0.log", None, range(60, 160), time and time + 60), ("rank0.log.1", None, range(60), time))
    assert steps(rotated, ranks) == {0: (159, 160)}
    again = _rows(("a1/rank1.log", 1, range(20, 30), time and time + 90), ("a0/rank1.log", 0, range(40), time))
    assert steps(again, ranks) == {1: (29, 40)}
    # A counter that starts anew in one file.
    assert steps(_rows(("rank0.log", None, range(5, 9), time), ("rank0.log", None, range(3), time)), ranks) == {
        0: (2, 7)
    }


def test_a_rank_that_falls_behind_and_catches_up() -> None:
    progress = Progress()
    slow = 0.0
    told = []
    for step in range(1, 60):
        slow += 1.0 if step < 20 else 0.5
        progress.note(dict.fromkeys(range(3), (step, 1)) | {3: (int(slow), 1)})
        told.append([b.rank for b in progress.behind()])
    assert [] in told and told[18] == [] and told[-1] == [3]
    assert told.index([3]) < 45
    progress.note(dict.fromkeys(range(4), (60, 1)))
    assert progress.behind() == []


def test_output_buffers_make_no_lag() -> None:
    dice = random.Random(7)
    progress = Progress()
    shown = dict.fromkeys(range(8), 0)
    for step in range(1, 400):
        told = {}
        for rank in shown:
            if dice.random() < 0.1:  # a buffer of some ten records is written out
                told[rank] = (step, step - shown[rank])
                shown[rank] = step
        progress.note(told)
        assert progress.behind() == []


def test_a_new_attempt_is_no_lag() -> None:
    progress = Progress()
    for step in range(1, 30):
        progress.note(dict.fromkeys(range(4), (step, 1)))
    for step in range(1, 30):
        progress.note(dict.fromkeys(range(3), (step, 1)))
        progress.note({3: (step, 1)})
        assert progress.behind() == []


def test_two_ranks_are_too_few() -> None:
    progress = Progress()
    for step in range(1, 100):
        progress.note({0: (step, 1), 1: (step // 2, 1)})
    assert progress.behind() == []


# --- pace ------------------------------------------------------------------------------------------------------------


def rates(values: Sequence[float], name: str = "throughput", rank: int | None = None) -> pl.DataFrame:
    rows = [("a.log", n, rank, None, n, None, None, name, v) for n, v in enumerate(values, 1)]
    return pl.DataFrame(rows, schema=schema(METRICS_COLUMNS), orient="row")


@pytest.mark.parametrize(("name", "usual", "slow"), [("throughput", 100.0, 25.0), ("step_time", 0.5, 2.0)])
def test_a_collapse_and_its_end(name: str, usual: float, slow: float) -> None:
    pace = Pace()
    dice = random.Random(3)
    before = [usual * dice.uniform(0.9, 1.1) for _ in range(60)]
    assert pace.look(rates(before, name)) == []
    assert pace.look(rates([*before, *[slow] * 7], name)) == []  # one record too few
    (found,) = pace.look(rates([*before, *[slow] * 8], name))
    assert found.usual / found.now == pytest.approx(4, rel=0.1) and found.step == 68
    assert pace.look(rates([*before, *[slow] * 200], name)) != []  # that it has become usual does not end it
    assert pace.look(rates([*before, *[slow] * 200, *before[:8]], name)) == []


@pytest.mark.parametrize(("before", "slow"), [(36, 22), (60, 8), (90, 118), (200, 150), (60, 205)])
def test_a_collapse_whose_records_come_fast(before: int, slow: int) -> None:
    """More slow records come between two looks than would count as single ones."""
    dice = random.Random(4)
    pace = Pace()
    values = [dice.gauss(1000, 80) for _ in range(before)]
    assert pace.look(rates(values)) == []
    values += [dice.gauss(125, 10) for _ in range(slow)]
    (found,) = pace.look(rates(values))
    assert found.usual == pytest.approx(1000, rel=0.1) and found.usual / found.now == pytest.approx(8, rel=0.2)
    assert "usually 1" in (found.evidence.text or "") or "usually 9" in (found.evidence.text or "")


def test_what_is_usual_is_not_taken_from_a_file_that_began_anew() -> None:
    pace = Pace()
    assert pace.look(rates([100.0] * 60)) == []
    assert pace.look(rates([10.0] * 12)) == []


@pytest.mark.parametrize(
    "values",
    [
        [100.0 - n / 2 for n in range(165)] + [18.0] * 30,  # falls slowly, all along
        [*([100.0] * 40), *([20.0] * 20), *([100.0] * 40), *([20.5] * 25)],  # slow for a while before, too
        [100.0] * 20 + [20.0] * 60,  # too little is known of what came before
        [100.0] * 60 + [20.0] * 3 + [100.0] * 8,  # a save
        [100.0] * 60 + [20.0, 100.0] * 10,  # slow every second record
        [100.0] * 60 + [50.0] * 20,  # a ramp of the batch size
        [10.0] * 8,
        [0.0] * 60,
        [100.0] * 60 + [float("nan")] * 20,
    ],
)
def test_no_collapse(values: list[float]) -> None:
    assert Pace().look(rates(values)) == []


# --- disk ------------------------------------------------------------------------------------------------------------

GB = 1 << 30


def filled(*looks: tuple[float, int], size: int = 1000 * GB, inodes: int | None = 10) -> list[str]:
    left = [free for _, free in looks for _ in range(2)]  # each folder is asked for
    disk = Disk([Path("run"), Path("run/same")], lambda folder: Room(1, left.pop(0), size, inodes))
    found: list[str] = []
    for now, _ in looks:
        found = [f.what for f in disk.look(now)]
    return found


def test_what_a_run_can_run_into() -> None:
    assert filled((0, 0)) == ["no room is left"]
    assert filled((0, 500 * GB), inodes=0) == ["no inodes are left"]
    assert filled((0, 5 * GB)) == ["it is nearly full"]
    assert filled((0, 60 * GB), (400, 40 * GB)) == ["it will be full in 13 min at the pace of the last 7 min"]


@pytest.mark.parametrize(
    ("free", "inodes", "title", "severity"),
    [
        (0, 10, "The disk of run is full", "error"),
        (500 * GB, 0, "The disk of run is full", "error"),
        (5 * GB, 10, "The disk of run is filling", "warning"),
    ],
)
def test_a_full_disk_is_called_one(free: int, inodes: int, title: str, severity: str) -> None:
    (told,) = filling(Disk([Path("run")], lambda folder: Room(1, free, 1000 * GB, inodes)).look(0), {})
    assert (told.title, told.severity) == (title, severity)


def test_what_is_no_trouble() -> None:
    assert filled((0, 15 * GB)) == []  # little of a large disk, and enough
    assert filled((0, 60 * GB), (100, 40 * GB)) == []  # a checkpoint
    assert filled((0, 60 * GB), (4000, 59 * GB)) == []
    assert filled((0, 500 * GB), (400, 300 * GB)) == []
    assert filled((0, 40 * GB), (400, 60 * GB)) == []
    assert filled((0, 500 * GB), inodes=None) == []


def test_real_room(tmp_path: Path) -> None:
    found = room(tmp_path)
    assert found is not None and found.size >= found.free >= 0
    assert room(tmp_path / "missing") is None


# --- ledger ----------------------------------------------------------------------------------------------------------


def sign(name: str = "nan-loss", ranks: tuple[int, ...] | None = (2,), **other: object) -> Sign:
    return Sign(name=name, title=name, severity="error", kind="cause", ranks=ranks, **other)  # type: ignore[arg-type]


def test_told_at_the_second_look_and_once() -> None:
    ledger = Ledger()
    assert ledger.compare([sign()], (), 1.0) == [] and ledger.waiting
    (news,) = ledger.compare([sign()], (), 2.0)
    assert news.state is State.STARTED and news.sign.ranks == (2,) and not ledger.waiting
    assert ledger.compare([sign()], (), 3.0) == []
    assert ledger.open() == [sign()]


def test_what_shows_at_one_look_only_is_not_told() -> None:
    ledger = Ledger()
    ledger.compare([sign()], (), 1.0)
    assert ledger.compare([], (), 2.0) == [] and ledger.compare([sign()], (), 3.0) == []


def test_a_trend_is_told_when_more_records_have_borne_it_out() -> None:
    ledger = Ledger()
    looks = [ledger.compare([sign(trend=True)], (), 1.0, explanation=n // 2) for n in range(7)]
    assert [len(news) for news in looks] == [0, 0, 0, 0, 1, 0, 0] and not ledger.waiting
    ledger = Ledger()
    shown: tuple[list[Sign], ...] = ([sign(trend=True)], [sign(trend=True)], [], [sign(trend=True)], [sign(trend=True)])
    assert [ledger.compare(s, (), 1.0, explanation=n) for n, s in enumerate(shown)] == [[]] * 5
    assert len(ledger.compare([sign(trend=True)], (), 1.0, at_once=True, explanation=5)) == 1


def test_recovered_and_again_but_not_for_ever() -> None:
    ledger = Ledger()
    states = []
    for _ in range(ROUNDS + 2):
        for signs in ([sign()], [sign()], [], []):
            states += [(n.state.value, n.again) for n in ledger.compare(signs, (), 1.0)]
    assert states == [("started", False), ("recovered", False)] + [("started", True), ("recovered", False)] * (
        ROUNDS - 1
    )
    assert ledger.open() == []


def test_a_line_stays_told_until_the_run_survives_it() -> None:
    ledger = Ledger()
    ledger.compare([sign(lasting=False)], (), 1.0, at_once=True)
    assert [ledger.compare([], (), 2.0) for _ in range(3)] == [[], [], []]
    ledger.compare([], {"nan-loss"}, 3.0)
    (news,) = ledger.compare([], {"nan-loss"}, 4.0)
    assert news.state is State.RECOVERED


def test_what_stood_in_a_file_that_is_gone_is_not_over() -> None:
    ledger = Ledger()
    ledger.compare([sign(evidence=Evidence("a.log", 1, None, ""))], (), 1.0, at_once=True)
    assert [ledger.compare([], (), 2.0, known={"b.log"}) for _ in range(3)] == [[], [], []]
    assert len([n for _ in range(3) for n in ledger.compare([], (), 2.0, known={"a.log"})]) == 1


def test_further_ranks_are_told_but_not_one_by_one_for_ever() -> None:
    ledger = Ledger()
    told = []
    for last in range(10):
        told += ledger.compare([sign(ranks=tuple(range(last + 1)))], (), 1.0, at_once=True)
    assert [n.sign.ranks for n in told] == [(n,) for n in range(MORE_RANKS + 1)]


def test_an_attempt_that_is_numbered_anew_is_the_same() -> None:
    ledger = Ledger()
    place = Evidence("a.log", 7, 100, "text")
    ledger.compare([sign(attempt=0, evidence=place, lasting=False)], (), 1.0, at_once=True)
    assert ledger.compare([sign(attempt=1, evidence=place)], (), 2.0, at_once=True) == []
    other = Evidence("a.log", 99, 900, "text")
    assert len(ledger.compare([sign(attempt=1, evidence=other)], (), 3.0, at_once=True)) == 1


# --- memory ----------------------------------------------------------------------------------------------------------


def seen(offset: int, name: str = "cuda-oom", rank: int = 0) -> Observation:
    evidence = (Evidence("a.log", offset // 10 + 1, offset, f"line at {offset}"),)
    return Observation(signature=name, weight=0.9, evidence=evidence, identity=Identity(rank=rank), rule=0)


def test_signs_are_bounded_and_counted() -> None:
    memory = Memory()
    for n in range(500):
        memory.take([Piece(path="a.log", since=n * 10, observations=(seen(n * 10),))])
    kept = memory.data("run", []).observations
    assert len(kept) == FIRST + LAST
    assert kept[0].evidence[0].offset == 0 and kept[-1].evidence[0].offset == 4990
    assert sum(o.count for o in kept) == 500


def test_what_is_looked_at_again_replaces_what_was_said() -> None:
    memory = Memory()
    memory.take([Piece(path="a.log", observations=(seen(0), seen(50), seen(90, "host-oom")))])
    memory.take([Piece(path="a.log", since=40, observations=(seen(50), seen(120)))])
    assert [(o.signature, o.evidence[0].offset) for o in memory.data("run", []).observations] == [
        ("cuda-oom", 0),
        ("cuda-oom", 50),
        ("cuda-oom", 120),
    ]


def test_rows_are_bounded_and_keep_beginning_end_and_the_first_nan() -> None:
    frames = [
        pl.DataFrame(
            [
                (f"rank{r}.log", n, r, None, n, None, None, "loss", float("nan") if n == 1500 else 1.0)
                for n in range(1, 4001)
            ],
            schema=schema(METRICS_COLUMNS),
            orient="row",
        )
        for r in range(3)
    ]
    kept = thinned(pl.concat(frames), rows=1500)
    assert 1500 <= kept.height <= 1800
    for own in kept.partition_by("source"):
        steps = own["step"].to_list()
        assert steps == sorted(steps) and steps[0] == 1 and steps[-1] == 4000 and 1500 in steps
        assert set(range(3700, 4001)) <= set(steps)
    memory = Memory()
    for frame in frames * 8:
        memory.take([Piece(path=frame["source"][0], rows=frame)])
    assert memory.metrics.height <= 100_000
