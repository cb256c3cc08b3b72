"""Log lines of many frameworks, in the shapes their sources print them, and the traps among them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import METRICS_COLUMNS, Identity, Kind, Source, schema
from forensics.parsers import metric_lines
from forensics.parsers.names import NAMES

NAN, INF = float("nan"), float("inf")
DATA = Path(__file__).parent.parent / "data" / "metrics"


def source(**identity):
    return Source("train.log", Path("train.log"), Kind.LOG, 1, Identity(**identity))


def extract(text, voted=(), first_line=1, **identity):
    data = text if isinstance(text, bytes) else text.encode()
    log = metric_lines.LogText(source(**identity), [(data, first_line)], frozenset(voted), 1.78e9)
    return metric_lines.extract([log])


def same(a, b):
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, rel=1e-9)


def check(text, step, values, *, epoch=None, rank=None, voted=(), **identity):
    """A line gives exactly these values, all at this step; alone and as one of many lines of its shape."""
    for repeats in (1, 700) if "%|" not in text else (1,):  # a bar that does not move is told once
        frame = extract("\n".join([text] * repeats), voted, **identity).filter(line=repeats)
        rows = frame.rows(named=True)
        constant = {"total_steps", "batch_size"}  # told once
        got = [
            (r["name"], r["value"]) for r in rows if r["name"] != "skipped_steps" or "skipped_total" not in dict(values)
        ]
        want = [(n, v) for n, v in values if repeats == 1 or n not in constant]
        assert sorted(n for n, _ in got) == sorted(n for n, _ in want), (repeats, got)
        for name, value in want:
            assert any(n == name and same(v, value) for n, v in got), (repeats, name, value, got)
        assert {r["step"] for r in rows} == {step}
        assert {r["epoch"] for r in rows} == {epoch}
        assert {r["rank"] for r in rows} == {rank}


FORMATS = {
    "pipes": (
        "2026-11-27 21:48:19,411 INFO [rank2] trainer: step 23/60 | epoch 0 | loss nan | lr 2.1e-03 | grad_norm nan | 71 ms",
        23, [("loss", NAN), ("lr", 2.1e-3), ("grad_norm", NAN), ("total_steps", 60)], {"epoch": 0, "rank": 2},
    ),
    "dcgan": (
        "[3/60][50/400]\tLoss_D: 1.7376\tLoss_G: 2.1212\tD(x): 0.5954\tD(G(z)): 0.2308 / 0.1604",
        50, [("loss_part", 1.7376), ("loss_part", 2.1212)], {"epoch": 3},
    ),
    "spaces": ("step 10/150 loss 2.1531 grad_norm 0.544 lr 3.00e-03", 10,
               [("loss", 2.1531), ("grad_norm", 0.544), ("lr", 3e-3), ("total_steps", 150)], {}),
    "equals": ("step=7 loss=inf gnorm=-inf", 7, [("loss", INF), ("grad_norm", -INF)], {}),
    "json": ('{"ts": 1795817304.378, "rank": 3, "msg": "train", "step": 36, "epoch": 1, "loss": 1.5, "grad_norm": Infinity}',
             36, [("loss", 1.5), ("grad_norm", INF)], {"epoch": 1, "rank": 3}),
    "json, upper case NaN in a string": ('{"step": 4, "loss": "NAN"}', 4, [("loss", NAN)], {}),
    "imagenet example": ("Epoch: [0][415/1736]\tTime  0.298 ( 0.301)\tLoss 5.9e-01 (6.0e-01)\tAcc@1  12.50 ( 10.10)", 415,
                         [("step_time", 0.298), ("loss", 0.59), ("accuracy", 12.5)], {"epoch": 0}),
    "megatron 0.16": (
        " [2026-01-27 10:00:00.123456] iteration       10/     100 | consumed samples:          640 | elapsed time per "
        "iteration (ms): 115.6 | throughput per GPU (TFLOP/s/GPU): 310.5 | learning rate: 3.000000E-04 | "
        "global batch size:    64 | lm loss: 1.994719E+00 | loss scale: 65536.0 | grad norm: 1.056 | "
        "number of skipped iterations:   1 | number of nan iterations:   2 |", 10,
        [("samples_seen", 640), ("step_time", 0.1156), ("tflops", 310.5), ("lr", 3e-4), ("loss", 1.994719),
         ("loss_scale", 65536), ("grad_norm", 1.056), ("skipped_steps", 1), ("nan_steps", 2), ("total_steps", 100),
         ("batch_size", 64)], {},
    ),
    "megatron v1": (
        " iteration      100/  320000 | elapsed time per iteration (ms): 512.3 | learning rate: 1.500E-04 | "
        "lm loss: 7.9E+00 | loss scale: 262144.0 |", 100,
        [("step_time", 0.5123), ("lr", 1.5e-4), ("loss", 7.9), ("loss_scale", 262144), ("total_steps", 320000)], {},
    ),
    "megatron-deepspeed": (
        " iteration     5/  1000 | consumed samples:  80 | consumed tokens:  163840 | elapsed time per iteration (s): 3.21 | "
        "learning rate: 2.0E-05 | global batch size:    16 | lm loss: 1.1E+01 | loss scale: 4096.0 | grad norm: 464441.887 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 2.660 | TFLOPs: 108.47 |",
        5, [("samples_seen", 80), ("tokens", 163840), ("step_time", 3.21), ("lr", 2e-5), ("loss", 11), ("loss_scale", 4096),
            ("grad_norm", 464441.887), ("skipped_steps", 0), ("nan_steps", 0), ("throughput", 2.66), ("tflops", 108.47),
            ("total_steps", 1000), ("batch_size", 16)], {},
    ),
    "gpt-neox": (
        " samples/sec: 51.234 | iteration       10/      50 | elapsed time per iteration (ms): 19987.6 | "
        "learning rate: 1.234E-04 | approx flops per GPU: 150.3TFLOPS | lm_loss: NAN | loss scale: 1.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |", 10,
        [("throughput", 51.234), ("step_time", 19.9876), ("lr", 1.234e-4), ("loss", NAN), ("loss_scale", 1),
         ("skipped_steps", 0), ("nan_steps", 0), ("total_steps", 50)], {},
    ),
    "megatron validation": (
        " validation loss at iteration 200 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 | ", 200,
        [("eval_loss", 2.5), ("eval_perplexity", 12)], {},
    ),
    "deepspeed": (
        "[2024-09-18 17:52:18,236] [INFO] [logging.py:96:log_dist] [Rank 0] step=200, skipped=4, lr=[0.00024], mom=[(0.9, 0.999)]",
        200, [("skipped_total", 4), ("lr", 0.00024)], {"rank": 0},
    ),
    "deepspeed pipeline": ("node-3: steps: 180 loss: 3.0729 iter time (s): 2.993 samples/sec: 85.891", 180,
                           [("loss", 3.0729), ("step_time", 2.993), ("throughput", 85.891)], {"voted": ["pdsh"]}),
    "hf v4": ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1.9e-05, 'epoch': 0.08}", None,
              [("loss", 0), ("grad_norm", NAN), ("lr", 1.9e-5)], {"epoch": 0.08}),
    "hf v5": ("{'loss': '1.841', 'grad_norm': 'nan', 'learning_rate': '1.9e-05', 'epoch': '0.08'}", None,
              [("loss", 1.841), ("grad_norm", NAN), ("lr", 1.9e-5)], {"epoch": 0.08}),
    "hf evaluation": ("{'eval_loss': nan, 'eval_runtime': 0.1933, 'eval_samples_per_second': 5.175, 'epoch': 5.0}", None,
                      [("eval_loss", NAN)], {"epoch": 5}),
    "numpy and tensor": ("{'loss': np.float64(1.5), 'grad_norm': tensor(2.5, device='cuda:0'), 'epoch': 0.5}", None,
                         [("loss", 1.5), ("grad_norm", 2.5)], {"epoch": 0.5}),
    "trl grpo": (
        "{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 1e-06, 'num_tokens': 1751675.0, 'completions/mean_length': 701.8, "
        "'rewards/fmt/mean': -3.0, 'reward': 3.0, 'reward_std': 0.0, 'frac_reward_zero_std': 1.0, 'kl': 0.02, 'epoch': 0.33}",
        None, [("loss", 0), ("grad_norm", 0), ("lr", 1e-6), ("tokens", 1751675), ("response_length", 701.8), ("reward", 3),
               ("reward_std", 0), ("frac_reward_zero_std", 1), ("kl", 0.02)], {"epoch": 0.33},
    ),
    "lightning bar": (
        "Epoch 3:  45%|####5     | 424/938 [00:07<00:08, 57.47it/s, v_num=0, train_loss_step=nan, train_loss_epoch=0.61]",
        424, [("loss", NAN)], {"epoch": 3},
    ),
    "nemo": (
        "Training epoch 0, iteration 5/999 | lr: 1.499e-07 | consumed_samples: 512 | global_batch_size: 512 | global_step: 5 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 61.94", 5,
        [("lr", 1.499e-7), ("samples_seen", 512), ("batch_size", 512), ("loss", 11.03), ("step_time", 61.94)], {"epoch": 0},
    ),
    "torchtitan in colours": (
        "[rank0]:[titan] 2026-06-17 01:19:14,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.15270  "
        "\x1b[33mgrad_norm:  7.7035  \x1b[35mmemory: 87.87GiB(62.89%)  \x1b[34mtps: 5,984  \x1b[36mtflops: 47.71  "
        "\x1b[35mmfu: 4.82%\x1b[39m", 1,
        [("loss", 12.1527), ("grad_norm", 7.7035), ("memory", 87.87), ("throughput", 5984), ("tflops", 47.71), ("mfu", 4.82)],
        {"rank": 0},
    ),
    "torchtitan validation": ("[titan] 2026-06-17 01:19:14,000 - root - INFO - validate step: 10  loss:  3.5  tps: 100", 10,
                              [("eval_loss", 3.5)], {}),
    "torchtune": ("Step 12 | loss:2.51 lr:2e-05 grad_norm:1.5 tokens_per_second_per_gpu:812.5", 12,
                  [("loss", 2.51), ("lr", 2e-5), ("grad_norm", 1.5), ("throughput", 812.5)], {}),
    "nanotron": (
        "12/21 01:39:51 [INFO|DP=0|TP=0|node-7]: iteration: 211364 / 1500000 | consumed_tokens: 480B | "
        "time_per_iteration_ms: 8.79K | tokens_per_sec: 182K | grad_norm: 144K | lm_loss: 2.04 | lr: 0.0001", 211364,
        [("tokens", 480e9), ("step_time", 8.79), ("throughput", 182e3), ("grad_norm", 144e3), ("loss", 2.04), ("lr", 1e-4),
         ("total_steps", 1500000)], {},
    ),
    "maxtext": (
        "completed step: 7, seconds: 0.277, TFLOP/s/device: 370.707, Tokens/s/device: 14774.896, total_weights: 31850, loss: 12.939",
        7, [("step_time", 0.277), ("tflops", 370.707), ("throughput", 14774.896), ("loss", 12.939)], {},
    ),
    "nanogpt": ("iter 10: loss 4.1234, time 123.45ms, mfu 34.56%", 10,
                [("loss", 4.1234), ("step_time", 0.12345), ("mfu", 34.56)], {}),
    "nanogpt evaluation": ("step 250: train loss 1.2345, val loss 1.4567", 250, [("loss", 1.2345), ("eval_loss", 1.4567)], {}),
    "fairseq simple": (
        "2021-03-08 12:32:33 | INFO | train_inner | epoch 001:    100 / 4001 loss=12.34, ppl=5.1e+03, wps=1234.5, num_updates=97, "
        "lr=1.25e-05, gnorm=2.1, loss_scale=64", 97,
        [("loss", 12.34), ("perplexity", 5100), ("throughput", 1234.5), ("lr", 1.25e-5), ("grad_norm", 2.1), ("loss_scale", 64)],
        {"epoch": 1},
    ),
    "fairseq 0.9": ("| epoch 002:    100 / 4001 loss=nan, num_updates=4101, lr=0.1, gnorm=nan", 4101,
                    [("loss", NAN), ("lr", 0.1), ("grad_norm", NAN)], {"epoch": 2}),
    "fairseq validation": (
        "2025-09-01 08:04:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 7.1 | ppl 84.4 | num_updates 397", 397,
        [("eval_loss", 7.1), ("eval_perplexity", 84.4)], {"epoch": 1},
    ),
    "fairseq json": (
        '2025-10-02 10:00:02 | INFO | train_inner | {"epoch": 1, "update": 0.003, "loss": "19.782", "ppl": "901751", '
        '"num_updates": "5", "lr": "7.5e-07", "gnorm": "8.916", "loss_scale": "64"}', 5,
        [("loss", 19.782), ("perplexity", 901751), ("lr", 7.5e-7), ("grad_norm", 8.916), ("loss_scale", 64)], {"epoch": 1},
    ),
    "mmengine": (
        "11/08 15:58:16 - mmengine - INFO - Epoch(train) [1][   50/30895]  base_lr: 7.9760e-05 lr: 7.9760e-05  "
        "eta: 2 days, 7:32:05  time: 1.0788  data_time: 0.0849  memory: 15079  grad_norm: nan  loss: 859.5978  loss_heatmap: 836.5",
        50, [("lr", 7.976e-5), ("step_time", 1.0788), ("data_time", 0.0849), ("memory", 15079), ("grad_norm", NAN),
             ("loss", 859.5978), ("loss_part", 836.5)], {"epoch": 1},
    ),
    "mmengine by iteration": ("2026/11/08 15:58:16 - mmengine - INFO - Iter(train) [   50/10000]  lr: 1e-2  time: 0.5  loss: 0.9", 50,
                              [("lr", 0.01), ("step_time", 0.5), ("loss", 0.9), ("total_steps", 10000)], {}),
    "mmcv": (
        "2021-08-24 10:00:00,123 - mmdet - INFO - Epoch [7][450/743]\tlr: 1.000e-04, eta: 9:40:12, time: 1.021, data_time: 0.204, "
        "memory: 14410, loss_ce: 1.1, loss: 21.0321", 450,
        [("lr", 1e-4), ("step_time", 1.021), ("data_time", 0.204), ("memory", 14410), ("loss_part", 1.1), ("loss", 21.0321)],
        {"epoch": 7},
    ),
    "detectron2": (
        "[11/07 14:28:51 d2.utils.events]:  eta: 19:25:50  iter: 79  total_loss: 321.3  loss_cls: 1.5  time: 0.2540  "
        "data_time: 0.0084  lr: 0.0071  max_mem: 4031M", 79,
        [("loss", 321.3), ("loss_part", 1.5), ("step_time", 0.254), ("data_time", 0.0084), ("lr", 0.0071), ("memory", 4031)], {},
    ),
    "timm": (
        "Train: 5 [1000/1251 ( 79%)]  Loss: 6.94 (6.90)  Time: 3.456s,   37.04/s  (3.456s,   37.04/s)  LR: 1.000e-06  "
        "Data: 1.234 (1.234)", 1000,
        [("loss", 6.94), ("step_time", 3.456), ("throughput", 37.04), ("lr", 1e-6), ("data_time", 1.234)], {"epoch": 5},
    ),
    "timm by the root logger": (
        "INFO:root:Train: 5 [1000/1251 ( 79%)]  Loss: 6.94 (6.90)  LR: 1.000e-06", 1000, [("loss", 6.94), ("lr", 1e-6)],
        {"epoch": 5},
    ),
    "epoch and batch in brackets": ("Train: [0][  1/18]  loss: 0.7153  lr: 1.00e-03", 1, [("loss", 0.7153), ("lr", 1e-3)], {"epoch": 0}),
    "lone counter behind an epoch": ("Epoch: [3][  40]\tloss 0.5000\tlr 1.00e-03", 40, [("loss", 0.5), ("lr", 1e-3)], {"epoch": 3}),
    "batch in brackets": ("Train: [ 40/100]  loss: 0.7153  lr: 1.00e-03", 40, [("loss", 0.7153), ("lr", 1e-3), ("total_steps", 100)], {}),
    "cross entropy": ("ep 2 train, step 18, ce 8.112, 1.207 sec/step", 18, [("loss", 8.112), ("step_time", 1.207)], {"epoch": 2}),
    "timm test": ("Test: [  48/48]  Time: 0.1 (0.1)  Loss:  1.5 (1.6)  Acc@1:  71.8 ( 70.0)  Acc@5: 90.0 (91.0)", None,
                  [("eval_loss", 1.5), ("eval_accuracy", 71.8)], {}),
    "keras": ("938/938 - 2s - 2ms/step - accuracy: 0.8912 - loss: 0.3821 - val_loss: 0.41", 938,
              [("accuracy", 0.8912), ("loss", 0.3821), ("eval_loss", 0.41)], {}),
    "verl": (
        "(TaskRunner pid=247607) step:1 - global_seqlen/min:159906 - actor/entropy:0.0976 - actor/pg_loss:-0.01 - "
        "actor/grad_norm:np.float64(1.0) - actor/lr(1e-4):0.010 - critic/rewards/mean:0.5", 1,
        [("entropy", 0.0976), ("policy_loss", -0.01), ("grad_norm", 1), ("lr", 1e-6), ("reward", 0.5)], {},
    ),
    "held-out data in the phase": ("Epoch 3 validation: loss 0.5, accuracy 0.9", None, [("eval_loss", 0.5), ("eval_accuracy", 0.9)], {"epoch": 3}),
    "valid tokens are no validation": ("[10:22:04] step 5 | valid tokens 512 | loss 2.0", 5, [("loss", 2.0)], {}),
    "validation step": ("[10:22:04] val step 5 | loss 2.0", 5, [("eval_loss", 2.0)], {}),
    "two brackets": ("Epoch: [1/500] Iter: [17/46] LR: 0.00101 Loss: 3.3102", 17, [("lr", 0.00101), ("loss", 3.3102)], {"epoch": 1}),
    "arrows": ("epoch-> 0 Iteration-> 12 , Iteration_time-> 0.60 , Iteration_loss 0.720", 12,
               [("step_time", 0.6), ("loss", 0.72)], {"epoch": 0}),
    "srun label": ("511: step=2 loss=1.5", 2, [("loss", 1.5)], {"voted": ["srun"], "rank": 511}),
    "open mpi": ("[1,3]<stdout>:step 4 loss 1.5", 4, [("loss", 1.5)], {"rank": 3}),
    "torchrun tee is a local rank": ("[default5]:step 4 loss 1.5", 4, [("loss", 1.5)], {"rank": 5}),
    "rank in words": ("2026-01-22 11:00:03 rank 6 | step 2/200 | loss 10.5", 2, [("loss", 10.5), ("total_steps", 200)], {"rank": 6}),
    "batch behind a clock": ("2026-05-05 10:00:10 batch 40 loss 1.5", 40, [("loss", 1.5)], {}),
    "batch of a rank behind a clock": ("2026-05-05 10:00:10,123 nb rank1 batch 40 train_loss=1.5", 40, [("loss", 1.5)], {}),
    "batch of a rank in brackets": ("2026-05-05 10:00:10 [rank 1] batch 40 loss 1.5", 40, [("loss", 1.5)], {"rank": 1}),
    "size of a batch behind a clock": ("2026-05-05 10:00:10 batch 32 step 7 loss 1.5", 7, [("loss", 1.5)], {}),
    "size of a batch behind a number": ("2026-05-05 10:00:10 lr 0.1 batch 32 loss 1.5", None, [("lr", 0.1), ("loss", 1.5)], {}),
    "cri": ("2026-07-01T10:00:11.488894797Z stdout F step=1 loss=10.7381", 1, [("loss", 10.7381)], {}),
    "thousands": ("step: 3  loss: 12,345.5  tps: 1,234,567", 3, [("loss", 12345.5), ("throughput", 1234567)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_format(name):
    text, step, values, rest = FORMATS[name]
    check(text, step, values, **rest)


SILENT = {
    "megatron arguments": "  lr .............................................. 0.00015\n  loss_scale ...................... 65536\n"
    "  min_loss_scale .................................. 1.0\n  accuracy ......................... 0.5",
    "yaml": "optimizer:\n  lr: 0.001\n  weight_decay: 0.1\nloss_weight: 0.5\nmax_grad_norm: 1.0\nkl_coef: 0.05\nepochs: 3",
    "namespace": "Namespace(lr=0.1, epochs=90, loss_scale=128.0, clip_grad_norm=1.0, seed=1)",
    "configuration dict": "{'lr': 0.001, 'batch_size': 32, 'epochs': 10, 'grad_clip': 1.0, 'loss_scale': 0}",
    "nested configuration": "2025-09-01 08:00:00 | INFO | x | {'_name': None, 'common': {'fp16_init_scale': 128, "
    "'loss': 1.0, 'lr': 0.1}, 'dataset': {'epoch': 1}}",
    "pip freeze": "torch==2.4.0\nlossless==1.2.3\naccelerate==0.33.0\nklib==1.0",
    "error counters": '{"step": 3, "errors": 0, "retries": 2, "nan_count": 0, "dropped": 1}',
    "traceback": '  File "/opt/train.py", line 88, in step\n    loss = criterion(out, y)\n    loss.backward()\n'
    "RuntimeError: value cannot be converted: loss 3",
    "file sizes": "-rw-r--r-- 1 user user 1234567 Nov 27 10:00 loss_curve.png\nSaved accuracy.json (12.5 kB)",
    "test timings": "1.23s call tests/test_loss.py::test_loss_is_nan\n0.50s setup tests/test_kl.py::test_kl",
    "words": "the loss of 3 nodes was noticed at step 17\nReached 90 % accuracy goal; loss is expected to jump",
    "hf summary": "{'train_runtime': 312.46, 'train_samples_per_second': 705.9, 'train_loss': 0.1797, 'epoch': 8.0}",
    "best so far": "Metric val_loss improved by 0.051 >= min_delta = 0.0. New best score: 1.091",
    "other bars": "Map: 100%|##########| 52002/52002 [00:05<00:00, 9000.00 examples/s]\n"
    "model.safetensors: 45%|####5     | 1.2G/2.7G [00:05<00:07, 200MB/s]\n"
    "Loading checkpoint shards: 50%|#####     | 1/2 [00:05<00:05,  5.00s/it]\n"
    "Validation DataLoader 0: 100%|##########| 10/10 [00:01<00:00,  9.1it/s]",
    "megatron nan assertion": "AssertionError: Rank 3: found NaN in local grad norm in backward pass. Device: 3, node: node-1",
}


@pytest.mark.parametrize("name", SILENT)
def test_lines_that_are_no_metrics(name):
    assert extract(SILENT[name]).rows() == []
    assert extract("\n".join([SILENT[name]] * 300)).rows() == []


def test_megatron_line_without_its_loss_is_nan_unless_all_steps_were_skipped():
    line = (
        " iteration {:8d}/ 100 | consumed samples: 64 | elapsed time per iteration (ms): 1.0 | learning rate: 1.0E-04 | "
        "global batch size: 8 | {}loss scale: 1.0 | grad norm: nan | number of skipped iterations: {} | "
        "number of nan iterations: 0 |"
    )
    for repeats in (1, 500):  # one by one, and by template
        lines = [line.format(7, "", 0), line.format(8, "", 3), line.format(9, "lm loss: 2.5E+00 | ", 0)] * repeats
        loss = extract("\n".join(lines)).filter(name="loss")
        assert loss["step"].to_list() == [7, 9] * repeats
        assert all(same(a, b) for a, b in zip(loss["value"], [NAN, 2.5] * repeats, strict=True))


def test_megatron_tells_of_nan_iterations_without_a_gradient_norm():
    line = (
        " iteration {:8d}/ 20000 | consumed samples: 64 | elapsed time per iteration (ms): 506.4 | "
        "learning rate: 1.500E-04 | global batch size: 64 | {}loss scale: 1.0 | "
        "number of skipped iterations: {:3d} | number of nan iterations: {:3d} |"
    )
    good = "lm loss: 3.272397E+00 | "
    for repeats in (1, 500):  # one by one, and by template
        lines = [line.format(990, good, 0, 0), line.format(1000, "", 0, 10), line.format(1010, "", 10, 10)] * repeats
        frame = extract("\n".join(lines))
        loss, nans, skipped = (frame.filter(name=n) for n in ("loss", "nan_steps", "skipped_steps"))
        assert loss["step"].to_list() == [990, 1000, 1010] * repeats
        assert all(same(a, b) for a, b in zip(loss["value"], [3.272397, NAN, NAN] * repeats, strict=True))
        assert nans.filter(value=10)["step"].to_list()[0] == 1000
        assert skipped.filter(value=10)["step"].to_list()[0] == 1010


def test_megatron_loss_under_a_name_of_ones_own_is_not_lost():
    line = (
        " iteration       10/ 20000 | consumed samples: 64 | elapsed time per iteration (ms): 506.4 | "
        "learning rate: 1.500E-04 | global batch size: 64 | sop ranking: 6.243263E+00 | loss scale: 1.0 | "
        "number of skipped iterations: 0 | number of nan iterations: 0 |"
    )
    assert extract(line).filter(name="loss").is_empty()


OVERFLOWS = {
    "[deepscale] OVERFLOW! Rank 2 Skipping step. Attempted loss scale: 1048576.0, reducing to 524288.0": (2, 524288),
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 131072, but hysteresis is 2. Reducing hysteresis to 1": (
        0,
        131072,
    ),
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1": (0, 1),
    "[deepspeed] OVERFLOW! Skipping step. Attempted loss scale: 8.0, reducing to 4.0": (None, 4),
    "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 65536.0, reducing to 32768.0": (
        None,
        32768,
    ),
    "Overflow detected. Skipping step. Attempted loss scale: 16.0, reducing to 8.0": (None, 8),
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 2048.0": (None, 2048),
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 6.103515625e-05": (None, 6.103515625e-05),
    "| WARNING: overflow detected, setting loss scale to: 64.0": (None, 64),
    "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 0.25": (None, 0.25),
    "AMP: overflow detected, setting scale to to 512.0": (None, 512),
}


@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_messages(text):
    rank, scale = OVERFLOWS[text]
    rows = extract("hello\n" + text).rows(named=True)
    assert [(r["line"], r["rank"], r["name"], r["value"]) for r in rows] == [
        (2, rank, "overflow", 1.0), (2, rank, "loss_scale", scale),
    ]  # fmt: skip


def test_changes_of_the_scale_are_no_overflows():
    frame = extract(
        "Grad overflow on iteration 12\nReducing dynamic loss scale from 8.0 to 4.0\nIncreasing dynamic loss scale from 4.0 to 8.0"
    )
    assert frame.select("line", "name", "value", "step").rows() == [
        (1, "overflow", 1.0, 12), (2, "loss_scale", 4.0, None), (3, "loss_scale", 8.0, None),
    ]  # fmt: skip


def test_step_of_an_hf_dict_comes_from_the_bar_drawn_again_behind_it():
    log = (
        "\r  0%|          | 0/20 [00:00<?, ?it/s]\r 30%|###       | 6/20 [00:00<00:00, 62.91it/s]\r 35%|###5      | 7/20 "
        "[00:00<00:00, 67.82it/s]\r                    \r{'loss': '3.994', 'grad_norm': '0.7', 'learning_rate': '1e-3', "
        "'epoch': '0.2'}\n\r 40%|####      | 8/20 [00:00<00:00, 67.82it/s]\r 50%|#####     | 10/20 [00:00<00:00, 67.8it/s]\n"
        "text in between\n\n{'loss': '3.9', 'grad_norm': '0.6', 'learning_rate': '1e-3', 'epoch': '0.25'}\n"
    )
    frame = extract(log)
    assert frame.filter(name="loss").select("line", "step").rows() == [(1, 8), (5, 10)]
    assert frame.filter(name="progress")["value"].to_list() == [0, 6, 7, 8, 10]
    assert frame.filter(name="total_steps")["value"].to_list() == [20]


def bar(n, total=60):
    return f"\r{100 * n // total:3d}%|###   | {n}/{total} [00:{n:02d}<00:59,  1.00it/s]"


def hf_dict(step, of=60):
    return f"{{'loss': {2 - step / 100:.4f}, 'grad_norm': 1.1, 'learning_rate': 1e-05, 'epoch': {step / of:.2f}}}\n"


@pytest.mark.parametrize("drawn", [1, 3])
@pytest.mark.parametrize("again", [True, False])
def test_step_of_an_hf_dict_is_that_of_its_bar_however_often_it_is_drawn(drawn, again):
    """tqdm draws each frame or some; behind a dict it draws the same one again, or a loop's print leaves that out."""
    log = ""
    for n in range(61):
        at_dict = n and n % 10 == 0
        if n % drawn == 0 or (at_dict and not again):
            log += bar(n)
        if at_dict:
            log += "\r" + " " * 60 + "\r" + hf_dict(n) + (bar(n) if again else "")
    frame = extract(log)
    assert frame.filter(name="loss")["step"].to_list() == [10, 20, 30, 40, 50, 60]
    told = frame.filter(name="progress")["value"].to_list()
    assert told == sorted(set(told))


