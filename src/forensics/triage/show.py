"""The outputs of a triage: terminal table, JSON lines, CSV, Parquet, Markdown."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from forensics import __version__
from forensics.report.inert import inert, one_line
from forensics.report.jsonreport import SCHEMA_VERSION, escaped
from forensics.report.words import plural
from forensics.triage import codec
from forensics.triage.filters import age
from forensics.triage.insight import tables
from forensics.triage.insight.unknown import members_of
from forensics.triage.model import Batch, CauseCount, JobResult

TERMINAL_ROWS = 50
_NARROWEST = 6  # columns of a terminal's table are cut to, where it is narrow
TERMINAL_INSIGHTS = 10
MOST_REASONS = 3  # why jobs were not analysed
SUMMARY_INSIGHTS = 25
SUMMARY_ROWS = 200  # of a Markdown table: GitHub takes 65,536 characters in a comment, 1 MiB in a step summary
SUMMARY_BYTES = 60_000
COLUMNS = (
    "path", "layout", "cause", "codes", "verdict", "severity", "confidence", "ranks", "node", "step", "epoch", "time",
    "age_hours", "world_size", "gpu_hours", "started", "ended", "bytes", "files", "evidence", "fix", "summary",
    "error", "fingerprint", "report", "unknown_group",
    "nodes", "labels",
)  # fmt: skip


def _age_words(hours: float | None) -> str:
    if hours is None:
        return "-"
    return f"{hours * 60:.0f}m" if hours < 1 else f"{hours:.0f}h" if hours < 48 else f"{hours / 24:.0f}d"


def _ranks(result: JobResult) -> str:
    from forensics.rank_ranges import rank_ranges

    return rank_ranges(result.ranks, limit=4) if result.ranks else "-"


def _hours(count: CauseCount) -> str:
    return f"{count.gpu_hours:,.1f}" if count.gpu_hours_known else "-"


def _cause_cells(batch: Batch) -> Iterator[list[str]]:
    for c in batch.causes:
        yield [str(c.jobs), _hours(c), c.cause, (c.first or "-")[:10], one_line(c.title or "", 80)]


def _row_cells(batch: Batch, rows: Sequence[JobResult]) -> Iterator[list[str]]:
    for r in rows:
        sure = f"{r.confidence * 100:.0f}%" if r.confidence is not None else "-"
        shown_age = _age_words(age(r, batch.made))
        cause = f"{r.cause} (recovered)" if r.verdict == "recovered" and r.root is not None else r.cause
        yield [cause, _ranks(r), r.node or "-", r.reached or "-", sure, shown_age, r.path]


_CAUSES = ["jobs", "GPU h", "cause", "since", "what it is"]
_ROWS = ["cause", "rank", "node", "step", "sure", "age", "job"]


def terminal(batch: Batch, *, width: int, rows: int | None = TERMINAL_ROWS) -> str:
    """Causes, insights and jobs for a terminal of this width; rows: how many jobs are listed, None for all.

    Jobs that failed stand first, and those of which nothing is wrong last, each in the order of their paths.
    """
    shown = sorted(batch.results, key=_trouble)[:rows]
    if not batch.results:
        return "\n".join([_totals(batch), *map(inert, batch.notes)]) + "\n"
    lines = _table(_CAUSES, list(_cause_cells(batch)), width, right={0, 1})
    for title, head, cells in _insights(batch, TERMINAL_INSIGHTS if rows is not None else None):
        if head is tables.HARDWARE:
            units = tables.hardware_lines(batch.insights, len(cells))
            lines += ["", inert(title), *(inert(line, width) for line in units)]
        else:
            lines += ["", inert(title), *_table(head, cells, width, right={0, 1} if head is tables.UNKNOWN else set())]
    lines += ["", *_table(_ROWS, list(_row_cells(batch, shown)), width, right={3, 4, 5})]
    if len(shown) < len(batch.results):
        lines.append(f"... {len(batch.results) - len(shown):,} more jobs: --all, or -o FILE")
    lines += ["", _totals(batch), *map(inert, (*_not_analysed(batch), *batch.notes))]
    return "\n".join(lines) + "\n"


def _not_analysed(batch: Batch) -> Iterator[str]:
    """Why jobs have no diagnosis: a line for each of the first few reasons."""
    reasons: dict[str, list[str]] = {}
    for result in batch.results:
        if result.error is not None:
            reasons.setdefault(result.error.replace(result.path, "the job"), []).append(result.path)
    for reason, paths in list(reasons.items())[:MOST_REASONS]:
        yield f"{plural(len(paths), 'job')} not analysed, {reason} ({paths[0]})"


def _trouble(result: JobResult) -> int:
    return 0 if result.failed or result.error is not None else 1 if result.verdict == "unknown" else 2


def _count(batch: Batch) -> str:
    """How many jobs there are, and how many of them the filters let through."""
    every, shown = batch.found, len(batch.results)
    if shown >= every:
        return plural(shown, "job")
    return (
        f"{shown:,} of {plural(every, 'job')} match the filters"
        if shown
        else f"no job of {every:,} matches the filters"
    )


def _totals(batch: Batch) -> str:
    """The last line: also how many jobs were not analysed anew."""
    return f"{_count(batch)}; {batch.reused:,} taken from the store"


def _insights(batch: Batch, most: int | None) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """(title, head, rows) of the tables that have any; most: rows of each, None for all."""
    found = batch.insights
    least = most if most is not None else len(found.unknown) + len(found.concentrations) + len(found.hardware)
    unknown, goes_with, hardware = tables.titles(found)
    for title, head, cells, count in (
        (unknown, tables.UNKNOWN, tables.unknown_cells(found, least), len(found.unknown)),
        (goes_with, tables.CONCENTRATIONS, tables.concentration_cells(found, least), len(found.concentrations)),
        (hardware, tables.HARDWARE, tables.hardware_cells(found, least), len(found.hardware)),
    ):
        if rows := list(cells):
            yield title + (f"; {count - least:,} more are left out" if count > least else ""), head, rows


def _table(head: list[str], rows: list[list[str]], width: int, right: set[int]) -> list[str]:
    cells = [head, *([one_line(cell, 300) for cell in row] for row in rows)]
    wide = [max(len(row[i]) for row in cells) for i in range(len(head))]
    wide = [min(w, 40) for w in wide[:-1]] + [max(width - sum(min(w, 40) + 2 for w in wide[:-1]), 12)]
    while sum(wide) + 2 * (len(wide) - 1) > width and max(wide[:-1]) > _NARROWEST:
        wide[wide.index(max(wide[:-1]))] -= 1
    lines = []
    for row in cells:
        cut = [
            cell if len(cell) <= w else _cut(cell, w, i == len(row) - 1)
            for i, (cell, w) in enumerate(zip(row, wide, strict=True))
        ]
        placed = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(cut, wide, strict=True))]
        lines.append("  ".join(placed).rstrip())
    return lines


def _cut(cell: str, width: int, path: bool) -> str:
    return f"…{cell[-(width - 1) :]}" if path and "/" in cell else f"{cell[: width - 1]}…"


def json_line(result: JobResult, report: bytes | None) -> str:
    """One job as a line: the object of docs/json.md, and the row under `job`. report: as the store keeps it."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "tool": {"name": "forensics", "version": __version__}}
    if report is not None:
        try:
            kept = json.loads(zlib.decompress(report))
            kept["run"]["path"] = result.path
            document = kept
        except (zlib.error, ValueError, KeyError, TypeError):
            pass  # what the store kept of the diagnosis is damaged; the row is whole
    document["job"] = codec.to_dict(result) | {"cause": result.cause}
    return escaped(json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))) + "\n"


