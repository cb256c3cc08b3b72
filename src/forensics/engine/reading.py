"""Every source of a run through its parser: what they yield together, and a row of coverage for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from forensics.engine import diagnosis, identity
from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.matcher import STACK, Matcher
from forensics.engine.scan import Scan, scan_files
from forensics.files import beginning
from forensics.kinds import Sniffers
from forensics.model import (
    COLLECTIVES_COLUMNS,
    METRICS_COLUMNS,
    Coverage,
    Evidence,
    Fact,
    Kind,
    Observation,
    RunData,
    Source,
    Status,
    Traceback,
    Writer,
    schema,
)
from forensics.parsers import (
    accounting,
    bystanders,
    docker,
    error_files,
    exit_files,
    gathered,
    gpu_ecc,
    gpu_query,
    json_logs,
    kernel,
    kube_conditions,
    kube_events,
    metric_lines,
    pods,
    run_files,
    severity,
    stacks,
    zeros,
)
from forensics.parsers.logs import WHOLE, LogFindings, latest_date, read_log, windows
from forensics.parsers.metric_lines import LogText
from forensics.run import Run

if TYPE_CHECKING:
    import polars as pl

    from forensics.parsers.checkpoints.survey import Survey

METRIC_BUDGET = 8 << 20  # bytes of all large logs together that are read in full for metrics; see parsers.logs.windows


@dataclass(frozen=True, slots=True)
class Options:
    exclude: tuple[str, ...] = ()
    since: float | None = None  # seconds since the epoch; older files are skipped
    threads: int | None = None
    cache: bool = True
    progress: Callable[[int, int], None] | None = None  # (bytes done, bytes in all)
    deep: bool = False  # look through the values of checkpoints
    sources: tuple[Path, ...] = ()  # folders with the training code
    folders: tuple[str, ...] = ()  # below the path, relative to it, that by their names may be runs of their own


def sniffers() -> Sniffers:
    from forensics.parsers import flight_recorder, metric_files, tensorboard, writing

    return Sniffers(
        tensorboard=tensorboard.looks_like_events,
        flight_recorder=flight_recorder.looks_like_dump,
        metrics=metric_files.looks_like_metrics,
        error_file=error_files.looks_like_error_file,
        run_file=run_files.looks_like_run_file,
        data_table=metric_files.data_table,
        other_text=writing.what_else,
    )


@dataclass(slots=True)
class _Read:
    """What has been read of a run so far."""

    observations: list[Observation] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    unended: list[Evidence] = field(default_factory=list)
    last_errors: list[Evidence] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    metrics: list[pl.DataFrame] = field(default_factory=list)
    collectives: list[pl.DataFrame] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # path -> why a part of the source was not read

    def count_faults(self) -> None:
        """Let the coverage of the sources say what went wrong in them."""
        self.coverage = [
            replace(c, status=Status.PARTIAL, reason=self.faults[c.path]) if c.path in self.faults else c
            for c in self.coverage
        ]

    def data(self, run: Run) -> RunData:
        return RunData(
            path=run.path,
            sources=run.sources,
            observations=tuple(self.observations),
            tracebacks=tuple(self.tracebacks),
            writers=tuple(self.writers),
            metrics=_stack(self.metrics, METRICS_COLUMNS),
            collectives=_stack(self.collectives, COLLECTIVES_COLUMNS),
            coverage=diagnosis.with_status(self.coverage),
            facts=tuple(dict.fromkeys(self.facts)),
            unended=tuple(self.unended),
            last_errors=tuple(self.last_errors),
        )


def read(run: Run, matcher: Matcher, options: Options) -> RunData:
    """Parse every source of a run. A parser that fails costs its own source only, and coverage says so."""
    got = _Read(coverage=list(run.skipped))
    logs = [s for s in run.sources if s.kind is Kind.LOG]
    dated = latest_date(logs)
    _read_logs(logs, matcher, options, dated, got)
    traced = _read_nccl(logs, got)
    _read_others(run, matcher, dated, got)
    _read_records(run, matcher, dated, got)
    got.count_faults()
    if traced is not None and not any(frame["op"].drop_nulls().len() for frame in got.collectives):
        got.collectives.append(traced)  # dumps say the same, and what became of the calls
    _read_together(run, options, got)
    return got.data(run)


def _read_logs(logs: Sequence[Source], matcher: Matcher, options: Options, dated: float | None, got: _Read) -> None:
    """Scan and read the logs, and the metrics in them."""
    large = sum(s.size > WHOLE for s in logs)
    budget = METRIC_BUDGET // max(large, 1)
    parts = [windows(s.size, budget) if s.size > WHOLE else [] for s in logs]
    total, done = sum(s.size for s in logs), 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        if options.progress is not None:
            options.progress(done, total)

    scans = scan_files(
        matcher.database,
        [(s.file, s.size, [start for start, _ in p]) for s, p in zip(logs, parts, strict=True)],
        threads=options.threads,
        progress=advance,
    )
    texts: list[LogText] = []
    waiting = 0  # bytes of these
    sampled: set[str] = set()
    for source, scan, chosen in zip(logs, scans, parts, strict=True):
        found = _read_one_log(source, scan, chosen, matcher, dated, got)
        if found is None:
            continue
        texts.append(found.text)
        waiting += found.text.size
        if waiting >= metric_lines.BATCH:
            got.metrics += _metric_lines(texts, got.faults)
            texts, waiting = [], 0
        if found.sampled:
            sampled.add(source.path)
    got.metrics += _metric_lines(texts, got.faults)
    told = {str(path) for frame in got.metrics for path in frame["source"].unique()} & sampled if sampled else sampled
    got.coverage = [
        replace(c, reason=c.reason or "metric lines sampled") if c.path in told else c for c in got.coverage
    ]


def _read_one_log(
    source: Source, scan: Scan, chosen: Sequence[tuple[int, int]], matcher: Matcher, dated: float | None, got: _Read
) -> LogFindings | None:
    """What one log says, added to what was read; None where its parser failed. chosen: its windows for metrics."""
    reference = dated if dated is not None else _modified(source)
    try:
        head = kernel.head_of(source)
        scan = kernel.unfold(source, head, scan, matcher.database.scan)
        found = read_log(source, scan, matcher, reference=reference, parts=chosen)
    except Exception as error:  # a parser's fault must not cost the other files
        _raise_if_debugging()
        got.coverage.append(_row(source, Status.PARTIAL, _fault(error)))
        return None
    signs, raised, form = found.observations, found.tracebacks, None
    try:
        signs, form = kernel.refine(source, head, found.observations, reference=reference)
        signs = tuple(pods.refine(source, head, signs)) if pods.may_tell(head, signs) else signs
        signs = tuple(kube_events.refine(source, head, signs))
        signs = tuple(kube_conditions.refine(source, head, signs))
        signs = tuple(docker.refine(source, head, signs))
        signs, raised = gathered.placed(source, signs, raised) if gathered.may_tell(head) else (signs, raised)
        starts = sorted({(hit.line, hit.offset) for hit in scan.hits if hit.pattern == STACK})
        got.observations += stacks.in_log(source, starts, reference=reference)
    except Exception as error:  # nor what the same file says otherwise
        _raise_if_debugging()
        got.faults[source.path] = _fault(error)
    if found.given_up:
        got.faults.setdefault(source.path, _given_up(found.given_up))
    got.observations += signs
    got.facts += [Fact("kernel_log", form, source.path)] if form is not None else []
    got.facts += [fact] if (fact := zeros.fact(source)) is not None else []
    got.tracebacks += raised
    got.unended += found.unended
    got.last_errors += [found.last_error] if found.last_error is not None else []
    got.writers.append(found.writer)
    if scan.problem:
        status = Status.PARTIAL if scan.bytes else Status.UNREADABLE
        got.coverage.append(_row(source, status, scan.problem))
    else:
        got.coverage.append(_row(source, Status.READ, None))
    return found


def _read_nccl(logs: Sequence[Source], got: _Read) -> pl.DataFrame | None:
    """The calls that NCCL's own trace holds; what it says otherwise is added, and how far each log could be read."""
    traced, answered, notes = _nccl(logs, got.observations)
    got.observations += answered
    if any(o.signature == "nccl-environment" for o in got.observations):
        from forensics.parsers.nccl.facts import environment as nccl_environment

        got.facts += nccl_environment(got.observations)
    got.count_faults()
    cut_off = {e.file: f"no last line found of the traceback at line {e.line}" for e in reversed(got.unended)}
    cut_off |= {f.source: f"ends in {zeros.of(f).size:,} zero bytes" for f in got.facts if f.name == zeros.FACT}
    got.coverage = [replace(c, reason=c.reason or notes.get(c.path) or cut_off.get(c.path)) for c in got.coverage]
    return traced