def test_bars_of_an_evaluation_do_not_give_steps():
    log = (
        "\r 50%|#####     | 500/1000 [05:00<05:00,  1.00it/s]\n\r  0%|          | 0/13 [00:00<?, ?it/s]\r 77%|#######   | 10/13 "
        "[00:01<00:00,  9.00it/s]\n{'eval_loss': 2.5, 'eval_runtime': 0.1, 'epoch': 1.0}\n"
    )
    frame = extract(log)
    assert frame.filter(name="progress")["value"].to_list() == [500]
    assert frame.filter(name="eval_loss")["step"].to_list() == [500]


def test_message_glued_behind_a_bar():
    line = " 15%|#4        | 402/2724 [14:51:57<85:19:20, 132.41s/it][2023-06-09 08:00:00,642] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32"
    rows = extract(line).select("step", "name", "value").rows()
    assert rows == [
        (402, "progress", 402.0),
        (402, "total_steps", 2724.0),
        (402, "overflow", 1.0),
        (402, "loss_scale", 32.0),
    ]


def test_bar_keeps_each_frame_that_moves_and_no_other():
    frames = [
        f"Epoch 0: {n}%|#   | {n}/99 [00:0{n}<01:00, 1.00it/s, loss={loss}]"
        for n, loss in ((1, 2.5), (1, 2.5), (2, 2.5), (2, NAN))
    ]
    got = extract("\r".join(frames))
    assert got.filter(name="loss")["step"].to_list() == [1, 2, 2]
    assert set(got["line"].to_list()) == {1}


