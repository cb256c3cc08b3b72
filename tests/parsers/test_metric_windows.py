"""Metrics of whole files: windows, counters, glued lines, and the bounds that keep hostile logs cheap."""

from __future__ import annotations

import io
import itertools
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.matcher import NONFINITE
from forensics.engine.scan import Hit, Scan
from forensics.model import Identity, Kind, Source
from forensics.parsers import logs, metric_lines, metric_windows
from forensics.parsers.metric_lines import neighbours, templates

STAMP = "2026-11-27 21:48:19,411"


def source(file=Path("train.log"), size=1, **identity):
    return Source("train.log", file, Kind.LOG, size, Identity(**identity))


def extract(text, voted=()):
    return windows([(text.encode(), 1)], voted)


def windows(parts, voted=()):
    return metric_lines.extract([metric_lines.LogText(source(), parts, frozenset(voted), 1.78e9)])


COUNTERS = {
    "[trainer] step 18 forward took 1.2 s": (18, None, None),
    f"{STAMP} INFO step 7/100 took 3s": (7, None, None),
    "iter 5: saved": (5, None, None),
    "epoch 2, iteration 40 done": (40, 2.0, None),
    "[rank3]: global_step=40 samples=3": (40, None, 3),
    f"{STAMP} rank=3 step=40": (40, None, None),
    '{"ts": 1795817304.3, "step": 36, "rank": 1, "phase": "forward"}': (36, None, 1),
}


@pytest.mark.parametrize("text", COUNTERS)
def test_a_line_that_only_counts_gives_progress(text):
    step, epoch, rank = COUNTERS[text]
    for repeats in (1, 100):
        rows = extract("\n".join([text] * repeats)).select("step", "epoch", "rank", "name", "value").rows()
        assert rows == [(step, epoch, rank, "progress", float(step))] * repeats


@pytest.mark.parametrize(
    "text",
    [
        "step: 100", "  steps: 500", "save_steps: 500", "max_steps=100 x", "--step 4 --lr 3", "warmup step 3 %",
        "Step 1/4 : FROM ubuntu", "eval | step 3/10 done", "validation: step 5 of 10", "resumed at iteration 400",
        "srun: job 5511 step 0 completed", "slurmstepd: error: *** STEP 5511.0 ON node CANCELLED ***",
        '{"step": 3, "errors": 0}', "step_000020.pt written", "step 0.5 of the way",
    ],
)  # fmt: skip
def test_counts_that_are_no_progress(text):
    assert extract(text).rows() == []


def test_counts_without_company_are_a_loops_where_they_rise():
    assert [row[-1] for row in extract("\n".join(f"step {i}" for i in range(1, 8))).rows()] == [*range(1, 8)]
    assert extract("\n".join(f"step {i}" for i in (1, 2, 3, 4))).rows() == []  # a recipe
    assert extract("\n".join(f"step {i}" for i in (1, 2, 3, 4, 5, 6, 1, 2))).rows() == []


def test_a_metric_line_counts_for_itself():
    assert extract("step 5 | loss 2.5")["name"].to_list() == ["loss"]


GLUED = {
    '{"ts": 1795817304.3, "rank": 0, "step": 38, "loss": 1.5}{"ts": 1795817304.4, "rank": 1, "step": 38, "loss": 2.5}': [
        (0, 38, 1.5),
        (1, 38, 2.5),
    ],
    '{"ts": 1795817304.3, "rank": 0, "step": 38, "lo{"ts": 1795817304.4, "rank": 1, "step": 38, "loss": 2.5}ss": 1.5}': [
        (1, 38, 2.5)
    ],
    f"{STAMP} INFO [rank2] trainer: step 23/60 | loss 2.5 | 71 ms{STAMP} INFO [rank1] trainer: step 24/60 | loss 2.25 | 70 ms": [
        (2, 23, 2.5),
        (1, 24, 2.25),
    ],
    "[rank0]: step 5 loss 2.5[rank1]: step 5 loss 2.25": [(0, 5, 2.5), (1, 5, 2.25)],
    "{'loss': 1.5, 'epoch': 0.1}{'loss': 2.5, 'epoch': 0.1}": [(None, None, 1.5), (None, None, 2.5)],
}


@pytest.mark.parametrize("text", GLUED)
@pytest.mark.parametrize("repeats", [1, 200])
def test_records_that_several_writers_glued_into_one_line(text, repeats):
    frame = extract("\n".join([text] * repeats)).filter(name="loss")
    assert frame.select("rank", "step", "value").rows() == GLUED[text] * repeats
    assert set(frame["line"]) == set(range(1, repeats + 1))


def test_windows_are_read_as_one_and_keep_their_line_numbers():
    parts = [
        (b"step 1 loss 2.0\nnoise\nstep 2 loss 1.5\n", 1),
        (b"step 90 loss 0.5\nstep 91 loss nan", 500),
        (b"", 900),
    ]
    frame = windows(parts)
    assert frame.select("line", "step").rows() == [(1, 1), (3, 2), (500, 90), (501, 91)]
    many = windows([(b"".join(b"step %d loss 2.5\n" % (n + i) for i in range(300)), n) for n in (1, 2000, 9000)])
    assert many["line"].to_list() == many["step"].to_list()


