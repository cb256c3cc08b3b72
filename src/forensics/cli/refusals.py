"""What is refused before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from forensics.cli.ending import stop
from forensics.cli.output import FORMAT_OF

# Suffixes that name a format which no report has. Others (.log, .out, none) are of text.
_NO_REPORT = frozenset(
    ".pdf .ps .doc .docx .odt .rtf .tex .png .jpg .jpeg .gif .svg .webp .csv .tsv .xls .xlsx .parquet .yaml .yml .toml "
    ".jsonl .ipynb .zip .gz .tar .tgz .bz2 .xz .zst".split()
)


def check_output(output: Path, paths: Sequence[str]) -> None:
    """Refuse, before any work is done, a report that could not be written or would replace a file of the run."""
    from forensics.report.own import is_report

    if not output.parent.is_dir():
        raise stop(f"{output}: there is no folder {output.parent}")
    try:
        if not output.is_file():
            return
        target = output.resolve()
    except OSError as error:  # a name that no file can have
        raise stop(f"{output}: {error.strerror}") from None
    if any(target.is_relative_to(Path(path).resolve()) for path in paths if path not in ("", "-")):
        with output.open("rb") as file:
            head = file.read(16 << 10)
        if head and not is_report(head):
            raise stop(f"{output}: is a file of the run, and would be lost; choose another name for the report")


def check_suffix(output: Path) -> None:
    """Refuse a name that promises a kind of file that no report is: nothing would open it."""
    if output.suffix.lower() in _NO_REPORT:
        raise stop(f"{output}: no report is a {output.suffix} file; the suffix may be {', '.join(FORMAT_OF)}")


def check_folder(folder: Path, paths: Sequence[str], what: str) -> None:
    """Refuse a folder that would be written into the run."""
    from forensics.report.plots.files import within_run

    if within_run(folder, paths):
        raise stop(f"{folder}: lies in the run, where nothing is written; choose another folder for the {what}")


def check_plots(folder: Path, paths: Sequence[str]) -> None:
    """Refuse, before any work is done, plots that cannot be drawn or would be written into the run."""
    import importlib.util

    check_folder(folder, paths, "plots")
    if importlib.util.find_spec("matplotlib") is None:
        raise stop("--plots needs matplotlib: python -m pip install matplotlib")


def check_redaction(redact: bool | None, patterns: Sequence[str]) -> None:
    """Refuse, before any work is done, patterns that are none, and patterns for a report that is not redacted."""
    if not patterns:
        return
    from forensics.report.redaction.also import RedactionError, compile_also

    if redact is False:
        raise click.UsageError("--redact-also asks for what --no-redact turns off")
    try:
        compile_also(patterns)
    except RedactionError as error:
        raise click.BadParameter(str(error), param_hint="--redact-also") from None
