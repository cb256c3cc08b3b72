"""One job, from its path to its row: what every engine runs, and nothing that depends on the engine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forensics.archives.formats import MARK
from forensics.triage.model import (
    FAULT,
    NOTHING,
    OUT_OF_MEMORY,
    RESULT_VERSION,
    UNREADABLE,
    Job,
    JobResult,
)

if TYPE_CHECKING:
    from forensics.engine.matcher import Matcher
    from forensics.engine.pipeline import Analysis
    from forensics.model import RunData
    from forensics.signatures.schema import Signature

LEVEL = 6  # of zlib, for reports
MOST_FOLDERS = 64  # of a job that are looked at one by one
# What a row says of the failure, and not of all that lies in the job.
_DIAGNOSED = (
    *("verdict", "root", "roots", "codes", "title", "severity", "confidence", "ranks", "node", "step", "step_unit"),
    *("epoch", "attempt", "time", "evidence", "fix", "summary", "signs", "unexplained"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker needs once. Plain data, so that it can be sent to another process or machine."""

    signature_folders: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    recipe: str = ""
    store: str | None = None  # a store of this machine, asked (never written) whether a content is known already
    eager: bool = True  # load catalogue and patterns before the first job, whose limit of time they would count to


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job and what is known of it from an earlier triage ("" for nothing)."""

    job: Job
    quick: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task. row: the JSON of a JobResult without its place; None where the known one still holds."""

    path: str
    quick: str
    fingerprint: str
    modified: float | None
    row: str | None = None
    report: bytes = field(default=b"", repr=False)  # the diagnosis as JSON (docs/json.md), compressed with zlib
    error: str | None = None


class Tools:
    """What is loaded once a worker: the catalogue, its compiled patterns, a connection to the store.

    Raises SignatureError, here where the setup is `eager` and else with the first job that is analysed.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._scratch = tempfile.TemporaryDirectory(prefix="forensics-job-")
        self.known: Any = None
        if setup.store is not None:
            from forensics.triage.store import Known

            self.known = Known(Path(setup.store), setup.recipe)
        if setup.eager:
            _ = self.matcher

    @cached_property
    def catalogue(self) -> dict[str, Signature]:
        from forensics.signatures.schema import load_catalogue

        return load_catalogue(*map(Path, self.setup.signature_folders), examples=False)

    @cached_property
    def matcher(self) -> Matcher:
        from forensics.engine.matcher import Matcher

        return Matcher(self.catalogue)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """What archives and URLs hold is unpacked to a folder of the worker's, and does not outlive its job."""
        before = tempfile.tempdir
        tempfile.tempdir = self._scratch.name
        try:
            yield
        finally:
            tempfile.tempdir = before
            with os.scandir(self._scratch.name) as left:
                for entry in list(left):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        Path(entry.path).unlink(missing_ok=True)


def recipe_of(signature_folders: Sequence[str], exclude: Sequence[str]) -> str:
    """What a result depends on beside the content of its job: the program, its catalogue, what is left out."""
    from forensics import __version__
    from forensics.signatures import schema

    digest = hashlib.sha256(f"{RESULT_VERSION}\0{__version__}\0{sorted(exclude)}\0".encode())
    built_in = Path(schema.__file__).parent
    for folder in (built_in, *map(Path, signature_folders)):
        for file in sorted(folder.rglob("*.toml")):
            try:
                digest.update(file.name.encode("utf-8", "replace") + b"\0" + file.read_bytes())
            except OSError:
                continue
    return digest.hexdigest()[:32]


def examine(task: Task, tools: Tools, now: float) -> Outcome:
    """Analyse a job unless it is known. Never raises an Exception; what goes wrong is the outcome's `error`.

    now: seconds since the epoch, for the quick key.
    """
    from forensics.triage import fingerprint as prints

    key = prints.quick(task.job.parts, now)
    if task.fingerprint and key.key and key.key == task.quick:
        return Outcome(path=task.job.path, quick=key.key, fingerprint=task.fingerprint, modified=key.modified)
    try:
        with tools.scratch():
            return _examined(task, tools, key)
    except MemoryError:
        return _failed(task, key, f"{OUT_OF_MEMORY}: the analysis needs more memory than a job may take")
    except Exception as error:
        return _failed(task, key, why(error))


def why(error: Exception) -> str:
    """What an exception of an analysis makes of its job: the `error` of its row."""
    from forensics.run import NothingToRead

    if isinstance(error, NothingToRead):
        said = str(error)
        gone = "no such file" in said or "cannot be" in said or "ermission" in said
        return f"{UNREADABLE if gone else NOTHING}: {said[:300]}"
    if isinstance(error, OSError):
        return f"{UNREADABLE}: {error.strerror or error}"
    return f"{FAULT}: {type(error).__name__}: {str(error)[:200]}"


def _failed(task: Task, key: Any, error: str, fingerprint: str = "", size: int = 0, files: int = 0) -> Outcome:
    row = error_row(error, fingerprint=fingerprint, size=size, files=files)
    return Outcome(
        path=task.job.path, quick=key.key, fingerprint=fingerprint, modified=key.modified, row=row, error=error
    )


def error_row(error: str, *, fingerprint: str = "", size: int = 0, files: int = 0) -> str:
    """The row of a job that could not be analysed."""
    from forensics.triage import codec

    return codec.dumps(
        JobResult(path="", layout="", fingerprint=fingerprint, bytes=size, files=files, modified=None, error=error)
    )