def test_nothing_is_carried_over_from_one_window_to_the_next():
    bar = " 40%|####      | 8/20 [00:00<00:00, 67.82it/s]\n"
    record = "{'loss': 3.5, 'epoch': 0.2}\n"
    assert windows([((bar + record).encode(), 1)]).filter(name="loss")["step"].to_list() == [8]
    assert windows([(bar.encode(), 1), (record.encode(), 70)]).filter(name="loss")["step"].to_list() == [None]
    counts = [(b"[Rank 0] step=10, skipped=6, lr=[0.1]\n", 1), (b"[Rank 0] step=90, skipped=9, lr=[0.1]\n", 70)]
    assert windows(counts).filter(name="skipped_steps").is_empty()


def test_progress_of_a_long_bar_is_thinned_and_its_end_stays():
    frames = [f"train: {n // 100}%|#  | {n}/10000 [00:01<00:02, 3.1it/s]" for n in range(9998)]
    for separator in ("\r", "\n", ""):
        progress = extract(separator.join(frames)).filter(name="progress")["value"].to_list()
        assert progress[0] == 0.0
        assert progress[-1] == 9997.0
        assert neighbours.PROGRESS // 2 < len(progress) <= neighbours.PROGRESS + 1
        assert progress == sorted(progress)


def test_every_rank_keeps_its_last_progress():
    lines = [
        f"[rank{rank}]: train {n // 100}%|# | {n}/9999 [00:01<00:02, 3.1it/s]" for n in range(600) for rank in range(3)
    ]
    frame = extract("\n".join([*lines, "[rank1]: train 6%|# | 600/9999 [00:01<00:02, 3.1it/s]"])).filter(
        name="progress"
    )
    assert [frame.filter(rank=rank)["value"][-1] for rank in range(3)] == [599.0, 600.0, 599.0]


def _unlike(count):
    """Metric lines of which no two have the same shape."""
    chosen = random.Random(5)
    words = ["".join(chosen.choices("abcdefghij", k=7)) for _ in range(200)]
    return [f"step {n} | {' '.join(chosen.choices(words, k=6))} | loss 2.5" for n in range(count)]


def test_lines_without_any_regularity_are_read_within_bounds(monkeypatch):
    read = []
    one = templates.read_one
    monkeypatch.setattr(templates, "read_one", lambda text, voted: read.append(text) or one(text, voted))
    lines = _unlike(4000)
    lines[2345] = lines[2345].replace("2.5", "nan")
    frame = extract("\n".join(lines)).filter(name="loss")
    assert len(read) <= templates.SINGLY + templates.SINGLY_NONFINITE + templates.NEW_SHAPES + 1
    assert frame.filter(line=2346).select("step").rows() == [(2345,)]
    assert math.isnan(frame.filter(line=2346)["value"].item())
    seen = frame["line"]
    assert seen.min() < 100
    assert seen.max() > 3900  # spread over the file


@pytest.mark.parametrize("size", [2 << 20, (2 << 20) + 1, 10 << 20, 1 << 30])
@pytest.mark.parametrize("budget", [1, 128 << 10, 8 << 20])
def test_windows_lie_apart_and_hold_both_ends(size, budget):
    parts = logs.windows(size, budget)
    assert parts[0][0] == 0
    assert sum(parts[-1]) == size
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(parts))
    assert sum(n for _, n in parts) <= max(budget, 4 * logs.WINDOW, logs.WHOLE if size <= logs.WHOLE else 0)


def test_the_onset_of_non_finite_values_is_read_exactly(tmp_path):
    """In a large file: the line that the scan found is in the table, and so is what stood before it."""
    lines = [f"{STAMP} INFO step {n} | loss {'nan' if n >= 61234 else '2.5'} | lr 1e-4" for n in range(90000)]
    data = "\n".join(lines).encode() + b"\n"
    file = tmp_path / "train.log"
    file.write_bytes(data)
    parts = logs.windows(len(data), 1)
    scan = Scan(bytes=len(data), marks={m: data.count(b"\n", 0, m) for m, _ in parts})
    offset = data.index(b"step 61234 ") - len(STAMP) - 6
    scan.hits.append(Hit(NONFINITE, offset, 61235, data[offset : offset + 70]))
    with logs._Reader(source(file, len(data))) as reader:
        text = logs._windows(scan, reader, parts)
    loss = windows(text).filter(name="loss")
    assert (loss["line"] == loss["step"] + 1).all()
    assert loss.filter(loss["value"].is_nan())["step"].min() == 61234
    assert 61233 in loss["step"]
    assert loss["line"].is_unique().all()
    assert loss["step"].max() == 89999


def test_importing_the_module_loads_nothing_heavy():
    code = "import sys, forensics.parsers.metric_lines; sys.exit('polars' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"step 1", b"x" * 20, b'{"loss": NaN}', b"a,nan,1"]), max_size=400), st.booleans()
)
def test_every_line_of_a_part_stands_where_it_says(lines, ended):
    """Of lines that are shorter than half a window; of longer ones a piece may be read."""
    data = b"\n".join(lines) + b"\n" * ended
    sizes = {"WHOLE": 600, "EDGE": 100, "WINDOW": 50, "BLOCK": 128}
    with pytest.MonkeyPatch.context() as patched, io.BytesIO(data) as file:
        for name, size in sizes.items():
            patched.setattr(metric_windows, name, size)
        part = metric_windows.read_part(file)
    assert part.size == len(data) and part.whole is (len(data) <= sizes["WHOLE"])
    if part.whole:
        assert part.data == data
        return
    shown = part.data.split(b"\n")[:-1]
    whole = data.split(b"\n")
    assert [whole[part.line(n) - 1] for n in range(1, len(shown) + 1)] == shown
    for value in (b"NaN", b",nan"):
        assert (value in part.data) is (value in data)
