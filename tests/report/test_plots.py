"""What the pictures show, made from numbers, and that it can be drawn whatever the numbers and names are."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import diagnosis, finding
from test_html import EVIL, pictures

from forensics.cli import main
from forensics.engine.pipeline import Options, analyse_with_data
from forensics.model import (
    COLLECTIVES_COLUMNS,
    METRICS_COLUMNS,
    Diagnosis,
    Evidence,
    Identity,
    Kind,
    Observation,
    Role,
    RunData,
    Source,
    Writer,
    schema,
)
from forensics.report.plots import draw, draw_lanes, draw_sequences, draw_series
from forensics.report.plots import pictures as made
from forensics.report.plots.canvas import COLOURS
from forensics.report.plots.decimate import decimated, thinned
from forensics.report.plots.files import within_run
from forensics.report.plots.model import Curve, Lane, Onset, Panel, Pictures, Sign, Swimlane
from forensics.report.plots.sequences import sequences
from forensics.signatures.schema import load_catalogue

Row = tuple[int | None, int, str, float]  # rank, step, name, value


def data(
    metrics: Iterable[Row] = (), writers: Sequence[Writer] = (), observations: Sequence[Observation] = (),
    collectives: Sequence[dict[str, Any]] = (),
) -> RunData:  # fmt: skip
    rows = [
        {
            "source": "m" if rank is None else f"rank{rank}.log",
            "line": step,
            "rank": rank,
            "step": step,
            "name": name,
            "value": value,
        }
        for rank, step, name, value in metrics
    ]
    table = pl.DataFrame([{c: row.get(c) for c in METRICS_COLUMNS} for row in rows], schema=schema(METRICS_COLUMNS))
    calls = pl.DataFrame(
        [{c: row.get(c) for c in COLLECTIVES_COLUMNS} for row in collectives], schema=schema(COLLECTIVES_COLUMNS)
    )
    return RunData(path="run", sources=(), observations=tuple(observations), tracebacks=(), writers=tuple(writers),
                   metrics=table, collectives=calls, coverage=())  # fmt: skip


def writer(rank: int | None, first: float, last: float, source: str | None = None) -> Writer:
    return Writer(source=source or f"rank{rank}.log", identity=Identity(rank=rank), first_time=first, last_time=last,
                  last_line="", bytes=1)  # fmt: skip


def seen(rank: int, time: float, name: str = "gpu-oom") -> Observation:
    return Observation(signature=name, weight=0.9, evidence=(Evidence(f"rank{rank}.log", 1, 0, "x"),),
                       identity=Identity(rank=rank), time=time, timed=True)  # fmt: skip


def run(world: int | None, *more: Any, **given: Any) -> Diagnosis:
    return diagnosis(*more, run={"world_size": world}, **given)


# --- fewer points, same picture


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_decimation_keeps_the_extremes_and_bounds_the_points(ys: list[float]) -> None:
    xs, kept = decimated([float(n) for n in range(len(ys))], ys, columns=50)
    assert len(kept) <= 100
    assert xs == sorted(xs)
    assert min(kept) == pytest.approx(min(ys), rel=1e-6) and max(kept) == pytest.approx(max(ys), rel=1e-6)


def test_a_restart_and_what_is_not_finite_break_a_curve() -> None:
    _, ys = decimated([1, 2, 3, 2, 3], [1.0, math.nan, math.inf, 4.0, 5.0])
    assert [y for y in ys if math.isfinite(y)] == [1.0, 4.0, 5.0]
    assert sum(not math.isfinite(y) for y in ys) >= 1
    assert decimated([], []) == ([], [])
    assert len(thinned([float(n) for n in range(100_000)], 100)) <= 101


# --- lanes


def test_the_culprit_that_fell_silent_is_marked() -> None:
    root = finding(ranks=(2,), time="x")
    picture = made(
        data(
            writers=[*(writer(r, 0, 600) for r in (0, 1, 3)), writer(2, 0, 20)],
            observations=[seen(2, 20.0), seen(0, 599.0, "collective-timeout"), seen(1, 1.0, "overflow-warmup")],
        ),
        run(
            4,
            root,
            finding(id="f2", name="collective-timeout", role=Role.CASCADE),
            finding(id="f3", name="overflow-warmup", role=Role.CONTEXT),
        ),
    ).swimlane
    assert picture is not None and (picture.axis, picture.start, picture.end) == ("time", 0, 600)
    lanes = {lane.label: lane for lane in picture.lanes}
    assert [label for label, lane in lanes.items() if lane.culprit] == ["rank 2"]
    assert lanes["rank 2"].spans == ((0, 20.0),) and lanes["rank 2"].signs[0].root
    assert [(s.name, s.root) for s in lanes["rank 0"].signs] == [("collective-timeout", False)]
    assert lanes["rank 1"].signs == ()  # what is harmless is no error


def test_a_thousand_ranks_are_bands_and_the_odd_one_has_a_lane() -> None:
    many = [writer(r, 0, 100 if r != 700 else 5) for r in range(1024)]
    picture = made(
        data(writers=many, observations=[seen(r, 100.0) for r in range(1024) if r != 700]),
        run(1024, finding(ranks=(700,))),
    ).swimlane
    assert picture is not None and len(picture.lanes) < 50
    assert picture.lanes[0].label == "rank 700" and picture.lanes[0].culprit
    bands = [lane for lane in picture.lanes if len(lane.ranks) > 1]
    assert sorted(r for lane in bands for r in lane.ranks) == list(range(1024))
    assert sum(s.count for lane in bands for s in lane.signs) == 1023


def test_a_run_of_days_is_drawn_around_its_end() -> None:
    picture = made(
        data(writers=[writer(0, 0, 864_000), writer(1, 0, 864_000)], observations=[seen(0, 863_990.0)]),
        run(2, finding(ranks=(0,))),
    ).swimlane
    assert picture is not None and picture.start > 863_000 and any("10 days" in note for note in picture.notes)


def _hang(world: int, culprit: int) -> tuple[RunData, Diagnosis]:
    """Two days of steps, then `culprit` is silent, and ten minutes later the others time out."""
    steps = 172_800
    recorded = [*range(0, steps - 1500, 1800), *range(steps - 1500, steps + 1, 10)]
    rows: list[Row] = [(rank, step, "loss", 1.0) for rank in range(world) for step in recorded]
    table = data(rows).metrics.with_columns((pl.col("step") * 1.0).alias("time"))
    writers = [writer(rank, 0.0, steps + (2.0 if rank == culprit else 605.0)) for rank in range(world)]
    waited = [
        replace(seen(rank, steps + 600.0 + rank / world, "collective-timeout"), culprits=(culprit,))
        for rank in range(world) if rank != culprit
    ]  # fmt: skip
    told = replace(data((), writers, waited), metrics=table)
    return told, run(world, finding(name="collective-timeout", ranks=(culprit,)))


@pytest.mark.parametrize("world", [8, 64])
def test_the_silence_before_a_hang_is_within_the_picture(world: int) -> None:
    picture = made(*_hang(world, 4)).swimlane
    assert picture is not None and 172_800 - 1300 < picture.start < 172_800
    assert any("48 hours before this" in note for note in picture.notes)
    (own,) = [lane for lane in picture.lanes if lane.ranks == (4,)]
    assert own.culprit and picture.start < own.spans[-1][1] == 172_802.0
    for band in (lane for lane in picture.lanes if len(lane.ranks) > 1):
        assert band.alive[0][0] <= picture.start + 10 and 172_790 < band.alive[-1][0] < 172_830


def test_a_hang_of_which_no_culprit_is_known_is_drawn_from_before_its_last_step() -> None:
    told, found = _hang(8, 4)
    picture = made(told, replace(found, findings=(finding(name="collective-timeout", ranks=None),))).swimlane
    assert picture is not None and 0 < picture.start < 172_800


def test_a_band_of_ranks_that_only_write_on_is_drawn() -> None:
    def filled(lane: Lane) -> int:
        figure = draw_lanes.draw(Swimlane("time", 0.0, 100.0, (lane,)))
        return len(figure.axes[0].collections)

    band = Lane("ranks 0-7", tuple(range(8)), ((-500.0, 100.0),))
    assert filled(replace(band, lingering=((0.0, 1.0), (100.0, 0.0)))) == 1
    assert filled(band) == 0


def test_a_picture_in_a_folder_says_what_it_leaves_out() -> None:
    lanes = (Lane("rank 0", (0,), ((0.0, 60.0),)),)
    curves = (Curve("", (1.0, 2.0), (1.0, 2.0), "all"),)
    shown = Pictures(
        Swimlane("time", 0.0, 60.0, lanes, ("The 3 days before this are not drawn.",)),
        (Panel("loss", "step", "linear", curves, notes=("Rank 3 recorded none.",)),),
    )
    written = dict(draw.for_folder(shown))
    assert b"The 3 days before this are not drawn." in written["ranks.svg"]
    assert b"Rank 3 recorded none." in written["metric-1-loss.svg"]
    page, _ = draw.for_page(shown)  # which says it beside the picture
    assert all("not drawn" not in drawn.svg and "recorded none" not in drawn.svg for drawn in page)


def test_each_of_several_culprits_is_marked() -> None:
    both = replace(seen(1, 50.0, "nan-loss"), culprits=(1, 3))
    told = data((), [writer(rank, 0.0, 100.0) for rank in range(4)], [both])
    picture = made(told, run(4, finding(name="nan-loss", ranks=(1, 3)))).swimlane
    assert picture is not None
    assert [lane.ranks for lane in picture.lanes if any(sign.root for sign in lane.signs)] == [(1,), (3,)]


def test_training_that_no_rank_is_known_of_counts_for_when_a_run_began(tmp_path: Path) -> None:
    clock = [f"2026-11-27 20:{49 + n // 6:02d}:{n % 6}0" for n in range(60)]
    began = datetime(2026, 11, 27, 20, 49, tzinfo=UTC).timestamp()
    told = "".join(f"{when} INFO step {n} loss {3 - n / 100:.3f}\n" for n, when in enumerate(clock[:20]))
    died = "".join(
        f"[rank{r}]:[E1127 20:58:{r:02d}.000001 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation"
        f" timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=300000) ran for 300012"
        " milliseconds before timing out.\n"
        for r in range(4)
    )
    (tmp_path / "job.log").write_text(told + died)
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    drawn = made(found.data, found.diagnosis).swimlane
    assert drawn is not None and drawn.start == began
    assert any(lane.label == "job.log" for lane in drawn.lanes)


def test_without_times_steps_are_the_axis_and_without_either_there_is_no_picture() -> None:
    picture = made(data([(0, s, "loss", 1.0) for s in range(5)]), run(1)).swimlane
    assert picture is not None and (picture.axis, picture.end) == ("step", 4)
    nothing = made(data(), run(4))
    assert nothing.swimlane is None and "bears a time or a step" in nothing.notes[0]


# --- metrics


def test_ranks_that_agree_are_one_curve_and_ranks_that_part_are_several() -> None:
    alike = [(r, s, "lr", 0.1 / (s + 1)) for r in range(4) for s in range(20)]
    apart = [(r, s, "loss", 2.0 - s / 50 + (r == 2) * s) for r in range(4) for s in range(20)]
    panels = {p.name: p for p in made(data([*alike, *apart]), run(4, finding(ranks=(2,), step=7))).panels}
    assert [c.label for c in panels["lr"].curves] == ["4 ranks alike"]
    assert [(c.label, c.role) for c in panels["loss"].curves][2] == ("rank 2", "culprit")
    assert [(o.x, o.label) for o in panels["loss"].onsets] == [(7.0, "at step 7")] or panels["loss"].onsets[
        0
    ].label == "step 7"


def test_of_many_ranks_the_spread_and_those_that_lie_apart_are_shown() -> None:
    rows = [(r, s, "loss", 2.0 + 0.01 * (r % 7) + (r == 90) * 5.0) for r in range(128) for s in range(30)]
    (panel,) = made(data(rows), run(128)).panels
    assert panel.spread is not None and max(panel.spread.high) == pytest.approx(7.06, abs=0.1)
    assert [(c.label, c.role) for c in panel.curves] == [("median of 128 ranks", "middle"), ("rank 90", "rank")]


def test_nan_is_marked_where_it_is() -> None:
    rows = [(0, s, "loss", math.nan if s >= 15 else 1.0 / (s + 1)) for s in range(20)]
    (panel,) = made(data(rows), run(1)).panels
    assert panel.broken == (15.0, 16.0, 17.0, 18.0, 19.0)


@pytest.mark.parametrize(
    ("name", "values", "scale"),
    [
        ("loss", [2.0, 1.9, 1.8, 1.7], "linear"),
        ("loss", [2.0, 2.0, 2.0, 1e6], "log"),
        ("loss", [-2.0, 2.0, 2.0, 1e6], "symlog"),
        ("loss_scale", [65536.0, 32768.0, 1024.0, 1.0], "log2"),
        ("loss", [2.1, 1.7, 1.4, *[0.0] * 40], "linear"),  # a NaN that a program logs as 0.0
        ("loss", [2.0, 2.0, 2.0, 1e6, *[0.0] * 40], "symlog"),
        ("reward", [0.9, -0.8, 1.0, -1.0, 0.001, -0.001, 0.7], "linear"),  # about zero, and of one size
        ("overflow", [0.0, 0.0, 0.0, 0.0], "linear"),
    ],
)
def test_the_scale_follows_the_numbers(name: str, values: list[float], scale: str) -> None:
    (panel,) = made(data([(0, s, name, v) for s, v in enumerate(values)]), run(1)).panels
    assert panel.scale == scale


# --- collectives


def call(rank: int, seq: int, state: str) -> dict[str, Any]:
    return {"source": f"fr_{rank}", "rank": rank, "group": "0", "group_desc": "default_pg", "seq": seq, "op": "all_reduce",
            "state": state, "retired": state == "completed", "is_p2p": False}  # fmt: skip


def test_the_rank_that_is_behind_stands_first() -> None:
    calls = [call(r, s, "completed" if s < 9 else "started") for r in (0, 1, 3) for s in (8, 9)] + [
        call(2, 8, "completed")
    ]
    (group,) = made(data(collectives=calls), run(5)).sequences
    assert [(e.ranks, e.seq, e.state, e.behind) for e in group.reached] == [
        ((2,), 8, "done", True),
        ((0, 1, 3), 9, "waits in it", False),
    ]
    assert group.silent == (4,)


# --- drawn


def test_every_picture_is_drawn_small_and_shows_its_text() -> None:
    drawn, problems = draw.for_page(pictures("rank 2"))
    assert problems == [] and len(drawn) == 3
    for picture in drawn:
        ElementTree.fromstring(picture.svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))
        assert "style=" not in picture.svg and "rank 2" in picture.svg and len(picture.svg) < 30_000


def test_hostile_names_are_drawn_as_text() -> None:
    drawn, problems = draw.for_page(pictures(EVIL))
    assert problems == []
    for picture in drawn:
        assert "<script" not in picture.svg and "<img" not in picture.svg and "\x1b" not in picture.svg
        assert picture.name.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("scale", ["linear", "log", "symlog", "log2"])
@pytest.mark.parametrize("ys", [(0.0, 0.0), (math.nan, math.nan), (1e-300, 1e300), (-1e300, 1e300), (0.0, 1e-45)])
def test_extreme_numbers_are_drawn(scale: str, ys: tuple[float, ...]) -> None:
    drawn, problems = draw.for_page(
        Pictures(panels=(Panel("loss", "step", scale, (Curve("", (1.0, 2.0), ys, "all"),)),))
    )
    assert (len(drawn), problems) == (1, [])


def test_plots_go_into_a_folder_and_never_into_the_run(tmp_path: Path) -> None:
    log = tmp_path / "run" / "train.log"
    log.parent.mkdir()
    log.write_text("".join(f"2026-11-20 08:00:{s:02d} step {s} loss {3 / s:.4f} lr 1e-4\n" for s in range(1, 40)))
    before = sorted(p.name for p in log.parent.rglob("*"))
    refused = CliRunner().invoke(main, ["analyze", str(log.parent), "--plots", str(log.parent / "plots")])
    assert refused.exit_code == 2 and "lies in the run" in refused.output
    out = tmp_path / "plots"
    done = CliRunner().invoke(
        main, ["analyze", str(log.parent), "-q", "--plots", str(out), "-o", str(tmp_path / "r.html")]
    )
    assert done.exit_code in (0, 3), done.output
    names = {p.name for p in out.iterdir()}
    assert {"ranks.png", "ranks.svg", "metric-1-loss.png", "metric-1-loss.svg"} <= names
    assert (out / "ranks.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "<svg" in page and 'id="metrics"' in page
    assert sorted(p.name for p in log.parent.rglob("*")) == before


def test_a_link_into_the_run_is_the_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert within_run(tmp_path / "link" / "plots", [str(tmp_path / "run")])
    assert not within_run(tmp_path / "runs", [str(tmp_path / "run"), "-"])


def test_a_page_without_matplotlib_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from forensics.report.html.figures import figures

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (section,) = [s for s in figures(pictures("rank 2")) if s[0] == "not-drawn"]
    assert "pip install matplotlib" in section[2]
    assert any(key == "collectives" for key, _, _ in figures(pictures("rank 2")))  # its table needs no picture


def test_no_heavy_import_before_a_plot_is_asked_for() -> None:
    import subprocess
    import sys

    code = "import sys, forensics.report.html, forensics.report.plots; print([m for m in ('matplotlib', 'polars', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_where_times_tell_of_no_rank_steps_are_the_axis() -> None:
    told = data([(r, s, "loss", 1.0) for r in range(2) for s in range(5)], [writer(None, 1.0, 9.0, "launcher.log")])
    lanes = made(told, run(2)).swimlane
    assert lanes is not None and lanes.axis == "step"
    assert [lane.spans for lane in lanes.lanes if lane.ranks] == [((0.0, 4.0),)] * 2


def test_a_run_whose_times_are_one_moment_is_drawn_over_steps() -> None:
    told = data([(0, s, "loss", 1.0) for s in range(5)], [writer(0, 7.0, 7.0)])
    lanes = made(told, run(1)).swimlane
    assert lanes is not None and lanes.axis == "step"


def test_two_lines_stamped_at_the_start_are_one_moment() -> None:
    told = data([(0, s, "loss", 1.0) for s in range(600)], [writer(0, 7.0, 7.001)])
    lanes = made(told, run(1)).swimlane
    assert lanes is not None and (lanes.axis, lanes.end) == ("step", 599)
    # A run that is over within a second, whose steps bear times, is drawn over these.
    rows = data([(0, s, "loss", 1.0) for s in range(5)])
    quick = replace(rows, metrics=rows.metrics.with_columns((pl.col("step") / 10).alias("time")))
    lanes = made(quick, run(1)).swimlane
    assert lanes is not None and (lanes.axis, lanes.end) == ("time", pytest.approx(0.4))


def test_of_many_files_the_first_to_err_are_shown_in_their_natural_order() -> None:
    files = [f"node-{n}/launcher.log" for n in range(20)]
    errors = [
        Observation(signature="gpu-oom", weight=0.9, evidence=(Evidence(file, 1, 0, "x"),), time=50.0 - n, timed=True)
        for n, file in enumerate(files)
    ]
    told = data((), [writer(None, 1.0, 60.0, file) for file in files] + [writer(0, 1.0, 60.0)], errors)
    lanes = made(told, run(2, finding(name="gpu-oom"))).swimlane
    assert lanes is not None
    assert [lane.label for lane in lanes.lanes if not lane.ranks] == [f"node-{n}/launcher.log" for n in range(12, 20)]


def test_the_key_names_only_signs_that_occur() -> None:
    healthy = data((), [writer(r, 0.0, 60.0) for r in range(2)])
    assert "root cause" not in draw.for_page(made(healthy, run(2)))[0][0].svg
    assert "root cause" in draw.for_page(pictures())[0][0].svg


def test_the_lines_of_several_culprits_differ() -> None:
    curves = tuple(Curve(f"rank {r}", (1.0, 2.0), (1.0, 2.0 + r), "culprit") for r in range(3))
    (drawn,), problems = draw.for_page(Pictures(panels=(Panel("loss", "step", "linear", curves),)))
    dashes = {
        p.get("stroke-dasharray")
        for p in ElementTree.fromstring(drawn.svg).iter("path")
        if "s-bad" in p.get("class", "")
    }
    assert problems == [] and len(dashes) == 3


@pytest.mark.parametrize("culprits", [(), (2, 6), (0, 1, 2, 5, 6, 7)])
def test_the_legend_names_every_curve_and_what_is_broken_culprits_first(culprits: tuple[int, ...]) -> None:
    curves = tuple(Curve(f"rank {r}", (1.0, 2.0), (1.0, 2.0), "culprit" if r in culprits else "rank") for r in range(8))
    (drawn,), problems = draw.for_page(Pictures(panels=(Panel("loss", "step", "linear", curves, broken=(2.0,)),)))
    named = [
        (float(t.get("y", "0")), t.text or "")
        for t in ElementTree.fromstring(drawn.svg).iter("text")
        if (t.text or "").startswith(("rank ", "NaN"))
    ]
    in_order = [*(f"rank {r}" for r in culprits), "NaN or Inf", *(f"rank {r}" for r in range(8) if r not in culprits)]
    rows = sorted({y for y, _ in named})
    read = [text for row in rows for y, text in named if y == row]
    assert problems == [] and read == in_order and len(rows) == 2


def test_curves_of_which_all_are_culprits_have_colours_of_their_own() -> None:
    rows: list[Row] = [(rank, step, "loss", 1.0 + rank) for rank in range(2) for step in range(20)]
    (panel,) = made(data(rows), run(2, finding(name="gpu-oom", ranks=(0, 1)))).panels
    assert [curve.role for curve in panel.curves] == ["rank", "rank"]
    (panel,) = made(data(rows), run(2, finding(name="gpu-oom", ranks=(1,)))).panels
    assert [curve.role for curve in panel.curves] == ["rank", "culprit"]


def test_an_axis_that_is_not_linear_says_so() -> None:
    def texts(scale: str, *ys: float) -> str:
        panel = Panel("loss", "step", scale, (Curve("", tuple(map(float, range(len(ys)))), ys, "all"),))
        return draw.for_page(Pictures(panels=(panel,)))[0][0].svg

    assert "logarithmic scale" in texts("symlog", 0.0, 1.0, 1e6)
    assert "logarithmic scale" not in texts("linear", 0.0, 1.0, 2.0)
    assert "logarithmic scale" not in texts("log", 3.0, 3.0)  # one value: the axis is linear


def test_marks_of_a_loss_scale_that_fell_to_nothing_have_room() -> None:
    curves = (Curve("", tuple(range(50)), tuple(65536.0 * 2.0**-n for n in range(50)), "all"),)
    (drawn,), _ = draw.for_page(Pictures(panels=(Panel("loss_scale", "step", "log2", curves),)))
    marks = [t.text or "" for t in ElementTree.fromstring(drawn.svg).iter("text")]
    small = [len(mark) for mark in marks if "e-" in mark]
    assert small and max(small) <= 8
    few = (Curve("", tuple(range(33)), tuple(65536.0 * 2.0**-n for n in range(33)), "all"),)
    (drawn,), _ = draw.for_page(Pictures(panels=(Panel("loss_scale", "step", "log2", few),)))
    marks = [t.text or "" for t in ElementTree.fromstring(drawn.svg).iter("text")]
    assert "65536" in marks and "0.00391" in marks  # and not 0.00390625, for which there is no room


def test_the_rank_that_was_waited_for_did_not_time_out(tmp_path: Path) -> None:
    for rank in range(4):
        last = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."
            if rank == 2
            else f"[rank{rank}]:[E1127 20:10:30.123456 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=1801, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for "
            "600031 milliseconds before timing out."
        )
        steps = "".join(f"2026-11-27 20:00:{s:02d} [rank{rank}] step {s} loss 1.0\n" for s in range(9))
        (tmp_path / f"rank_{rank}.log").write_text(f"{steps}{last}\n")
    found = analyse_with_data([str(tmp_path)], Options(), load_catalogue(examples=False))
    (group,) = sequences(found.data, found.diagnosis).shown
    assert [(entry.ranks, entry.state) for entry in group.reached] == [((0, 1, 3), "timed out in it")]
    assert group.silent == (2,)


def test_a_rank_that_records_no_more_steps_stands_still() -> None:
    rows: list[Row] = [(rank, step, "loss", 1.0) for rank in (0, 1) for step in range(20)]
    metrics = data(rows).metrics.with_columns((pl.col("step") * 1.0).alias("time"))
    made_of = replace(data(rows), metrics=metrics, writers=(writer(0, 0.0, 619.0), writer(1, 0.0, 25.0)))
    lane, other = made(made_of, run(2)).swimlane.lanes
    assert lane.spans == ((0.0, 619.0),) and lane.still == (19.0, 619.0)
    assert other.still is None


@pytest.mark.parametrize(
    ("last", "still"),
    [
        ("[rank{rank}]:[E1127 20:14:30.123456 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
         "timeout: WorkNCCL(SeqNum=1801, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=300000) ran for 300031 "
         "milliseconds before timing out.", True),
        ("2026-11-27 20:14:30 [rank{rank}] done", False),
    ],
)  # fmt: skip
def test_a_rank_stands_still_before_a_timeout_of_few_steps(tmp_path: Path, last: str, still: bool) -> None:
    for rank in (0, 1):
        steps = "".join(
            f"2026-11-27 20:{s // 2:02d}:{s % 2 * 30:02d} [rank{rank}] step {s} loss 1.0\n" for s in range(20)
        )
        (tmp_path / f"rank_{rank}.log").write_text(f"{steps}{last.format(rank=rank)}\n")
    found = analyse_with_data([str(tmp_path)], Options(), load_catalogue(examples=False))
    lanes = made(found.data, found.diagnosis).swimlane.lanes
    assert [lane.still is not None for lane in lanes if lane.ranks] == [still, still]


def test_a_file_has_no_lane_beside_that_of_its_rank_for_the_same_sign() -> None:
    concluded = replace(seen(1, 30.0), identity=Identity(), timed=False)
    files = tuple(
        Source(f"rank{rank}.log", Path(f"rank{rank}.log"), Kind.LOG, 1, identity=Identity(rank=rank)) for rank in (0, 1)
    )
    own = data(writers=[writer(rank, 0.0, 60.0) for rank in (0, 1)], observations=[seen(1, 30.0), concluded])
    told = run(2, finding(name="gpu-oom"))
    assert [lane.label for lane in made(replace(own, sources=files), told).swimlane.lanes] == ["rank 0", "rank 1"]
    alone = replace(own, sources=files, observations=(concluded,))
    assert [lane.label for lane in made(alone, told).swimlane.lanes] == ["rank 0", "rank 1", "rank1.log"]


def test_what_stands_between_lines_of_ranks_has_no_lane_unless_it_tells_more() -> None:
    file = Source("stdout.log", Path("stdout.log"), Kind.LOG, 1)
    mixed = [writer(rank, 0.0, 60.0, "stdout.log") for rank in (0, 1)] + [writer(None, 0.0, 70.0, "stdout.log")]

    def said(name: str, at: float) -> Observation:
        return replace(seen(0, at, name), identity=Identity(), evidence=(Evidence("stdout.log", 1, 0, "x"),))

    follows = said("sigterm-to-children", 65.0)
    told = run(2, finding(name="gpu-oom"), finding(id="f2", role=Role.CASCADE, name="sigterm-to-children"))

    def labels(of: RunData, told: Diagnosis = told) -> list[str]:
        return [lane.label for lane in made(of, told).swimlane.lanes]

    ranks = ["rank 0", "rank 1"]
    assert labels(replace(data((), mixed, [seen(1, 30.0), follows]), sources=(file,))) == ranks
    # A cause that no rank shows, and files of which nothing is known.
    own = made(replace(data((), mixed, [follows, said("gpu-oom", 66.0)]), sources=(file,)), told).swimlane.lanes[-1]
    assert own.label == "stdout.log" and [(s.name, s.root) for s in own.signs][-1] == ("gpu-oom", True)
    launcher = [*(writer(rank, 0.0, 60.0) for rank in (0, 1)), writer(None, 0.0, 70.0, "launcher.log")]
    assert labels(data((), launcher, [seen(1, 30.0)])) == [*ranks, "launcher.log"]
    of_node = replace(file, path="launcher.log", identity=Identity(node="node-0"))
    assert labels(replace(data((), launcher, [seen(1, 30.0)]), sources=(of_node,))) == ranks
    # Where no time of a rank is known, the file is all there is.
    assert "launcher.log" in labels(replace(data((), launcher[2:], [follows]), sources=(of_node,)))


def test_a_file_of_metrics_has_no_lane_where_ranks_record_their_steps() -> None:
    rows: list[Row] = [(rank, step, "loss", 1.0) for rank in (0, 1, None) for step in range(20)]
    events = Source("m", Path("m"), Kind.TENSORBOARD, 1)
    assert [n.label for n in made(replace(data(rows), sources=(events,)), run(2)).swimlane.lanes] == [
        "rank 0",
        "rank 1",
    ]
    alone = made(replace(data(rows[-20:]), sources=(events,)), run(2)).swimlane.lanes
    assert [lane.label for lane in alone if lane.spans] == ["m"]


def test_one_moment_without_a_sign_is_no_picture() -> None:
    rows: list[Row] = [(None, 912, "loss", 1.0), (None, 912, "lr", 0.1)]
    drawn = made(data(rows), run(None))
    assert drawn.swimlane is None and any(note.startswith("Ranks over time: nothing") for note in drawn.notes)
    assert made(data([*rows, (None, 913, "loss", 1.0)]), run(None)).swimlane is not None


def test_a_band_whose_ranks_record_no_more_steps_is_paler_from_there() -> None:
    rows: list[Row] = [(rank, step, "loss", 1.0) for rank in range(64) for step in range(20)]
    metrics = data(rows).metrics.with_columns((pl.col("step") * 1.0).alias("time"))
    waits = tuple(writer(rank, 0.0, 619.0) for rank in range(64))
    bands = [n for n in made(replace(data(rows), metrics=metrics, writers=waits), run(64)).swimlane.lanes if n.alive]
    assert bands
    for band in bands:
        assert (band.alive[-1][1], band.lingering[-1][1]) == (0.0, 0.0)
        assert band.alive[-1][0] < 30 < 600 < band.lingering[-1][0]
    goes_on = tuple(writer(rank, 0.0, 19.0) for rank in range(64))
    lanes = made(replace(data(rows), metrics=metrics, writers=goes_on), run(64)).swimlane.lanes
    assert all(lane.lingering == () for lane in lanes)


@pytest.mark.parametrize("at", [0.0, 20.0, 45.0, 55.0, 80.0, 100.0])
@pytest.mark.parametrize("name", ["gpu-oom", "a-signature-of-which-the-name-takes-more-room-than-there-is"])
def test_a_small_screen_has_a_picture_of_its_own_that_holds_the_cause_and_its_name(at: float, name: str) -> None:
    lanes = (
        Lane("rank 0", (0,), ((0.0, 100.0),), reached="#7 all_reduce, waits in it"),
        Lane("rank 1", (1,), ((0.0, at),), (Sign(at, name, True),), culprit=True),
    )
    figure = draw_lanes.draw(Swimlane("time", 0.0, 100.0, lanes), draw_lanes.NARROW)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    (told,) = ax.texts  # and not the last collective, of which there is a table
    box = told.get_window_extent()
    assert told.get_text().startswith(name[:8])
    assert box.x0 > ax.get_window_extent().x0 - 2 and box.x1 < figure.bbox.x1
    (drawn,), problems = draw.for_page(Pictures(Swimlane("time", 0.0, 100.0, lanes)))
    assert problems == [] and "all_reduce" in drawn.svg and "all_reduce" not in drawn.narrow


def test_nothing_known_is_not_written_over_the_labels_of_the_lanes() -> None:
    # All that is known is one moment, which lies at the left edge.
    swimlane = Swimlane("time", 100.0, 100.0, (Lane("rank 0", (0,), ((100.0, 100.0),)), Lane("rank 1", (1,))))
    figure = draw_lanes.draw(swimlane)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    (unknown,) = [text for text in ax.texts if text.get_text() == "nothing known"]
    assert unknown.get_window_extent().x0 > ax.get_window_extent().x0


def test_a_metric_of_moments_has_marks_and_no_line_between_them() -> None:
    rows: list[Row] = [(None, step, "overflow", 1.0) for step in (1, 2, 250)]
    rows += [(None, step, "loss", 1.0 / (step + 1)) for step in range(30)]
    loss, overflow = made(data(rows), run(1)).panels
    assert (overflow.name, overflow.moments, loss.moments) == ("overflow", True, False)
    lines = draw_series.draw(overflow).axes[0].get_lines()
    assert [(line.get_linestyle(), line.get_marker()) for line in lines] == [("None", "|")]
    assert draw_series.draw(loss).axes[0].get_lines()[0].get_linestyle() == "-"


@pytest.mark.parametrize(("scale", "top"), [("linear", 9.0), ("symlog", 9e4), ("log2", 65536.0)])
def test_the_label_of_an_onset_hides_no_value(scale: str, top: float) -> None:
    ys = tuple(top if 36 <= n < 40 else 1.0 for n in range(70))  # a plateau right below the label
    panel = Panel(
        "loss", "step", scale, (Curve("", tuple(map(float, range(70))), ys, "all"),), onsets=(Onset(36.0, "step 36"),)
    )
    figure = draw_series.draw(panel)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    (label,) = ax.texts
    assert label.get_text() == "step 36"
    assert ax.transData.transform((37.0, top))[1] < label.get_window_extent().y0


def test_marks_of_a_linear_axis_are_all_written_alike() -> None:
    def marks(*ys: float) -> list[str]:
        panel = Panel("lr", "step", "linear", (Curve("", tuple(map(float, range(len(ys)))), ys, "all"),))
        figure = draw_series.draw(panel)
        figure.draw_without_rendering()
        return [text.get_text() for text in figure.axes[0].get_yticklabels()]

    assert all("e-" in mark or mark == "0" for mark in marks(1e-4, 1e-4, 1e-4))  # and not 7.5e-5 beside 0.0001
    assert not any("e" in mark for mark in marks(0.001, 0.002, 0.003))


def in_group(rank: int, group: str, seq: int, *, done: bool = True, time: float | None = None) -> dict[str, Any]:
    name, _, desc = group.partition(" ")
    return {
        "source": f"nccl_trace_rank_{rank}", "rank": rank, "group": name, "group_desc": desc, "seq": seq,
        "op": "all_reduce", "state": "completed" if done else "scheduled", "retired": done, "is_p2p": False,
        "time": 1000.0 + seq if time is None else time,
    }  # fmt: skip


def parallel(late: int = 21, world: int = 64, size: int = 2) -> list[dict[str, Any]]:
    """Tensor-parallel pairs and two data-parallel groups; `late` does not come to its pair's second collective."""
    calls = []
    for rank in range(world):
        pair = rank // size
        tensor = f"{1 + pair} tp_{pair} ranks {pair * size}-{pair * size + size - 1}"
        waits = pair == late // size
        calls += [in_group(rank, tensor, 1), in_group(rank, f"{90 + rank % size} dp_{rank % size}", 1, time=1001.5)]
        if rank != late:
            calls.append(in_group(rank, tensor, 2, done=not waits))
        if not waits:
            calls.append(in_group(rank, f"{90 + rank % size} dp_{rank % size}", 2, done=False, time=1002.5))
    return calls