def test_keras_backspaces_are_frames():
    text = "Epoch 3/10\n\x08\x08\x08\r\x1b[1m12/938\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m5s\x1b[0m 6ms/step - accuracy: 0.2000 - loss: nan"
    rows = extract(text).select("step", "epoch", "name").rows()
    assert rows == [(12, 3.0, "accuracy"), (12, 3.0, "loss")]


def test_composer_block_takes_the_step_above_it():
    block = "[epoch=1][batch={}/30518]:\n\t Train loss/train/total: {}\n\t Train lr-DecoupledAdamW/group0: 0.0001\n\t Train time/total: 3.5\n"
    frame = extract(block.format(3160, "2.5000") + "noise\n" + block.format(3161, "nan"))
    assert frame.filter(name="lr").select("step", "value").rows() == [(3160, 1e-4), (3161, 1e-4)]
    loss = frame.filter(name="loss")
    assert loss["step"].to_list() == [3160, 3161]
    assert same(loss["value"][1], NAN)


def test_stable_baselines_table_takes_its_timesteps():
    table = (
        "------------------------------------------\n| rollout/                |             |\n"
        "|    ep_rew_mean          | {:<11} |\n| time/                   |             |\n|    total_timesteps      | {:<11} |\n"
        "| train/                  |             |\n|    explained_variance   | -0.2871     |\n"
        "|    loss                 | {:<11} |\n------------------------------------------\n"
    )
    text = "".join(table.format(-172.5 + i, 2048 * (i + 1), 50.0 - i) for i in range(300))
    for log, count in ((text, 300), (table.format(-172.5, 2048, 50.0), 1)):
        frame = extract(log)
        loss = frame.filter(name="loss")
        assert loss["step"].to_list() == [2048 * (i + 1) for i in range(count)]
        assert loss["value"].to_list() == [50.0 - i for i in range(count)]
        assert frame.filter(name="reward")["step"].to_list() == loss["step"].to_list()
        assert "total_timesteps" not in frame["name"].to_list()


