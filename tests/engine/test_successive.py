"""Launches of one run in files of their own: which files are such, what follows, and which are none."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role, Verdict

START = datetime(2026, 11, 20, 8, 0, 0)
CRASH = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 88, in <module>',
    "    main()",
    '  File "/opt/train/train.py", line 60, in main',
    '    loss = model(batch["y"])',
    "KeyError: 'y'",
]
FULL = [*CRASH[:3], "OSError: [Errno 28] No space left on device: '/data/ckpt/step_100.pt'"]
RESUMED = "resuming from checkpoint step 50"
CUT = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 31, in <module>',
    '    state = torch.load(path, map_location="cpu")',
    '  File "/usr/lib/python3.12/site-packages/torch/serialization.py", line 1326, in load',
    "    with _open_zipfile_reader(opened_file) as opened_zipfile:",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
]


def at(seconds: float) -> str:
    return f"{START + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def log(first: int, last: int, after: float, *more: str, head: str = "", name: str = "loss") -> str:
    """Step lines, two seconds apart, from `after` seconds on, between a first line and what follows them."""
    rows = [f"{at(after + 2 * i)} step {n} {name} {2 + 3 / n:.4f}" for i, n in enumerate(range(first, last + 1))]
    return "\n".join([*([f"{at(after)} {head}"] if head else []), *rows, *more]) + "\n"


def run(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return analyse([str(folder)], Options(threads=1))


def roots(found: Diagnosis) -> list[tuple[str, int | None, int | None]]:
    return [(f.name, f.attempt, f.step) for f in found.of_role(Role.ROOT)]


def root(found: Diagnosis) -> Finding:
    (only,) = found.of_role(Role.ROOT)
    return only


def test_a_job_that_was_submitted_again_and_finished(tmp_path: Path) -> None:
    end = f"{at(900)} Training complete"
    found = run(tmp_path, {"slurm-70.out": log(1, 60, 0, *FULL), "slurm-71.out": log(51, 200, 300, end, head=RESUMED)})
    assert (found.verdict, found.run.attempts) == (Verdict.RECOVERED, 2)
    assert roots(found) == [("disk-full", 0, 60)]


def test_what_ended_the_later_file_is_no_effect_of_the_earlier_one(tmp_path: Path) -> None:
    found = run(
        tmp_path, {"slurm-70.out": log(1, 60, 0, *FULL), "slurm-71.out": log(51, 200, 300, *CRASH, head=RESUMED)}
    )
    assert found.verdict is Verdict.FAILED
    assert roots(found) == [("python-exception", 1, 200), ("disk-full", 0, 60)]
    assert not any(f.explained_by for f in found.findings)


def test_ranks_of_two_jobs_in_folders(tmp_path: Path) -> None:
    files = {}
    for rank in range(3):
        own = CRASH if rank == 1 else []
        files[f"job_70/rank{rank}.log"] = log(1, 60, 0, *own)
        files[f"job_71/rank{rank}.log"] = log(51, 90, 300, f"{at(500)} Training complete", head=RESUMED)
    found = run(tmp_path, files)
    assert (found.verdict, found.run.attempts, root(found).ranks) == (Verdict.RECOVERED, 2, (1,))


def test_pods_that_repeat_steps_without_a_word_of_it(tmp_path: Path) -> None:
    """No line says that a checkpoint was loaded, and none that the last one ended: it is past what killed the others."""
    files = {
        "ft-job-a1x9.log": log(1, 60, 0, *FULL),
        "ft-job-b2x9.log": log(51, 90, 300, *FULL),
        "ft-job-c3x9.log": log(81, 180, 600),
    }
    found = run(tmp_path, files)
    assert (found.verdict, found.run.attempts) == (Verdict.RECOVERED, 3)
    assert roots(found) == [("disk-full", 0, 60), ("disk-full", 1, 90)]


def test_several_attempts_in_the_first_of_two_files(tmp_path: Path) -> None:
    first = log(1, 60, 0, *CRASH) + log(41, 70, 300, *CRASH)
    found = run(tmp_path, {"slurm-70.out": first, "slurm-71.out": log(61, 200, 600, *FULL, head=RESUMED)})
    assert found.run.attempts == 3
    assert roots(found)[0] == ("disk-full", 2, 200)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(log(1, 100, 300, *CRASH), id="from the first step: another run"),
        pytest.param(log(51, 100, 30, *CRASH, head=RESUMED), id="at the same time"),
        pytest.param(log(5001, 5100, 300, *CRASH, head="resuming from checkpoint step 5000"), id="of another run"),
        pytest.param(log(61, 100, 300, *CRASH), id="a log that was rotated"),
        pytest.param(log(20, 50, 300, *CRASH, name="eval_accuracy"), id="an evaluation"),
        pytest.param(log(20, 50, 300, *CRASH), id="repeated steps that get no further"),
    ],
)
def test_no_launch_of_the_same_run(tmp_path: Path, later: str) -> None:
    found = run(tmp_path, {"slurm-70.out": log(1, 60, 0), "slurm-71.out": later})
    assert found.run.attempts == 1


def test_what_follows_a_run_that_had_finished_is_no_launch_of_it(tmp_path: Path) -> None:
    first = log(1, 60, 0, f"{at(130)} Training complete")
    found = run(tmp_path, {"slurm-70.out": first, "slurm-71.out": log(51, 80, 300, *CRASH, head=RESUMED)})
    assert found.run.attempts == 1


def test_a_kernels_kill_of_the_earlier_attempt_was_got_over(tmp_path: Path) -> None:
    killed = "[Fri Nov 20 08:02:01 2026] Out of memory: Killed process 4000 (python) total-vm:9911223kB, anon-rss:88kB"
    files = {
        "2026-11-20_08-00/train.log": log(1, 60, 0),
        "2026-11-20_08-00/dmesg.txt": killed + ", file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:17kB oom_score_adj:0\n",
        "2026-11-20_08-05/train.log": log(51, 200, 300, f"{at(900)} Training complete", head=RESUMED),
    }
    found = run(tmp_path, files)
    assert (found.verdict, root(found).name, root(found).attempt) == (Verdict.RECOVERED, "host-oom", 0)


STOPPED = "slurmstepd: error: *** JOB 70 ON n4 CANCELLED AT 2026-11-20T08:02:00 DUE TO TIME LIMIT ***"


def saved(text: str, *, separate: bool, read: str = "/ckpt/step_60/model.pt") -> dict[str, str]:
    first = log(1, 60, 0, f"{at(119)} {text}", STOPPED)
    second = "\n".join([f"{at(300)} resuming from {read}", *CUT]) + "\n"
    return {"slurm-70.out": first, "slurm-71.out": second} if separate else {"slurm-70.out": first + second}


@pytest.mark.parametrize("text", ["saving checkpoint to /ckpt/step_60/model.pt", "Saving model checkpoint to /ckpt/60"])
def test_a_stop_in_the_middle_of_a_save_damages_the_next_attempts_checkpoint(tmp_path: Path, text: str) -> None:
    found = run(tmp_path, saved(text, separate=True))
    assert (found.verdict, root(found).name, root(found).attempt) == (Verdict.FAILED, "scheduler-time-limit", 0)
    assert [(f.name, f.attempt, f.explained_by) for f in found.of_role(Role.CASCADE)] == [
        ("checkpoint-corrupt", 1, root(found).id)
    ]
    assert any("was being written" in note for note in root(found).notes)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("saved checkpoint /ckpt/step_60/model.pt", "/ckpt/step_60/model.pt"),
        ("evaluation of 64 batches", "/ckpt/step_60/model.pt"),
        ("saving checkpoint to /ckpt/step_60/model.pt", "/ckpt/step_50/model.pt"),
    ],
)
def test_a_stop_after_a_save_damages_none(tmp_path: Path, text: str, read: str) -> None:
    found = run(tmp_path, saved(text, separate=True, read=read))
    assert root(found).name == "checkpoint-corrupt"
    assert [f.name for f in found.of_role(Role.CONTEXT)] == ["scheduler-time-limit"]


def test_what_ends_in_an_error_that_nobody_knows_has_not_got_over_it(tmp_path: Path) -> None:
    files = {
        "slurm-70.out": log(1, 60, 0, *FULL),
        "slurm-71.out": log(51, 200, 300, "fatal: quux invariant broken in stage 7", "Aborted by quux", head=RESUMED),
    }
    files["slurm-71.out"] += "ERROR: quux gave up: error 17\n"
    found = run(tmp_path, files)
    assert (found.verdict, found.run.attempts) == (Verdict.FAILED, 2)


def trained(losses: list[str]) -> str:
    """What Hugging Face's Trainer prints: it counts epochs, and no steps."""
    rows = [
        f"{{'loss': {loss}, 'grad_norm': 1.0, 'learning_rate': 2e-05, 'epoch': {n / 100}}}"
        for n, loss in enumerate(losses, 1)
    ]
    return "\n".join(["***** Running training *****", "  Num examples = 52,002", *rows]) + "\n"


