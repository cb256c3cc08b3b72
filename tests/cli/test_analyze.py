"""The command line as a user calls it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
OOM = """\
[rank0]: step 10 | loss 2.1
[rank2]: Traceback (most recent call last):
[rank2]:   File "/app/train.py", line 12, in <module>
[rank2]:     loss.backward()
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 79.35 GiB of which 690.69 MiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.
"""


def forensics(*arguments: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "forensics", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | env,
        timeout=120,
        check=False,
    )


def report(*arguments: str | Path, stdin: bytes = b"") -> dict[str, object]:
    done = forensics("analyze", *arguments, "--format", "json", stdin=stdin)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "train.log").write_text(OOM)
    return folder


def test_names_cause_rank_and_evidence(run: Path) -> None:
    got = report(run)
    first = got["findings"][0]  # type: ignore[index]
    assert (got["verdict"], first["name"], first["ranks"]) == ("failed", "cuda-oom", [2])
    assert first["evidence"][0]["file"] == "train.log"
    assert first["evidence"][0]["line"] == 5


def test_exit_statuses(run: Path, tmp_path: Path) -> None:
    assert forensics("analyze", run).returncode == 1
    assert forensics("analyze", run, "--fail-on", "never").returncode == 0
    assert forensics("analyze", run, "--fail-on", "failed").returncode == 1
    quiet = tmp_path / "quiet.log"
    quiet.write_text("hello\n")
    assert forensics("analyze", quiet).returncode == 3
    assert forensics("analyze", tmp_path / "none").returncode == 2
    assert forensics("analyze").returncode == 2


def test_stdin_and_single_file_say_the_same(run: Path) -> None:
    for got in (report("-", stdin=OOM.encode()), report(run / "train.log")):
        assert got["findings"][0]["name"] == "cuda-oom"  # type: ignore[index]


def test_several_paths(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text("fine\n")
    paths = {c["path"] for c in report(run, other)["coverage"]["sources"]}  # type: ignore[index]
    assert paths == {"run/train.log", "other.log"}


def test_a_folder_of_several_runs_is_named(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss {3 - n / 50:.3f}\n" for n in range(1, 21))
    for name, log in (("vision", OOM), ("speech", f"{steps}Training complete\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_text(log)
    done = forensics("analyze", tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"2 folders below look like runs of their own: forensics triage {tmp_path}")
    alone = forensics("analyze", tmp_path / "vision")
    assert b"runs of their own" not in alone.stderr


def test_folders_of_runs_below_the_only_folder_are_named_too(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss {3 - n / 50:.3f}\n" for n in range(1, 21))
    for name, log in (("run_001", OOM), ("run_002", f"{steps}Training complete\n")):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "train.log").write_text(log)
    done = forensics("analyze", tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"2 folders below look like runs of their own: forensics triage {tmp_path}")


def test_logs_of_several_jobs_are_named(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss {3 - n / 50:.3f}\n" for n in range(1, 21))
    for name, end in (("2026-05-13.log", OOM), ("2026-05-14.log", "Training complete\n")):
        (tmp_path / name).write_text(steps + end)
    done = forensics("analyze", tmp_path)
    assert done.returncode == 1
    said = f"2 logs, one after the other, look like runs of their own: forensics triage {tmp_path}; this report is of 2026-"
    assert done.stderr.decode().startswith(said)


def test_ranks_in_folders_are_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}" / "train.log").write_text(OOM)
    assert forensics("analyze", tmp_path).stderr == b""


def test_a_report_is_not_given_a_suffix_that_it_is_not(run: Path, tmp_path: Path) -> None:
    done = forensics("analyze", run, "-o", tmp_path / "report.pdf")
    assert (done.returncode, (tmp_path / "report.pdf").exists()) == (2, False)
    assert b"no report is a .pdf file; the suffix may be .md, .html" in done.stderr
    assert forensics("analyze", run, "-o", tmp_path / "report.svg", "--format", "markdown").returncode == 1
    assert forensics("analyze", run, "-o", tmp_path / "report.log").returncode == 1


def test_formats(run: Path) -> None:
    text = forensics("analyze", run).stdout.decode()
    assert "CUDA" in text
    assert "train.log:5" in text
    assert "\x1b" not in text
    assert "train.log" in forensics("analyze", run, "--format", "markdown").stdout.decode()


def test_output_file_takes_its_format_from_the_suffix(run: Path, tmp_path: Path) -> None:
    for name, start in (("r.json", "{"), ("r.md", "#")):
        assert forensics("analyze", run, "-o", tmp_path / name).stdout == b""
        assert (tmp_path / name).read_text().startswith(start)


def test_the_run_directory_is_not_written_to(run: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    forensics("analyze", run)
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


@pytest.mark.parametrize(
    "kind",
    ["missing", "empty directory", "only images", "only a FIFO", "only a socket", "loop", "core file", "empty file"],
)
def test_bad_input_is_a_clear_line_and_status_2(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    server = None
    if kind == "missing":
        folder = tmp_path / "nothing"
    elif kind == "only images":
        (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    elif kind == "only a FIFO":
        os.mkfifo(folder / "pipe")
    elif kind == "only a socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(folder / "s"))
    elif kind == "loop":
        (folder / "loop").symlink_to(folder)
    elif kind == "core file":
        (folder / "core.1").write_bytes(b"\x7fELF" + bytes(range(256)) * 100)
    elif kind == "empty file":
        (folder / "a.log").touch()
    done = forensics("analyze", folder)
    if server:
        server.close()
    assert done.returncode == 2
    assert done.stdout == b""
    message = done.stderr.decode()
    assert message.startswith("Error: ")
    assert "Traceback" not in message
    assert message.count("\n") == 1


def test_bad_files_beside_good_ones_are_coverage(run: Path) -> None:
    os.mkfifo(run / "pipe")
    (run / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (run / "trace_rank_0").write_bytes(b"\x80\x02garbage")
    (run / "events.out.tfevents.1.node-0.1.0").write_bytes(b"\x18\0\0\0\0\0\0\0garbage")
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    got = report(run)
    rows = {c["path"]: c for c in got["coverage"]["sources"]}  # type: ignore[index]
    assert got["findings"][0]["name"] == "cuda-oom"  # type: ignore[index]
    assert set(rows) == {
        "train.log",
        "pipe",
        "a.png",
        "trace_rank_0",
        "events.out.tfevents.1.node-0.1.0",
        "metrics.jsonl",
    }
    assert all(c["reason"] for p, c in rows.items() if p in ("pipe", "a.png", "trace_rank_0"))


def test_hostile_bytes_reach_no_terminal(run: Path) -> None:
    (run / "evil.log").write_bytes(
        b"\x1b]0;owned\x07\x1b[2J RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB \x9b31m \xe2\x80\xae\n"
    )
    for format_ in ("terminal", "markdown"):
        out = forensics("analyze", run, "--format", format_).stdout
        assert b"\x1b" not in out
        assert b"\x9b31m" not in out
        assert "\u202e".encode() not in out


def test_a_closed_pipe_is_no_error(run: Path) -> None:
    reader = subprocess.Popen(
        f"{sys.executable} -m forensics analyze {run} --format json | head -c 10",
        shell=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, err = reader.communicate(timeout=60)
    assert len(out) == 10
    assert b"Traceback" not in err


def test_since(run: Path) -> None:
    os.utime(run / "train.log", (1e9, 1e9))
    done = forensics("analyze", run, "--since", "2h")
    assert done.returncode == 2
    assert b"older than --since" in done.stderr
    assert forensics("analyze", run, "--since", "yesterday").returncode == 2


def test_help_names_the_exit_statuses() -> None:
    assert "recovered" in forensics("analyze", "--help").stdout.decode()


def test_the_command_line_imports_nothing_heavy() -> None:
    code = "import sys, forensics.cli; print([m for m in ('polars', 'numpy', 'hyperscan', 'torch', 'tensorboard', 'regex') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_explain_by_name_and_code() -> None:
    assert b"Shared memory" in forensics("explain", "shm-exhausted").stdout
    assert b"shm-exhausted" in forensics("explain", "dp15").stdout
    assert json.loads(forensics("explain", "cuda-oom", "--format", "json").stdout)[0]["name"] == "cuda-oom"
    missed = forensics("explain", "cuda-om")
    assert missed.returncode == 2
    assert b"cuda-oom" in missed.stderr


def test_signatures_list_and_test(tmp_path: Path) -> None:
    assert b"cuda-oom" in forensics("signatures", "list", "--area", "memory").stdout
    assert forensics("signatures", "list", "--area", "nothing").returncode == 2
    mine = tmp_path / "mine"
    mine.mkdir()
    text = 'name = "frobnicated"\ntitle = "t"\nkind = "cause"\nseverity = "fatal"\nwhy = "w"\n'
    rule = '[[evidence]]\nsource = "log"\npattern = "FROB failed hard"\n[[example]]\nlog = "xx FROB failed hard"\n[[example]]\nlog = "fine"\nis_not = true\n'
    (mine / "frobnicated.toml").write_text(text + rule)
    assert forensics("signatures", "test", mine).returncode == 0
    (tmp_path / "a.log").write_text("step 1\nFROB failed hard\n")
    assert report(tmp_path / "a.log", "--signatures", mine)["findings"][0]["name"] == "frobnicated"  # type: ignore[index]
    (mine / "frobnicated.toml").write_text(text + rule.replace("xx FROB failed hard", "nothing"))
    done = forensics("signatures", "test", mine)
    assert done.returncode == 1
    assert b"does not match" in done.stderr
    (mine / "frobnicated.toml").write_text("kind = 3\n")
    assert forensics("analyze", tmp_path / "a.log", "--signatures", mine).returncode == 2


def test_the_readme_shows_what_is_printed() -> None:
    shown = (ROOT / "README.md").read_text("utf-8").split("```console\n$ forensics ", 1)[1].split("\n...\n```", 1)[0]
    command, _, report = shown.partition("\n")
    printed = forensics("analyze", ROOT / command.removeprefix("analyze "), COLUMNS="100").stdout.decode()
    assert printed.startswith(report)