def test_columns_under_a_header():
    text = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n" + "\r".join(
        f"      7/100      2.15G      1.5      {v}      0.25         98        640: {p}%|##| {p}/100 [00:01<00:02,  2.5it/s]"
        for p, v in ((1, "9.0"), (100, "nan"))
    )
    frame = extract(text)
    assert frame.filter(name="loss_part")["value"].to_list()[::2] == [1.5, 0.25]
    loss = frame.filter(name="loss")
    assert (loss["line"].item(), loss["epoch"].item(), math.isnan(loss["value"].item())) == (2, 7.0, True)


TABLES = {
    "notebook": "Step | Training Loss | Validation Loss\n---- | --- | ---\n10 | 1.8 | 1.85\nsome other line\n20 | nan | nan\n",
    "pasted": "Step\tTraining Loss\tValidation Loss\n10\t1.8\t1.85\nsaving\n\n20\tnan\tnan\n",
    "markdown": "| step | loss | val_loss | note |\n|---|---|---|---|\n| 10 | 1.8 | 1.85 | - |\n| 20 | nan | nan | bad |\n",
    "rich": "┃ step ┃ loss ┃ val_loss ┃\n┡━━━━━━╇━━━━━━╇━━━━━━┩\n│   10 │ 1.8  │ 1.85     │\n│   20 │ nan  │ nan      │\n",
    "csv": "step,loss,val_loss\n10,1.8,1.85\n20,nan,nan\n",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_tables_that_count_in_their_first_column(text):
    frame = extract("loading data, 3 files\n" + text, first_line=100)
    rows = [(r["step"], r["name"], r["value"]) for r in frame.rows(named=True)]
    want = [(10, "loss", 1.8), (10, "eval_loss", 1.85), (20, "loss", NAN), (20, "eval_loss", NAN)]
    assert [row[:2] for row in rows] == [row[:2] for row in want]
    assert all(same(a, b) for (*_, a), (*_, b) in zip(rows, want, strict=True))
    lines = (100 + text.split("\n").index(line) + 1 for line in text.split("\n") if "1.8" in line or "nan" in line)
    assert sorted(set(frame["line"].to_list())) == list(lines)


def test_a_table_by_epochs_whose_cells_lack_numbers():
    frame = extract("Epoch | Training Loss | Validation Loss\n1 | No log | 1.9\n2 | 1.5 | 1.7\n")
    rows = frame.select("step", "epoch", "name", "value").rows()
    assert rows == [(None, 1.0, "eval_loss", 1.9), (None, 2.0, "loss", 1.5), (None, 2.0, "eval_loss", 1.7)]


@pytest.mark.parametrize(
    "text",
    [
        "step | loss\n10 | 1.8 | 4\n",  # another number of cells
        "step,loss,lr\n" + "waiting\n" * 60 + "10,1.8,0.1\n",  # long behind it
        "step | name | value\n1 | loss | 2.0\n",  # nothing that is watched
        "epoch, the loss was high, stopping\n1, 2.0, 3.0\n",
        "name | loss\na | 1.0\n",
    ],
    ids=["cells", "far", "unwatched", "sentence", "names"],
)
def test_what_is_no_table_that_counts(text):
    assert extract(text).filter(name="loss").is_empty()


def test_a_loss_that_is_null_from_some_record_on():
    good = [f'{{"step": {n}, "loss": 2.5, "lr": 0.1}}' for n in range(12)]
    lost = [f'{{"step": {n}, "loss": null, "lr": 0.1}}' for n in range(12, 16)]
    frame = extract("\n".join(["starting", *good, *lost]), rank=3).filter(name="loss")
    assert frame.filter(frame["value"].is_nan()).select("line", "rank", "step").rows() == [
        (14 + n, 3, 12 + n) for n in range(4)
    ]
    for text in ([*good, *lost, good[0]], [*good, *lost[:2]], lost):
        assert not extract("\n".join(text)).filter(name="loss")["value"].is_nan().any()


def test_deepspeeds_running_count_is_also_given_as_difference():
    text = "\n".join(f"[Rank 0] step={s}, skipped={n}, lr=[0.1], mom=[0.9]" for s, n in ((10, 6), (20, 6), (30, 9)))
    frame = extract(text)
    assert frame.filter(name="skipped_total")["value"].to_list() == [6, 6, 9]
    assert frame.filter(name="skipped_steps").select("step", "value").rows() == [(20, 0.0), (30, 3.0)]


def test_own_rank_goes_before_the_files_and_that_before_a_local_one():
    assert extract("[rank3]: step 1 loss 2.0", rank=7)["rank"].to_list() == [3]
    assert extract("[default3]:step 1 loss 2.0", rank=7)["rank"].to_list() == [7]
    assert extract("[default3]:[rank11]: step 1 loss 2.0")["rank"].to_list() == [11]
    assert extract("3: step 1 loss 2.0")["rank"].to_list() == [None]
    assert extract("step 1 loss 2.0", rank=7, attempt=2).select("rank", "attempt").rows() == [(7, 2)]


def test_times():
    text = (
        "2026-11-27 21:48:19,411 step 1 loss 2.0\n2026-11-27T21:48:19.5+01:00 stdout F step 2 loss 2.0\n"
        '{"ts": 1795817304.25, "step": 3, "loss": 2.0}\nstep 4 loss 2.0\n'
    )
    want = [1795816099.411, 1795816099.5 - 3600, 1795817304.25, None]
    got = extract(text)["time"].to_list()
    assert [t if t is None else round(t, 3) for t in got] == want
    many = extract("\n".join([text.split("\n")[0]] * 600))["time"]
    assert many.unique().round(3).to_list() == [1795816099.411]


def test_interleaved_ranks_and_shapes_keep_their_order():
    lines = []
    for step in range(300):
        for rank in range(3):
            lines.append(f"[rank{rank}]: step {step} loss {rank}.5")
        if step % 50 == 0:
            lines.append(f"eval step {step}: val_loss {step}.25")
    frame = extract("\n".join(lines), first_line=1000)
    assert frame["line"].to_list() == list(range(1000, 1000 + len(lines)))
    for rank in range(3):
        mine = frame.filter(rank=rank, name="loss")
        assert mine["step"].to_list() == list(range(300))
        assert set(mine["value"].to_list()) == {rank + 0.5}
    assert frame.filter(name="eval_loss")["value"].to_list() == [s + 0.25 for s in range(0, 300, 50)]


def test_cut_last_line_gives_no_half_number():
    assert "grad_norm" not in extract("{'loss': 2.5, 'learning_rate': 1e-4, 'grad_norm': 1.")["name"].to_list()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes(data):
    frame = extract(data)
    assert frame.schema == schema(METRICS_COLUMNS)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["loss", "grad_norm", ":", "=", " ", "{'", "': ", "}", "nan", "1.5", "-3", "[", "]", "|", "step", "\r", "\n", "100%|##| 3/4 [",
             "it/s]", "\x1b[0m", "\x08", "Epoch 1/3", "---------------", "| loss | 3 |", "OVERFLOW! ", "[rank1]: ", "999999999999999999999"]
        ),
        max_size=40,
    ).map("".join)
)  # fmt: skip
def test_broken_metric_lines(text):
    frame = extract(text)
    assert set(frame["name"].to_list()) <= NAMES
    assert frame["value"].null_count() == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(width=32), st.floats(min_value=0, width=32), st.integers(0, 63)),
        min_size=1, max_size=30,
    ),
    st.sampled_from(["[rank{3}]: step {0} | loss {1!r} | grad_norm {2!r}", '{{"step": {0}, "rank": {3}, "loss": {1!r}, "grad_norm": {2!r}}}',
                     "[1,{3}]<stderr>:iter: {0}  total_loss: {1!r}  grad_norm: {2!r}"]),
    st.sampled_from([1, 500]),
)  # fmt: skip
def test_values_round_trip(records, form, repeats):
    records = records * repeats if len(records) * repeats < 2000 else records
    frame = extract("\n".join(form.format(*record) for record in records))
    for name, column in (("loss", 1), ("grad_norm", 2)):
        mine = frame.filter(name=name)
        assert mine["step"].to_list() == [record[0] for record in records]
        assert mine["rank"].to_list() == [record[3] for record in records]
        assert all(same(a, record[column]) for a, record in zip(mine["value"], records, strict=True))