def test_the_group_that_is_waited_in_is_the_first_of_many() -> None:
    root = finding(name="straggler-rank", ranks=(21,), captures={"group": "11 (tp_10 ranks 20-21)"})
    shown = made(data(collectives=parallel()), run(64, root))
    first = shown.sequences[0]
    assert first.group == "11 (tp_10)"
    assert [(e.ranks, e.seq, e.state, first.blames(e.ranks)) for e in first.reached] == [
        ((21,), 1, "done", True), ((20,), 2, "waits in it", False),
    ]  # fmt: skip
    assert {s.group for s in shown.sequences[1:3]} == {"90 (dp_0)", "91 (dp_1)"}  # waited in too, by others
    assert len(shown.sequences) == 6 and any("28 more process groups" in note for note in shown.notes)


def test_a_group_that_is_waited_in_goes_first_where_no_cause_names_one() -> None:
    shown = made(data(collectives=parallel()), run(64, finding(name="straggler-rank", ranks=(21,))))
    assert {s.group for s in shown.sequences[:2]} == {"11 (tp_10)", "91 (dp_1)"}  # 21 is awaited in both
    assert shown.sequences[2].group == "90 (dp_0)"


def test_a_lane_says_which_collective_its_rank_waits_in_and_not_another_that_it_ended() -> None:
    writers = [writer(rank, 0.0, 600.0) for rank in range(8)]
    root = finding(name="straggler-rank", ranks=(5,))
    lanes = made(data(writers=writers, collectives=parallel(5, 8)), run(8, root)).swimlane.lanes
    assert [lane.reached for lane in lanes[:2]] == [
        "#2 all_reduce, waits in it (dp_0)",
        "#2 all_reduce, waits in it (dp_1)",
    ]
    assert lanes[4].reached == "#2 all_reduce, waits in it (tp_2)"
    assert lanes[5].reached == "#1 all_reduce, done (dp_1)"  # the later of two that it ended


