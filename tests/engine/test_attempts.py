"""Several launches in one file: where each begins, what is no new launch, and what follows for the verdict."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forensics.engine.attempts import Event, boundaries
from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict
from forensics.report import markdown, terminal

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


def stream(*events: tuple[str, object]) -> list[Event]:
    """Events on lines 1, 2, ...; the second part is a step, or what is left of the restarts."""
    return [
        Event(n, kind, step=more if isinstance(more, int) else None, count=more if isinstance(more, str) else None)
        for n, (kind, more) in enumerate(events, 1)
    ]


def steps(first: int, last: int) -> list[tuple[str, object]]:
    return [("step", n) for n in range(first, last + 1)]


def lines(*events: tuple[str, object]) -> list[int]:
    return [b.line for b in boundaries(stream(*events))]


def test_a_death_and_a_step_that_falls_back() -> None:
    assert lines(*steps(1, 20), ("death", None), *steps(11, 30)) == [22]


def test_the_signs_of_a_start_belong_to_it() -> None:
    assert lines(*steps(1, 20), ("death", None), ("sign", None), ("sign", None), ("start", None), *steps(21, 30)) == [
        22
    ]


def test_a_count_that_begins_anew_right_below_words_for_a_stop() -> None:
    assert lines(*steps(1, 20), ("stop", None), *steps(1, 30)) == [22]
    assert lines(*steps(1, 20), ("stop", None), ("sign", None), *steps(1, 30)) == [22]
    outlived = [*steps(1, 20), ("stop", None), ("sign", None), *steps(21, 25)]
    assert lines(*outlived, ("stop", None), *steps(1, 30)) == [29]


@pytest.mark.parametrize(
    "events",
    [
        [*steps(1, 20), ("stop", None), *steps(21, 25), *steps(1, 20)],  # it was outlived
        [*steps(1, 20), ("stop", None), *steps(15, 40)],  # lines of ranks that overtake each other
        [*steps(1, 20), *steps(1, 20), ("stop", None), *steps(1, 20)],  # a counter within epochs
        [("step", 1), ("stop", None), *steps(1, 20)],  # no count yet
    ],
    ids=["outlived", "overtaken", "epochs", "short"],
)
def test_words_for_a_stop_that_part_no_attempts(events: list[tuple[str, object]]) -> None:
    assert lines(*events) == []


def test_a_launch_after_an_end() -> None:
    assert lines(("launch", None), *steps(1, 20), ("end", None), ("launch", None), ("death", None)) == [23]


def test_a_launch_that_falls_back_without_a_word_of_death() -> None:
    assert lines(("launch", None), *steps(1, 20), ("launch", None), *steps(11, 20)) == [22]


def test_each_restart_of_the_workers_is_one() -> None:
    restarts = [*steps(1, 9), ("death", None), ("restart", "3"), ("restart", "2"), ("start", None), *steps(5, 9)]
    assert lines(*restarts) == [12, 13]


def test_workers_that_are_being_stopped_belong_to_the_old_attempt() -> None:
    assert lines(*steps(1, 9), ("restart", "3"), ("step", 10), ("death", None), ("start", None), *steps(8, 12)) == [13]


def test_launchers_of_two_nodes_tell_of_one_restart() -> None:
    assert lines(*steps(1, 9), ("restart", "3"), ("restart", "3"), ("start", None), *steps(8, 12)) == [12]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([("launch", None), ("start", None), *steps(40, 50)], id="resume at the beginning"),
        pytest.param([*steps(1, 9), *steps(1, 9), *steps(1, 9)], id="epochs"),
        pytest.param([*steps(1, 9), ("start", None), *steps(5, 9)], id="rollback in the process"),
        pytest.param([*steps(1, 9), ("launch", None), *steps(10, 20)], id="launcher called by training"),
        pytest.param([*steps(1, 9), ("death", None), *steps(10, 20), *steps(1, 9)], id="helper died, then an epoch"),
        pytest.param([*steps(1, 9), ("death", None), ("step", 8), ("step", 9)], id="ranks overtake each other"),
        pytest.param([*steps(1, 9), ("death", None), ("death", None), ("end", None)], id="no new start"),
        pytest.param([("launch", None), ("launch", None), *steps(1, 9)], id="one launcher a node"),
    ],
)
def test_no_boundary(events: list[tuple[str, object]]) -> None:
    assert lines(*events) == []


def test_a_new_epoch_is_no_step_back() -> None:
    first = [Event(n, "step", step=n, epoch=1.0, rank=0) for n in range(1, 10)]
    second = [Event(10 + n, "step", step=n, epoch=2.0, rank=0) for n in range(1, 10)]
    assert boundaries([*first, Event(10, "death"), *second]) == []
    assert len(boundaries([*second, Event(20, "death"), *(Event(20 + e.line, "step", step=e.step, epoch=1.0, rank=0) for e in first)])) == 1  # fmt: skip


def test_files_of_hosts_joined_one_below_the_other() -> None:
    def of(base: int) -> list[Event]:
        return [Event(base + n, "step", time=1000.0 + 60 * n, step=n) for n in range(1, 20)]

    assert boundaries([*of(0), Event(25, "death", time=3000.0), *of(30)]) == []


def log(first: int, last: int, after: float, *more: str) -> str:
    """Step lines, two seconds apart, from `after` seconds on, and what follows them."""
    rows = [
        f"{START + timedelta(seconds=after + 2 * i):%Y-%m-%d %H:%M:%S} step {n}/200 loss {2 + 3 / n:.4f} lr 1e-4"
        for i, n in enumerate(range(first, last + 1))
    ]
    return "\n".join([*rows, *more]) + "\n"


def run(folder: Path, **files: str) -> Diagnosis:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text, "utf-8")
    return analyse([str(folder)], Options(threads=1))


def test_a_second_launch_that_finishes(tmp_path: Path) -> None:
    text = log(1, 60, 0, *CRASH) + log(41, 200, 300, "training finished")
    found = run(tmp_path, train=text)
    first = found.of_role(Role.ROOT)[0]
    assert (found.verdict, found.run.attempts) == (Verdict.RECOVERED, 2)
    assert (first.name, first.attempt, first.step) == ("python-exception", 0, 60)


AGENT = "W1120 08:30:00.000000 77 torch/distributed/elastic/agent/server/api.py:906] [default]"


def test_workers_that_failed_of_what_is_not_told_and_were_restarted(tmp_path: Path) -> None:
    """The launcher's word is enough for a verdict; that each attempt counts from the first step again is told."""
    ends = [f"{AGENT} Worker group FAILED. {left}/3 attempts left; will restart worker group" for left in (2, 1)]
    last = log(1, 120, 4000, "training finished")
    found = run(tmp_path / "anew", train=log(1, 60, 0, ends[0]) + log(1, 60, 2000, ends[1]) + last)
    assert (found.verdict, found.run.attempts, found.of_role(Role.ROOT)) == (Verdict.RECOVERED, 3, ())
    assert "restarted them 2 times" in found.summary
    assert "Attempts 1 and 2 counted from step 1 again" in found.summary
    assert "the one before the last of them had come to step 60:" in found.summary
    assert found.summary in " ".join(terminal.render(found, width=100, colour=False).split())
    resumed = log(41, 120, 2000, "training finished")
    found = run(tmp_path / "resumed", train=log(1, 60, 0, ends[0]) + resumed)
    assert found.verdict is Verdict.RECOVERED and "restarted them once" in found.summary
    assert "counted from" not in found.summary
    joined = f"{AGENT} Detected 1 new nodes from group_rank=0; will restart worker group"
    found = run(tmp_path / "joined", train=log(1, 60, 0, joined) + resumed)
    assert found.verdict is Verdict.HEALTHY