def payload(batch: Batch) -> str:
    """The batch as one JSON object, as `--exec` gives it to a command: causes, insights, jobs."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "forensics", "version": __version__},
        "paths": list(batch.paths),
        "causes": [{name: getattr(c, name) for name in c.__dataclass_fields__} for c in batch.causes],
        **codec.plain(batch.insights),
        "notes": [*batch.notes, *batch.insights.notes],
        "jobs": [codec.to_dict(r) | {"cause": r.cause} for r in batch.results],
    }
    return escaped(json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))) + "\n"


def values(result: JobResult, batch: Batch, groups: Mapping[str, str]) -> list[Any]:
    """The cells of a row for COLUMNS. groups: path of each job of an unknown group -> the group's name."""
    place = result.evidence
    return [
        result.path, result.layout, result.cause, " ".join(result.codes), result.verdict, result.severity,
        result.confidence, " ".join(map(str, result.ranks or ())), result.node, result.step, result.epoch,
        result.time, age(result, batch.made), result.world_size, result.gpu_hours, result.started, result.ended,
        result.bytes, result.files, f"{place.file}:{place.line or ''}: {place.text}" if place else None, result.fix,
        result.summary, result.error, result.fingerprint, batch.reports.get(result.path), groups.get(result.path),
        " ".join(result.nodes), json.dumps(dict(result.labels), ensure_ascii=False),
    ]  # fmt: skip