@pytest.mark.parametrize("above", [2, 3, 20])
def test_the_bar_of_an_evaluation_is_no_step_of_training(above):
    """A Trainer draws its own bar before its first dict; what begins after several of them counts an evaluation."""
    log = "".join(f"{{'loss': {2 - n / 50:.4f}, 'learning_rate': 2e-05, 'epoch': {n / 20}}}\n" for n in range(above))
    log += "".join(f"\r{100 * n // 63}%|███| {n}/63 [00:10<00:00,  6.11it/s]" for n in (1, 30, 63))
    named = set(extract(log)["name"])
    assert named.isdisjoint({"progress", "total_steps"}) == (above >= 3)
    assert "loss" in named


def test_a_trainers_own_bar_begins_above_its_dicts():
    log = "".join(hf_dict(n) + bar(n) for n in range(10, 60, 10))
    assert {"progress", "total_steps"} <= set(extract(bar(0) + log)["name"])


@pytest.mark.parametrize(
    ("bar", "step"),
    [
        ("100%|##########| 63/63 [00:10<00:00,  6.11it/s]", None),  # of an evaluation
        ("  3%|3         | 2/63 [00:00<00:10,  6.11it/s]", None),
        (" 47%|####7     | 703/1500 [12:01<13:20,  1.0s/it]", 703),
    ],
)
def test_a_bar_that_is_first_seen_behind_dicts_of_a_trainer(bar, step):
    dicts = [
        f"{{'loss': {2 - n / 50:.4f}, 'grad_norm': 0.7, 'learning_rate': 2e-05, 'epoch': {n / 10}}}"
        for n in range(1, 9)
    ]
    values = extract("\n".join([*dicts, bar])).filter(name="progress")["value"].to_list()
    assert (values[-1:] or [None])[0] == step