def test_a_silent_culprit_does_not_hide_among_others_of_whom_nothing_is_known() -> None:
    calls = [in_group(rank, "0 default_pg", 7, done=False) for rank in range(5)]
    root = finding(name="collective-timeout", ranks=(6,))
    (group,) = made(data(collectives=calls), run(8, root)).sequences
    assert group.silences == ((6,), (5, 7))
    figure = draw_sequences.draw(group)
    figure.draw_without_rendering()
    labels = {text.get_text(): text.get_color() for text in figure.axes[0].get_yticklabels()}
    assert labels == {"ranks 0-4": COLOURS["fg"], "▶ rank 6": COLOURS["bad"], "ranks 5, 7": COLOURS["fg"]}


def test_recorders_alone_tell_of_lives_and_logs_tell_before_them() -> None:
    calls = [in_group(rank, "0 default_pg", seq) for rank in range(2) for seq in range(1, 2 + rank)]
    lanes = made(data(collectives=[*calls, in_group(1, "0 default_pg", 9)]), run(2)).swimlane.lanes
    assert [lane.spans for lane in lanes] == [((1001.0, 1001.0),), ((1001.0, 1009.0),)]
    lanes = made(data(collectives=calls, writers=[writer(0, 5.0, 50.0)]), run(2)).swimlane.lanes
    assert [lane.spans for lane in lanes] == [((5.0, 50.0),), ()]
    texts = [text.get_text() for text in draw_lanes.draw(Swimlane("time", 5.0, 50.0, lanes)).axes[0].texts]
    assert "no time known" in texts and "nothing known" not in texts  # its last collective stands beside it


