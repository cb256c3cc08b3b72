"""Comparing runs: the statistics on synthetic curves, the rest on small real runs through the command line."""

from __future__ import annotations

import json
import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from forensics.cli import main
from forensics.compare import calls, messages, noise, render, settings, sides, words
from forensics.compare.curves import Curve
from forensics.compare.model import CallDifference, Change, Comparison, Parting, Side, Sign
from forensics.compare.partings import part, summarised
from forensics.model import COLLECTIVES_COLUMNS, Evidence, Fact, Kind, Source, schema

SAMPLES = Path(__file__).parent.parent / "sample_logs"
STEPS = 120


def curve(values: list[float], every: int = 1) -> Curve:
    positions = tuple(range(1, len(values) * every + 1, every))
    return Curve("train.log", "text", "step", positions, tuple(values), tuple(range(1, len(values) + 1)))


def loss(seed: int, memory: float = 0.0, steps: int = STEPS) -> list[float]:
    """A falling loss with 5 % noise of which a share `memory` is carried from step to step."""
    rng = random.Random(seed)
    held, values = rng.gauss(0, 1), []
    for i in range(steps):
        held = memory * held + math.sqrt(1 - memory**2) * rng.gauss(0, 1)
        values.append((2 + 8 * math.exp(-i / 30)) * (1 + 0.05 * held))
    return values


def compared(good: list[float], bad: list[float]) -> Parting:
    return part("loss", None, [curve(good)], curve(bad))


def test_of_200_pairs_that_differ_by_noise_hardly_one_parts() -> None:
    memories = (0.0, 0.5, 0.9)
    parted = sum(compared(loss(2 * s, memories[s % 3]), loss(2 * s + 1, memories[s % 3])).differs for s in range(200))
    assert parted <= 2


def lower_noise(seed: int, memory: float, steps: int, noise: float) -> list[float]:
    """A falling loss with so much noise, of which a share is carried from step to step."""
    rng = random.Random(seed)
    held, values = rng.gauss(0, 1), []
    for i in range(steps):
        held = memory * held + math.sqrt(1 - memory**2) * rng.gauss(0, 1)
        values.append((2 + 8 * math.exp(-i / 30)) * (1 + noise * held))
    return values


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("steps", [400, 1000])
def test_of_repeats_with_little_noise_none_parts(memory: float, steps: int) -> None:
    pairs = [(lower_noise(2 * s, memory, steps, 0.03), lower_noise(2 * s + 1, memory, steps, 0.03)) for s in range(25)]
    assert not any(compared(*pair).differs for pair in pairs)


@pytest.mark.parametrize("noise", [0.02, 0.03])
@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_a_small_gap_that_lasts_is_told_by_averages(memory: float, noise: float) -> None:
    found = []
    for s in range(10):
        bad = [v * 1.06 if i >= 200 else v for i, v in enumerate(lower_noise(2 * s + 1, memory, 400, noise))]
        found.append(compared(lower_noise(2 * s, memory, 400, noise), bad))
    assert all(p.kind == "parts" and p.average_over is not None for p in found)
    steps = sorted(p.step or 0 for p in found)
    assert abs(steps[5] - 201) < 10
    assert all(p.good_value is not None and 1.03 < (p.bad_value or 0) / p.good_value < 1.09 for p in found)


@pytest.mark.parametrize(
    "share",
    [
        lambda i: 0.06 if 150 <= i < 250 else 0.0,  # it comes back
        lambda i: 0.01 if i >= 200 else 0.0,  # less than one record varies
        lambda i: 0.06 if i >= 380 else 0.0,  # too few records are left
    ],
)
def test_a_small_gap_that_does_not_last_is_none(share: Callable[[int], float]) -> None:
    for s in range(10):
        bad = [v * (1 + share(i)) for i, v in enumerate(lower_noise(2 * s + 1, 0.0, 400, 0.03))]
        assert not compared(lower_noise(2 * s, 0.0, 400, 0.03), bad).differs


def test_a_planted_jump_is_found_at_its_step() -> None:
    delays = []
    for s in range(40):
        bad = [v * 1.6 if i >= 80 else v for i, v in enumerate(loss(2 * s + 1))]
        found = compared(loss(2 * s), bad)
        assert found.kind == "parts" and found.step is not None
        delays.append(found.step - 81)
    assert sorted(delays)[20] == 0 and sum(-1 <= d <= 3 for d in delays) >= 36, delays


def test_same_seed_is_equal_to_the_digit_until_it_is_not() -> None:
    good = loss(1)
    bad = good[:60] + [v * 3 for v in good[60:]]
    found = compared(good, bad)
    assert (found.equal_through, found.first_unequal, found.step, found.kind) == (60, 61, 61, "parts")


