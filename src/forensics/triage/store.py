"""What was found out about jobs, kept between triages in one SQLite file.

Two tables: `results`, one row a content (fingerprint) and recipe, and `jobs`, one row a path, which says what content
lies there. Transactions are short and write whole batches, readers do not wait for writers (WAL), and writers wait for
each other. A triage that is killed loses what was not yet committed, which the next one does again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.triage import codec
from forensics.triage.examine import Outcome, Task, placed
from forensics.triage.model import FAULT, NOTHING, Job, JobResult

VERSION = 1  # of the tables; another version's file is refused
BUSY = 60.0  # seconds to wait for another triage's transaction
PAGE = 500  # rows asked for at once
_TABLES = """
CREATE TABLE IF NOT EXISTS results (
  fingerprint TEXT NOT NULL, recipe TEXT NOT NULL, row TEXT NOT NULL, report BLOB NOT NULL,
  PRIMARY KEY (fingerprint, recipe));
CREATE TABLE IF NOT EXISTS jobs (
  path TEXT PRIMARY KEY, layout TEXT NOT NULL, labels TEXT NOT NULL, quick TEXT NOT NULL, fingerprint TEXT NOT NULL,
  recipe TEXT NOT NULL, modified REAL, cause TEXT NOT NULL, node TEXT, time TEXT, gpu_hours REAL,
  error_row TEXT, error_limits TEXT, first_seen REAL NOT NULL, checked REAL NOT NULL);
CREATE INDEX IF NOT EXISTS jobs_cause ON jobs (cause, time);
CREATE INDEX IF NOT EXISTS jobs_content ON jobs (fingerprint);
"""


_COLUMNS = {
    "results": frozenset({"fingerprint", "recipe", "row", "report"}),
    "jobs": frozenset(
        {
            "path", "layout", "labels", "quick", "fingerprint", "recipe", "modified", "cause", "node", "time",
            "gpu_hours", "error_row", "error_limits", "first_seen", "checked",
        }
    ),
}  # fmt: skip


class StoreError(Exception):
    """The store cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class History:
    """All jobs of one cause that the store knows. first and last: ISO 8601, of the failures and not of the triages."""

    cause: str
    jobs: int
    gpu_hours: float
    first: str | None
    last: str | None
    first_path: str | None


def default_file() -> Path | None:
    """`triage.sqlite` in the user's cache folder; None where there is none."""
    from forensics import cache

    folder = cache.folder()
    return folder / "triage.sqlite" if folder is not None else None


def key_of(job: Job) -> str:
    """Under which name a job is kept: its whole path; a URL without credentials as it is."""
    return job.path if "://" in job.parts[0] else os.path.abspath(job.path)  # noqa: PTH100 - links stay what they are


def _foreign(file: Path) -> StoreError:
    return StoreError(f"{file}: is a database of another program, and is left as it is; name another with --store")


class Known:
    """Read-only: which contents are known under a recipe. For workers; opened when first asked."""

    def __init__(self, file: Path, recipe: str) -> None:
        self._db = _connect(file)
        self._recipe = recipe

    def has(self, fingerprint: str) -> bool:
        try:
            row = self._db.execute(
                "SELECT 1 FROM results WHERE fingerprint = ? AND recipe = ?", (fingerprint, self._recipe)
            ).fetchone()
        except sqlite3.Error:
            return False
        return row is not None


def _connect(file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=BUSY, isolation_level=None)
    # Else SQLite's error for a damaged text would quote it, which is text from logs.
    db.text_factory = lambda text: text.decode("utf-8", "replace")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


# SQLite's primary result codes (sqlite.org/rescode.html) in words. Its own messages can quote what is stored.
_WORDS = {
    "SQLITE_BUSY": "another triage is writing to it",
    "SQLITE_LOCKED": "another triage is writing to it",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_PERM": "it may not be read",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "reading or writing failed",
}
_DAMAGED = (
    "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_IOERR_SHORT_READ",
)  # fmt: skip