def _read_others(run: Run, matcher: Matcher, dated: float | None, got: _Read) -> None:
    """Read what is no log: error files, dumps, event files, metric files. Checkpoints and settings come later."""
    for source in run.sources:
        if source.kind in (Kind.LOG, Kind.CHECKPOINT, Kind.CONFIG):
            continue
        if source.kind is Kind.ERROR_FILE:
            record = _error_file(source, matcher, dated)
            got.tracebacks += record.tracebacks
            got.observations += record.observations
            got.coverage.append(_row(source, Status.PARTIAL if record.problem else Status.READ, record.problem))
            continue
        frame, rows, stated, problem = _structured(source)
        got.facts += stated
        if frame is not None and frame.height:
            (got.collectives if source.kind is Kind.FLIGHT_RECORDER else got.metrics).append(frame)
        got.observations += rows
        reason = problem or ("empty" if source.kind is Kind.EMPTY else None)
        got.coverage.append(_row(source, Status.PARTIAL if problem else Status.READ, reason))
    if sum(s.kind is Kind.TENSORBOARD for s in run.sources) > 1:
        from forensics.parsers import tensorboard

        launches = tensorboard.launches(got.metrics, run.sources)
        got.metrics = list(launches.metrics)
        got.observations += launches.observations


def _read_records(run: Run, matcher: Matcher, dated: float | None, got: _Read) -> None:
    """Read what JSON lines of logs and metric files quote."""
    for source in run.sources:
        if source.kind not in (Kind.LOG, Kind.METRICS):
            continue
        quoted = _quoted(source, matcher, dated)
        got.tracebacks += quoted.tracebacks
        got.last_errors += _last_error(source)
        if quoted.observations:  # the scan of the raw lines has found some of these
            had = {(o.signature, e.file, e.line) for o in got.observations for e in o.evidence[:1]}
            got.observations += [
                o for o in quoted.observations if (o.signature, source.path, o.evidence[0].line) not in had
            ]
        if quoted.problem:
            got.faults[source.path] = quoted.problem