def test_a_loss_that_a_later_attempt_lost_comes_before_what_the_first_one_died_of(tmp_path: Path) -> None:
    first = trained([f"{2 - n / 100:.3f}" for n in range(20)]) + "\n".join(FULL) + "\n"
    second = trained([*(f"{2 - n / 100:.3f}" for n in range(40)), *["nan"] * 20])
    found = run(tmp_path, {"nohup.out": first + second})
    assert found.verdict is Verdict.DIVERGED
    assert [(name, attempt) for name, attempt, _ in roots(found)] == [("nan-loss", 1), ("disk-full", 0)]


# --- logs without any time, ordered by the numbers of their jobs -----------------------------------------------------


def undated(first: int, last: int, *more: str, head: str = "") -> str:
    rows = [f"step {n} loss {2 + 3 / n:.4f}" for n in range(first, last + 1)]
    return "\n".join([*([head] if head else []), *rows, *more]) + "\n"


PREEMPTED = "slurmstepd: error: *** JOB 100 ON node-0 CANCELLED AT 2026-11-20T09:00:00 DUE TO PREEMPTION ***"
DONE = "Training completed"


def test_undated_logs_of_slurm_jobs_follow_each_other_by_number(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        {"slurm-100.out": undated(1, 60, PREEMPTED), "slurm-101.out": undated(51, 120, DONE, head=RESUMED)},
    )
    assert found.run.attempts == 2 and found.verdict in (Verdict.HEALTHY, Verdict.RECOVERED)
    assert roots(found) == []