def _said(file: Path, error: sqlite3.Error) -> StoreError:
    """What went wrong with a store, without its content."""
    name = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    if name.startswith(_DAMAGED):
        return StoreError(
            f"{file}: is damaged, or no store of triage. A store is a cache: if this is one, delete the file and all "
            "is analysed anew; or name another with --store"
        )
    said = next((words for code, words in _WORDS.items() if name.startswith(code)), None)
    if said is not None:
        return StoreError(f"{file}: {said}; name another store with --store")
    return StoreError(f"{file}: cannot be used as a store ({name}); name another with --store")


_UNSOUND = (ValueError, KeyError, TypeError, AttributeError)  # what `codec.loads` makes of a damaged row


class Store:
    """Raises StoreError where the file cannot be opened, is no store, or was made by another version."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            self._db = _connect(file)
            found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if found not in (0, VERSION):
                raise StoreError(f"{file}: was made by another version of forensics; name another file with --store")
            if not found:
                if self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() and not self._is_ours():
                    raise _foreign(file)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
            elif not self._is_ours():
                raise _foreign(file)
        except sqlite3.Error as error:
            raise _said(file, error) from None
        except OSError as error:
            raise StoreError(f"{file}: {error.strerror or error}") from None

    def _is_ours(self) -> bool:
        columns = {
            table: {str(row[1]) for row in self._db.execute(f"PRAGMA table_info({table})")} for table in _COLUMNS
        }
        return all(needed <= columns[table] for table, needed in _COLUMNS.items())

    def close(self) -> None:
        self._db.close()

    def tasks(self, jobs: Sequence[Job], recipe: str, limits: str, *, rerun: bool = False) -> list[Task]:
        """Jobs with what is known of them under this recipe.

        An error is known too, unless the limits of the triage differ from those that the job met.
        """
        if rerun:
            return [Task(job=job) for job in jobs]
        tasks = []
        for start in range(0, len(jobs), PAGE):
            chunk = jobs[start : start + PAGE]
            marks = ",".join("?" * len(chunk))
            query = f"SELECT path, quick, fingerprint, error_limits FROM jobs WHERE recipe = ? AND path IN ({marks})"
            found = {row[0]: row for row in self._asked(query, (recipe, *map(key_of, chunk)))}
            for job in chunk:
                row = found.get(key_of(job))
                if row is None or (row[3] is not None and row[3] != limits):
                    tasks.append(Task(job=job))
                else:
                    tasks.append(Task(job=job, quick=row[1], fingerprint=row[2] or "-"))
        return tasks

    def _asked(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise _said(self.file, error) from None

    def write(self, done: Iterable[tuple[Job, Outcome]], recipe: str, limits: str, now: float) -> None:
        """Keep outcomes, in one transaction. Raises StoreError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for job, outcome in done:
                    self._write(job, outcome, recipe, limits, now)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _said(self.file, error) from None

    def _write(self, job: Job, outcome: Outcome, recipe: str, limits: str, now: float) -> None:
        path = key_of(job)
        if outcome.row is not None and outcome.error is None:
            self._db.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET row = excluded.row, "
                "report = excluded.report",
                (outcome.fingerprint, recipe, outcome.row, outcome.report),
            )
        text = outcome.row
        if text is None:
            found = self._db.execute(
                "SELECT row FROM results WHERE fingerprint = ? AND recipe = ?", (outcome.fingerprint, recipe)
            ).fetchone()
            if found is None:  # an error that still holds
                self._db.execute("UPDATE jobs SET checked = ? WHERE path = ?", (now, path))
                return
            text = str(found[0])
        try:
            result = codec.loads(text)
        except _UNSOUND:
            self._forget(path, outcome.fingerprint, recipe)
            return
        lasting = outcome.error is None or outcome.error.split(":", 1)[0] in (NOTHING, FAULT)
        self._db.execute(
            "INSERT INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (path) DO UPDATE SET "
            "layout=excluded.layout, labels=excluded.labels, quick=excluded.quick, fingerprint=excluded.fingerprint, "
            "recipe=excluded.recipe, modified=excluded.modified, cause=excluded.cause, node=excluded.node, "
            "time=excluded.time, gpu_hours=excluded.gpu_hours, error_row=excluded.error_row, "
            "error_limits=excluded.error_limits, checked=excluded.checked",
            (
                path,
                job.layout,
                json.dumps(dict(job.labels), sort_keys=True),
                outcome.quick,
                outcome.fingerprint,
                recipe,
                outcome.modified,
                result.cause,
                result.node,
                result.time or result.ended,
                result.gpu_hours,
                outcome.row if outcome.error is not None else None,
                None if lasting else limits,
                now,
                now,
            ),
        )

    def _forget(self, path: str, fingerprint: str, recipe: str) -> None:
        self._db.execute("DELETE FROM results WHERE fingerprint = ? AND recipe = ?", (fingerprint, recipe))
        self._db.execute("DELETE FROM jobs WHERE path = ?", (path,))

    def forget(self, jobs: Sequence[Job], recipe: str) -> None:
        """Drop what is kept of jobs, whose rows are damaged. Raises StoreError."""
        try:
            for job in jobs:
                path = key_of(job)
                found = self._db.execute("SELECT fingerprint FROM jobs WHERE path = ?", (path,)).fetchone()
                self._forget(path, str(found[0]) if found else "", recipe)
        except sqlite3.Error as error:
            raise _said(self.file, error) from None

    def results(self, jobs: Sequence[Job], recipe: str) -> Iterator[JobResult]:
        """The rows of jobs, in the order given; one that the store does not know, or cannot read, is passed over."""
        for start in range(0, len(jobs), PAGE):
            chunk = jobs[start : start + PAGE]
            marks = ",".join("?" * len(chunk))
            found = {
                row[0]: row
                for row in self._asked(
                    "SELECT path, modified, coalesce(error_row, results.row) FROM jobs LEFT JOIN results USING "
                    f"(fingerprint, recipe) WHERE recipe = ? AND path IN ({marks})",
                    (recipe, *map(key_of, chunk)),
                )
            }
            for job in chunk:
                row = found.get(key_of(job))
                if row is not None and row[2] is not None:
                    try:
                        result = codec.loads(str(row[2]))
                    except _UNSOUND:
                        continue
                    yield placed(result, job, row[1] if isinstance(row[1], int | float) else None)

    def every(self) -> Iterator[JobResult]:
        """The newest row of every job, by path; rows in a form of another version of the program are left out."""
        after = ""
        query = (
            "SELECT path, layout, labels, modified, coalesce(error_row, results.row) FROM jobs LEFT JOIN results USING "
            f"(fingerprint, recipe) WHERE path > ? ORDER BY path LIMIT {PAGE}"
        )
        while rows := self._asked(query, (after,)):
            after = str(rows[-1][0])
            for path, layout, labels, modified, text in rows:
                try:
                    job = Job(path=str(path), layout=str(layout), parts=(str(path),), labels=json.loads(labels))
                    found = codec.loads(str(text)) if text is not None else None
                    if not isinstance(job.labels, dict):
                        continue
                except _UNSOUND:
                    continue
                if found is not None:
                    yield placed(found, job, modified if isinstance(modified, int | float) else None)

    def report(self, fingerprint: str, recipe: str | None = None) -> bytes | None:
        """The diagnosis of a content as JSON (docs/json.md), compressed with zlib; None where it is not known."""
        query = "SELECT report FROM results WHERE fingerprint = ?"
        found = self._asked(
            query + (" AND recipe = ?" if recipe else ""), (fingerprint, recipe) if recipe else (fingerprint,)
        )
        return bytes(found[0][0]) if found else None

    def history(self, since: str | None = None) -> dict[str, History]:
        """Cause -> all jobs of it that the store knows. since: ISO 8601; earlier failures do not count."""
        rows = self._asked(
            "SELECT cause, count(*), coalesce(sum(gpu_hours), 0), min(time), max(time), "
            "min(coalesce(time, '9') || path) FROM jobs WHERE ? IS NULL OR time >= ? GROUP BY cause "
            "ORDER BY count(*) DESC, cause",
            (since, since),
        )
        found = {}
        for cause, jobs, hours, first, last, lowest in rows:
            path = str(lowest)[len(str(first)) if first is not None else 1 :]
            found[str(cause)] = History(
                str(cause),
                int(jobs),
                float(hours),
                str(first) if first is not None else None,
                str(last) if last is not None else None,
                path,
            )
        return found