def test_equal_curves_are_equal() -> None:
    found = compared(loss(1), loss(1))
    assert found.kind == "equal" and found.equal_through == STEPS and found.first_unequal is None


def test_a_loss_that_becomes_nan_parts_even_at_the_last_record() -> None:
    good = loss(1)
    found = compared(good, [*loss(2)[:-1], math.nan])
    assert found.kind == "parts" and found.step == STEPS


def test_one_nan_is_a_difference_though_the_curves_go_on_alike() -> None:
    good = loss(1)
    bad = [*good[:60], math.nan, *good[61:]]
    found = compared(good, bad)
    assert (found.kind, found.step, found.until, found.differs) == ("not-finite", 61, 61, True)
    assert compared(bad, good).kind == "not-finite"
    assert part("loss", None, [curve(good), curve(bad)], curve(bad)).kind != "not-finite"
    assert part("loss", None, [curve(good), curve(loss(2))], curve(bad)).kind == "not-finite"


def test_an_infinite_gradient_norm_is_a_skipped_step_and_a_nan_is_not() -> None:
    good = loss(1)
    for value, kind in ((math.inf, "noise"), (math.nan, "not-finite")):
        bad = [*good[:60], value, *good[61:]]
        assert part("grad_norm", None, [curve(good)], curve(bad)).kind == kind


def test_what_is_said_of_one_nan_and_of_printed_settings(tmp_path: Path) -> None:
    paths = []
    for name, rate, at in (("good", 0.1, None), ("bad", 0.2, 21)):
        lines = ["torch version: 2.4.0", f"Namespace(lr={rate}, db_pass='{name} Zx8Lq2Vw', seed=1)"]
        for i, v in enumerate(loss(1, steps=40), 1):
            lines.append(f"step {i} loss: {'nan' if i == at else f'{v:.4f}'}")
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_text("\n".join(lines) + "\n")
        paths.append(tmp_path / name)
    done = call(*paths, "--redact")
    assert done.exit_code == 1
    text = " ".join(done.output.split())
    assert "loss is NaN at step 21 in the bad run only" in text.splitlines()[0]
    assert "arguments.lr: 0.1 → 0.2" in text
    assert "arguments.db_pass: secret-1 → secret-2" in text and "Zx8Lq2Vw" not in text


def test_nan_in_both_is_no_difference() -> None:
    values = [*loss(1)[:50], *[math.nan] * 70]
    assert compared(values, values).kind == "equal"


def test_several_good_runs_say_what_is_noise() -> None:
    goods = [curve(loss(s)) for s in range(4)]
    assert not part("loss", None, goods, curve(loss(9))).differs
    found = part("loss", None, goods, curve([v * (1.7 if i >= 30 else 1) for i, v in enumerate(loss(9))]))
    assert found.kind == "parts" and found.step is not None and 31 <= found.step <= 34


