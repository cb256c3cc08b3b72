"""`forensics triage`: many jobs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from forensics.cli.ending import give_up_stdout, stop
from forensics.cli.own import OWN, every_folder, with_own
from forensics.cli.refusals import check_folder, check_output
from forensics.since import parse_since


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to a file, in the format of its suffix: .html, .md, .csv, .json, .jsonl, .parquet.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("terminal", "json", "jsonl", "csv", "markdown", "github", "html")),
    help="What to print. github: appended to the step summary of a workflow.",
)
@click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="Where results are kept.")
@click.option("--rerun", is_flag=True, help="Analyse everything anew.")
@click.option("--since", metavar="WHEN", help="Only jobs that failed or ended after WHEN: 2h, 3d, or a date.")
@click.option("--cause", multiple=True, help="Only this cause: slug, code, glob or group. Can be repeated.")
@click.option("--node", multiple=True, help="Only jobs on this node. Can be repeated.")
@click.option("--verdict", multiple=True, help="Only this verdict, or error. Can be repeated.")
@click.option("--severity", type=click.Choice(("info", "warning", "error", "fatal")), help="Only this one or graver.")
@click.option("--label", multiple=True, metavar="NAME[=VALUE]", help="Only jobs with this label. Can be repeated.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files and folders. Can be repeated.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Processes. Default: one a CPU.")
@click.option("--engine", type=click.Choice(("local", "ray")), default="local", help="Where jobs are analysed.")
@click.option("--job-timeout", type=click.FloatRange(min=0.1), default=300.0, help="Seconds that one job may take.")
@click.option("--job-memory", type=click.IntRange(256), default=4096, help="MiB that one job may take.")
@click.option("--all", "everything", is_flag=True, help="List every job on the terminal.")
@click.option(
    "--reports",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write an HTML report of each failed job there, and link to it.",
)
@click.option("--serve", is_flag=True, help="Serve the page, with filters and reports, to browsers of this machine.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of --serve; 0 for a free one. Default: 8431.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="WHAT",
    help="Exit 1 on one of these. any: failed, hung, diverged, suspect, interrupted, or not analysed. failed: this"
    " verdict alone. A severity (or graver), a cause (slug, code, glob, group). never: nothing. Can be repeated.",
)
@click.option("--exec", "command", metavar="COMMAND", help="Run this (60 s at most) with the results as JSON on stdin.")
@click.option("--redact/--no-redact", default=None, help="Default: only in HTML, Markdown and GitHub's format.")
@OWN
@click.option("-q", "--quiet", is_flag=True, help="No progress display, and no word of what was written.")
def triage(
    paths: tuple[str, ...],
    output: Path | None,
    format_: str | None,
    store: Path | None,
    rerun: bool,
    since: str | None,
    cause: tuple[str, ...],
    node: tuple[str, ...],
    verdict: tuple[str, ...],
    severity: str | None,
    label: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    engine: str,
    job_timeout: float,
    job_memory: int,
    everything: bool,
    reports: Path | None,
    serve: bool,
    port: int | None,
    fail_on: tuple[str, ...],
    command: str | None,
    redact: bool | None,
    signature_folders: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Diagnose many jobs: one row each, causes by count.

    PATH is a folder with jobs (a Hydra, Slurm, Ray Tune, W&B or torchrun layout, or one folder each), or several.

    \b
    Exit status:
      0  done, and nothing that --fail-on names was found
      1  something that --fail-on names was found
      2  no jobs, or wrong usage
    """
    import shutil

    from forensics import settings
    from forensics.report.inert import inert
    from forensics.report.redaction import RedactionError
    from forensics.signatures.schema import SignatureError
    from forensics.triage import batch as batches
    from forensics.triage import command as commands
    from forensics.triage.filters import (
        CONDITIONS,
        SEVERITIES,
        Filter,
        Unknown,
        check_causes,
        check_verdicts,
        failing,
        is_group,
    )
    from forensics.triage.jobs import NoJobs
    from forensics.triage.pool import Limits
    from forensics.triage.store import StoreError

    try:
        oldest = parse_since(since, time.time()) if since else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    chosen = format_ or (commands.FORMATS.get(output.suffix.lower()) if output else "terminal")
    if chosen is None:
        raise click.BadParameter(f"no format ends in {output.suffix if output else ''!r}", param_hint="--output")
    if output is not None:
        check_output(output, paths)
        check_folder(output, paths, "output")
    if reports is not None:
        check_folder(reports, paths, "reports")
    if port is not None and not serve:
        raise click.UsageError("--port goes with --serve")
    if command is not None:
        try:
            commands.words(command)
        except commands.CannotWrite as error:
            raise stop(str(error)) from None
    bar = commands.Bar() if not quiet and sys.stderr is not None and sys.stderr.isatty() else None
    limits = Limits(job_timeout, job_memory << 20)
    wanted = Filter(cause=cause, node=node, verdict=verdict, severity=severity, label=label, since=oldest)
    try:
        check_verdicts(verdict)
        project = settings.load(Path(), paths)
        groups: tuple[str, ...] = ()
        if cause or fail_on:
            catalogue = with_own(project, signature_folders)
            check_causes(cause, catalogue)
            check_causes(fail_on, catalogue, also=(*CONDITIONS, *SEVERITIES))
            groups = tuple(name for name in (*cause, *fail_on) if is_group(name) and name not in catalogue)
        options = batches.Options(
            store=store,
            rerun=rerun,
            exclude=(*project.exclude, *exclude),
            signature_folders=tuple(map(str, every_folder(project, signature_folders))),
            limits=limits,
            engine=batches.engine_of(engine, jobs, limits),
            wanted=wanted,
            groups=groups,
            progress=bar,
        )
        found = batches.triage(paths, options)
        asked = redact if redact is not None else project.redact
        if reports is not None:
            found = commands.with_reports(found, reports, output, options, redact=asked, workers=jobs)
    except commands.CannotWrite as error:
        raise stop(str(error)) from None
    except (NoJobs, StoreError, SignatureError, Unknown, settings.SettingsError) as error:
        raise stop(str(error)) from None
    finally:
        if bar is not None:
            bar.clear()
    rows = None if everything else 50
    try:
        width = shutil.get_terminal_size((120, 40)).columns
        if output is not None or format_ is not None or not serve:
            written = commands.Output(chosen, output, rows, width)
            try:
                commands.write(found, written, asked)
            except BrokenPipeError:  # its reader has seen enough
                give_up_stdout()
            if output is not None and not quiet:
                click.echo(inert(commands.told(found, written, asked), None), err=True)
            if not quiet and chosen in commands.WITHOUT_NOTES:
                for note in found.notes:
                    click.echo(inert(note, None), err=True)
        if command is not None:
            commands.hand_over(found, command)
        if serve:
            commands.serve(found, paths, options, redact=asked, port=port)
    except (commands.CannotWrite, RedactionError) as error:
        raise stop(str(error)) from None
    sys.exit(1 if any(map(failing(fail_on, found.insights.unknown), found.results)) else 0)