def _examined(task: Task, tools: Tools, key: Any) -> Outcome:
    from forensics.engine import pipeline, reading
    from forensics.model import Kind
    from forensics.report import jsonreport
    from forensics.report.redaction import told
    from forensics.run import discover
    from forensics.triage import codec, within
    from forensics.triage import fingerprint as prints
    from forensics.triage.names import names_of
    from forensics.triage.result import result_of

    job = task.job
    run = discover(job.parts, reading.sniffers(), exclude=tools.setup.exclude)
    size = sum(s.size for s in run.sources) + sum(row.bytes for row in run.skipped)
    files = len(run.sources) + len(run.skipped)
    content = prints.fingerprint(run, of_several=bool(job.guessed))
    if content == task.fingerprint or (tools.known is not None and tools.known.has(content)):
        return Outcome(path=job.path, quick=key.key, fingerprint=content, modified=key.modified)
    if not any(s.kind is not Kind.EMPTY for s in run.sources):
        reason = pipeline.why_nothing(run).removeprefix(f"{run.path}: ")
        return _failed(task, key, f"{NOTHING}: {reason}", content, size, files)
    data = reading.read(run, tools.matcher, pipeline.Options(threads=1))
    analysis = pipeline.explain_with_data(data, tools.catalogue)
    result = result_of(analysis, path="", layout="", fingerprint=content, size=size, files=files)
    inside = within.jobs(run)
    if job.guessed or inside:
        if (failed := _not_absolved(job, inside, analysis, data, tools)) is not None:
            of_folder = result_of(failed, path="", layout="", fingerprint=content, size=size, files=files)
            diagnosed = {name: getattr(of_folder, name) for name in _DIAGNOSED}
            result, analysis = replace(result, **diagnosed), failed
        result = replace(result, summary=_of_a_folder(result, job, inside))
    result = replace(result, names=names_of(result, told(data)))
    document = jsonreport.to_dict(analysis.diagnosis)
    document["run"]["path"] = ""  # the same content lies in several places
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Outcome(
        path=job.path,
        quick=key.key,
        fingerprint=content,
        modified=key.modified,
        row=codec.dumps(result),
        report=zlib.compress(text.encode("utf-8", "replace"), LEVEL),
    )


def _folders(job: Job) -> list[str]:
    """The folders of a job that may be a job each, relative to it, with slashes."""
    root = job.parts[0].rstrip("/\\")
    return [folder.removeprefix(root).strip("/\\").replace(os.sep, "/") for folder in job.guessed[:MOST_FOLDERS]]


def _of_a_folder(result: JobResult, job: Job, inside: Mapping[str, Collection[str]]) -> str:
    """The summary of a job that failed in one of these folders, or of the jobs in an archive, with its name."""
    if not result.failed or result.evidence is None:
        return result.summary
    file = result.evidence.file
    if name := next((name for name, files in inside.items() if file in files), None):
        return f"In {name}, one of {len(inside)} jobs in one archive: {result.summary}"
    at = next((guess for guess in _folders(job) if file == guess or file.startswith((f"{guess}/", guess + MARK))), None)
    what = "logs" if at == file.partition(MARK)[0] else "folders"
    return f"In {at}, one of {len(job.guessed)} {what} read as one job: {result.summary}" if at else result.summary


def _not_absolved(
    job: Job, inside: Mapping[str, Collection[str]], whole: Analysis, data: RunData, tools: Tools
) -> Analysis | None:
    """The analysis of such a folder that failed where others made all of it look well; None where none did."""
    from forensics.engine import apart, pipeline

    guesses = _folders(job)
    logs: Mapping[str, Collection[str]] = inside or _of_files(guesses, data)
    own = _first_raised(logs, data) or apart.runs(data, guesses)
    told, folder = apart.not_absolved(
        whole.diagnosis, data, own, lambda part: pipeline.explain(part, tools.catalogue), logs
    )
    return replace(whole, diagnosis=told, runs=own, told_of=folder) if folder is not None else None


def _of_files(guesses: Collection[str], data: RunData) -> dict[str, list[str]]:
    """Those of the guesses that are files -> what is read of each: itself, or what it held where it is packed."""
    found: dict[str, list[str]] = {}
    for source in data.sources:
        if (file := source.path.partition(MARK)[0]) in guesses:
            found.setdefault(file, []).append(source.path)
    return found


def _first_raised(logs: Mapping[str, Collection[str]], data: RunData) -> tuple[str, ...]:
    """The jobs of some logs that are looked at one by one: first those that hold a traceback."""
    raised = {t.header.file for t in data.tracebacks}
    return tuple(sorted(logs, key=lambda name: raised.isdisjoint(logs[name])))[:MOST_FOLDERS]


def placed(result: JobResult, job: Job, modified: float | None) -> JobResult:
    """A row whose content is known, at the place of a job: its path, layout, time, and what the place states."""
    from forensics.triage.layouts import NODES
    from forensics.triage.result import node_of

    labels: Mapping[str, str] = result.labels
    if stated := {name: value for name, value in job.labels.items() if name != NODES}:
        labels = dict(sorted((dict(labels) | stated).items()))
    placed = replace(result, path=job.path, layout=job.layout, modified=modified, labels=labels)
    if result.nodes or not (nodes := tuple(job.labels.get(NODES, "").split())):
        return placed
    return replace(placed, nodes=nodes, node=node_of(result.root, result.node, nodes))
