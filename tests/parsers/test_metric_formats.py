"""How loops of one's own and speech and language toolkits print a record: which number is the step, which the loss."""

from __future__ import annotations

import pytest

from forensics.parsers.metric_lines.reader import read
from forensics.parsers.prefixes import clean

ICEFALL = (
    "2024-01-11 09:12:00,000 INFO [train.py:1034] (3/8) Epoch 7, batch 1850, loss[loss=0.3094, simple_loss=0.4023, "
    "over 16231.00 frames. ], tot_loss[loss=0.31, over 3310192.13 frames. ], batch size: 61, lr: 8.21e-03, "
    "grad_scale: 1.0"
)
ESPNET = "(trainer:754) INFO: 3epoch:train:801-900batch: iter_time=0.011, loss=80.1, grad_norm=3.1, train_time=0.5"


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
    ],
)
def test_records(line: str, step: str, epoch: str | None, loss: str) -> None:
    reading = read(line, frozenset())
    assert reading is not None
    said = {f.name or f.role: line[f.start : f.end] for f in reversed(reading.fields)}
    assert (said["step"], said.get("epoch"), said["loss"]) == (step, epoch, loss)


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
