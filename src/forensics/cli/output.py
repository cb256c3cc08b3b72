"""What commands print and write, and whether it is redacted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.ending import give_up_stdout, stop

if TYPE_CHECKING:
    from forensics.engine.pipeline import Analysis
    from forensics.model import Diagnosis
    from forensics.signatures.schema import Signature

FORMATS = ("terminal", "json", "markdown")
FORMAT_OF = {  # by suffix
    ".md": "markdown", ".html": "html", ".htm": "html", ".json": "json", ".txt": "terminal", ".xml": "junit",
    ".sarif": "sarif",
}  # fmt: skip
_PRIVATE = ("terminal", "json")  # redacted on request only; the others are made to be shared


def print_text(text: str) -> None:
    """To stdout in UTF-8 whatever the locale is; a reader that closes the pipe early is no error, a full disk is."""
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        if not text.endswith("\n"):
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        give_up_stdout()
        if not isinstance(error, BrokenPipeError):
            raise stop(f"the report cannot be written: {error.strerror or error}") from None


def write_text(text: str, output: Path, format_: str, redacted: bool, *, quiet: bool) -> None:
    """Into a file, and a line on stderr that says so."""
    from forensics.report.inert import inert

    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise stop(f"{output}: {error.strerror}") from None
    if not quiet:
        how = f"{format_}, {'redacted' if redacted else 'not redacted'}"
        click.echo(f"wrote {inert(str(output), None)} ({how})", err=True)


@contextmanager
def slow_patterns_refused() -> Iterator[None]:
    """Redaction happens within it: a pattern of the user's that takes too long ends the program."""
    from forensics.report.redaction.also import RedactionError

    try:
        yield
    except RedactionError as error:
        raise stop(f"--redact-also: {error}") from None


def is_redacted(format_: str, redact: bool | None) -> bool:
    return redact if redact is not None else format_ not in _PRIVATE


def redacted(found: Analysis, format_: str, redact: bool | None, patterns: Sequence[str]) -> Diagnosis:
    if not is_redacted(format_, redact):
        return found.diagnosis
    from forensics.report.redaction import redact_diagnosis, told

    with slow_patterns_refused():
        return redact_diagnosis(found.diagnosis, patterns=patterns, told=told(found.data))


def render(diagnosis: Diagnosis, format_: str, catalogue: Mapping[str, Signature], *, to_file: bool) -> str:
    if format_ == "json":
        from forensics.report import jsonreport

        return jsonreport.render(diagnosis)
    if format_ == "markdown":
        from forensics.report import markdown

        return markdown.render(diagnosis)
    if format_ == "github":
        from forensics.report import github

        return github.render(diagnosis)
    if format_ == "junit":
        from forensics.report import junit

        return junit.render(diagnosis)
    if format_ == "sarif":
        from forensics.report import sarif

        return sarif.render(diagnosis, catalogue)
    import shutil

    from forensics.report import terminal

    isatty = sys.stdout is not None and sys.stdout.isatty()
    colour = not to_file and terminal.use_colour(isatty=isatty, environ=os.environ)
    return terminal.render(diagnosis, width=shutil.get_terminal_size((100, 40)).columns, colour=colour)