@pytest.mark.parametrize("said", ["step 50 loss 1.9", "step=50 loss=1.9", "step: 50, loss: 1.9"])
@pytest.mark.parametrize("key", ["message", "msg", "event"])
def test_the_message_of_a_json_record_says_what_a_line_would(said, key):
    check(
        f'{{"timestamp": "2026-03-01T10:00:00Z", "level": "INFO", "{key}": "{said}", "pid": 71}}', 50, [("loss", 1.9)]
    )
    check(f'{{"{key}": "{said}", "levelname": "INFO", "asctime": "2026-03-01 10:00:00,123"}}', 50, [("loss", 1.9)])


def test_a_json_record_whose_own_fields_are_the_metrics_is_not_read_by_its_message():
    check('{"step": 50, "loss": 1.9, "message": "logged"}', 50, [("loss", 1.9)])


RECORD = "{'loss': nan, 'grad_norm': 2.5, 'learning_rate': 1e-05, 'epoch': 0.52}"
OF_RECORD = {"loss": NAN, "grad_norm": 2.5, "lr": 1e-5}


@pytest.mark.parametrize(
    ("label", "voted"),
    [
        ("0: ", ("srun",)),
        ("gpu-a101: ", ("pdsh",)),
        ("INFO:trainer: ", ()),
        ("2026-11-27 10:00:00,123 - INFO - trainer: ", ()),
    ],
)
def test_the_record_of_a_trainer_behind_a_label_that_ends_in_a_colon(label: str, voted: tuple[str, ...]) -> None:
    for record in (RECORD, RECORD.replace("'", '"').replace("nan", "NaN")):
        rows = extract(f"{label}{record}\n", voted).rows(named=True)
        told = {r["name"]: r["value"] for r in rows}
        assert told.keys() == OF_RECORD.keys() and all(same(told[n], v) for n, v in OF_RECORD.items())
        assert {r["epoch"] for r in rows} == {0.52}


