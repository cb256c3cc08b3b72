"""How a watch ends: by a signal, by silence, by time; and with which status."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main
from forensics.cli.ending import exit_status
from forensics.model import Verdict
from forensics.run import NothingToRead
from forensics.watch import interrupts
from forensics.watch.command import Options, Watch, Whole
from forensics.watch.interrupts import Interrupts
from forensics.watch.news import News, Sign, State
from tests.watch.live_run import OOM, STEP, Live

SIGN = Sign(name="cuda-oom", title="GPU out of memory", severity="fatal", kind="cause")


@dataclass
class Looked:
    """In place of a watcher. each: what happens at a look; what it leaves in `open` is told."""

    each: Callable[[Looked], None]
    end: str | None = None
    open: list[Sign] = field(default_factory=list)
    files: int = 1
    told: int = 0
    written: float | None = 0.0
    waiting: bool = False
    fault: str | None = None
    until: float | None = None
    cut: bool = False
    looks: int = 0
    clock: Callable[[], float] = time.monotonic

    def look(self, *, last: bool = False) -> list[News]:
        self.looks += 1
        self.each(self)
        fresh = self.open[self.told :]
        self.told = len(self.open)
        return [News(State.STARTED, sign, 0.0) for sign in fresh]

    def ended(self) -> str | None:
        return self.end


def watch(looked: Looked, whole: Callable[[], Whole] | None = None, **options: object) -> int:
    """The status of a watch with status 0 for healthy and 1 for failed runs."""

    def nothing() -> Whole:
        raise NothingToRead("nothing to analyse")

    chosen = Options(run="run", interval=0.05, **options)  # type: ignore[arg-type]
    return Watch(looked, chosen, whole or nothing, exit_status).run()  # type: ignore[arg-type]


def forensics(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(interrupts, "PATIENCE", 0.2)
    yield


# --- signals ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """A shell starts what runs in the background with SIGINT ignored, and `watch` keeps to that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 3])
def test_a_look_is_finished_when_a_signal_comes(
    number: signal.Signals, at: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def each(looked: Looked) -> None:
        if looked.looks == at:
            signal.raise_signal(number)
            looked.open.append(SIGN)

    looked = Looked(each)
    before = signal.getsignal(number)
    assert watch(looked) == 1
    assert looked.looks == at + 1 and looked.until is not None  # once more, and without reading for long
    assert "not over: cuda-oom" in capfd.readouterr().err
    assert signal.getsignal(number) is before


def test_a_signal_ends_a_wait() -> None:
    begin = time.monotonic()
    with Interrupts() as waiting:
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # an alarm of somebody else is no request to end
        waiting.sleep(0.05)
        assert not waiting.asked
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        waiting.sleep(30)
        assert waiting.asked
        waiting.sleep(30)
    assert time.monotonic() - begin < 10
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_second_signal_ends_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    def each(looked: Looked) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        looked.open.append(SIGN)

    looked = Looked(each)
    assert watch(looked) == 3
    assert looked.looks == 1 and not looked.open
    assert "not all that was there was read" in capfd.readouterr().err


def test_a_look_that_takes_too_long_is_ended(patience: None) -> None:
    def each(looked: Looked) -> None:
        if looked.looks == 2:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(30)

    begin = time.monotonic()
    assert watch(Looked(each, open=[SIGN])) == 1  # it was known before
    assert watch(Looked(each)) == 3
    assert time.monotonic() - begin < 20


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as waiting:
            signal.raise_signal(signal.SIGINT)
            assert not waiting.asked
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_a_hurry_what_was_read_is_explained_and_the_rest_left(live: Callable[..., Live]) -> None:
    run = live()
    run.steps([0, 1], range(1, 10))
    run.add("rank0.log", "".join(OOM))
    ticks = iter([1000.0] * 2 + [2000.0] * 99)  # the time is up once the first file was begun
    run.watcher.clock = lambda: next(ticks)
    run.watcher.until = 1500.0
    assert [n.sign.name for n in run.watcher.look()] == ["cuda-oom"]
    assert run.watcher.cut


# --- nothing to watch ------------------------------------------------------------------------------------------------


def test_silence_is_counted_from_the_start_where_nobody_writes(live: Callable[..., Live]) -> None:
    run = live(idle=30.0)
    run.look()
    run.look(5)
    assert run.watcher.ended() is None
    run.look()
    assert run.watcher.ended() == "silent"
    run.steps([0], [1])
    run.look()
    assert run.watcher.ended() is None


@pytest.mark.parametrize(
    "options",
    [
        ("--once",),
        ("--timeout", "0"),
        ("--until-finished", "--idle", "0.2", "--timeout", "60", "--interval", "0.1"),
        ("--until-finished", "--timeout", "0.2", "--interval", "0.1"),
    ],
)
def test_an_empty_directory(run: Path, options: tuple[str, ...]) -> None:
    begin = time.monotonic()
    found = forensics("watch", run, *options, "-q")
    assert found.exit_code == 2 and found.stdout == "" and "nothing to watch" in found.stderr
    assert time.monotonic() - begin < 30


# --- what is not over ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "said", "open_", "verdict", "status"),
    [
        ("silent", False, True, Verdict.HEALTHY, 1),
        ("silent", False, True, Verdict.UNKNOWN, 1),
        ("silent", False, False, Verdict.HEALTHY, 0),
        ("silent", True, True, Verdict.HEALTHY, 0),
        ("finished", False, True, Verdict.HEALTHY, 0),
        ("silent", False, True, Verdict.HUNG, 1),
        ("died", False, False, Verdict.FAILED, 1),
        ("silent", False, False, Verdict.UNKNOWN, 3),
    ],
)
def test_the_status_of_a_run_that_ended(
    end: str, said: bool, open_: bool, verdict: Verdict, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    looked = Looked(lambda looked: None, end=end, open=[SIGN] if open_ else [])
    assert watch(looked, lambda: Whole("report", verdict, said), until_finished=True) == status
    captured = capfd.readouterr()
    undecided = open_ and status == 1 and verdict is not Verdict.HUNG
    assert "report" in captured.out and ("not over: cuda-oom" in captured.err) is undecided


def test_a_verdict_counts_no_more_when_the_run_goes_on() -> None:
    def each(looked: Looked) -> None:
        looked.end = "finished" if looked.looks < 3 else None
        looked.open = [SIGN] if looked.looks >= 3 else []

    looked = Looked(each)
    assert watch(looked, lambda: Whole("report", Verdict.HEALTHY, True), timeout=0.3) == 1


def test_a_rank_that_hangs_until_the_end(run: Path) -> None:
    """It wrote evenly until five minutes ago."""
    lines = [
        f"2026-01-01 10:{n // 60:02d}:{n % 60:02d} " + STEP.format(step=n, loss=3 - n / 100) + "\n" for n in range(40)
    ]
    file = run / "rank0.log"
    file.write_text("".join(lines))
    past = time.time() - 300
    os.utime(file, (past, past))
    found = forensics("watch", run, "--until-finished", "--idle", "2", "--interval", "0.1")
    assert found.exit_code == 1, found.output
    assert "The whole run is silent" in found.stdout and "HEALTHY" in found.stdout
    assert "not over: run-silent" in found.stderr
    with file.open("a") as stream:
        stream.write("Training completed. exiting\n")
    os.utime(file, (past, past))
    found = forensics("watch", run, "--until-finished", "--idle", "2", "--interval", "0.1")
    assert found.exit_code == 0 and "not over" not in found.stderr


# --- one look --------------------------------------------------------------------------------------------------------

CRASH = (
    "Fatal Python error: Segmentation fault\n",
    "/app/run.sh: line 7:  4242 Segmentation fault      (core dumped) python train.py\n",
)


def recovered(folder: Path) -> None:
    """A run that died, was started again, went on from its checkpoint and came to its end."""
    steps = [f"2026-05-21 10:{n // 60:02d}:{n % 60:02d} step {n} loss {3 - n / 100:.4f}\n" for n in range(60)]
    first = [*steps[:40], *CRASH]
    second = ["Resuming from checkpoint ckpt/step_30, starting at step 30\n", *steps[31:], "Training completed.\n"]
    (folder / "rank0.log").write_text("".join([*first, *second]))


def test_a_run_that_recovered_is_not_bad(run: Path) -> None:
    recovered(run)
    analysed = forensics("analyze", run, "--format", "json")
    assert '"verdict": "recovered"' in analysed.stdout and analysed.exit_code == 0
    found = forensics("watch", run, "--once")
    assert (found.exit_code, found.stdout) == (0, "")


def test_a_death_that_a_later_start_got_over_is_told_as_over(live: Callable[..., Live]) -> None:
    run = live()
    recovered(run.folder)
    text = (run.folder / "rank0.log").read_text()
    died = text.index("Resuming")
    (run.folder / "rank0.log").write_text(text[:died])
    run.look()
    ((state, name, _),) = run.told()
    assert state == "started" and len(run.watcher.open) == 1
    run.add("rank0.log", text[died:])
    run.look(3)
    assert run.told()[-1][:2] == ("recovered", name) and run.watcher.open == []


def test_once_and_until_finished_contradict_each_other(run: Path) -> None:
    found = forensics("watch", run, "--once", "--until-finished")
    assert found.exit_code == 2 and "--once" in found.stderr and "Usage:" in found.stderr


def test_no_time_is_one_look(run: Path) -> None:
    (run / "rank0.log").write_text("".join(STEP.format(step=n, loss=3 - n / 100) + "\n" for n in range(30)))
    assert forensics("watch", run, "--timeout", "0").exit_code == 0
    assert forensics("watch", run, "--timeout", "0", "--until-finished").exit_code == 3
    with (run / "rank0.log").open("a") as stream:
        stream.write("".join(OOM))
    found = forensics("watch", run, "--timeout", "0")
    assert found.exit_code == 1 and "GPU out of memory" in found.stdout
