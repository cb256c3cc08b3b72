"""What `forensics triage` does between its options and its outputs."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from forensics.report.words import plural
from forensics.triage.model import Batch
from forensics.triage.store import Store
from forensics.triage.whole import whole_file, write_whole

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature
    from forensics.triage.batch import Options
    from forensics.triage.examine import Setup

EXEC_SECONDS = 60.0
FORMATS = {
    ".md": "markdown",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}
SHARED = frozenset({"markdown", "github", "html"})  # redacted unless asked not to
WITHOUT_NOTES = frozenset({"csv", "jsonl", "parquet", "html"})  # what was left out is said on standard error
SERVED_SECONDS = 120.0  # at most, for a report that a browser waits for


class CannotWrite(Exception):
    """An output cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Output:
    format: str
    file: Path | None
    rows: int | None
    width: int


def write(batch: Batch, output: Output, redact: bool | None, patterns: Sequence[str] = ()) -> None:
    """Write a batch to a file or to stdout. Raises CannotWrite, RedactionError, OSError."""
    from forensics.triage import show

    store_file = batch.store
    plain = batch
    if redact if redact is not None else output.format in SHARED:
        from forensics.triage.redacted import redacted

        batch = redacted(batch, patterns=patterns)
    if output.format == "parquet":
        if output.file is None:
            raise CannotWrite("Parquet goes to a file: -o FILE.parquet")
        write_whole(output.file, show.parquet(batch))
        return
    if output.format == "jsonl":
        _lines(batch, plain, store_file, output.file, whole=batch is plain)
        return
    if output.format == "csv":
        text = show.csv_text(batch)
    elif output.format == "json":
        text = show.payload(batch)
    elif output.format in ("markdown", "github"):
        text = show.markdown(batch)
    elif output.format == "html":
        from forensics.triage import page

        text = page.render(page.Page(batch=batch, redacted=batch is not plain))
    else:
        text = show.terminal(batch, width=output.width, rows=output.rows)
    if output.format == "github" and output.file is None and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
        return
    _put(text, output.file)


def told(batch: Batch, output: Output, redact: bool | None) -> str:
    """The line that says what was written where; output.file is not None."""
    how = "redacted" if (redact if redact is not None else output.format in SHARED) else "not redacted"
    return f"wrote {output.file} ({output.format}, {how}, {plural(len(batch.results), 'job')})"


def _put(text: str, file: Path | None) -> None:
    if file is not None:
        write_whole(file, text.encode("utf-8", "replace"))
    else:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _lines(batch: Batch, plain: Batch, store_file: str | None, file: Path | None, *, whole: bool) -> None:
    """JSON lines one by one; redacted ones hold the row alone, since the store's diagnosis is not redacted."""
    from forensics.triage import show

    store = Store(Path(store_file)) if whole and store_file is not None and Path(store_file).exists() else None
    try:
        lines = show.json_lines(batch, store.report if store is not None else lambda fingerprint: None)
        with whole_file(file) if file is not None else contextlib.nullcontext(sys.stdout.buffer) as out:
            for line in lines:
                out.write(line.encode("utf-8", "replace"))
            out.flush()
    finally:
        if store is not None:
            store.close()


def with_reports(
    batch: Batch, folder: Path, output: Path | None, options: Options, *, redact: bool | None, workers: int | None
) -> Batch:
    """Write a report of each failed job into `folder`; the batch with links to them from where `output` lies.

    Raises CannotWrite.
    """
    from forensics.triage.page import reports

    try:
        return reports.write_reports(
            batch,
            folder,
            output.parent if output is not None else Path(),
            _setup(options),
            redact=redact is not False,
            workers=workers or len(os.sched_getaffinity(0)),
            limits=options.limits,
            progress=options.progress,
        )
    except reports.CannotReport as error:
        raise CannotWrite(f"--reports: {error}") from None


def _setup(options: Options) -> Setup:
    from forensics.triage.examine import Setup, recipe_of

    folders, exclude = options.signature_folders, options.exclude
    return Setup(signature_folders=folders, exclude=exclude, recipe=recipe_of(folders, exclude))


def serve(batch: Batch, paths: Sequence[str], options: Options, *, redact: bool | None, port: int | None) -> None:
    """Serve a batch to this machine's browsers until interrupted. port: None for the usual one.

    Raises CannotWrite, RedactionError.
    """
    from forensics.signatures.schema import load_catalogue
    from forensics.triage.filters import check_causes
    from forensics.triage.page import reports, server

    shown = batch
    if redact:
        from forensics.triage.redacted import redacted

        shown = redacted(batch)
    limits = replace(options.limits, seconds=min(options.limits.seconds, SERVED_SECONDS))
    maker = reports.Maker(_setup(options), limits, redact=bool(redact), given=paths)

    @cache
    def catalogue() -> dict[str, Signature]:
        return load_catalogue(*map(Path, options.signature_folders), examples=False)

    def check(causes: Sequence[str]) -> None:
        if causes:
            check_causes(causes, catalogue())

    site = server.Site(batch, shown, maker.report, redacted=bool(redact), check=check)

    def ready(address: str) -> None:
        print(f"{address} (Ctrl-C ends it)", file=sys.stderr, flush=True)

    try:
        server.serve(site, port=server.PORT if port is None else port, ready=ready, ending=maker.close)
    except server.CannotServe as error:
        raise CannotWrite(f"--serve: {error}") from None


def words(command: str) -> list[str]:
    """The words of a command, as a shell splits them. Raises CannotWrite where there are none, or a quote is open."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise CannotWrite(f"--exec: {str(error).lower()}") from None
    if not found:
        raise CannotWrite("--exec: names no command")
    return found


def hand_over(batch: Batch, command: str) -> None:
    """Run a command (split as a shell would, without a shell) with the batch as JSON on its standard input.

    Raises CannotWrite where it cannot be started, fails, or takes more than EXEC_SECONDS.
    """
    from forensics.triage import show

    data = show.payload(batch).encode("utf-8", "replace")
    asked = words(command)
    try:
        # A group of its own, so that what the command started ends with it.
        with subprocess.Popen(asked, stdin=subprocess.PIPE, process_group=0) as process:
            try:
                process.communicate(data, timeout=EXEC_SECONDS)
            except BaseException:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    except subprocess.TimeoutExpired:
        raise CannotWrite(f"--exec: took more than {EXEC_SECONDS:g} seconds") from None
    except (OSError, ValueError) as error:
        raise CannotWrite(f"--exec: {asked[0][:200]}: {getattr(error, 'strerror', None) or error}") from None
    if process.returncode:
        raise CannotWrite(f"--exec: ended with status {process.returncode}")


class Bar:
    """One line on stderr: jobs done, jobs a second, how long it will take."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.drawn = 0.0

    def __call__(self, done: int, total: int, errors: int) -> None:
        now = time.monotonic()
        if now - self.started < 0.5 or (now - self.drawn < 0.1 and done < total):
            return
        self.drawn = now
        rate = done / (now - self.started)
        left = int((total - done) / rate) if rate else 0
        filled = 20 * done // max(total, 1)
        bar = "#" * filled + "-" * (20 - filled)
        wrong = f", {errors} not analysed" if errors else ""
        sys.stderr.write(
            f"\r\x1b[K[{bar}] {done:,} of {total:,} jobs, {rate:.0f}/s, {left // 60}:{left % 60:02d} left{wrong}"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
