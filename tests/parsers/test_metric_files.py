"""Structured metric files of several frameworks, whole and cut off."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import METRICS_COLUMNS, Identity, Kind, Source, schema
from forensics.parsers import metric_files
from forensics.parsers.metric_files import data_table, looks_like_metrics, read

DATA = Path(__file__).parent.parent / "data" / "metrics"
NAN, INF = float("nan"), float("inf")


def rows(path, *columns, **identity):
    frame, problem = read(path, Source(path.name, path, Kind.METRICS, 1, Identity(**identity)))
    assert frame.schema == schema(METRICS_COLUMNS)
    return [
        tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in row)
        for row in frame.select(columns).rows()
    ], problem


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_trainer_state():
    got, problem = rows(DATA / "trainer_state.json", "line", "step", "epoch", "name", "value")
    assert problem is None
    assert got == [
        (10, 10, 0.25, "grad_norm", 1.5), (10, 10, 0.25, "lr", 0.0002), (10, 10, 0.25, "loss", 3.25),
        (17, 20, 0.5, "grad_norm", "nan"), (17, 20, 0.5, "lr", 0.0001), (17, 20, 0.5, "loss", 0.0),
        (22, 20, 0.5, "eval_loss", INF),
        (None, 20, 0.5, "total_steps", 40.0),
    ]  # fmt: skip


def test_the_timesteps_of_stable_baselines_are_its_steps(tmp_path):
    text = "rollout/ep_rew_mean,time/iterations,time/total_timesteps,train/loss\n20.0,1,2048,3.5\n21.5,2,4096,nan\n"
    got, problem = rows(written(tmp_path, "progress.csv", text), "line", "step", "name", "value")
    assert problem is None
    assert [row for row in got if row[2] == "loss"] == [(2, 2048, "loss", 3.5), (3, 4096, "loss", "nan")]


def test_trainer_state_that_ends_in_the_middle(tmp_path):
    text = (DATA / "trainer_state.json").read_text()
    got, problem = rows(
        written(tmp_path, "trainer_state.json", text[: text.index("Infinity")]), "line", "step", "name", "value"
    )
    assert "cut off" in problem
    assert [row[1:] for row in got if row[2] == "loss"] == [(10, "loss", 3.25), (20, "loss", 0.0)]


def test_lightning_csv_has_sparse_rows():
    got, problem = rows(DATA / "metrics.csv", "line", "step", "epoch", "name", "value")
    assert problem is None
    assert got == [
        (2, 0, None, "lr", 0.01), (3, 4, 0.0, "loss", 1.25), (4, 9, None, "lr", 0.009), (5, 23, 0.0, "eval_loss", "nan"),
        (6, 24, 1.0, "loss", INF),
    ]  # fmt: skip


def test_ultralytics_loss_is_the_sum_of_its_terms():
    got, problem = rows(DATA / "results.csv", "step", "epoch", "name", "value")
    assert problem is None
    assert [row for row in got if row[2] in ("loss", "eval_loss", "lr")] == [
        (None, 1.0, "lr", 0.0033), (None, 1.0, "loss", 4.25), (None, 1.0, "eval_loss", 5.0),
        (None, 2.0, "lr", 0.0066), (None, 2.0, "loss", "nan"), (None, 2.0, "eval_loss", "nan"),
    ]  # fmt: skip
    assert "step_time" not in {row[2] for row in got}


LINES = {
    "llama-factory": ('{"current_steps": 10, "total_steps": 1000, "loss": 1.75, "lr": 1e-4, "epoch": 0.1, "percentage": 1.0, "elapsed_time": "0:00:10"}',
                      [(10, "total_steps", 1000.0), (10, "loss", 1.75), (10, "lr", 1e-4)]),
    "mmengine": ('{"lr": 0.002, "data_time": 0.01, "grad_norm": NaN, "loss": 2.5, "time": 0.32, "epoch": 1, "iter": 50, "memory": 6112, "step": 50}',
                 [(50, "lr", 0.002), (50, "data_time", 0.01), (50, "grad_norm", "nan"), (50, "loss", 2.5), (50, "step_time", 0.32), (50, "memory", 6112.0)]),
    "detectron2": ('{"data_time": 0.5, "eta_seconds": 9.0, "iteration": 19, "loss_cls": 1.5, "lr": 0.1, "total_loss": -Infinity}',
                   [(19, "data_time", 0.5), (19, "loss_part", 1.5), (19, "lr", 0.1), (19, "loss", -INF)]),
    "verl": ('{"step": 3, "data": {"actor/entropy": 0.5, "actor/grad_norm": 1.5, "critic/rewards/mean": 0.25, "actor/lr(1e-4)": 0.01}}',
             [(3, "entropy", 0.5), (3, "grad_norm", 1.5), (3, "reward", 0.25), (3, "lr", 1e-6)]),
    "fairseq": ('{"epoch": 1, "train_loss": "nan", "train_ppl": "12.5", "train_num_updates": "397", "train_lr": "0.0005", "train_gnorm": "0.93"}',
                [(397, "loss", "nan"), (397, "perplexity", 12.5), (397, "lr", 0.0005), (397, "grad_norm", 0.93)]),
    "fairseq valid": ('{"epoch": 1, "valid_loss": "7.5", "valid_ppl": "84.5", "valid_num_updates": "397", "valid_best_loss": "7.5"}',
                      [(397, "eval_loss", 7.5), (397, "eval_perplexity", 84.5)]),
    "wandb-like": ('{"_step": 7, "_timestamp": 1795817304.5, "_runtime": 12.5, "train/loss": 2.5, "val/loss": 3.5}',
                   [(7, "loss", 2.5), (7, "eval_loss", 3.5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_json_lines(name, tmp_path):
    text, want = LINES[name]
    got, problem = rows(written(tmp_path, "x.jsonl", f"{text}\n\n{text}\n"), "line", "step", "name", "value")
    assert problem is None
    assert [row[1:] for row in got if row[0] == 1] == [pytest.approx(row) if row[2] != "nan" else row for row in want]
    assert {row[0] for row in got} == {1, 3}
    assert looks_like_metrics(text.encode(), "x.jsonl")


def test_rank_and_time_of_the_record_go_first(tmp_path):
    path = written(
        tmp_path, "m.jsonl", '{"ts": 1795817304.5, "rank": 3, "step": 1, "loss": 2.0}\n{"step": 2, "loss": 2.0}\n'
    )
    assert rows(path, "rank", "attempt", "time", "source", rank=7, attempt=1)[0] == [
        (3, 1, 1795817304.5, "m.jsonl"), (7, 1, None, "m.jsonl"),
    ]  # fmt: skip


def test_cut_last_line(tmp_path):
    got, problem = rows(written(tmp_path, "m.jsonl", '{"step": 1, "loss": 2.0}\n{"step": 2, "lo'), "step", "value")
    assert got == [(1, 2.0)]
    assert problem == "the last line is cut off"
    got, problem = rows(written(tmp_path, "m.csv", "step,loss,lr\n1,2.0,0.1\n2,3.5,\n3,4.56"), "step", "name", "value")
    assert got == [(1, "loss", 2.0), (1, "lr", 0.1), (2, "loss", 3.5)]
    assert problem == "the last line is cut off"


def test_deepspeed_monitor_counts_samples_not_steps(tmp_path):
    path = written(tmp_path, "Train_Samples_loss_scale.csv", "step,loss_scale\n64,65536.0\n128,32768.0\n")
    assert looks_like_metrics(path.read_bytes(), path.name)
    assert rows(path, "step", "name", "value")[0] == [
        (None, "loss_scale", 65536.0), (None, "samples_seen", 64.0), (None, "loss_scale", 32768.0), (None, "samples_seen", 128.0),
    ]  # fmt: skip


def losses(tmp_path, values, **more):
    records = [{"step": n, "loss": v, "lr": 0.1, **{k: m[n] for k, m in more.items()}} for n, v in enumerate(values)]
    path = written(tmp_path, "metrics.jsonl", "".join(json.dumps(r) + "\n" for r in records))
    got, problem = rows(path, "step", "name", "value")
    assert problem is None
    return [(step, value) for step, name, value in got if name == "loss"]


def test_null_for_a_loss_that_is_lost(tmp_path):
    got = losses(tmp_path, [2.0] * 12 + [None] * 4)
    assert got[11:] == [(11, 2.0), *((n, "nan") for n in range(12, 16))]


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ([2.0] * 12 + [None] * 2, {}),
        ([2.0] * 12 + [None] * 4 + [1.9], {}),
        ([2.0, None] * 8 + [None] * 4, {}),  # not logged in each
        ([None] * 16, {}),
        ([2.0] * 12 + [None] * 4, {"eval_loss": [None] * 12 + [1.5] * 4}),  # evaluations at the end
    ],
    ids=["few", "back", "now-and-then", "never", "evaluations"],
)
def test_null_for_a_loss_that_is_not_logged(tmp_path, values, more):
    assert [v for _, v in losses(tmp_path, values, **more)] == [v for v in values if v is not None]


def test_timesteps_count_where_nothing_else_does(tmp_path):
    path = written(tmp_path, "ppo.csv", "timesteps,train/value_loss\n2048,3.5\n4096,3.25\n")
    assert rows(path, "step", "name", "value") == ([(2048, "value_loss", 3.5), (4096, "value_loss", 3.25)], None)


def test_other_json_shapes(tmp_path):
    listed = written(tmp_path, "a.json", '[\n{"step": 1, "loss": 2.0},\n{"step": 2, "loss": NaN}\n]')
    assert rows(listed, "step", "value")[0] == [(1, 2.0), (2, "nan")]
    assert looks_like_metrics(listed.read_bytes(), "a.json")
    assert looks_like_metrics(b'{"step": 1, "lr": 1e-4}', "a.json")
    assert looks_like_metrics(b'{"lr": 1e-4}\n{"lr": 2e-4}\n', "a.json")
    assert looks_like_metrics(b'{"lr": 1e-4, "loss": 2.0}', "a.json")
    keras = written(tmp_path, "history.json", '{"loss": [2.0, 1.5], "val_loss": [2.5, null]}')
    assert rows(keras, "epoch", "name", "value")[0] == [(1.0, "loss", 2.0), (1.0, "eval_loss", 2.5), (2.0, "loss", 1.5)]


def test_running_count_of_skipped_steps(tmp_path):
    text = "".join(json.dumps({"step": s, "loss": 1.0, "skipped": n}) + "\n" for s, n in ((10, 6), (20, 6), (30, 9)))
    got = rows(written(tmp_path, "m.jsonl", text), "step", "name", "value")[0]
    assert [row for row in got if row[1] == "skipped_steps"] == [(20, "skipped_steps", 0.0), (30, "skipped_steps", 3.0)]


NOT_METRICS = {
    "config.json": '{\n  "architectures": ["X"],\n  "dtype": "float32",\n  "vocab_size": 64\n}',
    "ds_config.json": '{"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0}}',
    "args.json": '{"lr": 1e-4, "gradient_accumulation_steps": 8}\n',
    "stdout.log": '{"step": 1, "loss": 2.0}\n',
    "gpu.csv": "timestamp, index, power.draw [W], memory.used [MiB]\n2026/03/03 03:00:02.000, 0, 71.2 W, 1024 MiB\n",
    "labels.csv": "id,label\n1,cat\n",
    "train.csv": "text,loss\nhello,0.5\nworld,nan\n",
    "shuffled.csv": "step,loss\n5,0.5\n2,0.4\n4,nan\n1,0.2\n3,0.4\n",
    "all_results.json": '{"epoch": 3.0, "total_flos": 1.5}',
    "readme.md": "loss,accuracy\n",
    "binary.jsonl": "\x00\x01\x02",
    "empty.json": "",
}


@pytest.mark.parametrize("name", NOT_METRICS)
def test_what_is_no_metrics_file(name):
    assert not looks_like_metrics(NOT_METRICS[name].encode(), name)


@pytest.mark.parametrize(
    ("name", "text", "metrics"),
    [
        ("a.csv", "epoch,loss\n0,2.0\n1,1.0\n2,1.5\n", True),
        ("a.csv", "Epoch;loss\n0;2.0\n", True),
        ("a.csv", "phase,step,loss\ntrain,10,2.0\nval,10,2.1\ntrain,20,1.0\nval,20,1.9\n", True),
        ("a.csv", "step,loss\n" + "".join(f"{n % 10},1.0\n" for n in range(30)), True),  # three starts of one run
        ("metrics.csv", "loss,lr\n2.0,0.1\n", True),
        ("progress.csv", "loss,lr\n2.0,0.1\n", True),
        ("prices.csv", "loss,gain\n2.0,0.1\n", False),
        ("reviews.tsv", "text\tloss\nCUDA out of memory\t0.1\n", False),
    ],
)
def test_a_table_is_metrics_where_it_counts(name, text, metrics):
    assert looks_like_metrics(text.encode(), name) is metrics
    assert (data_table(text.encode(), name) is None) is metrics


def test_an_export_of_a_log_is_no_table_of_data():
    for name in ("gpu.csv", "stdout.log", "readme.md"):
        assert data_table(NOT_METRICS[name].encode(), name) is None
    assert data_table(b"@timestamp,message\n2026-01-01,x\n", "loki.csv") is None


@pytest.mark.parametrize("name", ["trainer_state.json", "metrics.csv", "results.csv"])
def test_what_is_one(name):
    assert looks_like_metrics((DATA / name).read_bytes()[:512], name)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "is empty"), (b"\n \n", "is empty"), (b"\x00\x01" * 50, "is binary, not text"), (b"[" * 100_000, "nested"),
     (b"{" * 100_000, ""), (b'"just text"', "header"), (b"a,b\n1,2\n", "header"), (b'{"a": 1}', "no metric")],
)  # fmt: skip
def test_bad_content_has_a_reason(tmp_path, content, problem):
    for name in ("x.json", "x.jsonl", "x.csv"):
        got, why = rows(written(tmp_path, name, content), "name")
        assert got == []
        assert why
    got, why = rows(written(tmp_path, "x.json", content), "name")
    assert problem in why


def test_missing_file(tmp_path):
    assert "cannot be read" in rows(tmp_path / "none.csv", "name")[1]


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(st.sampled_from(["{", "}", '"loss"', '"log_history"', ":", ",", "[", "]", "1", "NaN", "1e999", '"step"', "\n", '"', "step,loss", "3"]), max_size=30)
        .map("".join).map(str.encode),
    ),
    st.sampled_from(["x.json", "x.jsonl", "x.csv", "trainer_state.json", "Train_Samples_lr.csv", "x"]),
)  # fmt: skip
def test_any_bytes(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    looks_like_metrics(content, name)
    rows(path, "name")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**53), st.floats(), st.floats()), min_size=1, max_size=20))
def test_values_round_trip(tmp_path_factory, records):
    base = tmp_path_factory.getbasetemp()
    want = [(s, n, "nan" if math.isnan(v) else v) for s, a, b in records for n, v in (("loss", a), ("grad_norm", b))]
    lines = written(
        base, "r.jsonl", "".join(json.dumps({"step": s, "loss": a, "grad_norm": b}) + "\n" for s, a, b in records)
    )
    assert rows(lines, "step", "name", "value")[0] == want
    table = written(base, "r.csv", "step,loss,grad_norm\n" + "".join(f"{s},{a!r},{b!r}\n" for s, a, b in records))
    assert rows(table, "step", "name", "value")[0] == want


# --- records of lines, column by column ---------------------------------------------------------------------------------

_KEYS = st.sampled_from(
    ["step", "global_step", "loss", "lr", "learning_rate", "epoch", "time", "rank", "x", "train/loss"]
)
_VALUES = st.one_of(
    st.integers(-5, 10**19), st.floats(), st.none(), st.booleans(), st.sampled_from(["nan", "1.5", "words", "2026-01-02 03:04:05"]),
    st.dictionaries(st.sampled_from(["loss", "step"]), st.integers(0, 9), max_size=2),
)  # fmt: skip


@given(records=st.lists(st.dictionaries(_KEYS, _VALUES, max_size=6), max_size=12))
def test_lines_read_by_columns_give_what_each_record_gives(records: list[dict[str, object]]) -> None:
    numbered = list(enumerate(records, 1))
    each = [row for line, record in numbered for row in metric_files._rows(line, record)]
    assert repr(metric_files._rows_of_lines(numbered)) == repr(each)


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 1},{"b": 2}', '{"c": 3}'],
        ['{"a": "x', '{"b": "y"}'],
        ['{"a": 1}', "{", '{"b": 2}', "[1]", "", '  {"c": NaN}  '],
        ['{"a": [{"b": 1}', '{"c": 1}]}'],
    ],
)
def test_a_line_that_is_no_record_costs_itself_only(lines: list[str]) -> None:
    def alone(text: str) -> object:
        try:
            return json.loads(text)
        except ValueError:
            return None

    expected = [(n, found) for n, text in enumerate(lines, 1) if isinstance(found := alone(text), dict)]
    assert repr(list(metric_files._parse_lines(lines))) == repr(expected)


# --- MLflow's file store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("metrics/train_loss", "loss"),
        ("metrics/val/loss", "eval_loss"),
        ("metrics/train/loss", "loss"),
        ("loss", "loss"),
    ],
)
def test_metrics_of_a_store(tmp_path, name, metric):
    path = tmp_path / "mlruns/0/4f1c" / name
    path.parent.mkdir(parents=True)
    path.write_text("1763625600000 2.2 0\n1763625605000 1.9e0 10\n1763625610000 nan 20 ds 0a1b m-1\n17636256")
    assert looks_like_metrics(path.read_bytes(), path.name)
    source = Source(path.relative_to(tmp_path).as_posix(), path, Kind.METRICS, path.stat().st_size)
    frame, trouble = read(path, source)
    assert trouble is None
    assert frame.select("line", "step", "time", "name").rows() == [
        (1, 0, 1763625600.0, metric), (2, 10, 1763625605.0, metric), (3, 20, 1763625610.0, metric)
    ]  # fmt: skip
    assert [str(v) for v in frame["value"]] == ["2.2", "1.9", "nan"]
    head = path.read_bytes()
    assert metric_files.form_of_lines(head, path.name) == "store"
    grown = metric_files.read_lines("store", b"1763625615000 1.7 30\n", head, 4, source)
    assert grown.select("line", "step", "value").rows() == [(4, 30, 1.7)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1763625600000 2.2 0\n", "my_curve"),  # no metric that is known by name
        ("1763625600000 2.2 0\n", "loss.txt"),
        ("1763625600 2.2 0\n", "loss"),
        ("0.0003\n", "lr"),  # a parameter
        ("1763625600000 started 0\n", "loss"),
    ],
)
def test_what_is_no_metric_of_a_store(text, name):
    assert not looks_like_metrics(text.encode(), name)


def test_a_step_that_says_of_how_many(tmp_path):
    rows = [{"iter": f"{40 * n}/4000", "loss": 3 - n / 10} for n in range(5)]
    file = written(tmp_path, "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    frame, problem = read(file, Source("m.jsonl", file, Kind.METRICS, file.stat().st_size))
    assert problem is None and frame["step"].to_list() == [0, 40, 80, 120, 160]


DOWNLOAD = "Wall time,Step,Value\n1741680000.12,0,11.15\n1741680020.12,20,NaN\n"


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("run-version_0-tag-train_loss.csv", "loss"),
        ("run-.-tag-loss_train.csv", "loss"),
        ("run-a_b-tag-train_grad_norm (1).csv", "grad_norm"),
        ("run-tag-tag-val_loss(12).csv", "eval_loss"),
    ],
)
def test_a_scalar_that_tensorboard_gives_to_download(name, metric, tmp_path):
    assert looks_like_metrics(DOWNLOAD.encode(), name)
    got, problem = rows(written(tmp_path, name, DOWNLOAD), "line", "step", "time", "name", "value")
    assert problem is None
    assert got == [(2, 0, 1741680000.12, metric, 11.15), (3, 20, 1741680020.12, metric, "nan")]


@pytest.mark.parametrize("name", ["tb.csv", "run-a-tag-answer.csv", "tag-train_loss.csv"])
def test_a_download_whose_name_does_not_tell_the_metric(name):
    assert not looks_like_metrics(DOWNLOAD.encode(), name)
    assert "does not say which one" in (data_table(DOWNLOAD.encode(), name) or "")


def test_other_columns_of_values_are_no_download():
    text = b"Wall time,Step,Value,Unit\n1741680000.12,0,11.15,C\n"
    assert not looks_like_metrics(text, "run-a-tag-train_loss.csv")