@pytest.mark.parametrize(
    "text",
    [
        "optimizer: {'lr': 0.1, 'grad_norm': 1.0, 'betas': 0.9}",
        "{'model': {'loss': 1.0, 'grad_norm': 1.0, 'epoch': 3}, 'steps': 4}",
        '"schedule": {"loss": 1.0, "epoch": 3, "grad_norm": 1.0}',
        "loss_weights: {'loss_ce': 1.0, 'loss_bbox': 5.0}",
    ],
)
def test_settings_of_a_part_are_no_record(text: str) -> None:
    assert extract(f"{text}\n").is_empty()


@pytest.mark.parametrize(
    "text",
    [
        "best checkpoint so far: step 300 loss 1.92",
        "Early stopping: no improvement since step 300 (loss=1.92)",
        "saving checkpoint; best step=300 loss=1.92",
        "Best model: step 300 | loss 1.92",
    ],
)
def test_what_tells_of_an_earlier_step_is_no_record(text: str) -> None:
    assert extract(f"{text}\n").is_empty()


@pytest.mark.parametrize(
    "text",
    ["step 900 loss 1.95 best step 300", "New best model at step 300: loss 1.92", "best_loss=1.92 step=300 loss=2.0"],
)
def test_a_record_may_tell_of_the_best_one_as_well(text: str) -> None:
    assert "loss" in extract(f"{text}\n")["name"].to_list()


