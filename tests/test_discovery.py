from __future__ import annotations

import gzip
import os
import socket
import struct
from pathlib import Path

import pytest

from forensics.engine.reading import sniffers
from forensics.model import Identity, Kind, Status
from forensics.path_identity import identity_of
from forensics.run import NothingToRead, Run, discover


def find(folder: Path, **options: object) -> Run:
    return discover([str(folder)], sniffers(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "identity"),
    [
        ("logs/none_ab12/attempt_1/3/stderr.log", Identity(local_rank=3, attempt=1, stream="stderr")),
        ("node1/logs/x/attempt_0/0/stdout.log", Identity(local_rank=0, attempt=0, stream="stdout", node="node1")),
        ("rank3.log", Identity(rank=3)),
        ("logs/rank_12.log", Identity(rank=12)),
        ("log.3", Identity(rank=3)),
        ("train.log.7", Identity(rank=7)),
        ("worker-1/stdout.log", Identity(node="worker-1", stream="stdout")),
        ("host-a/rank1.log", Identity(rank=1, node="host-a")),
        ("nodeB/none_x/attempt_0/1/stderr.log", Identity(local_rank=1, attempt=0, stream="stderr", node="nodeB")),
        ("nodes/rank1.log", Identity(rank=1)),
        ("host-x86/train.log", Identity()),
        ("nemo_log_globalrank-3_localrank-1.txt", Identity(rank=3, local_rank=1)),
        ("attempt1/stderr.log", Identity(attempt=1, stream="stderr")),
        ("fr/comm_lib_trace_rank_2", Identity(rank=2)),
        ("rank3/stderr.log", Identity(rank=3, stream="stderr")),
        ("frank2.log", Identity()),
        ("train.log", Identity()),
    ],
)
def test_identity_from_the_path(path: str, identity: Identity) -> None:
    assert identity_of(path) == identity


def test_task_numbers_count_only_where_they_run_from_zero(tmp_path: Path) -> None:
    for name in ("job_0.err", "job_1.err", "job_2.err", "other_5.err", "other_9.err"):
        (tmp_path / name).write_text("x\n")
    tasks = {s.path: s.identity.task for s in find(tmp_path).sources}
    assert tasks == {"job_0.err": 0, "job_1.err": 1, "job_2.err": 2, "other_5.err": None, "other_9.err": None}


def test_every_file_is_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("hello\n")
    (tmp_path / "plot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (tmp_path / "core.123").write_bytes(b"\x7fELF" + os.urandom(3000))
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    (tmp_path / "train.py").write_text("raise ValueError('x')\n")
    (tmp_path / "empty.log").touch()
    (tmp_path / "old.log.gz").write_bytes(b"\x1f\x8b\x08" + bytes(20))
    os.mkfifo(tmp_path / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "outside").symlink_to("/etc/hostname")
    (tmp_path / "alias.log").symlink_to("train.log")
    (tmp_path / ".git").mkdir()
    run = find(tmp_path)
    server.close()
    assert {s.path: s.kind for s in run.sources} == {"alias.log": Kind.LOG, "empty.log": Kind.EMPTY}
    skipped = {c.path: c.reason or "" for c in run.skipped}
    assert "image" in skipped["plot.png"]
    assert "core" in skipped["core.123"]
    assert "binary" in skipped["noise"]
    assert "source" in skipped["train.py"]
    assert "gzip" in skipped["old.log.gz"]
    assert "pipe" in skipped["pipe"]
    assert "socket" in skipped["socket"]
    assert "link" in skipped["loop"]
    assert "link" in skipped["broken"]
    assert "link" in skipped["outside"]
    assert "same file" in skipped["train.log"]
    assert ".git" in skipped


def test_a_log_is_a_log_whatever_its_name_and_its_odd_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"step 1 loss 2.0\n" * 100)
    (tmp_path / "b.log").write_bytes(b"\x1b[31mred\x1b[0m \xff\xfe bar\r 10%|\xe2\x96\x88|\0\0\n" * 50)
    assert {s.kind for s in find(tmp_path).sources} == {Kind.LOG}


