"""How loops of one's own and speech and language toolkits print a record: which number is the step, which the loss."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from forensics.model import Kind, Source
from forensics.parsers.metric_lines import LogText, extract
from forensics.parsers.metric_lines.reader import read
from forensics.parsers.prefixes import clean

ICEFALL = (
    "2024-01-11 09:12:00,000 INFO [train.py:1034] (3/8) Epoch 7, batch 1850, loss[loss=0.3094, simple_loss=0.4023, "
    "over 16231.00 frames. ], tot_loss[loss=0.31, over 3310192.13 frames. ], batch size: 61, lr: 8.21e-03, "
    "grad_scale: 1.0"
)
ESPNET = "(trainer:754) INFO: 3epoch:train:801-900batch: iter_time=0.011, loss=80.1, grad_norm=3.1, train_time=0.5"
OPENNMT = (
    "[2026-11-20 08:25:00,104 INFO] Step 2500/100000; acc: 42.0; ppl: 60.9; xent: 4.11; lr: 0.00200; sents: 412031; "
    "bsz: 4012/4120/12; 31240/32110 tok/s;     30 sec;"
)
OPEN_CLIP = (
    "2026-11-20,08:00:01 | INFO | Train Epoch: 0 [   40960/4096000 (1%)] Data (t): 0.102 Batch (t): 0.731, 5603.10/s, "
    "700.388/s/gpu LR: 0.000500 Logit Scale: 14.286 Contrastive_loss: 8.3177 (8.3178) Loss: 8.3176 (8.3178)"
)


@pytest.mark.parametrize(
    ("line", "step", "epoch", "loss"),
    [
        ("Epoch [1/5], Batch [100/938], Loss: 0.3421", "100", "1", "0.3421"),
        ("Epoch: 1, Batch: 100, Loss: 0.3", "100", "1", "0.3"),
        ("epoch 3 batch 200/5000 loss 2.1", "200", "3", "2.1"),
        ("[1,  2000] loss: 2.173", "2000", "1", "2.173"),
        ("Training loss (for one batch) at step 200: 1.0312", "200", None, "1.0312"),
        ("Training Loss after 100 steps: 2.1", "100", None, "2.1"),
        ("Update 100 | loss 2.2", "100", None, "2.2"),
        ("Epoch 0: 100it [00:10,  9.9it/s, loss=2.1]", "100", "0", "2.1"),
        ("Epoch 0: |          | 100/? [00:01<00:00, 9.9it/s, loss=2.1]", "100", "0", "2.1"),
        ("  31/1000 [====>....] - ETA: 30s - loss: 2.2845 - accuracy: 0.31", "31", None, "2.2845"),
        (ICEFALL, "1850", "7", "0.3094"),
        (ESPNET, "900", "3", "80.1"),
        (OPENNMT, "2500", None, "4.11"),
        (OPEN_CLIP, "40960", "0", "8.3176"),
    ],
)
def test_records(line: str, step: str, epoch: str | None, loss: str) -> None:
    reading = read(line, frozenset())
    assert reading is not None
    said = {f.name or f.role: line[f.start : f.end] for f in reversed(reading.fields)}
    assert (said["step"], said.get("epoch"), said["loss"]) == (step, epoch, loss)


def test_the_pace_that_open_clip_prints() -> None:
    reading = read(OPEN_CLIP, frozenset())
    assert reading is not None
    said = {f.name: OPEN_CLIP[f.start : f.end] for f in reading.fields}
    assert (said["throughput"], said["step_time"], said["lr"]) == ("5603.10", "0.731", "0.000500")
    written = read("step 5 loss: 2.1 written 512 /srv/x 40/shard", frozenset())
    assert written is not None and {f.name for f in written.fields if f.name} == {"loss"}


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("step 4500 loss 1.9 1.551s/step 21140 tok/s", 1.551),
        ("step 4500 | loss 1.9 | 420 ms/it", 0.42),
        ("[10/100] loss: 1.9, 0.42 sec/batch", 0.42),
        ("step 3 loss 2.0 speed: 1.55 s/iter", 1.55),
        ("step 3 (0.2 s/it) loss 1.0", 0.2),
        ("step 3 loss 2.0 12 steps/s", None),
        ("step 3 loss 2.0 30 s/epoch", None),
        ("step 3 loss 2.0 eval 0.5 s/step", None),  # of something else
        ("Epoch 0: 100it [00:10,  9.9s/it, loss=2.1]", None),  # a bar turns it round where it is below 1
        ("Epoch 3:  45%|####5     | 424/938 [00:07<00:08, 5.4s/it, loss=1.0]", None),
    ],
)
def test_the_time_of_a_step_in_front_of_its_unit(line: str, seconds: float | None) -> None:
    reading = read(line, frozenset())
    assert reading is not None
    told = [float(line[f.start : f.end]) * f.factor for f in reading.fields if f.name == "step_time"]
    assert told == ([] if seconds is None else [pytest.approx(seconds)])


def test_held_out_loss_at_a_step_is_no_training_loss() -> None:
    reading = read("Validation loss (avg) at step 100: 2.1", frozenset())
    assert reading is not None
    assert [f.name for f in reading.fields] == ["", "eval_loss"]


def test_olmo_blocks() -> None:
    head = read("2024-05-14 10:00:01.123\tnode-a:0\tolmo.train:1151\tINFO\t[step=10/739328,epoch=0]", frozenset())
    assert head is not None and head.kind == "header"
    row = read("    train/CrossEntropyLoss=2.891", frozenset())
    assert row is not None and (row.kind, row.fields[0].name) == ("block", "loss")
    assert read("    cfg/loss=2.891", frozenset()) is None


@pytest.mark.parametrize(
    ("line", "rank", "local_rank", "node"),
    [
        (ICEFALL, 3, None, None),
        ("[node-b:5/8] 2024-05-14 10:00:00,000 " + ESPNET, 5, None, "node-b"),
        ("2024-05-14 10:00:01.123\tnode-b:3\tolmo.util:165\tCRITICAL\tUncaught ValueError: x", None, 3, "node-b"),
        ("(raylet, ip=10.0.0.5) A worker died", None, None, "10.0.0.5"),
        ("(raylet) A worker died", None, None, None),
        ("2024 INFO ratio (3/8) Epoch 7", None, None, None),
    ],
)
def test_whose_line(line: str, rank: int | None, local_rank: int | None, node: str | None) -> None:
    identity = clean(line).identity
    assert (identity.rank, identity.local_rank, identity.node) == (rank, local_rank, node)


DARKNET = " 121: {}, {} avg{}, 0.001000 rate, 4.142964 seconds, 64 images{}"


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (DARKNET.format("3.125000", "2.900000", " loss", ", 89.900000 hours left"), 3.125),
        (DARKNET.format("-nan", "-nan", " loss", ", 70.1 hours left"), math.nan),
        (DARKNET.format("nan", "nan", "", ""), math.nan),
    ],
)
def test_what_darknet_prints(line: str, loss: float) -> None:
    rows = _rows(line)
    assert rows["name"].to_list() == ["loss", "lr", "step_time"]
    assert rows["step"].to_list() == [121] * 3
    assert str(rows["value"][0]) == str(loss)
    assert _rows(" 121: 3.125000, 2.900000 m, 4.142964 seconds, 64 images").is_empty()


def test_the_dated_lines_of_nnunet() -> None:
    stamp = "2026-11-20 08:00:{:02}.900875: {}"
    said = ["", "Epoch 24 ", "Current learning rate: 0.00781 ", "train_loss -0.2 ", "val_loss -0.18 "]
    said += ["Pseudo dice [0.5, 0.4] ", "Epoch 25 ", "train_loss nan ", "val_loss nan "]
    rows = _rows("\n".join(stamp.format(n, text) for n, text in enumerate(said)))
    assert rows.select("epoch", "name").rows() == [(24, "loss"), (24, "eval_loss"), (25, "loss"), (25, "eval_loss")]
    assert [str(v) for v in rows["value"]] == ["-0.2", "-0.18", "nan", "nan"]
    for other in ("train_loss is nan", "best train_loss 0.2", "train_loss 0.2 of 0.3"):
        assert _rows(stamp.format(1, other)).is_empty()


RSL_RL = """\
################################################################################
                      \x1b[1m Learning iteration {}/1500 \x1b[0m

                       Computation: 91693 steps/s (collection: 0.892s, learning 0.180s)
             Mean action noise std: 1.00
{}
               Mean surrogate loss: -0.0030
                       Mean reward: -4.55
               Mean episode length: 20.00
--------------------------------------------------------------------------------
                   Total timesteps: 98304
                    Iteration time: 1.07s
"""


@pytest.mark.parametrize("key", ["          Mean value_function loss", "               Value function loss"])
def test_the_blocks_of_rsl_rl(key: str) -> None:
    rows = _rows("\n".join(RSL_RL.format(n, f"{key}: 0.711{n}") for n in (7, 8)))
    names = ["value_loss", "policy_loss", "reward"]
    assert rows["name"].to_list() == 2 * names
    assert rows["step"].to_list() == [7] * 3 + [8] * 3
    assert rows.filter(rows["name"] == "value_loss")["value"].to_list() == [0.7117, 0.7118]


def _rows(text: str) -> pl.DataFrame:
    source = Source("train.log", Path("train.log"), Kind.LOG, len(text))
    return extract([LogText(source, [(f"{text}\n".encode(), 1)], frozenset(), 1.78e9)])


def test_a_record_whose_step_says_of_how_many() -> None:
    found = read('{"iter": "880/4000", "loss": 2.95, "accuracy": "3/10"}', frozenset())
    assert found is not None
    text = '{"iter": "880/4000", "loss": 2.95, "accuracy": "3/10"}'
    assert [(f.role, text[f.start : f.end]) for f in found.fields] == [("step", "880"), ("value", "2.95")]