def test_progress_that_a_relaunch_without_its_checkpoint_loses(tmp_path: Path) -> None:
    """It is told of a run that shows no failure, in one file and over files; one that resumes loses nothing."""
    lost = "Attempt {} counted from step 1 again, though the one before it had come to step 60: forensics explain"
    found = run(tmp_path / "one", train=log(1, 60, 0, "Terminated") + "no checkpoint, fresh start\n" + log(1, 40, 300))
    assert (found.verdict, found.of_role(Role.ROOT)) == (Verdict.HEALTHY, ())
    assert lost.format(1) in found.summary
    found = run(tmp_path / "two", attempt1=log(1, 60, 0, "Terminated"), attempt2=log(1, 40, 300))
    assert (found.verdict, found.of_role(Role.ROOT)) == (Verdict.HEALTHY, ())
    assert lost.format(1) in found.summary
    on = run(tmp_path / "on", attempt1=log(1, 60, 0, "Terminated"), attempt2=log(51, 90, 300))
    assert "counted from" not in on.summary
    beside = run(tmp_path / "beside", a=log(1, 60, 0), b=log(1, 40, 300))
    assert "counted from" not in beside.summary


@pytest.mark.parametrize("last", [55, 60, 62])
def test_the_first_attempts_cause_comes_first(tmp_path: Path, last: int) -> None:
    """A later one that got no farther may have died of what the first left behind."""
    found = run(tmp_path, train=log(1, 60, 0, *CRASH) + log(1, last, 300, *FULL))
    told = [(f.name, f.attempt, f.step) for f in found.of_role(Role.ROOT)]
    assert found.verdict is Verdict.FAILED
    assert told == [("python-exception", 0, 60), ("disk-full", 1, last)]


NO_STR = [*CRASH[:-1], "TypeError: 'NoneType' object is not iterable"]
AGAIN = f"{AGENT} Worker group FAILED. 2/3 attempts left; will restart worker group"


