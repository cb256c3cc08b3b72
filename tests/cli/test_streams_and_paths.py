"""What surrounds the program: closed and full streams, paths of every kind, files that the report must not harm."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from forensics.since import parse_since

OOM = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def shell(command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A command line in which `forensics` is this program."""
    script = f'forensics() {{ "{sys.executable}" -m forensics "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | env,
        timeout=120,
        check=False,
    )


def sources(done: subprocess.CompletedProcess[bytes]) -> dict[str, tuple[str, str | None]]:
    assert done.stdout, done.stderr.decode()
    return {s["path"]: (s["status"], s["reason"]) for s in json.loads(done.stdout)["coverage"]["sources"]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/train.log").write_bytes(b"step 1\n" + OOM)
    return tmp_path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
@pytest.mark.parametrize("command", ["analyze run", "explain cuda-oom", "signatures list"])
def test_a_full_disk_is_a_clear_line_and_status_2(run: Path, command: str) -> None:
    done = shell(f"forensics {command} > /dev/full", run)
    assert done.returncode == 2
    assert done.stderr.decode() == "Error: the report cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("streams", "status"), [(">&-", 1), ("2>&-", 1), (">&- 2>&-", 1), ("<&-", 1), ("| true; exit ${PIPESTATUS[0]}", 1)]
)
def test_closed_streams_do_not_change_the_verdict(run: Path, streams: str, status: int) -> None:
    done = shell(f"forensics analyze run {streams}", run)
    assert (done.returncode, done.stderr) == (status, b"")
    if streams == "2>&-":
        assert done.stdout.startswith(b"FAILED")


def test_a_closed_standard_input_is_nothing_to_analyse(run: Path) -> None:
    done = shell("forensics analyze - <&-", run)
    assert (done.returncode, done.stderr) == (2, b"Error: -: standard input is closed\n")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("''", "an empty path was given"),  # "$UNSET" must not analyse the folder one is in
        ("a" * 5000, "File name too long"),
        ("run/train.log/x", "Not a directory"),
        ("$'no\\e[31m'", "no\\x1b[31m: no such file or directory"),
    ],
)
def test_paths_that_are_none(run: Path, path: str, why: str) -> None:
    done = shell(f"forensics analyze {path}", run)
    assert done.returncode == 2
    message = done.stderr.decode()
    assert message.startswith("Error: ")
    assert why in message
    assert "fault" not in message
    assert message.count("\n") == 1


def test_of_several_paths_one_that_is_missing_costs_only_itself(run: Path) -> None:
    done = shell("forensics analyze run nosuch", run)
    assert (done.returncode, done.stdout[:6]) == (1, b"FAILED")
    assert done.stderr == b"nosuch: no such file or directory; the rest was analysed\n"
    assert b"nosuch" in done.stdout
    healthy = run / "healthy.log"
    healthy.write_text("".join(f"step {n} loss {3 - n / 10:.1f}\n" for n in range(1, 9)) + "Training finished\n")
    assert shell("forensics analyze healthy.log", run).returncode == 0
    assert shell("forensics analyze healthy.log nosuch", run).returncode == 2  # a mistyped path passes for nothing
    none = shell("forensics analyze nosuch neither", run)
    assert (none.returncode, none.stderr) == (2, b"Error: nosuch: no such file or directory\n")


def test_a_folder_that_is_gone_is_a_clear_line(run: Path) -> None:
    done = shell("mkdir gone && cd gone && rmdir ../gone && forensics analyze .", run, PYTHONSAFEPATH="1")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("Error: .: no such")


def test_a_forgotten_command_is_named(run: Path) -> None:
    done = shell("forensics run", run)
    assert done.returncode == 2
    assert "did you mean: forensics analyze run" in done.stderr.decode()


def test_given_paths_of_one_name_are_told_apart(run: Path) -> None:
    for n in (0, 1):
        (run / f"node-{n}/logs").mkdir(parents=True)
        (run / f"node-{n}/logs/train.log").write_bytes(b"step 1\n" + n * OOM)
    done = shell("forensics analyze node-0/logs node-1/logs --format json", run)
    assert set(sources(done)) == {"node-0/logs/train.log", "node-1/logs/train.log"}
    assert json.loads(done.stdout)["findings"][0]["node"] == "node-1"
    done = shell("forensics analyze node-0/logs/train.log ./node-1/logs/train.log --format json", run)
    assert set(sources(done)) == {"node-0/logs/train.log", "node-1/logs/train.log"}


def test_the_same_path_twice_is_read_once(run: Path) -> None:
    done = shell("forensics analyze run run --format json", run)
    assert json.loads(done.stdout)["findings"][0]["count"] == 1


def test_a_report_replaces_no_file_of_the_run(run: Path) -> None:
    before = (run / "run/train.log").read_bytes()
    for path in ("run", "run/train.log", "."):
        done = shell(f"forensics analyze {path} -o run/train.log", run)
        assert done.returncode == 2
        assert b"is a file of the run" in done.stderr
    assert (run / "run/train.log").read_bytes() == before
    for _ in range(2):  # a report may replace a report
        assert shell("forensics analyze run -o run/report.txt", run).returncode == 1