@pytest.mark.parametrize("runs", range(2, 11))
def test_the_noise_among_repeats_is_that_of_one_of_them_however_many_there_are(runs: int) -> None:
    rng = np.random.default_rng(runs)
    assert noise.of_repeats(rng.normal(3.0, 0.5, size=(runs, 4_000))) == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_several_good_runs_do_not_say_that_a_run_parts_too_early(runs: int) -> None:
    found, healthy = [], 0
    for pair in range(40):
        seeds = range(100 * pair, 100 * pair + runs)
        goods = [curve(loss(s, 0.5 * (pair % 2))) for s in seeds]
        other = loss(100 * pair + 50, 0.5 * (pair % 2))
        healthy += part("loss", None, goods, curve(other)).differs
        found.append(part("loss", None, goods, curve([v * (1.35 if i >= 60 else 1) for i, v in enumerate(other)])))
    delays = sorted(p.step - 61 for p in found if p.kind == "parts" and p.step is not None)
    assert healthy == 0 and len(delays) >= 36
    assert sum(d < 0 for d in delays) <= 3 and delays[len(delays) // 2] <= 1, delays


def test_curves_that_are_logged_at_other_steps_meet_at_the_common_ones() -> None:
    good, bad = loss(1), loss(1)
    found = part("loss", None, [curve(good)], curve(bad[::10], every=10))
    assert found.records == 12 and found.kind == "equal"


def test_a_few_unlike_records_are_too_few() -> None:
    assert compared([2.0, 1.9, 1.8], [2.01, 1.88, 1.83]).kind == "too-short"


def test_of_all_ranks_the_one_that_parts_is_named() -> None:
    goods = {r: loss(r) for r in range(4)}
    bads = {r: loss(10 + r) for r in range(4)}
    bads[2] = [v * 2 if i >= 50 else v for i, v in enumerate(bads[2])]
    found = summarised([part("loss", r, [curve(goods[r])], curve(bads[r]), 4) for r in range(4)])
    assert len(found) == 1 and found[0].ranks == (2,) and found[0].compared_ranks == 4


def test_settings_names_of_runs_are_expected_to_differ() -> None:
    good = [
        Fact("args.lr", "0.001", "c.yaml", 1),
        Fact("args.output_dir", "a", "c.yaml"),
        Fact("torch.version", "2.4", "l"),
    ]
    bad = [
        Fact("args.lr", "1e-2", "c.yaml", 1),
        Fact("args.output_dir", "b", "c.yaml"),
        Fact("torch.version", "2.4", "l"),
    ]
    differ, expected = settings.changes([good], bad)
    assert [(c.name, c.good, c.bad) for c in differ] == [("args.lr", "0.001", "1e-2")]
    assert [c.name for c in expected] == ["args.output_dir"]


def test_numbers_that_are_spelled_differently_are_equal() -> None:
    assert settings.changes([[Fact("a.lr", "0.001", "x")]], [Fact("a.lr", "1e-3", "y")]) == ((), ())


def test_ranks_that_part_later_are_named_too() -> None:
    goods = {r: loss(r) for r in range(4)}
    bads = {r: loss(10 + r) for r in range(4)}
    for rank, step in ((2, 40), (1, 70)):
        bads[rank] = [v * 3 if i >= step else v for i, v in enumerate(bads[rank])]
    (found,) = summarised([part("loss", r, [curve(goods[r])], curve(bads[r]), 4) for r in range(4)])
    assert (found.ranks, found.later) == ((2,), (1,))
    assert "on rank 2 (later on rank 1) and stays apart" in words._parting(found)[0]
    (alone,) = summarised([part("loss", r, [curve(goods[r])], curve(bads[r]), 2) for r in (0, 2)])
    assert (alone.ranks, alone.later) == ((2,), ())


@pytest.mark.parametrize(
    ("what", "said"),
    [("op", "another operation"), ("sizes", "other sizes"), ("number", "another number of calls"), ("dtype", "another dtype")],
)  # fmt: skip
def test_what_differs_of_a_collective_is_said_in_english(what: str, said: str) -> None:
    differs = CallDifference(rank=0, group="0", seq=3, what=what, good="a", bad="b", ranks=(0, 1))
    assert words._call(differs)[0] == f"group 0, call 3 of ranks 0, 1: {said}"


def test_the_first_collective_that_differs_is_told_once_for_all_its_ranks() -> None:
    import polars as pl

    def frame(odd: int | None) -> pl.DataFrame:
        rows = [
            {
                "source": "d", "rank": r, "group": "0", "group_desc": "default_pg", "seq": s, "is_p2p": False,
                "op": "all_gather" if odd is not None and s >= odd else "all_reduce",
                "input_sizes": "[[4]]", "output_sizes": "[[4]]", "dtypes": "['Float']",
            }
            for r in range(2) for s in range(1, 9)
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=schema(COLLECTIVES_COLUMNS))

    assert calls.differences(frame(None), frame(None), same_length=True) == ()
    (found,) = calls.differences(frame(None), frame(5), same_length=True)
    assert (found.seq, found.what, found.ranks) == (5, "op", (0, 1))
    (short,) = calls.differences(frame(None), frame(None).filter(pl.col("seq") < 7), same_length=True)[:1]
    assert short.what == "number" and short.seq == 7
    assert (found.group, short.group) == ("default_pg", "default_pg")


def test_a_group_is_called_by_its_description_whatever_differs_in_it() -> None:
    import polars as pl

    members = ",".join(str(rank) for rank in range(5, 1024, 8))
    row = {
        "source": "d",
        "rank": 5,
        "group": "134",
        "group_desc": f"dp_5 ranks {members}",
        "is_p2p": False,
        "op": "all_reduce",
    }
    good = pl.DataFrame([row | {"seq": s} for s in range(1, 9)], schema=schema(COLLECTIVES_COLUMNS))
    (found,) = calls.differences(good, good.filter(pl.col("seq") < 7), same_length=True)
    assert found.what == "number" and found.group.startswith("134 (dp_5 ranks 5,13,21") and len(found.group) < 80


def test_a_template_holds_nothing_that_varies() -> None:
    one = messages.template("2026-01-01 10:00:00 WARNING could not read /data/a.bin at 0x7f00 (3 of 10)")
    assert one == messages.template("2026-02-03 11:12:13 WARNING could not read /mnt/b/c.bin at 0x7fff (4 of 99)")
    assert "WARNING could not read" in one


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def test_a_run_does_not_differ_from_itself() -> None:
    run = SAMPLES / "healthy-ddp" / "input"
    done = call(run, run)
    assert done.exit_code == 0 and "no difference" in done.output and "equal in every digit" in done.output


def test_a_failing_run_differs_and_says_how() -> None:
    done = call(SAMPLES / "healthy-ddp" / "input", SAMPLES / "nan-bad-batch-rank1" / "input", "--format", "json")
    got = json.loads(done.output)
    assert done.exit_code == 1 and got["differs"] and got["schema_version"] == 1
    assert "nan-in-data" in [s["name"] for s in got["only_bad"]]
    assert {c["name"] for c in got["shape"]} >= {"verdict", "world size"}


def _write(folder: Path, losses: list[float], ids: list[list[int]], warning: str = "") -> Path:
    folder.mkdir()
    lines = [
        f"step {i} | loss {v:.4f} | lr 1.0e-03 | sample_ids: {b}"
        for i, (v, b) in enumerate(zip(losses, ids, strict=True), 1)
    ]
    (folder / "train.log").write_text("\n".join([*lines, warning, ""]))
    return folder


def test_data_order_and_warnings(tmp_path: Path) -> None:
    ids = [[i, i + 1] for i in range(40)]
    good = _write(tmp_path / "a", loss(1, steps=40), ids)
    bad = _write(
        tmp_path / "b",
        loss(1, steps=40),
        [*ids[:9], [77, 78], *ids[10:]],
        "WARNING worker 3 is slow at alice@corp.example.com",
    )
    got = json.loads(call(good, bad, "--format", "json").output)
    assert [(o["position"], o["good"], o["bad"]) for o in got["order"]] == [(10, "9 10", "77 78")]
    assert [s["title"] for s in got["messages_only_bad"]] == ["WARNING worker 3 is slow at alice@corp.example.com"]
    assert not any(p["kind"] == "parts" for p in got["partings"])
    assert "alice@corp" not in call(good, bad, "--format", "markdown").output


def test_a_setting_is_no_warning_and_no_line_is_told_twice(tmp_path: Path) -> None:
    ids = [[i] for i in range(40)]
    good = _write(tmp_path / "a", loss(1, steps=40), ids)
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    bad = _write(tmp_path / "b", loss(1, steps=40), ids, f"{oom}\nWARNING NCCL_DEBUG=WARN is slow\nERROR: lost x")
    for folder, level in ((good, "INFO"), (bad, "WARN")):
        (folder / "env.txt").write_text(f"NCCL_DEBUG={level}\nOMP_NUM_THREADS=8\n")
    got = json.loads(call(good, bad, "--format", "json").output)
    assert "env.NCCL_DEBUG" in [c["name"] for c in got["settings"]]
    assert "cuda-oom" in [s["name"] for s in got["only_bad"]]
    assert [s["title"] for s in got["messages_only_bad"]] == ["WARNING NCCL_DEBUG=WARN is slow", "ERROR: lost x"]


def test_a_hostile_run_is_shown_inert(tmp_path: Path) -> None:
    good = _write(tmp_path / "a", loss(1, steps=20), [[i] for i in range(20)])
    bad = _write(tmp_path / "b", loss(1, steps=20), [[i] for i in range(20)], "ERROR \x1b[31m\u202e evil")
    assert "\x1b" not in call(good, bad).output and "\u202e" not in call(good, bad).output


def test_an_empty_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert call(SAMPLES / "healthy-ddp" / "input", tmp_path / "empty").exit_code == 2
    assert call(SAMPLES / "healthy-ddp" / "input", tmp_path / "absent").exit_code == 2


def test_a_comparison_goes_into_a_file_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    good, bad = SAMPLES / "healthy-ddp" / "input", SAMPLES / "nan-bad-batch-rank1" / "input"
    for name, start, said in (("c.md", "## ", "(markdown, redacted)"), ("c.json", "{", "(json, not redacted)")):
        done = call(good, bad, "-o", tmp_path / name)
        assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"wrote {tmp_path / name} {said}\n")
        assert (tmp_path / name).read_text().startswith(start)
    assert call(good, bad, "-o", tmp_path / "c.txt", "-q").stderr == ""
    assert call(good, bad, "-o", tmp_path / "c.html").exit_code == 2 and not (tmp_path / "c.html").exists()
    assert call(good, bad, "-o", tmp_path / "absent" / "c.md").exit_code == 2


