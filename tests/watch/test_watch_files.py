"""Files that grow, are rotated, emptied, copied and taken away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.reading import sniffers
from forensics.model import Kind
from forensics.run import NothingToRead
from forensics.watch.files import Files
from tests.watch.live_run import OOM, Live


def grown(files: Files) -> list[str]:
    return sorted(f.path for f in files.look().grown)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files([str(tmp_path)], sniffers())


def test_only_what_changed_is_to_be_read(tmp_path: Path, files: Files) -> None:
    (tmp_path / "a.log").write_text("one\n")
    (tmp_path / "b.log").write_text("one\n")
    assert grown(files) == ["a.log", "b.log"]
    assert grown(files) == []
    with (tmp_path / "b.log").open("a") as f:
        f.write("two\n")
    assert grown(files) == ["b.log"]


def test_new_folders_late_files_and_those_taken_away(tmp_path: Path, files: Files) -> None:
    assert grown(files) == []
    (tmp_path / "node-1" / "logs").mkdir(parents=True)
    (tmp_path / "node-1" / "logs" / "rank3.log").write_text("one\n")
    assert grown(files) == ["node-1/logs/rank3.log"]
    assert files.all()[0].source.identity.rank == 3
    (tmp_path / "node-1" / "logs" / "rank3.log").unlink()
    assert files.look().gone == ["node-1/logs/rank3.log"]
    assert files.all() == []
    shutil.rmtree(tmp_path)
    with pytest.raises(NothingToRead):
        files.look()


def test_what_a_file_is_may_show_later(tmp_path: Path, files: Files) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"")
    files.look()
    assert files.all()[0].source.kind is Kind.EMPTY
    file.write_text('{"step": 1, "loss": 2.5}\n')
    assert grown(files) == ["metrics.jsonl"]
    assert files.all()[0].source.kind is Kind.METRICS


def test_own_output_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "watch.log"
    file.write_text("one\n")
    info = file.stat()
    files = Files([str(tmp_path)], sniffers(), own=frozenset({(info.st_dev, info.st_ino)}))
    assert grown(files) == []


def test_pipes_are_left_alone(tmp_path: Path, files: Files) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    assert grown(files) == []


def lines(live: Live) -> list[tuple[str, int | None, str]]:
    data = live.watcher._memory.data("run", [f.source for f in live.watcher._files.all()])
    return [(e.file, e.line, o.signature) for o in data.observations for e in o.evidence if e.line is not None]


def numbers(live: Live) -> list[tuple[str, int, int]]:
    rows = live.watcher._memory.metrics
    return list(rows.select("source", "line", "step").unique(maintain_order=True).iter_rows())


def test_rotation_by_renaming(live: Callable[..., Live]) -> None:
    run = live()
    run.steps([0], range(1, 6))
    run.look()
    run.steps([0], range(6, 8))  # written after the last look, and before the file is renamed
    for age in (2, 1, 0):
        old = run.folder / (f"rank0.log.{age}" if age else "rank0.log")
        if old.exists():
            old.rename(run.folder / f"rank0.log.{age + 1}")
    run.steps([0], range(8, 11))
    run.look()
    assert sorted(numbers(run)) == sorted(
        [("rank0.log.1", n, n) for n in range(1, 8)] + [("rank0.log", n - 7, n) for n in range(8, 11)]
    )
    (run.folder / "rank0.log.1").rename(run.folder / "rank0.log.2")
    (run.folder / "rank0.log").rename(run.folder / "rank0.log.1")
    run.steps([0], [11])
    run.look()
    assert {(source, step) for source, _, step in numbers(run)} >= {
        ("rank0.log.2", 7),
        ("rank0.log.1", 10),
        ("rank0.log", 11),
    }
    assert len(numbers(run)) == 11


@pytest.mark.parametrize("look_between", [False, True])
def test_rotation_by_copying_and_emptying(live: Callable[..., Live], look_between: bool) -> None:
    run = live()
    run.steps([0], range(1, 6))
    run.look()
    shutil.copy(run.folder / "rank0.log", run.folder / "rank0.log.1")
    if look_between:
        run.look()
    os.truncate(run.folder / "rank0.log", 0)
    run.steps([0], range(6, 9))
    run.look()
    assert sorted(numbers(run)) == sorted(
        [("rank0.log.1", n, n) for n in range(1, 6)] + [("rank0.log", n - 5, n) for n in range(6, 9)]
    )


def test_a_failure_in_a_rotated_file_stays_told_once(live: Callable[..., Live]) -> None:
    run = live()
    run.steps([0], range(1, 6))
    run.add("rank0.log", "".join(OOM))
    run.look()
    assert run.told() == [("started", "cuda-oom", (0,))]
    (run.folder / "rank0.log").rename(run.folder / "rank0.log.1")
    run.add("rank0.log", "goes on\n")
    run.look(3)
    assert {file for file, _, name in lines(run) if name == "cuda-oom"} == {"rank0.log.1"}
    (run.folder / "rank0.log.1").unlink()
    run.look(3)
    assert run.told() == [("started", "cuda-oom", (0,))]


def test_a_file_that_is_written_anew_is_read_anew(live: Callable[..., Live]) -> None:
    run = live()
    run.steps([0], range(1, 4))
    run.look()
    (run.folder / "rank0.log").write_text("")
    run.steps([0], range(100, 120))  # longer than before: only its beginning tells
    run.look()
    assert [step for _, _, step in numbers(run)] == list(range(100, 120))


def test_a_free_inode_is_not_a_renamed_file(tmp_path: Path, files: Files) -> None:
    (tmp_path / "a.log").write_text("of a\n" * 100)
    files.look()
    for followed in files.all():
        followed.head, followed.done = b"of a\n", 5
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    (tmp_path / "b.log").write_text("of b, in the same inode\n")
    changes = files.look()
    assert changes.gone == ["a.log"] and changes.moved == [] and [f.done for f in changes.grown] == [0]


def test_a_log_is_seen_empty_and_filled_again(live: Callable[..., Live]) -> None:
    run = live()
    run.steps([0], range(1, 30))
    run.look()
    os.truncate(run.folder / "rank0.log", 0)
    assert run.look(2) == []
    run.steps([0], range(30, 40))
    run.add("rank0.log", "".join(OOM))
    assert [n.sign.name for n in run.look(4) if n.state == "started"] == ["cuda-oom"]
