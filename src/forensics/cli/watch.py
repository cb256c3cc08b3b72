"""`forensics watch`: a run that goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from forensics.cli.ending import exit_status, stop
from forensics.cli.output import redacted, render
from forensics.cli.own import OWN, with_own


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "format_", type=click.Choice(("terminal", "jsonl")), default="terminal", help="What to print."
)
@click.option("--interval", type=click.FloatRange(0.05, 3600), default=5.0, help="Seconds between looks. Default: 5.")
@click.option("--once", is_flag=True, help="Look once, tell the state, and end.")
@click.option("--until-finished", is_flag=True, help="End when the run has finished or died.")
@click.option("--timeout", metavar="SPAN", help="End after this time: 90, 15m, 2h; 0: after the first look.")
@click.option(
    "--idle", metavar="SPAN", help="Take the run for ended when nothing was written for this time, whatever it said."
)
@click.option("--silence", metavar="SPAN", default="60", help="A shorter silence is never told. Default: 60 seconds.")
@click.option(
    "--exec",
    "command",
    metavar="COMMAND",
    help="Run this for each news, with the news as JSON on its standard input and in FORENSICS_* variables. It is"
    " split as a shell would, and no shell is started: for pipes and $VARIABLES give sh -c '...'.",
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files and folders. Can be repeated.")
@click.option("--redact/--no-redact", default=None, help="Take names, hosts, addresses and secrets out.")
@OWN
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
def watch(
    paths: tuple[str, ...],
    format_: str,
    interval: float,
    once: bool,
    until_finished: bool,
    timeout: str | None,
    idle: str | None,
    silence: str,
    command: str | None,
    exclude: tuple[str, ...],
    redact: bool | None,
    signature_folders: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Follow a run while it goes on, and tell what is going wrong as it begins: one line each.

    PATH is a run directory, a file, or several of them (a kernel log, for example).

    \b
    Exit status:
      0  nothing bad was seen, or it was over at the end
      1  something bad was seen; where the run ended: as of forensics analyze
      2  nothing to watch, or wrong usage
      3  --until-finished, and no end was seen; or the verdict is unknown; or ended before all was read
    """
    from forensics import settings
    from forensics.engine.finishes import FINISHED
    from forensics.engine.pipeline import Options as Analysing
    from forensics.engine.pipeline import analyse_with_data
    from forensics.engine.reading import sniffers
    from forensics.report import jsonreport, terminal
    from forensics.run import NothingToRead
    from forensics.signatures.schema import SignatureError
    from forensics.watch import command as watching
    from forensics.watch.handover import Handover, split
    from forensics.watch.redacted import Redacting, there
    from forensics.watch.watcher import Settings as Watched
    from forensics.watch.watcher import Watcher

    spans = {"--timeout": timeout, "--idle": idle, "--silence": silence}
    seconds: dict[str, float | None] = {}
    for name, text in spans.items():
        try:
            seconds[name] = watching.seconds_of(text) if text is not None else None
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=name) from None
    try:
        words = split(command) if command is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--exec") from None
    if once and until_finished:
        raise click.UsageError("--once looks once, and --until-finished waits for the end: give one of them")
    if any(path == "-" or "://" in path for path in paths):
        raise click.UsageError("files and folders of this machine can be watched, and neither - nor URLs")
    try:
        project = settings.load(Path(), paths)
        redact = redact if redact is not None else project.redact
        exclude = (*project.exclude, *exclude)
        catalogue = with_own(project, signature_folders, examples=False)
        watcher = Watcher(
            paths,
            catalogue,
            Watched(
                exclude=exclude,
                interval=interval,
                silence=seconds["--silence"] or 0.0,
                idle=seconds["--idle"],
                own=watching.own_output(),
            ),
        )
    except (SignatureError, settings.SettingsError) as error:
        raise stop(str(error)) from None

    def whole() -> watching.Whole:
        found = analyse_with_data(paths, Analysing(exclude=exclude), catalogue)
        shown = redacted(found, "terminal", redact, ())
        ended = any(f.name == FINISHED for f in found.diagnosis.findings)
        if format_ == "jsonl":
            return watching.Whole(jsonreport.render(shown, indent=None), found.diagnosis.verdict, ended)
        return watching.Whole(render(shown, "terminal", catalogue, to_file=False), found.diagnosis.verdict, ended)

    redacting = Redacting(lambda: watcher.sources or there(paths, sniffers(), exclude)) if redact else None
    try:
        run = redacting.text(" ".join(paths)) if redacting is not None else " ".join(paths)
    except NothingToRead as error:
        raise stop(str(error)) from None
    options = watching.Options(
        run=run,
        json=format_ == "jsonl",
        colour=terminal.use_colour(isatty=sys.stdout is not None and sys.stdout.isatty(), environ=os.environ),
        once=once,
        until_finished=until_finished,
        timeout=seconds["--timeout"],
        interval=interval,
        quiet=quiet,
    )
    handover = Handover(words, watching.complain) if words is not None else None
    try:
        status = watching.Watch(watcher, options, whole, exit_status, handover, redacting).run()
    except NothingToRead as error:
        raise stop(str(error)) from None
    sys.exit(status)