@pytest.mark.parametrize(
    ("first", "last", "by", "attempt"),
    [
        (CRASH, log(1, 40, 300), NO_STR, 1),
        (FULL, log(1, 40, 300), NO_STR, 1),
        (CRASH, log(1, 3, 300), NO_STR, 0),  # it died as it started
        ([*CRASH, AGAIN], log(1, 40, 300), NO_STR, 0),  # a launcher started it again
        (CRASH, log(41, 58, 300), NO_STR, 0),  # it went on from a checkpoint
        (CRASH, log(1, 40, 300), ["Received SIGTERM, shutting down"], 0),  # it was stopped, and did not fail
    ],
)
def test_a_run_that_is_made_again_and_trains_died_of_its_own(
    tmp_path: Path, first: list[str], last: str, by: list[str], attempt: int
) -> None:
    found = run(tmp_path, train=log(1, 60, 0, *first) + last + "\n".join(by) + "\n")
    assert found.of_role(Role.ROOT)[0].attempt == attempt
    notes = [note for f in found.findings if f.attempt == 0 for note in f.notes]
    assert any("was started from the first step again" in note for note in notes) == (attempt == 1)


def test_what_a_later_attempt_went_on_past_did_not_end_the_run(tmp_path: Path) -> None:
    found = run(tmp_path, train=log(1, 60, 0, *CRASH) + log(1, 100, 300, *FULL))
    told = [(f.name, f.attempt, f.step) for f in found.of_role(Role.ROOT)]
    assert found.verdict is Verdict.FAILED
    assert told == [("disk-full", 1, 100), ("python-exception", 0, 60)]
    assert "Attempt 1 went on past it to step 100" in found.of_role(Role.ROOT)[1].notes[0]


def test_the_same_again_is_not_overcome(tmp_path: Path) -> None:
    found = run(tmp_path, train=log(1, 60, 0, *FULL) + log(41, 100, 300, *FULL))
    assert [(f.name, f.attempt) for f in found.of_role(Role.ROOT)] == [("disk-full", 0), ("disk-full", 1)]
    for text in (terminal.render(found, width=100, colour=False), markdown.render(found)):
        assert "same again" in text.lower() and "in attempt 1" in text and "ndependent of" not in text
    assert found.of_role(Role.ROOT)[0].confidence > 0.9  # it is no rival of itself


def test_a_launchers_report_belongs_to_its_own_attempt(tmp_path: Path) -> None:
    """Attempt 1 has an error of its own: its launcher's lines are no effect of attempt 0's."""
    table = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    found = run(tmp_path, train=log(1, 60, 0, *FULL, table) + log(41, 55, 300, *CRASH, table))
    by = {f.id: f for f in found.findings}
    reports = [f for f in found.of_role(Role.CASCADE) if f.name == "child-failed-error"]
    assert [(f.attempt, by[f.explained_by or ""].name) for f in reports] == [(0, "disk-full"), (1, "python-exception")]


def test_ranks_files_follow_the_launchers(tmp_path: Path) -> None:
    """Rank 0's file has no sign of its own of the first attempt's end: its lines are placed by their times."""
    head = "torch/distributed/elastic/agent/server/api.py:900]"
    launcher = "\n".join([
        f"I1120 08:00:00.000000 77 {head} [default] Rendezvous complete for workers. Result:",
        "E1120 08:02:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 900) of binary: /usr/bin/python",
        f"I1120 08:02:01.100000 77 {head} [default] Worker group FAILED. 3/3 attempts left; will restart worker group",
        "W1120 08:02:01.200000 77 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 899 closing signal SIGTERM",
        f"I1120 08:02:05.000000 77 {head} [default] Rendezvous complete for workers. Result:",
        "E1120 08:06:41.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 950) of binary: /usr/bin/python\n",
    ])  # fmt: skip
    rank0 = log(1, 59, 0) + log(41, 180, 127, *FULL)
    rank1 = log(1, 59, 0, *CRASH) + log(41, 180, 127)
    found = run(tmp_path, launcher=launcher, rank0=rank0, rank1=rank1)
    told = [(f.name, f.attempt, f.ranks) for f in found.of_role(Role.ROOT)]
    assert told == [("disk-full", 1, (0,)), ("python-exception", 0, (1,))]
    stops = [f for f in found.findings if f.name == "sigterm-to-children"]
    assert [f.attempt for f in stops] == [0]


LAUNCHER = "\n".join([
    "E1120 08:02:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 900) of binary: /usr/bin/python",
    "E1120 08:09:00.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 950) of binary: /usr/bin/python",
])  # fmt: skip


