"""A store that is damaged: a row is analysed again, a file is refused, and nothing of its content is said."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from forensics.triage.batch import Options, triage
from forensics.triage.codec import dumps, loads
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.pool import Limits
from forensics.triage.show import json_line
from forensics.triage.store import Store, StoreError
from tests.triage.rows import row


def here(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine without processes."""
    tools = Tools(setup)
    return (examine(task, tools, time.time()) for task in tasks)


def made(root: Path) -> tuple[list[str], Options]:
    """A triage of two jobs, kept in `s.sqlite`."""
    for name, line in (("a", "torch.OutOfMemoryError: CUDA out of memory."), ("b", "training finished")):
        (root / "jobs" / name).mkdir(parents=True)
        (root / "jobs" / name / "x.log").write_text(f"{line}\n")
    options = Options(store=root / "s.sqlite", limits=Limits(), engine=here)
    return [dumps(r) for r in triage([str(root / "jobs")], options).results], options


def test_damaged_rows_are_analysed_again(tmp_path: Path) -> None:
    before, options = made(tmp_path)
    for damage in ("{", b"\xff{secret"):
        with sqlite3.connect(tmp_path / "s.sqlite") as db:
            db.execute("UPDATE results SET row = ? WHERE row LIKE '%cuda-oom%'", (damage,))
        db.close()
        batch = triage([str(tmp_path / "jobs")], options)
        assert [dumps(r) for r in batch.results] == before, damage
        assert batch.reused == 1 and "analysed again" in batch.notes[0]
    assert triage([str(tmp_path / "jobs")], options).reused == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", "5", '{"path": 1}', '{"roots": 3}'])
def test_what_is_no_row_is_not_taken_for_one(damage: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        loads(damage)
    whole = dumps(row(1, "cuda-oom"))
    for old, new in (('"bytes":1', '"bytes":"1"'), ('"root":"cuda-oom"', '"root":[]'), ('["cuda-oom"]', "[7]")):
        assert old in whole
        with pytest.raises(TypeError):
            loads(whole.replace(old, new))


def test_odd_cells_beside_a_row_do_no_harm(tmp_path: Path) -> None:
    before, options = made(tmp_path)
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute("UPDATE jobs SET modified = 'x', labels = x'ff', quick = 5, gpu_hours = 'y', time = x'00'")
    db.close()
    assert [r.cause for r in triage([str(tmp_path / "jobs")], options).results] == [loads(r).cause for r in before]


def test_a_damaged_report_leaves_the_row() -> None:
    assert '"cause":"cuda-oom"' in json_line(row(1, "cuda-oom"), b"no zlib")


def test_a_damaged_file_is_refused_without_its_content(tmp_path: Path) -> None:
    _, options = made(tmp_path)
    file = tmp_path / "s.sqlite"
    for tail in ("-wal", "-shm"):
        (tmp_path / f"s.sqlite{tail}").unlink(missing_ok=True)
    data = bytearray(file.read_bytes())
    data[100:] = b"password=hunter2" * ((len(data) - 100) // 16)
    file.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        triage([str(tmp_path / "jobs")], options)
    said = str(caught.value)
    assert str(file) in said and "cache" in said and "delete" in said and "hunter2" not in said


@pytest.mark.parametrize("version", [0, 1])
def test_a_database_of_another_program_is_told_and_kept(tmp_path: Path, version: int) -> None:
    file = tmp_path / "x.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE jobs (a)")
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="another program") as caught:
        Store(file)
    assert "delete" not in str(caught.value) and file.read_bytes() == before