def test_a_cause_that_has_no_mark_is_named_below() -> None:
    writers = [writer(rank, 0.0, 60.0) for rank in range(2)]
    bare = made(data(writers=writers), run(2, finding(name="python-exception", ranks=(1,))))
    assert any("Without a mark, for no time is known of it: python-exception." in n for n in bare.swimlane.notes)
    timed = made(data(writers=writers, observations=[seen(1, 30.0)]), run(2, finding(name="gpu-oom", ranks=(1,))))
    assert not any("Without a mark" in note for note in timed.swimlane.notes)


@pytest.mark.parametrize(
    ("culprit", "attempt", "explained_by", "marks"),
    [
        (1, 0, "f1", [(1, 40.0, True), (0, 50.0, False)]),
        (1, 1, "f1", [(1, 40.0, False), (0, 50.0, False)]),  # what another attempt met
        (2, 0, "f1", [(1, 40.0, False), (0, 50.0, False)]),  # another rank's
        (1, 0, "f9", [(1, 40.0, False), (0, 50.0, False)]),  # what follows from something else
    ],
)
def test_a_cause_without_a_time_is_marked_where_its_first_effect_on_the_culprit_is(
    culprit: int, attempt: int, explained_by: str, marks: list[tuple[int, float, bool]]
) -> None:
    exited = replace(seen(1, 40.0, "rank-exited-early"), identity=Identity(rank=1, attempt=0))
    found = run(
        3,
        finding(name="disk-full", ranks=(culprit,), attempt=attempt),
        finding(id="f2", name="rank-exited-early", role=Role.CASCADE, explained_by=explained_by),
        finding(id="f3", name="collective-timeout", role=Role.CASCADE, explained_by="f2"),
    )
    writers = [writer(rank, 0.0, 60.0) for rank in range(3)]
    told = made(data((), writers, [exited, seen(0, 50.0, "collective-timeout")]), found).swimlane
    assert told is not None
    assert sorted((lane.ranks[0], s.x, s.root) for lane in told.lanes for s in lane.signs) == sorted(marks)
    assert any("disk-full: the mark is where" in note for note in told.notes) == marks[0][2]
    assert any("Without a mark" in note for note in told.notes) != marks[0][2]