def csv_text(batch: Batch) -> str:
    """RFC 4180; a text that a spreadsheet would take for a formula has an apostrophe before it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    groups = members_of(batch.insights.unknown)
    for result in batch.results:
        writer.writerow([_cell(value) for value in values(result, batch, groups)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    text = inert(value, None)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def parquet(batch: Batch) -> bytes:
    """COLUMNS as a Parquet file."""
    import polars as pl

    kinds = {
        "confidence": pl.Float64, "age_hours": pl.Float64, "gpu_hours": pl.Float64, "epoch": pl.Float64,
        "step": pl.Int64, "world_size": pl.Int64, "bytes": pl.Int64, "files": pl.Int64,
    }  # fmt: skip
    schema = {name: kinds.get(name, pl.String) for name in COLUMNS}
    groups = members_of(batch.insights.unknown)
    frame = pl.DataFrame([values(r, batch, groups) for r in batch.results], schema=schema, orient="row")
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def markdown(batch: Batch) -> str:
    """Causes, insights and jobs, at most SUMMARY_BYTES; for step summaries and comments."""
    lines = [f"## Triage: {_count(batch)}", "", *_markdown_table(_CAUSES, _cause_cells(batch)), ""]
    for title, names, cells in _insights(batch, SUMMARY_INSIGHTS):
        table = [f"### {_markdown_cell(title)}", "", *_markdown_table(names, iter(cells)), ""]
        if sum(len(line.encode()) + 1 for line in (*lines, *table)) < SUMMARY_BYTES:
            lines += table
    rows = [r for r in batch.results if r.root is not None or r.error is not None]
    size = sum(len(line.encode()) + 1 for line in lines)
    body = []
    for line in _markdown_table(_ROWS, _row_cells(batch, rows[:SUMMARY_ROWS])):
        size += len(line.encode()) + 1
        if size > SUMMARY_BYTES:
            break
        body.append(line)
    lines += body
    if (left := len(rows) - max(len(body) - 2, 0)) > 0:
        lines.append(f"\n{left:,} more rows are left out.")
    return "\n".join([*lines, *(f"\n{_markdown_cell(note)}" for note in batch.notes)]) + "\n"


def _markdown_table(head: list[str], rows: Iterator[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_markdown_cell, row))} |"


def _markdown_cell(text: str) -> str:
    shown = one_line(text, 200).replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")
    for char in "\\`*_[]|#~":
        shown = shown.replace(char, f"\\{char}")
    return shown


def json_lines(batch: Batch, report: Callable[[str], bytes | None]) -> Iterator[str]:
    """One line a job. report: fingerprint -> the stored diagnosis."""
    for result in batch.results:
        yield json_line(result, report(result.fingerprint) if result.error is None else None)