@pytest.mark.parametrize("told", [True, False])
def test_a_launchers_log_beside_the_folders_of_attempts(tmp_path: Path, told: bool) -> None:
    """Its lines belong to the attempt of their time, whether it says that it restarts its workers or not."""
    first, second = LAUNCHER.split("\n")
    restart = (
        "I1120 08:02:01.100000 77 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. "
        "1/1 attempts left; will restart worker group"
    )
    (tmp_path / "torchrun.log").write_text("\n".join([first, *([restart] if told else []), second]) + "\n")
    for n, (begin, end, after, why) in enumerate([(1, 60, 0, FULL), (41, 55, 400, CRASH)]):
        file = tmp_path / "none_abc" / f"attempt_{n}" / "0" / "stderr.log"
        file.parent.mkdir(parents=True)
        file.write_text(log(begin, end, after, *why))
    found = analyse([str(tmp_path)], Options(threads=1))
    by = {f.id: f for f in found.findings}
    reports = [f for f in found.of_role(Role.CASCADE) if f.name == "child-failed-error"]
    assert [(f.attempt, by[f.explained_by or ""].name) for f in reports] == [(0, "disk-full"), (1, "python-exception")]


def test_an_exception_does_not_explain_one_that_stands_above_it(tmp_path: Path) -> None:
    first = ["$ python prepare.py", *CRASH[:-1], "FileNotFoundError: 'a.json'"]
    found = run(tmp_path, nohup="\n".join([*first, "$ python train.py", "2026-11-20 08:00:01 start", *CRASH]) + "\n")
    assert {f.title.rpartition(": ")[2] for f in found.of_role(Role.ROOT)} == {"FileNotFoundError", "KeyError"}


def test_what_training_outlived_did_not_end_the_attempt(tmp_path: Path) -> None:
    """Many steps of the same writer lie between a message and the death of which the attempt ended."""
    table = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    warning = "tensorboard writer failed: [Errno 28] No space left on device: '/tmp/tb'; continuing without"
    survived = run(tmp_path / "a", train=log(1, 20, 0, warning) + log(21, 60, 40, *CRASH, table))
    assert [f.name for f in survived.of_role(Role.ROOT)] == ["python-exception"]
    assert next(f.why for f in survived.of_role(Role.CONTEXT) if f.name == "disk-full").startswith(
        "Here training went on for many steps between it and the run's end."
    )
    soon = run(tmp_path / "b", train=log(1, 20, 0, warning) + log(21, 23, 40, *CRASH, table))
    assert "disk-full" in [f.name for f in soon.of_role(Role.ROOT)]