def test_a_file_of_a_run_is_not_replaced(tmp_path: Path) -> None:
    good = _write(tmp_path / "a", loss(1, steps=20), [[i] for i in range(20)])
    before = (good / "train.log").read_bytes()
    assert call(good, SAMPLES / "healthy-ddp" / "input", "-o", good / "train.log").exit_code == 2
    assert (good / "train.log").read_bytes() == before


def test_settings_of_the_project_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _write(tmp_path / "a", loss(1, steps=20), [[i] for i in range(20)])
    bad = _write(tmp_path / "b", loss(1, steps=20), [[i] for i in range(20)])
    (bad / "other.log").write_text("WARNING disk of dgx17 is full, says alice@corp.example.com\n")
    monkeypatch.chdir(tmp_path)
    assert call(good, bad).exit_code == 1 and "alice@" in call(good, bad).output
    assert call(good, bad, "--exclude", "other.log").exit_code == 0
    (tmp_path / "pyproject.toml").write_text("[tool.forensics]\nredact = true\n")
    assert "alice@" not in call(good, bad).output and "alice@" in call(good, bad, "--no-redact").output
    (tmp_path / "pyproject.toml").write_text('[tool.forensics]\nexclude = ["other.log"]\n')
    assert call(good, bad).exit_code == 0
    (tmp_path / "pyproject.toml").write_text("[tool.forensics]\nexclude = 7\n")
    assert call(good, bad).exit_code == 2


