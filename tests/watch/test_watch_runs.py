"""Live runs, with time as the test says: what is told, of whom, when, and what is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.watch.disk import Room
from forensics.watch.live import BEHIND, DISK, SILENT, SLOW, STILL
from tests.watch.live_run import OOM, STEP, Live, record, version

Make = Callable[..., Live]


def test_a_healthy_noisy_run_says_nothing(live: Make) -> None:
    run = live()
    dice = random.Random(1)
    noise = (
        "UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.\n",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n",
        "[W101 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97)\n",
        "saving checkpoint to /ckpt/step_100\n",
        "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.\n",
    )
    run.add("rank0.log", "world_size=4\n")
    for step in range(1, 33):
        for rank in range(4):
            if dice.random() < 0.5:
                run.add(f"rank{rank}.log", dice.choice(noise))
            if step == 20 and rank == 1:  # a warning that names an error, between two steps
                run.add(f"rank{rank}.log", "retrying download: HTTP 503 (attempt 1 of 5)\n")
        run.steps(range(4), [step])
        run.look(every=300.0 if step == 25 else 5.0)
    run.add("rank0.log", "Training completed. exiting\n")
    run.look(8, every=60.0)
    assert run.told() == []
    assert run.watcher.ended() == "finished" and run.watcher.open == []


def test_nan_on_one_rank_is_told_once_and_by_name(live: Make) -> None:
    run = live()
    run.steps(range(4), range(1, 30))
    run.look(2)
    assert run.told() == []
    run.steps([0, 1, 3], range(30, 40))
    run.steps([2], range(30, 40), loss=float("nan"))
    run.look(4)
    assert [(state, ranks) for state, _, ranks in run.told()] == [("started", (2,))]
    sign = run.news[0].sign
    assert "nan" in sign.name and sign.step == 30 and sign.evidence is not None
    assert sign.evidence.file == "rank2.log" and sign.advice


def test_a_traceback_that_is_cut_by_the_look(live: Make) -> None:
    run = live()
    run.steps([0, 1], range(1, 10))
    run.look()
    for part in OOM:
        run.add("rank1.log", part[: len(part) // 2])
        run.look()
        run.add("rank1.log", part[len(part) // 2 :])
        run.look()
    run.look(2)
    assert run.told() == [("started", "cuda-oom", (1,))]


def test_a_line_that_is_half_written_is_not_told(live: Make) -> None:
    run = live()
    run.steps([0, 1], range(1, 10))
    run.look()
    run.add(
        "rank1.log", 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n    main()\n'
    )
    run.add("rank1.log", "ValueError: Target modules {'q_pr")
    run.look(3)
    assert run.told() == []
    run.add("rank1.log", "oj'} not found in the base model. Please check the target modules and try again.\n")
    run.look(3)
    assert [(state, name) for state, name, _ in run.told()] == [("started", "lora-target-modules-not-found")]


def test_a_fault_of_the_explanation_does_not_end_the_watch(live: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.watch import watcher

    def fail(*_: object) -> None:
        raise ZeroDivisionError("fault")

    monkeypatch.delenv("FORENSICS_DEBUG", raising=False)
    monkeypatch.setattr(watcher, "explain_with_data", fail)
    run = live(silence=30.0)
    for step in range(1, 24):
        run.steps(range(4) if step < 12 else [0, 1, 3], [step])
        run.look()
    assert run.watcher.fault == "ZeroDivisionError: fault"
    assert run.told() == [("started", SILENT, (2,))]


def test_the_state_at_the_start_is_told_at_once(live: Make) -> None:
    run = live()
    run.steps([0], range(1, 10))
    run.add("rank0.log", "".join(OOM))
    (news,) = run.look()
    assert news.at_start and news.sign.name == "cuda-oom"
    run.add("rank0.log", "cleaning up\n")
    run.look(3)
    assert len(run.news) == 1


def test_what_a_run_survives_is_told_as_over(live: Make) -> None:
    run = live()
    run.steps([0], range(1, 10))
    run.look()
    run.add("rank0.log", "".join(OOM))
    run.look(2)
    run.steps([0], range(10, 60))
    run.look(30)
    assert [state for state, name, _ in run.told() if name == "cuda-oom"] == ["started", "recovered"]
    assert run.watcher.open == []


def test_a_rank_that_falls_silent_and_speaks_again(live: Make) -> None:
    run = live(silence=30.0)
    for step in range(1, 20):
        run.steps(range(4), [step])
        run.look()
    for step in range(20, 40):
        run.steps([0, 1, 3], [step])
        run.look()
    assert run.told() == [("started", SILENT, (2,))]
    assert run.news[0].sign.step == 19 and run.news[0].sign.see_also == ("straggler-rank",)
    run.steps([2], range(20, 41))
    run.look(3)
    assert run.told()[-1] == ("recovered", SILENT, (2,))


def stamped(rank: int, second: int, step: int) -> str:
    clock = f"2026-11-27 20:{49 + second // 60:02d}:{second % 60:02d}"
    return f"{rank}: {clock} INFO {STEP.format(step=step, loss=3 - step * 0.002 + (step * 7 % 11) * 0.001)}\n"


@pytest.mark.parametrize("shared", [True, False])
def test_a_rank_that_stops_within_its_first_looks(live: Make, shared: bool) -> None:
    run = live()
    for second in range(150):
        for rank in range(8):
            if rank != 5 or second < 30:
                run.add("job.log" if shared else f"rank{rank}.log", stamped(rank, second, second))
        if second % 5 == 4:
            run.look()
    assert run.told() == [("started", SILENT, (5,))]
    assert run.news[0].sign.step == 29


def test_a_rank_whose_first_buffer_is_emptied_later_than_the_others(live: Make) -> None:
    run = live()
    for second in range(390):
        for rank in range(4):
            # Rank 3 writes what it has every 100 seconds only.
            if rank != 3:
                run.add(f"rank{rank}.log", stamped(rank, second, second))
            elif second % 100 == 99:
                run.add("rank3.log", "".join(stamped(3, s, s) for s in range(second - 99, second + 1)))
        if second % 5 == 4:
            run.look()
    assert SILENT not in [name for _, name, _ in run.told()]


def test_a_run_that_evaluates_after_its_first_steps(live: Make) -> None:
    run = live()
    for second in range(15):
        for rank in range(4):
            run.add("job.log", stamped(rank, second, second))
        if second % 5 == 4:
            run.look()
    run.look(24)
    assert run.told() == []


def test_a_run_that_stands_still(live: Make) -> None:
    run = live(silence=30.0)
    for step in range(1, 20):
        run.steps(range(4), [step])
        run.look()
    run.steps([0, 1, 3], [20])
    run.look(30)
    assert run.told() == [("started", STILL, (2,))]
    assert run.watcher.ended() is None
    run.steps(range(4), range(20, 22))
    run.look(2)
    assert run.told()[-1] == ("recovered", STILL, (2,))


def test_a_silence_after_the_end_is_none(live: Make) -> None:
    run = live(silence=30.0)
    for step in range(1, 20):
        run.steps(range(4), [step])
        run.look()
    run.add("rank0.log", "Training completed. exiting\n")
    run.look(60)
    assert run.told() == []


def test_the_rhythm_of_ranks_that_share_a_file(live: Make) -> None:
    run = live(silence=30.0)
    for step in range(1, 24):
        for rank in range(4):
            if rank != 3 or step < 11:
                run.add("job.log", f"[rank{rank}]: " + STEP.format(step=step, loss=3 - step / 100) + "\n")
        run.look()
    assert ("started", SILENT, (3,)) in run.told()


def test_a_rank_that_falls_behind(live: Make) -> None:
    run = live()
    done = 0
    for step in range(1, 50):
        run.steps([0, 1, 2], [step])
        if step < 20 or step % 3 == 0:
            done += 1
            run.steps([3], [done])
        run.look()
    assert run.told() == [("started", BEHIND, (3,))]


def test_throughput_that_collapses(live: Make) -> None:
    run = live()
    for step in range(1, 75):
        rate = 4000 if step < 60 else 700
        run.add("train.log", f"step {step}/1000 loss {3 - step / 100:.3f} tokens_per_sec {rate}\n")
        if step > 50:
            run.look()
    run.look(2)
    assert [(state, name) for state, name, _ in run.told()] == [("started", SLOW)]


def test_a_disk_that_fills(live: Make) -> None:
    free = [500 << 30]
    run = live(measure=lambda folder: Room(1, free[0], 1000 << 30, None))
    run.steps([0], range(1, 5))
    run.look(3)
    free[0] = 1 << 30
    run.look(3)
    free[0] = 600 << 30
    run.look(3)
    assert run.told() == [("started", DISK, None), ("recovered", DISK, None)]


def test_a_kernel_log_beside_the_run(live: Make) -> None:
    run = live()
    run.steps([0], range(1, 10))
    run.add("dmesg.txt", "[  100.000000] Linux version 5.15.0\n[  101.000000] NVRM: loading NVIDIA UNIX module\n")
    run.look(2)
    run.add(
        "dmesg.txt",
        "[ 5000.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
    )
    run.look(2)
    assert [(s, n) for s, n, _ in run.told()] == [("started", "gpu-fell-off-bus")]


def test_scale_collapse_in_event_files(live: Make) -> None:
    run = live()
    name = "tb/events.out.tfevents.1700000000.host"
    run.add(name, version())
    scale = 65536.0
    for step in range(1, 60):
        run.add(name, record(step, 3 - step / 100) + record(step, scale, "train/loss_scale"))
        if step >= 40:
            scale = max(scale / 2, 1e-8)
        if step > 35:
            run.look()
    assert ("started", "grad-scaler-collapse") in [(s, n) for s, n, _ in run.told()]


def test_a_run_that_dies_ends(live: Make) -> None:
    run = live()
    run.steps([0], range(1, 10))
    run.look()
    run.add("rank0.log", "".join(OOM))
    run.look(2)
    run.look(8)
    assert run.watcher.ended() is None  # it may be started again
    run.look(5)
    assert run.watcher.ended() == "died"


def test_idle_ends_a_run_that_says_nothing(live: Make) -> None:
    run = live(idle=100.0)
    run.steps([0], range(1, 10))
    run.look(10)
    assert run.watcher.ended() is None
    run.look(12)
    assert run.watcher.ended() == "silent"


def test_nothing_is_written_and_hostile_files_do_no_harm(live: Make) -> None:
    run = live()
    dice = random.Random(5)
    for name, data in {
        "bin.log": bytes(dice.randrange(256) for _ in range(5000)),
        "events.out.tfevents.9.h": b"\x18" + b"\0" * 300,
        "m.jsonl": b'{"loss": 1' + b"[" * 5000 + b"\n" + b'{"loss": "x", "step": 1e999}\n',
        "trace.pkl": b"\x80\x05c__builtin__\neval\n.",
        "a.csv": b"step,loss\n" + b'"' * 4000,
        "zeros.log": b"\0" * 9000,
        "\x1b[31mname\n.log": b"RuntimeError: \x1b]0;title\x07 \xe2\x80\xae text\n",
    }.items():
        (run.folder / name).write_bytes(data[: len(data) // 2])
        run.look()
        with (run.folder / name).open("ab") as stream:
            stream.write(data[len(data) // 2 :])
        run.look()
    before = sorted((p.name, p.stat().st_size) for p in run.folder.iterdir())
    run.look(3)
    assert sorted((p.name, p.stat().st_size) for p in run.folder.iterdir()) == before
    for news in run.news:
        from forensics.watch import show

        for text in (show.line(news), show.json_line(news, "run"), *show.variables(news, "run").values()):
            assert "\x1b" not in text and "\n" not in text and "\u202e" not in text


def test_a_parser_that_fails_costs_its_own_file(live: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.watch import structured

    def fail(*_: object) -> None:
        raise ValueError("fault")

    monkeypatch.delenv("FORENSICS_DEBUG", raising=False)
    monkeypatch.setattr(structured, "read", fail)
    run = live()
    run.add("m.jsonl", '{"step": 1, "loss": 2}\n')
    run.steps([0], range(1, 10))
    run.look()
    run.add("rank0.log", "".join(OOM))
    run.look(2)
    assert run.told() == [("started", "cuda-oom", (0,))]


def test_memory_is_flat(live: Make) -> None:
    run = live()
    for look in range(6):
        run.add(
            "rank0.log", "".join(STEP.format(step=n, loss=2) + "\n" for n in range(look * 3000, look * 3000 + 3000))
        )
        run.add("rank0.log", "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__>\n" * 500)
        run.look()
    data = run.watcher._memory.data("run", [])
    assert data.metrics.height <= 25_000 and len(data.observations) < 200
    assert data.metrics["step"].max() == 17_999


def test_paths_may_be_files(tmp_path: Path, live: Make) -> None:
    run = live()
    run.steps([0], [1])
    run.watcher.paths = [str(run.folder / "rank0.log")]
    run.look()
    assert run.watcher.files == 1


def test_a_checkpoint_that_grows_is_a_sign_of_life(live: Make) -> None:
    run = live(silence=30.0)
    for step in range(1, 20):
        run.steps(range(4), [step])
        run.look()
    for _ in range(30):
        run.add("checkpoints/step_20/model.pt", b"\x93" * 4096)
        run.look()
    assert run.told() == []


def test_a_cards_error_is_told_also_where_training_goes_on(live: Make) -> None:
    run = live()
    lines = [f"2026-11-28 12:54:{s:02d} step {s} loss {3 - s / 100}\n" for s in range(60)]
    run.add("train.log", "".join(lines))
    run.add(
        "kern.log",
        "Nov 28 12:54:10 node-1 kernel: [12345.6] NVRM: Xid (PCI:0000:3b:00): 94, pid=4411, name=python, "
        "Ch 00000008, Contained: SM (0x1). RST: No, D-RST: No\n",
    )
    run.look(3)
    told = [(n.sign.name, n.sign.severity) for n in run.news if n.state == "started"]
    assert told == [("gpu-ecc-uncorrectable", "warning")]
    assert [n for n in run.news if n.state == "recovered"] == []
