"""The command as it is called: its output, its statuses, what it hands over, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main
from forensics.model import Evidence
from forensics.watch import show
from forensics.watch.command import seconds_of
from forensics.watch.handover import Handover, split
from forensics.watch.news import News, Sign, State
from forensics.watch.redacted import Redacting
from tests.watch.live_run import OOM, STEP

WAIT = 60.0  # seconds within which what must happen has happened, however busy the machine is


def forensics(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


class Watching:
    """`forensics watch` in a process of its own; its lines as they come."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forensics", "watch", *map(str, arguments), "--format", "jsonl"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self.says: list[str] = []
        threads = [threading.Thread(target=self._out), threading.Thread(target=self._err)]
        for thread in threads:
            thread.start()
        self._threads = threads

    def _out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def _err(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.says.append(line)

    def until(self, what: str) -> None:
        """Wait for an event of that kind, or for a word on stderr."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if any(e["event"] == what for e in self.events) or any(what in line for line in self.says):
                return
            time.sleep(0.02)
        raise AssertionError(f"no {what}: {self.events} {self.says}")

    def end(self) -> int:
        status = self.process.wait(WAIT)
        for thread in self._threads:
            thread.join()
        return status


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "run"
    folder.mkdir()
    yield folder


def add(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


def steps(folder: Path, ranks: int, first: int, last: int) -> None:
    for rank in range(ranks):
        lines = [STEP.format(step=n, loss=3 - n / 100) + "\n" for n in range(first, last)]
        add(folder / f"rank{rank}.log", "".join(lines))


def test_a_run_that_dies_ends_with_the_diagnosis_of_analyze(run: Path) -> None:
    watch = Watching(run, "--interval", "0.1", "--until-finished", "--idle", "3")
    try:
        watch.until("watching")
        steps(run, 3, 1, 30)
        for part in OOM:
            add(run / "rank1.log", part)
            time.sleep(0.15)
        watch.until("end")
    finally:
        status = watch.end()
    news, diagnosis, end = watch.events
    assert (news["state"], news["name"], news["ranks"], news["at_start"]) == ("started", "cuda-oom", [1], False)
    assert news["evidence"]["file"] == "rank1.log" and news["advice"] and news["step"] == 29
    assert diagnosis["event"] == "diagnosis" and diagnosis["why"] == "died"
    analysed = forensics("analyze", run, "--format", "json")
    assert diagnosis["report"] == json.loads(analysed.stdout)
    assert (end["event"], end["why"], end["verdict"], end["status"]) == ("end", "ended", "failed", 1)
    assert status == analysed.exit_code == 1


@pytest.mark.parametrize(("number", "bad"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_interrupted_it_sums_up_and_ends_with_what_it_saw(run: Path, number: signal.Signals, bad: bool) -> None:
    steps(run, 2, 1, 20)
    watch = Watching(run, "--interval", "0.1")
    try:
        watch.until("watching")
        if bad:
            add(run / "rank0.log", "".join(OOM))
            watch.until("news")
    finally:
        watch.process.send_signal(number)
        status = watch.end()
    assert watch.events[-1]["event"] == "end" and watch.events[-1]["why"] == "interrupted"
    assert watch.events[-1]["open"] == (["cuda-oom"] if bad else [])
    assert status == int(bad)
    assert "not over: cuda-oom" in watch.says[-1] if bad else "nothing to tell" in watch.says[-1]


def test_once_tells_the_state(run: Path) -> None:
    steps(run, 2, 1, 20)
    found = forensics("watch", run, "--once")
    assert (found.exit_code, found.stdout) == (0, "")
    add(run / "rank1.log", "".join(OOM))
    found = forensics("watch", run, "--once")
    assert found.exit_code == 1
    (line,) = found.stdout.splitlines()
    assert "fatal" in line and "rank 1: GPU out of memory" in line and "before the watch began" in line
    assert "rank1.log:23" in line and "→" in line


def test_a_finished_run_prints_the_report(run: Path) -> None:
    steps(run, 1, 1, 30)
    add(run / "rank0.log", "Training completed. exiting\n")
    past = time.time() - 300
    os.utime(run / "rank0.log", (past, past))
    found = forensics("watch", run, "--until-finished", "--interval", "0.1", "-q")
    assert found.exit_code == 0, found.output
    analysed = forensics("analyze", run)
    assert found.exit_code == analysed.exit_code == 0
    assert found.stdout.strip() == analysed.stdout.strip() and found.stderr == ""


def test_timeout_before_any_end(run: Path) -> None:
    steps(run, 1, 1, 30)
    arguments = ("watch", run, "--interval", "0.1", "--timeout", "0.3s")
    assert forensics(*arguments, "--until-finished").exit_code == 3
    assert forensics(*arguments).exit_code == 0


def test_output_in_the_run_is_not_read_as_the_run(run: Path) -> None:
    add(run / "rank0.log", "".join(OOM))
    for name, form in (("watch.jsonl", "jsonl"), ("watch.txt", "terminal")):
        with (run / name).open("w") as out:
            subprocess.run(
                [sys.executable, "-m", "forensics", "watch", str(run), "--once", "--format", form],
                stdout=out,
                stderr=out,
                timeout=60,
            )
        assert "cuda-oom" in (run / name).read_text() or "GPU out of memory" in (run / name).read_text()
    report = json.loads(forensics("analyze", run, "--format", "json").stdout)
    reasons = {s["path"]: s["reason"] for s in report["coverage"]["sources"]}
    assert reasons["watch.jsonl"] == reasons["watch.txt"] == "a report of this program"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("missing",), "no such file or directory"),
        (("-",), "neither - nor URLs"),
        (("s3://bucket/run",), "neither - nor URLs"),
        ((".", "--timeout", "soon"), "no span of time"),
        ((".", "--exec", "'"), "No closing quotation"),
        ((".", "--exec", " "), "is empty"),
        ((".", "--interval", "0"), "--interval"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    found = forensics("watch", *arguments)
    assert found.exit_code == 2 and says in found.stderr and "Traceback" not in found.stderr


def test_a_reader_that_goes_away(run: Path) -> None:
    add(run / "rank0.log", "".join(OOM))
    process = subprocess.Popen(
        [sys.executable, "-m", "forensics", "watch", str(run), "--interval", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(WAIT) == 1
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


# --- --exec ----------------------------------------------------------------------------------------------------------

COPY = "import os, sys, pathlib; pathlib.Path(os.environ['TO']).write_text(sys.stdin.read() + os.environ['FORENSICS_NAME'])"


def test_the_command_gets_the_news(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TO", str(tmp_path / "got"))
    add(run / "rank0.log", "".join(OOM))
    found = forensics("watch", run, "--once", "--exec", f"'{sys.executable}' -c \"{COPY}\"")
    assert found.exit_code == 1, found.stderr
    payload, _, name = (tmp_path / "got").read_text().rpartition("\n")
    assert name == "cuda-oom" and json.loads(payload)["name"] == "cuda-oom"


def test_no_shell_is_started(run: Path, tmp_path: Path) -> None:
    add(run / "rank0.log", "".join(OOM))
    touched = tmp_path / "touched"
    found = forensics("watch", run, "--once", "--exec", f"true; touch {touched}")
    assert not touched.exists() and "--exec:" in found.stderr


def test_variables_are_text_and_nothing_else() -> None:
    sign = Sign(
        name="nan-loss",
        title="Loss\x1b[31m\nis NaN\0",
        severity="error",
        kind="cause",
        ranks=(2, 5),
        evidence=Evidence("a\u202e.log", 7, None, "x" * 9000),
    )
    found = show.variables(News(State.STARTED, sign, 1.0), "run")
    assert found["FORENSICS_RANKS"] == "2,5" and found["FORENSICS_LINE"] == "7" and found["FORENSICS_NODE"] == ""
    assert all(c not in v for v in found.values() for c in "\0\x1b\n\u202e")
    assert max(map(len, found.values())) <= 2000


def test_a_slow_command_does_not_block_and_is_ended() -> None:
    said: list[str] = []
    handover = Handover([sys.executable, "-c", "import time; time.sleep(60)"], said.append, seconds=0.5)
    begin = time.monotonic()
    for _ in range(3):
        handover.give("{}", {})
    assert time.monotonic() - begin < 0.4
    handover.close(patience=0.7)
    assert time.monotonic() - begin < 30
    assert any("0.5 seconds" in text or "in time" in text for text in said)


def test_what_is_wrong_with_a_command_is_said_once() -> None:
    said: list[str] = []
    handover = Handover(["/no/such/command"], said.append)
    for _ in range(3):
        handover.give("{}", {})
    handover.close()
    assert said == ["--exec: /no/such/command: No such file or directory"]
    said.clear()
    handover = Handover([sys.executable, "-c", "raise SystemExit(3)"], said.append)
    handover.give("{}" * 100_000, {})
    handover.close()
    assert said == ["--exec: ended with status 3"]


def test_split() -> None:
    assert split("notify --to 'on call' \"x y\"") == ["notify", "--to", "on call", "x y"]
    with pytest.raises(ValueError, match="empty"):
        split("  ")


# --- words -----------------------------------------------------------------------------------------------------------


def test_spans() -> None:
    assert [seconds_of(t) for t in ("90", "1.5s", "15m", "2h", "1d")] == [90, 1.5, 900, 7200, 86400]
    for text in ("", "-1", "1w", "h", "1e9", "nan"):
        with pytest.raises(ValueError, match="span"):
            seconds_of(text)


def test_redacted_news_name_nobody() -> None:
    sign = Sign(
        name="node-failure",
        title="A node failed",
        severity="fatal",
        kind="cause",
        node="gpu-rack7-n12.corp.example.com",
        what="no answer from gpu-rack7-n12.corp.example.com",
        evidence=Evidence("logs/gpu-rack7-n12.corp.example.com.log", 1, 0, "ssh 10.20.30.40 as alice@example.com"),
    )
    line = show.json_line(Redacting().news(News(State.STARTED, sign, 1.0)), "run")
    assert "rack7" not in line and "10.20.30.40" not in line and "alice" not in line and "node-failure" in line


def test_the_help_says_that_no_shell_is_started() -> None:
    said = " ".join(forensics("watch", "--help").output.split())
    assert "no shell is started" in said and "sh -c" in said
