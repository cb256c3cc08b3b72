"""`forensics analyze`: one run."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.ending import Stop, exit_status, stop
from forensics.cli.output import (
    FORMAT_OF,
    FORMATS,
    is_redacted,
    print_text,
    redacted,
    render,
    slow_patterns_refused,
    write_text,
)
from forensics.cli.own import OWN, with_own
from forensics.cli.refusals import check_output, check_plots, check_redaction, check_suffix
from forensics.since import parse_since

if TYPE_CHECKING:
    from forensics.engine.pipeline import Analysis

REPORTS = (*FORMATS, "html", "github", "junit", "sarif")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "format_", type=click.Choice(REPORTS), default="terminal", help="What to print.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to a file; without --format, the format follows its suffix (.md, .html, .json, .txt, .xml, .sarif).",
)
@click.option(
    "--exclude", multiple=True, metavar="GLOB", help="Leave out files whose path or name matches. Can be repeated."
)
@click.option(
    "--since", metavar="WHEN", help="Leave out files last changed before WHEN: 2h, 3d, or 2026-11-27[T20:00]."
)
@click.option(
    "--redact/--no-redact",
    default=None,
    help="Take names, hosts, addresses and secrets out. Default: in all but the terminal's report and JSON.",
)
@click.option(
    "--redact-also",
    multiple=True,
    metavar="PATTERN",
    help="Take out what this regular expression matches as well, or its group 1. Can be repeated.",
)
@click.option(
    "--annotate", is_flag=True, help="Also write the causes as GitHub workflow commands (::error ...) to stderr."
)
@click.option(
    "--fail-on",
    type=click.Choice(("any", "failed", "never")),
    default="any",
    help="What exits with 1. any (default): failed, hung, diverged, suspect, interrupted. failed: this verdict alone,"
    " the others exit with 0. never: nothing, and unknown exits with 0, not 3.",
)
@OWN
@click.option(
    "--deep", is_flag=True, help="Also look through the values of checkpoints for the first that is NaN or infinite."
)
@click.option(
    "--sources",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="The training code, read (never run) for what only code can show. Can be repeated.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also draw ranks over time, metrics and collectives, each as PNG and SVG, into DIR.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads for the scan. Default: one a CPU.")
@click.option("-q", "--quiet", is_flag=True, help="No progress display, and no word of what was written.")
@click.pass_context
def analyze(
    ctx: click.Context,
    paths: tuple[str, ...],
    format_: str,
    output: Path | None,
    exclude: tuple[str, ...],
    since: str | None,
    redact: bool | None,
    redact_also: tuple[str, ...],
    annotate: bool,
    fail_on: str,
    signature_folders: tuple[Path, ...],
    deep: bool,
    sources: tuple[Path, ...],
    plots: Path | None,
    threads: int | None,
    quiet: bool,
) -> None:
    """Diagnose one run from what it left behind.

    PATH is a run directory, a file, several of them, or - for standard input.

    \b
    Exit status:
      0  healthy, or recovered
      1  failed, hung, diverged, suspect or interrupted (see --fail-on)
      2  nothing could be analysed, or wrong usage
      3  unknown: no failure found, and no sign of a normal end either
    """
    # Modules and the catalogue are a hundred thousand objects that stay: looking for garbage among them while they are
    # made takes a tenth of a small analysis.
    gc.set_threshold(100_000, 50, 50)
    from forensics import settings
    from forensics.engine.pipeline import Options, analyse_with_data
    from forensics.run import NOT_THERE, NothingToRead
    from forensics.signatures.schema import SignatureError

    try:
        oldest = parse_since(since, time.time()) if since else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    if output is not None and str(output) == "-":
        output = None
    if output is not None:
        check_output(output, paths)
        if ctx.get_parameter_source("format_") is click.core.ParameterSource.DEFAULT:
            check_suffix(output)
            format_ = FORMAT_OF.get(output.suffix.lower(), format_)
    if plots is not None:
        check_plots(plots, paths)
    check_redaction(redact, redact_also)
    show = ProgressLine() if not quiet and sys.stderr is not None and sys.stderr.isatty() else None
    try:
        project = settings.load(Path(), paths)
        redact = redact if redact is not None else True if redact_also else project.redact
        exclude = (*project.exclude, *exclude)
        options = Options(
            exclude=exclude,
            since=oldest,
            threads=threads,
            progress=show,
            deep=deep,
            sources=sources,
            folders=_folders(paths, exclude),
        )
        catalogue = with_own(project, signature_folders, examples=False)
        found = analyse_with_data(paths, options, catalogue)
    except (NothingToRead, SignatureError, settings.SettingsError) as error:
        raise stop(str(error)) from None
    finally:
        if show is not None:
            click.echo("\r\x1b[K", nl=False, err=True)
    diagnosis = found.diagnosis
    not_there = [row.path for row in diagnosis.coverage if row.reason == NOT_THERE]
    for path in not_there:
        click.echo(f"{path}: {NOT_THERE}; the rest was analysed", err=True)
    if found.runs:
        click.echo(_several(paths[0], found), err=True)
    if format_ == "html":
        text = _page(found, redact, redact_also)
    else:
        shown = redacted(found, format_, redact, redact_also)
        text = render(shown, format_, catalogue, to_file=output is not None)
    commands = _annotations(found, redact, redact_also) if annotate else ""
    if os.environ.get("GITHUB_ACTIONS") == "true" and format_ == "terminal":
        from forensics.report import github

        text = github.no_commands(text)
    if output is None:
        print_text(text)
    else:
        write_text(text, output, format_, is_redacted(format_, redact), quiet=quiet)
    if commands:
        click.echo(commands, nl=False, err=True)
    if plots is not None:
        _draw(found, redact, plots, redact_also)
    status = exit_status(diagnosis.verdict, fail_on)
    sys.exit(Stop.exit_code if not_there and status == 0 else status)  # a mistyped path must not pass for a healthy run


def _folders(paths: Sequence[str], exclude: Sequence[str]) -> tuple[str, ...]:
    """Folders below the one path that is given, relative to it, each of which is a job to `triage`; () without two."""
    if len(paths) != 1 or not os.path.isdir(paths[0]):  # noqa: PTH112 - never raises, whatever was given
        return ()
    try:
        with os.scandir(paths[0]) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if len(inner) == 1:  # logs/run_1, logs/run_2
            with os.scandir(inner[0]) as entries:
                inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if len(inner) < 2:
            return ()
    except OSError:  # reading the run will say what is wrong
        return ()
    from forensics.triage.jobs import find

    given = Path(paths[0])
    jobs = [Path(job.parts[0]) for job in find(paths, exclude=exclude) if len(job.parts) == 1]
    inside = [job.relative_to(given).as_posix() for job in jobs if job != given and job.is_dir()]
    return tuple(inside) if len(inside) > 1 else ()


def _several(path: str, found: Analysis) -> str:
    """One line that says that a path holds several runs, and what shows them one by one."""
    of = f"; this report is of {found.told_of}, as the others would hide it" if found.told_of is not None else ""
    if found.of_array:
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."  # noqa: PTH112, PTH120 - never raises
        return (
            f"{len(found.runs):,} jobs of an array, each a run of its own: forensics triage {shlex.quote(folder)}{of}"
        )
    what = "logs, one after the other," if found.of_logs else "folders below"
    return f"{len(found.runs):,} {what} look like runs of their own: forensics triage {shlex.quote(path)}{of}"


def _annotations(found: Analysis, redact: bool | None, patterns: Sequence[str]) -> str:
    from forensics.report import github

    shown = redacted(found, "github", redact, patterns)
    # A path inside the checkout becomes a link; any other is only a name.
    base = shown.run.path if not Path(shown.run.path).is_absolute() and ".." not in Path(shown.run.path).parts else ""
    return github.commands(shown, "" if base in (".", "-") else base)


def _page(found: Analysis, redact: bool | None, patterns: Sequence[str]) -> str:
    from forensics.report import html

    material = html.gather(found.diagnosis, found.data)
    with slow_patterns_refused():
        return html.render(material if redact is False else html.redact(material, patterns))


def _draw(found: Analysis, redact: bool | None, folder: Path, patterns: Sequence[str]) -> None:
    from forensics.report import html
    from forensics.report.plots import files
    from forensics.report.plots.canvas import NoMatplotlib
    from forensics.report.words import plural

    material = html.gather(found.diagnosis, found.data, lines=False)
    try:
        with slow_patterns_refused():
            shown = material if redact is False else html.redact(material, patterns)
        names = files.write(shown.pictures, folder)
    except NoMatplotlib as error:
        raise stop(str(error)) from None
    except OSError as error:
        raise stop(f"{error.filename or folder}: {error.strerror or error}") from None
    said = f"{plural(len(names), 'plot')} in {folder}" if names else "nothing to plot: no times, metrics or collectives"
    click.echo(said, err=True)


class ProgressLine:
    """One line on stderr, drawn only after half a second, so that small runs show nothing."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.drawn = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.started < 0.5 or now - self.drawn < 0.1:
            return
        self.drawn = now
        click.echo(f"\r\x1b[Kscanning {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", nl=False, err=True)