def _restarted(folder: Path, first: list[float], second: list[float], resumed_at: int) -> Path:
    """Two attempts under torchrun; the second repeats the steps from `resumed_at` on."""
    for attempt, start, values in ((0, 1, first), (1, resumed_at, second)):
        place = folder / "logs" / "none_abc" / f"attempt_{attempt}" / "0"
        place.mkdir(parents=True)
        lines = [f"step {start + n} | loss {v:.4f}" for n, v in enumerate(values)]
        (place / "stdout.log").write_text("\n".join(lines) + "\n")
    return folder


def test_of_a_restart_the_attempts_go_on_from_each_other_and_the_later_value_counts(tmp_path: Path) -> None:
    whole = loss(1, steps=80)
    good = _write(tmp_path / "a", whole, [[i] for i in range(80)])
    # The first attempt ends at step 50 with values that the second, resumed from step 31, replaces.
    again = _restarted(tmp_path / "b", whole[:30] + [9.0] * 20, whole[30:], 31)
    got = json.loads(call(good, again, "--format", "json").output)
    (found,) = [p for p in got["partings"] if p["metric"] == "loss"]
    assert (found["kind"], found["records"], found["last_common"]) == ("equal", 80, 80)
    # And where the repeated steps are not what they were, the run parts there, in the file of the second attempt.
    other = _restarted(tmp_path / "c", whole[:50], [v * 3 for v in whole[30:]], 31)
    got = json.loads(call(good, other, "--format", "json").output)
    (found,) = [p for p in got["partings"] if p["metric"] == "loss"]
    assert (found["kind"], found["step"], found["equal_through"]) == ("parts", 31, 30)
    assert found["bad_at"]["file"].endswith("attempt_1/0/stdout.log") and found["bad_at"]["line"] == 1


def test_steps_that_one_file_repeats_count_with_their_last_value(tmp_path: Path) -> None:
    whole = loss(1, steps=60)
    good = _write(tmp_path / "a", whole, [[i] for i in range(60)])
    (tmp_path / "b").mkdir()
    rows = [*enumerate(whole[:40], 1), *enumerate(whole[20:], 21)]
    (tmp_path / "b" / "metrics.jsonl").write_text("".join(json.dumps({"step": s, "loss": v}) + "\n" for s, v in rows))
    (tmp_path / "b" / "train.log").write_text("resuming from checkpoint step_20\n")
    got = json.loads(call(good, tmp_path / "b", "--format", "json").output)
    (found,) = [p for p in got["partings"] if p["metric"] == "loss"]
    assert (found["records"], found["last_common"]) == (60, 60) and found["kind"] in ("equal", "noise")


def _rendered(document: str) -> ET.Element:
    from cmarkgfm import github_flavored_markdown_to_html
    from cmarkgfm.cmark import Options

    return ET.fromstring(f"<body>{github_flavored_markdown_to_html(document, options=Options.CMARK_OPT_UNSAFE)}</body>")


def _prose(element: ET.Element) -> str:
    own = "" if element.tag in ("code", "pre") else (element.text or "") + "".join(map(_prose, element))
    return own + (element.tail or "")


HOSTILE = "`x` ``y`` | a | b <script>alert(1)</script> @octocat #123 [x](javascript:y) ![i](http://e.example/a.png) "
HOSTILE += "http://e.example/ :tada: $\\frac{1}{2}$ <!-- ~~z~~ \r\n# h\n- i\n"