def test_a_culprit_that_said_nothing_is_shown_though_the_size_of_the_run_is_not_known() -> None:
    calls = [in_group(rank, "0 default_pg", 7, done=False) for rank in (0, 1, 3)]
    (group,) = made(data(collectives=calls), run(None, finding(name="collective-timeout", ranks=(2,)))).sequences
    assert group.silences == ((2,),) and group.blames((2,))
    said = [
        Observation(signature="collective-timeout", weight=0.9, evidence=(Evidence(f"rank{rank}.log", 1, 0, "x"),),
                    identity=Identity(rank=rank), captures={"seq": "7", "op": "ALLREDUCE"})
        for rank in (0, 1)
    ]  # fmt: skip
    (told,) = made(data(observations=said), run(None, finding(name="collective-timeout", ranks=(2,)))).sequences
    assert told.silences == ((2,),)


def test_ranks_without_a_trace_have_a_place_among_the_others() -> None:
    """A highest rank says that there are the lower ones; one that stands far above all others may be misread."""

    def labels(*ranks: int) -> list[str]:
        return [n.label for n in made(data(writers=[writer(r, 0.0, 60.0) for r in ranks]), run(None)).swimlane.lanes]

    assert labels(0, 1, 3) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert labels(0, 1, 900) == ["rank 0", "rank 1", "rank 900"]
    seen = [rank for rank in range(64) if rank not in (9, 20, 40)]
    bands = labels(*seen)
    assert bands[:2] == ["ranks 0-7", "ranks 8-15"] and len(bands) == 8