@pytest.mark.parametrize(("error", "apart"), [("KeyError: 'bbox'", True), ("ValueError: received a NaN", False)])
def test_an_error_of_ones_own_code_is_no_effect_of_another_ranks(tmp_path: Path, error: str, apart: bool) -> None:
    def raised(rank: int, message: str) -> str:
        return "".join(f"[rank{rank}]: {text}\n" for text in (*CRASH[:-1], message))

    text = log(1, 40, 0) + raised(1, error) + raised(3, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
    found = {f.name: f.ranks for f in run(tmp_path, train=text).of_role(Role.ROOT)}
    assert found == {"cuda-oom": (3,)} | ({"python-exception": (1,)} if apart else {})


OOM = [
    *CRASH[:-1],
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
]
STOPPED = [*CRASH[:-1], "KeyboardInterrupt"]
BANNER = "Namespace(lr=0.0001, batch_size=8)\nmodel: 124 M parameters\n"


def failed_in(found: Diagnosis) -> list[tuple[str, int | None, int | None]]:
    return [(f.name, f.attempt, f.step) for f in found.of_role(Role.ROOT)]


@pytest.mark.parametrize(
    ("head", "end", "more"),
    [
        pytest.param(BANNER, [], [], id="no word of an end"),
        pytest.param(BANNER, ["^C"], [], id="a terminal's ^C"),
        pytest.param(BANNER, STOPPED, [], id="KeyboardInterrupt"),
        pytest.param(BANNER, ["Received SIGTERM: 15"], [], id="SIGTERM"),
        pytest.param("", STOPPED, [], id="no banner"),
        pytest.param("using world size: 8, data-parallel size: 8\n", [], [], id="the world's size again"),
        pytest.param("***** Running training *****\n", [], [], id="Trainer begins again"),
        pytest.param("", [], [], id="the counter broke off before its own end"),
        pytest.param(BANNER, [], ["resuming from ckpt/step_20.pt"], id="resumed"),
    ],
)
def test_a_run_that_was_started_again_did_not_die_of_its_interruption(
    tmp_path: Path, head: str, end: list[str], more: list[str]
) -> None:
    first = 21 if more else 1
    text = head + log(1, 60, 0, *end) + head + "".join(f"{m}\n" for m in more) + log(first, 30, 300, *OOM)
    text = text.replace("/200", "") if head else text  # then nothing says where the counter ends
    found = run(tmp_path, train=text)
    assert (found.verdict, found.run.attempts) == (Verdict.FAILED, 2)
    assert failed_in(found) == [("cuda-oom", 1, 30)]


def test_a_start_that_fails_at_once_after_an_interruption(tmp_path: Path) -> None:
    found = run(tmp_path, train=BANNER + log(1, 60, 0, *STOPPED) + BANNER + "\n".join(CRASH) + "\n")
    assert (found.verdict, [f.name for f in found.of_role(Role.ROOT)]) == (Verdict.FAILED, ["python-exception"])
    assert [f.name for f in found.of_role(Role.CONTEXT) if f.name != "process-seen"] == ["keyboard-interrupt"]


def test_what_killed_the_first_run_is_no_cause_of_the_seconds_own_error(tmp_path: Path) -> None:
    found = run(tmp_path, train=BANNER + log(1, 60, 0, "Killed") + BANNER + log(1, 30, 300, *CRASH))
    assert failed_in(found) == [("python-exception", 1, 30), ("sigkill-unknown-sender", 0, 60)]


def test_an_interruption_that_ended_the_last_attempt_stands(tmp_path: Path) -> None:
    found = run(tmp_path, train=BANNER + log(1, 60, 0, *OOM) + BANNER + log(1, 90, 300, *STOPPED))
    assert found.verdict is Verdict.INTERRUPTED
    assert failed_in(found)[0] == ("keyboard-interrupt", 1, 90)


def counted(first: int, last: int, total: int, name: str = "step") -> str:
    return "".join(f"{name} {n}/{total} loss {2 + 3 / n:.4f}\n" for n in range(first, last + 1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BANNER + counted(1, 50, 50) * 3, id="epochs that run to their end"),
        pytest.param(BANNER + counted(1, 30, 50) * 3, id="epochs that are left after as many batches"),
        pytest.param(counted(1, 30, 50) + counted(1, 20, 20, "eval step") + counted(31, 50, 50), id="evaluation"),
        pytest.param(counted(31, 50, 50) + counted(1, 50, 50) + counted(1, 10, 50), id="a resumed epoch"),
        pytest.param(("epoch | loss | lr\n" + counted(1, 50, 50)) * 3, id="the head of a table"),
        pytest.param(
            "".join(
                f"epoch {e}\n" + "using world size: 8, data-parallel size: 8\n" * (e == 0) + counted(1, 50, 50)
                for e in range(3)
            ),
            id="a size that is said once",
        ),
    ],
)
def test_counters_that_begin_anew_within_a_run(tmp_path: Path, text: str) -> None:
    found = run(tmp_path, train=text + "\n".join(CRASH) + "\n")
    assert (found.run.attempts, [f.name for f in found.of_role(Role.ROOT)]) == (1, ["python-exception"])


def test_three_runs_in_one_file(tmp_path: Path) -> None:
    found = run(
        tmp_path, train="".join(BANNER + log(1, n, 300 * n) for n in (40, 60)) + BANNER + log(1, 30, 30000, *OOM)
    )
    assert (found.run.attempts, failed_in(found)) == (3, [("cuda-oom", 2, 30)])


@pytest.mark.parametrize("head", [BANNER, ""])
def test_ranks_that_fail_one_after_the_other_are_one_attempt(tmp_path: Path, head: str) -> None:
    """Each introduces itself and raises, in one file without prefixes."""
    assert run(tmp_path, train=(head + "\n".join(CRASH) + "\n") * 4).run.attempts == 1


REPORT = "\n".join([
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "train.py FAILED",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-20_08:02:01",
    "  host      : node-1",
    "  rank      : 2 (local_rank: 2)",
    "  exitcode  : 1 (pid: 102)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "============================================================\n",
])  # fmt: skip
FAULT = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n  File "/t.py", line 3 in f\n'


@pytest.mark.parametrize(("own", "by"), [(CRASH, "python-exception"), ([], "rank-segfault")])
def test_a_report_of_a_rank_follows_from_that_ranks_own_error(tmp_path: Path, own: list[str], by: str) -> None:
    """Rank 0 died of a segmentation fault; the launcher reports rank 2."""
    raised = "".join(f"[rank2]: {text}\n" for text in own)
    found = run(tmp_path, rank0=log(1, 60, 0) + FAULT, rank2=log(1, 60, 0) + raised, launcher=REPORT)
    of = {f.id: f.name for f in found.findings}
    assert [of[f.explained_by or ""] for f in found.findings if f.name == "child-failed-error"] == [by]