def test_an_event_file_is_told_by_content(tmp_path: Path) -> None:
    from forensics.parsers.tensorboard import looks_like_events

    assert not looks_like_events(b"plain text, long enough to hold a header")
    assert not looks_like_events(struct.pack("<Q", 24) + b"\0\0\0\0" + bytes(30))


def test_exclude_and_since(tmp_path: Path) -> None:
    for name, age in (("new.log", 10), ("old.log", 10_000), ("x.tmp", 10)):
        (tmp_path / name).write_text("x\n")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    run = find(tmp_path, exclude=["*.tmp"], since=1e9 - 100)
    assert [s.path for s in run.sources] == ["new.log"]
    assert {c.path: c.reason for c in run.skipped} == {"old.log": "older than --since", "x.tmp": "excluded"}


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can read everything")
    (tmp_path / "secret.log").write_text("x\n")
    (tmp_path / "secret.log").chmod(0)
    (row,) = find(tmp_path).skipped
    assert (row.path, row.status) == ("secret.log", Status.UNREADABLE)


def test_missing_path() -> None:
    with pytest.raises(NothingToRead, match="no such file"):
        discover(["/does/not/exist"], sniffers())


def test_what_the_container_before_left_is_the_attempt_before(tmp_path: Path) -> None:
    for name in ("pod.log", "pod-prev.log", "web.log", "web.previous.log", "prev.log", "other-prev.log"):
        (tmp_path / name).write_text("x\n")
    attempts = {s.path: s.identity.attempt for s in find(tmp_path).sources}
    assert attempts == {
        "pod.log": 1,
        "pod-prev.log": 0,
        "web.log": 1,
        "web.previous.log": 0,
        "prev.log": None,
        "other-prev.log": None,
    }


def ranks(folder: Path, *names: str) -> list[tuple[str, int | None]]:
    for name in names:
        data = b"step 1 loss 2.0\n"
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return [(s.path.rpartition("/")[2], s.identity.rank) for s in find(folder).sources]


def test_rotated_logs_are_no_ranks_and_come_in_the_order_of_time(tmp_path: Path) -> None:
    found = ranks(tmp_path, "train.log", "train.log.1", "train.log.2.gz", "train.log.10.gz")
    assert found == [("train.log.10", None), ("train.log.2", None), ("train.log.1", None), ("train.log", None)]


def test_a_rotated_log_of_a_rank_is_that_ranks(tmp_path: Path) -> None:
    assert ranks(tmp_path, "rank3.log", "rank3.log.1") == [("rank3.log.1", 3), ("rank3.log", 3)]


@pytest.mark.parametrize(
    "names",
    [
        ("log.1", "log.2", "log.3"),  # without the log that would have been renamed
        ("train.log", "train.log.0", "train.log.1"),  # rotation counts from 1
        ("eval.log", "train.log.1", "train.log.2"),  # beside another log
    ],
)
def test_numbered_logs_that_are_not_rotated_are_ranks(tmp_path: Path, names: tuple[str, ...]) -> None:
    numbered = [rank for name, rank in ranks(tmp_path, *names) if name[-1].isdigit()]
    assert numbered == [int(name[-1]) for name in names if name[-1].isdigit()]


def test_hosts_before_the_ranks_of_dumps(tmp_path: Path) -> None:
    names = ["dgx-a07_rank_0", "dgx-a07_rank_1", "dgx-a08_rank_2", "dgx-a08_rank_3"]
    for name in names:
        (tmp_path / name).write_text("step 1 loss 2\n")
    found = {s.path: (s.identity.node, s.identity.rank) for s in discover([str(tmp_path)], sniffers()).sources}
    assert found == {name: (name[:7], n) for n, name in enumerate(names)}


@pytest.mark.parametrize("names", [["exp2_rank_0", "exp2_rank_1"], ["lr1_rank_0", "lr2_rank_0"]])
def test_what_may_be_the_name_of_a_run_is_no_host(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("step 1 loss 2\n")
    assert {s.identity.node for s in discover([str(tmp_path)], sniffers()).sources} == {None}