def _stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def test_one_moment_of_the_ranks_in_a_log_that_lasts_is_no_axis() -> None:
    """A Slurm log: the launcher stamps its lines, the training does not."""
    steps = [(0, s, "loss", 1.0) for s in range(10, 60, 10)]
    died = replace(seen(2, 5047.0), timed=False, step=None)
    told = data(steps, [writer(None, 5000.0, 5211.0, "slurm-1.out")], [died, replace(seen(2, 5211.5), signature="x")])
    lanes = made(told, run(4, finding(name="gpu-oom", ranks=(2,), time=_stamp(5211.0), step=50))).swimlane
    assert lanes is not None and (lanes.axis, lanes.start, lanes.end) == ("step", 10, 50)
    assert [(lane.ranks, s.x, s.root) for lane in lanes.lanes for s in lane.signs] == [((2,), 50.0, True)]


def test_a_cause_is_marked_when_the_diagnosis_says_that_it_happened() -> None:
    """The line of the cause bears no time, the launcher tells whole seconds, and ranks are heard of only afterwards."""
    line = replace(seen(1, 5047.0), timed=False)
    late = [replace(seen(rank, 5576.5 + rank), signature="x") for rank in range(3)]
    told = data((), [writer(None, 5000.0, 5578.0, "rank0.log")], [line, *late])
    found = run(4, finding(name="gpu-oom", ranks=(1,), time=_stamp(5576.0)))
    lanes = made(told, found).swimlane
    assert lanes is not None and (lanes.axis, lanes.end) == ("time", 5578.5) and lanes.start < 5576.0
    assert [(lane.ranks, s.x, s.root) for lane in lanes.lanes for s in lane.signs] == [((1,), 5576.0, True)]
    alone = made(replace(told, writers=()), found).swimlane  # no file says when the run began
    assert alone is not None and alone.start == 5576.0
    assert not any("Without a mark" in note for note in lanes.notes)
    printed = replace(line, timed=True)  # with its own time, whatever the launcher says
    (sign,) = (s for n in made(replace(told, observations=(printed, *late)), found).swimlane.lanes for s in n.signs)
    assert sign.x == 5047.0