def _read_together(run: Run, options: Options, got: _Read) -> None:
    """Read what several files say together, and set aside what they say of others than the run."""
    saved = _checkpoints(run, options.deep) if _has_checkpoints(run) else None
    if saved is not None:
        got.observations += saved.observations
        got.facts += saved.facts
        got.coverage += [_row(*row) for row in saved.rows.values()]
    files = run_files.collect(run.sources, _fault_of)
    got.facts += files.facts
    for source in run.sources:
        if source.path in files.problems:
            problem = files.problems[source.path]
            got.coverage.append(_row(source, Status.PARTIAL if problem else Status.READ, problem))
    got.observations += exit_files.told(run.sources) + gpu_query.told(run.sources) + gpu_ecc.told(run.sources)
    got.observations = accounting.of_this_job(got.observations, run.sources, [fact.value for fact in got.facts])
    got.observations = list(bystanders.marked(got.observations, run.sources, got.facts))


def _metric_lines(texts: Sequence[LogText], faults: dict[str, str]) -> list[pl.DataFrame]:
    """The metrics of logs; where reading them together fails, one by one, with what is wrong added to `faults`."""
    try:
        return [metric_lines.extract(texts)]
    except Exception as error:
        _raise_if_debugging()
        if len(texts) > 1:
            return [frame for text in texts for frame in _metric_lines([text], faults)]
        faults.update({text.source.path: _fault(error) for text in texts})
        return []


def _nccl(
    logs: Sequence[Source], observations: Sequence[Observation]
) -> tuple[pl.DataFrame | None, list[Observation], dict[str, str]]:
    """(calls, answers of the status service, path -> what was not read) from logs in which NCCL speaks."""
    spoke = any(o.signature in ("nccl-init", "nccl-environment") for o in observations)
    answered = {o.evidence[0].file for o in observations if o.signature == "nccl-ras-answer" and o.evidence}
    if not spoke and not answered:
        return None, [], {}
    from forensics.engine.collectives.nccl import from_status_service
    from forensics.parsers.nccl.calls import collective_calls

    try:
        ended = any(o.signature == FINISHED and o.weight > ANYBODYS_END for o in observations)
        found = from_status_service(logs, answered, ended)
        traced, notes = collective_calls(logs, identity.stated_size(observations)) if spoke else (None, {})
    except Exception:  # costs what the trace would have told; the lines themselves have been read
        _raise_if_debugging()
        return None, [], {}
    return traced, found, notes