def test_a_container_that_was_started_again_recovered(tmp_path: Path) -> None:
    """kubectl logs --previous beside kubectl logs; without times only the names tell which is which."""
    steps = [f"step {n} loss {3 - n / 500:.4f}" for n in range(0, 200, 10)]
    again = ["Resuming from checkpoint step 150", *(f"step {n} loss {3 - n / 500:.4f}" for n in range(150, 400, 10))]
    before = "\n".join([*steps, *CRASH]) + "\n"
    after = "\n".join([*again, "Training complete"]) + "\n"
    found = run(tmp_path / "named", **{"pod-prev": before, "pod": after})
    assert (found.verdict, found.run.attempts) == (Verdict.RECOVERED, 2)
    assert run(tmp_path / "apart", pod=before, other="Training complete\n").verdict is Verdict.FAILED


PEER_LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356,"
    " remote process exited or there was a network error, NCCL version 2.21.5"
)


def stepped(first: int, last: int, hour: int) -> list[str]:
    return [f"2026-11-20 {hour:02d}:00:{n:02d} [rank0] step {n} loss {3 - n / 100:.3f}" for n in range(first, last + 1)]


@pytest.mark.parametrize("between", [["+ torchrun --nproc_per_node=4 train.py"], [PEER_LOST]])
def test_a_failed_run_and_a_good_one_in_one_file_recovered(tmp_path: Path, between: list[str]) -> None:
    """The traceback begins within a function, as one does that is logged: it alone is no proof of an end."""
    raised = [CRASH[0], *CRASH[3:]]
    good = [*stepped(1, 20, 10), "2026-11-20 10:01:00 [rank0] Training complete, 20 steps"]
    (tmp_path / "train.out").write_text("\n".join([*stepped(1, 11, 8), *raised, *between, *good]) + "\n")
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.verdict is Verdict.RECOVERED
    assert [f.attempt for f in found.of_role(Role.ROOT)] == [0]


@pytest.mark.parametrize(
    ("first", "hour", "verdict"),
    [
        (1, 20, Verdict.RECOVERED),
        (1, 8, Verdict.HEALTHY),  # at once: an epoch that a loop left by an exception
        (12, 20, Verdict.HEALTHY),  # it counts on
    ],
)
def test_a_run_that_is_appended_hours_later_counts_anew(
    tmp_path: Path, first: int, hour: int, verdict: Verdict
) -> None:
    raised = [CRASH[0], *CRASH[3:]]
    again = [line.replace(":00:", ":02:") for line in stepped(first, 40, hour)]
    lines = [*stepped(1, 11, 8), *raised, *again, f"2026-11-20 {hour:02d}:03:00 Training complete"]
    (tmp_path / "train.out").write_text("\n".join(lines) + "\n")
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.verdict is verdict
    assert [f.attempt for f in found.of_role(Role.ROOT)] == ([0] if verdict is Verdict.RECOVERED else [])


@pytest.mark.parametrize(
    ("why", "name"),
    [
        ("DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "node-failure"),
        ("***", None),  # who asked for it asked for no more than that
    ],
)
def test_a_job_that_its_scheduler_starts_again_is_a_later_attempt(tmp_path: Path, why: str, name: str | None) -> None:
    gone = f"slurmstepd: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-20T08:00:12 {why}"
    again = ["2026-11-20 09:00:00 [rank0] Resuming from checkpoint at step 10", *stepped(11, 40, 9)]
    (tmp_path / "slurm-30.out").write_text("\n".join([*stepped(1, 11, 8), gone, *again, *CRASH]) + "\n")
    found = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)
    assert [(f.name, f.attempt) for f in found] == [("python-exception", 1), *([(name, 0)] if name else [])]


def test_an_exception_that_was_handled_begins_no_attempt(tmp_path: Path) -> None:
    lines = [*stepped(1, 11, 8), CRASH[0], *CRASH[3:], *stepped(12, 40, 8), "2026-11-20 08:01:00 Training complete"]
    (tmp_path / "train.out").write_text("\n".join(lines) + "\n")
    assert analyse([str(tmp_path)], Options(threads=1)).verdict is Verdict.HEALTHY


def test_a_kernels_line_is_of_the_attempt_in_whose_time_it_was_written(tmp_path: Path) -> None:
    for attempt, (hour, error) in enumerate(
        ((8, CRASH), (10, [*CRASH[:-1], "RuntimeError: CUDA error: unknown error"]))
    ):
        folder = tmp_path / f"attempt_{attempt}" / "0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text("\n".join([*stepped(1, 30, hour), *error]) + "\n")
    xid = "2026-11-20T10:00:31 n1 kernel: NVRM: Xid (PCI:0000:4e:00): 79, pid=0, name=<unknown>, GPU has fallen off the bus."
    (tmp_path / "kern.log").write_text(xid + "\n")
    found = analyse([str(tmp_path)], Options(threads=1))
    assert {(f.name, f.attempt) for f in found.of_role(Role.ROOT)} >= {("gpu-fell-off-bus", 1), ("python-exception", 0)}