def test_as_github_renders_it_nothing_of_a_log_acts_and_it_fits_into_an_issue() -> None:
    text = HOSTILE * 200
    at = Evidence(text, 1, 0, text)
    side = Side(HOSTILE, "failed", text, 1, None, 1, None, 9)
    changes = tuple(Change(f"{n}{HOSTILE}", text, None, text, text) for n in range(60))
    signs = tuple(Sign(name=text, title=text, role="message", count=1, evidence=at) for _ in range(60))
    made = Comparison(
        goods=(side,), bad=side, shape=changes[:5], settings=changes, expected=changes, partings=(), only_good=(),
        only_bad=(), messages_only_bad=signs, messages_only_good=signs, order_compared=0, notes=(text,), order=(),
        calls=(CallDifference(rank=0, group=HOSTILE, seq=1, what="op", good=text, bad=text, ranks=(0,)),),
    )  # fmt: skip
    document = render.markdown(made)
    assert len(document) <= 65_536 and "left out here" in document
    page = _rendered(document)
    tags = {element.tag for element in page.iter()}
    assert tags <= {"body", "h2", "h3", "p", "em", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert not re.search(r"@\w|#\d|\w://|:tada:", _prose(page))
    (table,) = page.iter("table")
    assert {len(row) for row in table.iter("tr")} == {3}


@pytest.mark.parametrize(("last", "told"), [(190, False), (189, True)])
def test_a_last_step_within_one_record_is_no_difference(last: int, told: bool) -> None:
    good = Side("good", "healthy", "", 1, 1, 1, 0, 199, stride=1)
    bad = Side("bad", "healthy", "", 1, 1, 1, 0, last, stride=10)
    assert [change.name for change in sides.shape((good,), bad)] == (["last step"] if told else [])


# --- settings that are printed, folders, and lines of code


def _printing(folder: Path, said: str) -> Path:
    folder.mkdir()
    steps = "".join(f"step {n} loss {3 - n / 100:.4f}\n" for n in range(1, 60))
    (folder / "rank0.log").write_text(f"torch 2.5.1+cu124\n{said}\n{steps}")
    return folder


def _compared(good: Path, bad: Path) -> dict[str, object]:
    result = CliRunner().invoke(main, ["compare", str(good), str(bad), "--format", "json"])
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_a_setting_on_a_line_of_its_own_is_compared(tmp_path: Path) -> None:
    shown = _compared(
        _printing(tmp_path / "a", "world_size=8\nrank=0\nmargin=3\nmargin=4"),
        _printing(tmp_path / "b", "world_size=16\nrank=1\nmargin=5\nmargin=6"),
    )
    found = [(c["name"], c["good"], c["bad"]) for c in shown["settings"]]  # type: ignore[attr-defined]
    assert found == [("printed.world_size", "8", "16")]


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("torch 2.4.1\ncuda 12.4", "torch 2.6.0\ncuda 12.4", [("torch.version", "2.4.1", "2.6.0")]),
        (
            "2026-01-01 10:00:00,123 INFO torch: 2.4.1+cu124",
            "2026-01-01 10:00:00,456 INFO torch: 2.6.0+cu126",
            [("torch.version", "2.4.1+cu124", "2.6.0+cu126")],
        ),
        (
            "PyTorch 2.4.1 | CUDA 12.4",
            "PyTorch 2.5.1 | CUDA 12.1",
            [("torch.version", "2.4.1", "2.5.1"), ("cuda.version", "12.4", "12.1")],
        ),
        (
            "Using torch version 2.4.1 and transformers version 4.44",
            "Using torch version 2.4.1 and transformers version 4.45",
            [("transformers.version", "4.44", "4.45")],
        ),
        (
            "args: lr=3e-4 batch=8 name='a b'",
            "args: lr=3e-3 batch=8 name='a c'",
            [("arguments.lr", "3e-4", "3e-3"), ("arguments.name", "a b", "a c")],
        ),
        (
            "learning_rate: 0.0003\nbatch_size: 8\nwarmup_steps: 100",
            "learning_rate: 0.003\nbatch_size: 8\nwarmup_steps: 0",
            [("printed.learning_rate", "0.0003", "0.003"), ("printed.warmup_steps", "100", "0")],
        ),
        (
            "Overriding: learning_rate = 6e-4\nnumber of parameters: 123.59M",
            "Overriding: learning_rate = 6e-3\nnumber of parameters: 124.44M",
            [("printed.learning_rate", "6e-4", "6e-3"), ("printed.parameters", "123.59M", "124.44M")],
        ),
        (
            "CONFIG\n├── optimizer\n│   └── lr: 0.001\n│       weight_decay: 0.1\n└── seed: 7",
            "CONFIG\n├── optimizer\n│   └── lr: 0.01\n│       weight_decay: 0.1\n└── seed: 7",
            [("printed.lr", "0.001", "0.01")],
        ),
        (
            "Using torch==2.5.1 (CUDA 12.1), transformers==4.46.3",
            "Using torch==2.5.1 (CUDA 12.4), transformers==4.47.0",
            [("cuda.version", "12.1", "12.4"), ("transformers.version", "4.46.3", "4.47.0")],
        ),
        (
            "Environment: {'torch': '2.5.1', 'CUDA version': '12.1', 'NCCL_ALGO': 'Ring', 'gpus': 8, 'hostname': 'n1'}",
            "Environment: {'torch': '2.6.0', 'CUDA version': '12.1', 'NCCL_ALGO': 'Tree', 'gpus': 4, 'hostname': 'n2'}",
            [
                ("torch.version", "2.5.1", "2.6.0"),
                ("env.NCCL_ALGO", "Ring", "Tree"),
                ("environment.gpus", "8", "4"),
            ],
        ),
        (
            'INFO - env info: {"torch_version": "2.5.1", "bf16": true, "x": {"y": 1}}',
            'INFO - env info: {"torch_version": "2.6.0", "bf16": false, "x": {"y": 2}}',
            [("torch.version", "2.5.1", "2.6.0"), ("environment.bf16", "True", "False")],
        ),
        # what is not a setting: a state, a requirement, prose, a warning, a name with a path
        ("status: 3\nwarmup_steps: 7", "status: 4\nwarmup_steps: 9", []),
        ("torch==2.5.1", "torch==2.6.0", []),
        ("Environment: {'torch': call(), 'a'", "Environment: {'torch': other(), 'a'", []),
        ("requires torch 2.4.1 or later", "requires torch 2.5.1 or later", []),
        ("UserWarning: torch 2.4.1 has a bug", "UserWarning: torch 2.5.1 has a bug", []),
        ("/opt/torch/2.4.1/lib", "/opt/torch/2.5.1/lib", []),
        ("environ({'NCCL_ALGO': 'Ring'})", "environ({'NCCL_ALGO': 'Tree'})", [("env.NCCL_ALGO", "Ring", "Tree")]),
        ("args: none given, see a=1", "args: none given, see a=2", []),
        ("rank: 0\npid: 17\nport: 29500\nelapsed: 3", "rank: 1\npid: 19\nport: 29501\nelapsed: 4", []),
    ],
)
def test_settings_and_versions_as_scripts_print_them(tmp_path: Path, good: str, bad: str, found: list[object]) -> None:
    steps = "".join(f"step {n} loss {3 - n / 100:.4f}\n" for n in range(1, 60))
    for name, text in (("a", good), ("b", bad)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.log").write_text(f"{text}\n{steps}")
    shown = _compared(tmp_path / "a", tmp_path / "b")
    assert [(c["name"], c["good"], c["bad"]) for c in shown["settings"]] == found  # type: ignore[attr-defined]


def test_what_stands_around_a_traceback_is_no_warning(tmp_path: Path) -> None:
    died = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in f\nKeyError: 3\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        '[rank0]: Traceback (most recent call last):\n  File "t.py", line 5, in g\nValueError: the flux is low'
    )
    log = tmp_path / "a.log"
    log.write_text(died + "\nWARNING: traceback follows\n")
    source = Source(path="a.log", file=log, kind=Kind.LOG, size=log.stat().st_size)
    titles = [sign.title for sign in messages.warnings([source]).values()]
    assert sorted(titles) == ["KeyError: 3", "ValueError: the flux is low", "WARNING: traceback follows"]