def _stack(frames: Sequence[pl.DataFrame], columns: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    if not frames:
        return pl.DataFrame(schema=schema(columns))
    ordered = [f if f.columns == list(columns) else f.select(list(columns)) for f in frames]
    return ordered[0] if len(ordered) == 1 else pl.concat(ordered)


def _modified(source: Source) -> float:
    try:
        return source.file.stat().st_mtime
    except OSError:
        return 0.0


def _row(source: Source, status: Status, reason: str | None) -> Coverage:
    return Coverage(
        source.path, source.kind.value, source.size, status, reason, source.identity.rank, source.identity.node
    )


def _given_up(lines: Mapping[str, int]) -> str:
    slow = sorted(lines, key=lambda name: (-lines[name], name))
    listed = ", ".join(slow[:3]) + (f" and {len(slow) - 3} more" if len(slow) > 3 else "")
    return f"searches that took too long were given up, {sum(lines.values())} of them, for {listed}"


def _structured(source: Source) -> tuple[pl.DataFrame | None, Sequence[Observation], Sequence[Fact], str | None]:
    """(frame, observations, facts, problem) of a source that is not a log."""
    from forensics.parsers import flight_recorder, metric_files, tensorboard

    try:
        if source.kind is Kind.TENSORBOARD:
            events = tensorboard.read_events(source.file)
            stated = tensorboard.facts(events, source)
            problem = events.problem
            if len(stated) >= tensorboard.MAX_FACTS:
                problem = "; ".join(filter(None, (problem, f"settings beyond the first {len(stated):,} left out")))
            told = (*tensorboard.resumes(events, source), *tensorboard.ends(events, source))
            return tensorboard.metrics(events, source), told, stated, problem
        if source.kind is Kind.FLIGHT_RECORDER:
            dump = flight_recorder.read_dump(source.file, source)
            return flight_recorder.collectives(dump, source), (), (), flight_recorder.not_compared(dump)
        if source.kind is Kind.METRICS:
            frame, problem = metric_files.read(source.file, source)
            return frame, metric_files.speakers(source), (), problem
    except OSError as error:
        return None, (), (), error.strerror or str(error)
    except Exception as error:
        _raise_if_debugging()
        return None, (), (), _fault(error)
    return None, (), (), None


def _error_file(source: Source, matcher: Matcher, dated: float | None) -> error_files.ErrorFile:
    try:
        return error_files.read(source, matcher, reference=dated if dated is not None else _modified(source))
    except OSError as error:
        return error_files.ErrorFile(problem=error.strerror or str(error))
    except Exception as error:
        _raise_if_debugging()
        return error_files.ErrorFile(problem=_fault(error))


def _quoted(source: Source, matcher: Matcher, dated: float | None) -> json_logs.Quoted:
    """What JSON lines of a log or a metric file quote."""
    try:
        if source.kind is Kind.LOG and not json_logs.begins_as_records(beginning(source.file, json_logs.HEAD)):
            return json_logs.Quoted()
        return json_logs.read(source, matcher, reference=dated if dated is not None else _modified(source))
    except OSError as error:
        return json_logs.Quoted(problem=error.strerror or str(error))
    except Exception as error:
        return json_logs.Quoted(problem=_fault_of(error))


def _last_error(source: Source) -> list[Evidence]:
    """The error with which a metric file of JSON lines ends; that of a log is found with the rest of it."""
    try:
        found = severity.of_file(source) if source.kind is Kind.METRICS and _starts_as_json(source) else None
    except OSError:  # coverage says so
        return []
    return [found] if found is not None else []


def _starts_as_json(source: Source) -> bool:
    """Whether a log begins with an object of JSON, so that it may be a log of JSON lines."""
    with source.file.open("rb") as raw:
        return raw.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b'{"')


def _has_checkpoints(run: Run) -> bool:
    """Whether any file is a checkpoint, or one of those that name the files of one."""
    return any(
        s.kind is Kind.CHECKPOINT or s.path.endswith(("latest", "latest_checkpointed_iteration.txt", ".index.json"))
        for s in run.sources
    )


def _checkpoints(run: Run, deep: bool) -> Survey:
    """What the checkpoint files of a run tell; values are looked through only where that is asked for."""
    from forensics.parsers.checkpoints.survey import survey

    files = [s for s in run.sources if s.kind is Kind.CHECKPOINT]
    return survey(run.sources, files, [c.path for c in run.skipped], deep=deep, fault=_fault_of)


def _fault(error: Exception) -> str:
    return f"the parser failed, which is a fault of forensics: {type(error).__name__}: {str(error)[:200]}"


def _fault_of(error: Exception) -> str:
    _raise_if_debugging()
    return _fault(error)


def _raise_if_debugging() -> None:
    """Let the current exception through where FORENSICS_DEBUG is set."""
    if os.environ.get("FORENSICS_DEBUG"):
        raise