def test_a_sign_beyond_the_picture_is_none() -> None:
    told = data((), [writer(0, 5000.0, 5600.0)], [replace(seen(1, 100.0), timed=False)])
    lanes = made(told, run(2, finding(name="gpu-oom", ranks=(1,)))).swimlane
    assert lanes is not None and any("Without a mark" in note for note in lanes.notes)
    texts = [text.get_text() for text in draw_lanes.draw(lanes).axes[0].texts]
    assert texts == ["nothing known"]
    assert "root cause" not in draw.for_page(Pictures(lanes))[0][0].svg


def test_of_many_culprits_the_first_to_fall_silent_has_a_lane() -> None:
    blamed = tuple(range(3, 1024, 50))
    writers = [writer(r, 0.0, 500.0 if r == 753 else 580.0 if r in blamed else 2400.0) for r in range(1024)]
    concluded = Observation(signature="collective-timeout", weight=0.9, evidence=(Evidence("rank0.log", 1, 0, "x"),),
                            identity=Identity(), time=2390.0, culprits=blamed)  # fmt: skip
    waited = [seen(r, 2390.0 + r / 1024, "collective-timeout") for r in range(1024) if r not in blamed]
    root = finding(name="collective-timeout", ranks=blamed)
    lanes = made(data((), writers, [concluded, *waited]), run(1024, root)).swimlane
    assert lanes is not None
    own = [lane for lane in lanes.lanes if len(lane.ranks) == 1]
    assert len(own) == 12 and (753,) in [lane.ranks for lane in own]
    assert all(lane.ranks for lane in lanes.lanes)  # a cause of many is no cause of the file that tells it
    assert sum(lane.culprit for lane in own) >= 8
    assert all(any(sign.root for sign in lane.signs) for lane in own if lane.culprit)