_TABLE = """\
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.10/site-packages/torch/distributed/launcher/api.py", line 268, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_14:11:42
  host      : node-0
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 4242)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================"""


def _warned(tmp_path: Path, text: str) -> list[str]:
    log = tmp_path / "a.log"
    log.write_text(text + "\n")
    source = Source(path="a.log", file=log, kind=Kind.LOG, size=log.stat().st_size)
    return [sign.title for sign in messages.warnings([source]).values()]


@pytest.mark.parametrize("label", ["", "1: ", "[default0]:", "[rank0]: ", "node-1: ", "0: [rank0]: "])
def test_the_table_of_failed_workers_is_no_warning(tmp_path: Path, label: str) -> None:
    assert _warned(tmp_path, "".join(f"{label}{line}\n" for line in _TABLE.splitlines())) == []


def test_what_the_table_says_and_what_only_resembles_it_is_told(tmp_path: Path) -> None:
    told = [
        "  traceback : Signal 6 (SIGABRT) received by PID 4242",
        "ChildFailedError: the flux is low",
        "upload FAILED",  # no table below it
        "Failures: 3 of 8 shards",
        "WARNING we raise the limit",
        "the root cause of this error: none",
    ]
    text = _TABLE.replace("To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html", told[0][14:])
    assert _warned(tmp_path, "\n".join([text, *told[1:]])) == [line.strip() for line in told]