def introduced(batch: int, first: int, last: int, crash: list[str]) -> list[str]:
    """What one start of a program writes that prints its settings before it trains."""
    head = [f"INFO:root:args: Namespace(bs={batch}, lr=0.001)", "INFO:root:device cuda, params 304M"]
    return [*head, *(f"INFO:root:step {n} loss {9 - n / 1000:.3f}" for n in range(first, last, 100)), *crash]


def test_a_program_that_is_called_again_with_other_settings_is_a_new_attempt(tmp_path: Path) -> None:
    text = introduced(64, 0, 500, CRASH) + introduced(32, 1000, 3000, FULL)
    (tmp_path / "train.log").write_text("\n".join(text) + "\n")
    diagnosis = analyse([str(tmp_path)], Options(threads=1))
    assert diagnosis.run.attempts == 2
    assert [(f.name, f.attempt) for f in diagnosis.of_role(Role.ROOT)] == [("disk-full", 1), ("python-exception", 0)]


def test_settings_that_are_printed_again_while_it_trains_begin_no_attempt(tmp_path: Path) -> None:
    text = introduced(64, 0, 1000, []) + introduced(32, 1000, 3000, CRASH)
    (tmp_path / "train.log").write_text("\n".join(text) + "\n")
    assert analyse([str(tmp_path)], Options(threads=1)).run.attempts == 1


@pytest.mark.parametrize(
    ("hour", "first", "attempts"),
    [
        (20, 1, 2),
        (8, 1, 1),  # at once: a fold, or a trial of a sweep
        (20, 12, 1),  # it counts on
    ],
)
def test_a_run_with_another_seed_that_is_appended_hours_later_is_a_new_attempt(
    tmp_path: Path, hour: int, first: int, attempts: int
) -> None:
    def head(seed: int, at: int) -> list[str]:
        settings = f"args: Namespace(lr=0.001, seed={seed})"
        return [f"2026-11-20 {at:02d}:01:00 {text}" for text in (settings, "Loading dataset from /data/x")]

    again = [line.replace(":00:", ":02:") for line in stepped(first, 40, hour)]
    (tmp_path / "train.log").write_text("\n".join([*head(1, 8), *stepped(1, 11, 8), *head(2, hour), *again]) + "\n")
    found = analyse([str(tmp_path)], Options(threads=1))
    assert (found.verdict, found.run.attempts) == (Verdict.HEALTHY, attempts)


def of_pod(n: int, *end: str) -> list[str]:
    """What one of several pods wrote: a start without a time, steps with the times of all, and how it ended."""
    head = f"[pod/llm-worker-{n}/pytorch] "
    rows = [f"[2025-10-08 10:{k // 6:02d}:{k % 6}0] step {10 * k} loss {3 - k / 100:.3f}" for k in range(1, 40)]
    return [head + text for text in ("***** Running training *****", *rows, *end)]


def test_logs_of_several_pods_one_below_the_other_are_one_attempt(tmp_path: Path) -> None:
    abort = (
        "[rank{0}]:[E1008 10:06:41.100000000 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a "
        "network error, NCCL version 2.21.5"
    )
    ends = {2: ["[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB. GPU 2 has a total"]}
    text = [line for n in range(4) for line in of_pod(n, *ends.get(n, [abort.format(n), "Aborted (core dumped)"]))]
    found = run(tmp_path, train="\n".join(text) + "\n")
    assert (found.run.attempts, [f.name for f in found.of_role(Role.ROOT)]) == (1, ["cuda-oom"])


def test_what_a_launcher_repeats_of_each_rank_at_its_end_is_no_start(tmp_path: Path) -> None:
    text = [f"[batch={n}/20000]:\n\t Train loss/train/total: {3 - n / 1000:.4f}" for n in range(1, 30)]
    text.append("ERROR:composer.cli.launcher:Rank 2 crashed with exit code 1.")
    for n in range(3):
        oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB. GPU 2 has a total capacity of 79 GiB"
        text += [
            f"Global rank {n} (PID {1201 + n}) exited with code {1 if n == 2 else -6}",
            f"----------Begin global rank {n} STDERR----------",
            f"2025-06-06 10:00:02,117: rank{n}[{1201 + n}][MainThread]: INFO: llmfoundry.command_utils.train: Starting training...",
            *(["Traceback (most recent call last):", '  File "train.py", line 9, in <module>', "    main()", oom] if n == 2 else []),
            f"----------End global rank {n} STDERR----------",
        ]  # fmt: skip
    found = run(tmp_path, train="\n".join(text) + "\n")
    roots = found.of_role(Role.ROOT)
    assert (found.run.attempts, [(f.name, f.ranks) for f in roots]) == (1, [("cuda-oom", (2,))])


def test_a_start_that_failed_before_the_first_step_is_passed_by_one_that_trains(tmp_path: Path) -> None:
    missing = [*CRASH[:3], "ModuleNotFoundError: No module named 'flash_attn'"]
    text = "\n".join([*missing, "***** Running training *****"]) + "\n" + log(1, 90, 60, *OOM)
    found = run(tmp_path, train=text)
    assert failed_in(found)[0][:2] == ("cuda-oom", 1)