def test_saved_reports_are_no_evidence(run: Path) -> None:
    for name in ("report.md", "report.json", "report.txt"):
        assert shell(f"forensics analyze run -o run/{name}", run).returncode == 1
    (run / "run/healthy.txt").write_bytes(shell("echo fine > f.log; forensics analyze f.log", run).stdout)
    done = shell("forensics analyze run --format json", run)
    skipped = {path for path, (_, reason) in sources(done).items() if reason == "a report of this program"}
    assert skipped == {"report.md", "report.json", "report.txt", "healthy.txt"}
    found = json.loads(done.stdout)["findings"]
    assert [(f["name"], f["count"]) for f in found] == [("cuda-oom", 1)]


def test_where_a_report_goes_is_checked_first(run: Path) -> None:
    done = shell("forensics analyze run -o nowhere/r.md", run)
    assert (done.returncode, done.stderr) == (2, b"Error: nowhere/r.md: there is no folder nowhere\n")
    assert shell("forensics analyze run -o -", run).stdout.startswith(b"FAILED")
    assert not (run / "-").exists()


def test_a_format_that_is_asked_for_wins_over_the_suffix(run: Path) -> None:
    shell("forensics analyze run -o r.md --format json", run)
    assert json.loads((run / "r.md").read_text())["verdict"] == "failed"


@pytest.mark.parametrize(
    "text", ["²d", "9" * 30 + "w", "9" * 400 + "s", "9" * 5000 + "s", "0001-01-01", "2026-02-30", "-1d", "d", ""]
)
def test_nonsense_in_since_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="neither a span"):
        parse_since(text, 1.8e9)


def test_since_spans_and_dates() -> None:
    assert parse_since("90m", 1e6) == 1e6 - 5400
    assert parse_since("2026-11-27T20:00+00:00", 0) == 1795809600


def test_an_interrupt_is_not_a_failed_run(run: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "forensics", "analyze", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("gap", [10_000, 20_000, 100_000])
def test_logs_with_holes_are_read(run: Path, gap: int) -> None:
    (run / "run/train.log").write_bytes(bytes(gap) + b"step 1\n" * 50 + OOM)
    (run / "run/crashed.log").write_bytes(b"step 1\n" * 50 + bytes(gap))
    (run / "run/zeros.bin").write_bytes(bytes(gap))
    done = shell("forensics analyze run --format json", run)
    assert {path: status for path, (status, _) in sources(done).items()} == {
        "train.log": "read",
        "crashed.log": "read",
        "zeros.bin": "skipped",
    }
    assert json.loads(done.stdout)["findings"][0]["name"] == "cuda-oom"


WIDE = {"little": "utf-16-le", "big": "utf-16-be"}


@pytest.mark.parametrize("order", WIDE)
@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["marked", "plain"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_utf16_is_read_line_by_line(run: Path, order: str, mark: str, end: str) -> None:
    (run / "run/train.log").unlink()
    text = "".join(f"epoch 1 step {n} loss 2.{n}\n" for n in range(5)) + "naïve 日本\n" + OOM.decode()
    (run / "run/wide.log").write_bytes((mark + text.replace("\n", end)).encode(WIDE[order]) + b"\x00")  # cut off
    done = shell("forensics analyze run --format json", run)
    assert sources(done)["wide.log"][0] == "read"
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["name"], finding["step"]) == ("cuda-oom", 4)
    assert text.split("\n")[finding["evidence"][0]["line"] - 1] == finding["evidence"][0]["text"]


def test_utf16_is_read_in_archives_and_from_standard_input(run: Path) -> None:
    (run / "wide.log").write_bytes(OOM.decode().encode("utf-16"))
    (run / "run/train.log").unlink()
    with tarfile.open(run / "run/logs.tar.gz", "w:gz") as archive:
        archive.add(run / "wide.log", "rank3.log")
    (run / "run/rank4.log.gz").write_bytes(gzip.compress((run / "wide.log").read_bytes()))
    done = shell("forensics analyze run --format json", run)
    assert {"logs.tar.gz!/rank3.log", "rank4.log.gz!/rank4.log"} <= sources(done).keys()
    assert json.loads(done.stdout)["findings"][0]["ranks"] == [3, 4]
    piped = shell("forensics analyze - --format json < wide.log", run)
    assert json.loads(piped.stdout)["findings"][0]["name"] == "cuda-oom"


def test_what_only_begins_like_utf16_is_no_text(run: Path) -> None:
    (run / "run/sound.mp2").write_bytes(b"\xff\xfe" + bytes(range(16, 200)) * 40)
    (run / "run/train.log").write_bytes(OOM)
    status, reason = sources(shell("forensics analyze run --format json", run))["sound.mp2"]
    assert status == "skipped" and reason


def test_utf32_is_named(run: Path) -> None:
    (run / "run/wide.log").write_bytes((OOM.decode() * 5).encode("utf-32"))
    reason = sources(shell("forensics analyze run --format json", run))["wide.log"][1]
    assert reason == "UTF-32 text; convert it to UTF-8 to have it read"


def test_problems_of_signatures_name_their_file(run: Path) -> None:
    (run / "x.toml").write_bytes(b"\xff\xfe")
    done = shell("forensics signatures test x.toml", run)
    assert (done.returncode, done.stdout) == (1, b"0 signatures, 1 problem\n")
    assert done.stderr.startswith(b"x.toml:1: ")