def test_the_line_of_code_below_a_warning_is_no_warning(tmp_path: Path) -> None:
    code = "/opt/x/y.py:4: UserWarning: the flux is low\n  warnings.warn("
    good, bad = _printing(tmp_path / "a", ""), _printing(tmp_path / "b", code)
    shown = [sign["title"] for sign in _compared(good, bad)["messages_only_bad"]]  # type: ignore[attr-defined]
    assert shown == ["/opt/x/y.py:4: UserWarning: the flux is low"]


@pytest.mark.parametrize(
    ("name", "good", "bad", "differs"),
    [
        ("arguments.out", "runs/1", "runs/2", False),
        ("arguments.data", "/home/jd/d", "/home/tv/d", False),
        ("arguments.data", "/home/jd/c4", "/home/tv/pile", True),
        ("arguments.data", "/data/c4", "/data/pile", True),
        ("arguments.save", "True", "False", True),
        ("arguments.out", "relu", "gelu", True),
    ],
)
def test_folders_of_users_and_of_results_are_no_settings(name: str, good: str, bad: str, differs: bool) -> None:
    found, expected = settings.changes([[Fact(name, good, "a")]], [Fact(name, bad, "b")])
    assert (bool(found), bool(expected)) == (differs, not differs)


@pytest.mark.parametrize(
    "line",
    [
        "Namespace(batch=8, loglevel='warn', on_error='raise', path='/x/error')",
        "2026-11-28 10:00:00 INFO main: args: TrainingArguments(log_level='warning', fail_fast=[1, 2], z=Inner(w='error'))",
        "{'log_level': 'warning', 'fail_fast': False, 'train_error': 0.31}",
        "config: lr=0.1 loglevel=warn",
        "log_level: warning",
        "  level: warning",
        "python train.py --log-level warning --fail-on never --on_error=skip",
        "Setting log level to WARNING",
        "node-0:12:12 [0] NCCL INFO NCCL_DEBUG set by environment to WARN",
        "step 12 train_error 0.031 num_failures 3",
        "done: 0 errors, no warnings",
        "checks passed, failures: 0",
        "tasks ok=64 failed=0",
        "failed: 0",
        "step=12 error=None took=3",
        "{'status': 'ok', 'error': None, 'errors': 0}",
    ],
)
def test_settings_names_and_counts_of_nothing_are_no_warnings(tmp_path: Path, line: str) -> None:
    assert _warned(tmp_path, line) == []


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-28 10:00:00 WARNING main: batch=8 is large",
        "[W1128 10:00:00.000001 ProcessGroupNCCL.cpp:99] Warning: using GPU 0 to perform barrier",
        "node-0:12:12 [0] NCCL WARN Call to connect returned Connection refused",
        "/opt/x/y.py:4: UserWarning: the flux is low",
        "level=error msg='disk is slow' took=3",
        '{"level": "warning", "msg": "the flux is low", "step": 4}',
        "RuntimeError: step_size is wrong",
        "OSError(errno=5, path='/x') was ignored",
        "Namespace(a=1) could not be read: failed to parse",
        "train.py: error: unrecognized arguments: --loss_scale 4",
        "error: x",
        "done: 3 errors",
        "failures: 0.5 of all",
        "tasks ok=61 failed=3",
        "failed: 3",
        "error: none of the hosts answered",
        "healthcheck: failed",
        "status: error",
        "JobId=7 JobState=FAILED Reason=NonZeroExitCode",
        '{"status": "error", "code": 500}',
        "Error=Connection refused by peer",
        'ts=4 Level=Warning text="the disk is slow"',
        "failed to open my_file.txt",
        "CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm(handle, m=4)",
    ],
)
def test_levels_warnings_and_prose_are_told(tmp_path: Path, line: str) -> None:
    assert _warned(tmp_path, line) == [line]


def test_places_name_their_run_and_a_headline_few_settings(tmp_path: Path) -> None:
    def log(folder: str, *settings: str, high: float = 0.0) -> str:
        (tmp_path / folder).mkdir()
        steps = [f"step {n} loss {3 + high * (n >= 20) + n % 3 / 100:.4f}" for n in range(60)]
        (tmp_path / folder / "train.log").write_text("\n".join([*settings, *steps, ""]))
        return str(tmp_path / folder)

    good = log("good", "seed=1", "width=8", "depth=4", "heads=2")
    bad = log("bad", "seed=2", "width=8", "depth=4", "heads=2", high=1.0)
    text = CliRunner().invoke(main, ["compare", good, bad]).output
    assert "; 1 setting (printed.seed)" in text
    assert re.search(r"good: train\.log:\d+ .*\n\s+bad: train\.log:\d+ ", text)
    assert not re.search(r"\(noise \d\.\d{5}|threshold \d\.\d{4}", text)
    many = log("many", "seed=2", "width=9", "depth=5", "heads=3")
    text = CliRunner().invoke(main, ["compare", good, many]).output
    assert text.startswith("4 settings\n")