AGENT = "{stamp} {pid} torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: {of}) of binary: python"


def _round(minute: int, pid: int, of: int) -> list[str]:
    """Some steps of two ranks, the error of one, and the agent's word of it."""
    steps = [
        f"[2026-11-29 13:{minute:02d}:{n:02d}] rank {r} | step {n} | loss 0.4{n}" for n in range(6) for r in (0, 1)
    ]
    raised = [
        "Traceback (most recent call last):",
        '  File "/w/u.py", line 14, in <module>',
        "    check()",
        "KeyError: 1",
    ]
    told = AGENT.format(stamp=f"E1129 13:{minute:02d}:09.483000", pid=pid, of=of)
    return [*steps, *(f"[rank1]: {line}" for line in raised), told]


def _of_agents(folder: Path, *lines: str) -> Diagnosis:
    (folder / "out.log").write_text("".join(f"{line}\n" for line in lines))
    return analyse([str(folder)], Options(threads=1))


def test_an_agent_that_fails_again_has_started_its_workers_anew(tmp_path: Path) -> None:
    refused = [
        "Traceback (most recent call last):",
        '  File "/w/u.py", line 3, in <module>',
        "    init()",
        "OSError: no",
    ]
    last = AGENT.format(stamp="E1129 13:41:30.000000", pid=70, of=82)
    run = _of_agents(tmp_path, *_round(39, 70, 75), *(f"[rank1]: {line}" for line in refused), last)
    assert run.run.attempts == 2
    assert (run.findings[0].name, run.findings[0].step, run.findings[0].attempt) == ("python-exception", 5, 0)
    assert any("KeyError" in e.text for e in run.findings[0].evidence)


def test_agents_of_two_hosts_that_fail_once_each_have_not(tmp_path: Path) -> None:
    other = AGENT.format(stamp="E1129 13:39:10.000000", pid=71, of=33)
    assert _of_agents(tmp_path, *_round(39, 70, 75), other).run.attempts == 1


def test_a_port_that_the_attempt_before_may_still_hold_follows_from_its_end(tmp_path: Path) -> None:
    taken = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
    )
    raised = ["Traceback (most recent call last):", '  File "/w/u.py", line 3, in <module>', "    init()", taken]
    last = AGENT.format(stamp="E1129 13:40:30.000000", pid=70, of=82)
    run = _of_agents(tmp_path, *_round(39, 70, 75), *(f"[rank0]: {line}" for line in raised), last)
    assert [f.name for f in run.of_role(Role.ROOT)] == ["python-exception"]
    alone = _of_agents(tmp_path, *(f"[rank0]: {line}" for line in raised), last)
    assert [f.name for f in alone.of_role(Role.ROOT)] == ["address-in-use"]


def started(minute: int, *lines: str) -> str:
    head = f"Launching train.py --config base.yaml\n[2026-11-20 08:{minute:02}:00] INFO Starting run demo on 4 GPUs\n"
    return head + "".join(f"{line}\n" for line in lines)


MISSING = "ModuleNotFoundError: No module named 'flash_attn'"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: '/data/tokens.json'"


@pytest.mark.parametrize("lines", [[], CRASH[:-1]], ids=["bare", "traceback"])
def test_starts_that_fail_before_any_step_are_attempts_and_the_last_ones_error_leads(
    tmp_path: Path, lines: list[str]
) -> None:
    found = run(tmp_path, train=started(0, *lines, MISSING) + started(5, *lines, NO_FILE))
    assert found.run.attempts == 2
    told = [(f.name, f.attempt) for f in found.of_role(Role.ROOT)]
    assert told == [("python-exception", 1), ("module-not-found", 0)]


def test_a_start_that_fails_as_the_one_before_is_the_same_again(tmp_path: Path) -> None:
    found = run(tmp_path, train=started(0, MISSING) + started(5, MISSING))
    assert [(f.name, f.attempt) for f in found.of_role(Role.ROOT)] == [("module-not-found", 0), ("module-not-found", 1)]
    assert "same again" in terminal.render(found, width=100, colour=False).lower()


@pytest.mark.parametrize(
    "text",
    [
        started(0, *CRASH) + started(0, *CRASH),  # ranks of one start
        started(0, "loading") + started(5, *CRASH),  # nothing failed before
    ],
)
def test_what_introduces_itself_again_at_once_or_without_a_failure_is_no_attempt(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, train=text).run.attempts == 1


def test_what_a_broken_card_did_to_the_first_start_stays_first(tmp_path: Path) -> None:
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    found = run(tmp_path, train=started(0, *CRASH[:-1], ecc) + started(5, *CRASH))
    assert [f.attempt for f in found.of_role(Role.ROOT)][:1] == [0]