def test_the_times_of_many_examples_with_the_month_first() -> None:
    line = "10/08/2025 10:01:40 - INFO - __main__ - step {} loss 1.9\n"
    for text in (line.format(100), "".join(line.format(n) for n in range(700))):
        assert set(extract(text)["time"].to_list()) == {1759917700.0}


LABELS = [
    "",
    "0: ",
    "[default0]:",
    "[1,0]<stdout>:",
    "[pod/t-0/main] ",
    "(RayTrainWorker pid=41, ip=192.0.2.1) ",
    "w-0  | ",
]


@pytest.mark.parametrize("label", LABELS)
def test_columns_under_their_titles_behind_a_label(label: str) -> None:
    titles = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
    row = "      7/100      4.1G      nan      1.5      0.5         41        640: 100%|##########| 97/97 [00:31]"
    rows = extract(f"{label}{titles}\n{label}{row}\n").rows(named=True)
    assert [r["epoch"] for r in rows if r["name"] == "loss" and math.isnan(r["value"])] == [7.0]


@pytest.mark.parametrize("label", LABELS)
def test_a_block_behind_a_label_has_the_step_of_its_head(label: str) -> None:
    lines = ["[batch=250/4800]:", "\t Train time/batch: 249", "\t Train loss/train/total: 1.9800"]
    frame = extract("".join(f"{label}{line}\n" for line in lines), ("srun", "compose"))
    assert frame.filter(name="loss").select("step", "value").rows() == [(250, 1.98)]


def test_the_terms_of_adversarial_losses() -> None:
    text = "(epoch: 1, iters: 100, time: 0.081, data: 0.002) G_GAN: nan G_L1: 22.1 D_real: 0.5 D_fake: 0.7 \n"
    frame = extract(text).filter(name="loss_part")
    assert frame["step"].to_list() == [100] * 4 and math.isnan(frame["value"][0])


@pytest.mark.parametrize("head", ["I1012 10:00:00.000000 139872 logging_writer.py:48] ", "INFO:absl:"])
@pytest.mark.parametrize("said", ["loss=nan, steps_per_sec=3.1", "accuracy=0.5, loss=nan"])
def test_what_clu_writes_behind_absls_head(head: str, said: str) -> None:
    line = head + "[{}] " + said + "\n"
    for text in (line.format(100), "".join(line.format(n) for n in range(100, 800))):
        frame = extract(text).filter(name="loss")
        assert frame["step"][0] == 100 and math.isnan(frame["value"][0])