def test_the_later_job_is_the_one_that_tells_how_it_ended(tmp_path: Path) -> None:
    files = {"slurm-99.out": undated(1, 60), "slurm-100.out": undated(51, 90, *CRASH, head=RESUMED)}
    found = run(tmp_path, files)
    assert root(found).attempt == 1 and root(found).step == 90


@pytest.mark.parametrize(
    "files",
    [
        {"slurm-100.out": undated(51, 120, DONE, head=RESUMED), "slurm-101.out": undated(1, 60)},  # the other way
        {"slurm-100.out": undated(1, 60), "out-b.log": undated(51, 120, DONE, head=RESUMED)},  # no number
    ],
)
def test_numbers_that_tell_no_order(tmp_path: Path, files: dict[str, str]) -> None:
    assert run(tmp_path, files).run.attempts in (None, 1)


def test_a_bar_that_is_seldom_drawn_starts_no_run_anew(tmp_path: Path) -> None:
    """Trainer's dicts bear the step of the bar next to them, which is one and the same for several of them."""
    lines = []
    for n in range(1, 40):
        lines.append(
            f"{{'loss': {2 - n / 100:.4f}, 'grad_norm': 1.{n:02d}, 'learning_rate': 1e-05, 'epoch': {n / 40}}}"
        )
        lines += [f" {n}%|          | {n * 10}/2000 [0{n // 10}:{n:02d}<1:39:04,  2.31s/it]"] if n % 3 == 0 else []
    found = run(tmp_path, {"train.log": "\n".join([*lines, *FULL]) + "\n"})
    assert found.run.attempts in (None, 1) and root(found).attempt in (None, 0)


def test_both_streams_of_a_job_are_of_one_attempt(tmp_path: Path) -> None:
    files = {
        "slurm-101.out": log(1, 60, 0),
        "slurm-101.err": STOPPED + "\n",
        "slurm-102.out": log(51, 120, 600, head=RESUMED),
        "slurm-102.err": "\n".join(CRASH) + "\n",
    }
    found = run(tmp_path, files)
    assert [(f.name, f.attempt) for f in found.of_role(Role.ROOT)] == [("python-exception", 1)]
    assert found.run.attempts == 2


OOM = [*CRASH[:3], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]
AT_ONCE = "\n".join([f"{at(0)} reading the data", *CRASH]) + "\n"


@pytest.mark.parametrize("stream", ["out", "err"])
def test_a_job_that_failed_before_its_first_step_is_an_attempt_of_the_one_submitted_after_it(
    tmp_path: Path, stream: str
) -> None:
    first = (
        {"slurm-99.out": AT_ONCE} if stream == "out" else {"slurm-99.out": f"{at(0)} hello\n", "slurm-99.err": AT_ONCE}
    )
    found = run(tmp_path, {**first, "slurm-100.out": log(1, 60, 3600, *OOM)})
    assert roots(found) == [("cuda-oom", 1, 60), ("python-exception", 0, None)]


def test_a_job_that_failed_so_beside_the_training_is_none(tmp_path: Path) -> None:
    found = run(tmp_path, {"slurm-99.out": AT_ONCE.replace(at(0), at(60)), "slurm-100.out": log(1, 60, 0, *OOM)})
    assert {attempt for _, attempt, _ in roots(found)} == {0}


def test_nor_is_one_that_was_submitted_later_or_before_a_job_that_reached_its_end(tmp_path: Path) -> None:
    later = run(tmp_path / "later", {"slurm-101.out": AT_ONCE, "slurm-100.out": log(1, 60, 3600, *OOM)})
    assert {attempt for _, attempt, _ in roots(later)} == {0}
    done = {"slurm-99.out": AT_ONCE, "slurm-100.out": log(1, 60, 3600, f"{at(3800)} Training completed.")}
    assert run(tmp_path / "done", done).verdict is Verdict.HEALTHY