def test_a_group_that_a_cause_names_is_shown_though_one_rank_alone_has_a_call_in_it() -> None:
    calls = [in_group(0, "1 undefined", 1, done=False), *(in_group(r, "0 default_pg", 30 + (r > 0)) for r in range(3))]
    named = finding(name="rank-conditional-collective", ranks=(0,), captures={"group": "1 (undefined)"})
    assert [s.group for s in made(data(collectives=calls), run(3, named)).sequences] == ["1 (undefined)", "default_pg"]
    default = finding(name="rank-conditional-collective", ranks=(0,), captures={"group": "0"})
    assert [s.group for s in made(data(collectives=calls), run(3, default)).sequences] == ["default_pg"]


def test_a_group_that_no_line_names_is_called_so() -> None:
    waits = [
        Observation(signature="collective-timeout", weight=0.9, evidence=(Evidence(f"rank{rank}.log", 1, 0, "x"),),
                    identity=Identity(rank=rank), captures={"seq": "7", "op": "ALLREDUCE"})
        for rank in (0, 1)
    ]  # fmt: skip
    (group,) = made(data(observations=waits), run(2)).sequences
    assert draw_sequences.draw(group).axes[0].get_title(loc="left") == "a process group that no line names"


def test_a_cause_without_a_mark_though_its_time_is_known_lies_on_no_lane() -> None:
    writers = [writer(rank, 0.0, 60.0) for rank in range(2)]
    told = made(data(writers=writers), run(2, finding(name="host-reboot", time=_stamp(30.0)))).swimlane
    assert told is not None and told.notes == ("On no lane: host-reboot.",)
