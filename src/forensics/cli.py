"""The command line: commands and their options, nothing else."""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics import __version__

if TYPE_CHECKING:
    from forensics.engine.pipeline import Analysis
    from forensics.model import Diagnosis, Verdict
    from forensics.settings import Settings
    from forensics.signatures.schema import Signature

FORMATS = ("terminal", "json", "markdown")
REPORTS = (*FORMATS, "html", "github", "junit", "sarif")
_PRIVATE = ("terminal", "json")  # redacted on request only; the others are made to be shared
_FORMAT_OF = {  # by suffix
    ".md": "markdown", ".html": "html", ".htm": "html", ".json": "json", ".txt": "terminal", ".xml": "junit",
    ".sarif": "sarif",
}  # fmt: skip


class _Commands(click.Group):
    """Whatever goes wrong ends in one line on stderr and status 2, and FORENSICS_DEBUG shows where it went wrong."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click ends these as it should
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO):
                raise  # the output, or a temporary file
            if os.environ.get("FORENSICS_DEBUG"):
                raise
            what = f"{type(error).__name__}: {str(error)[:300]}"
            raise _stop(f"a fault of forensics, not of your run: {what} (FORENSICS_DEBUG=1 shows where)") from None
        except KeyboardInterrupt:  # click would end with 1, which says that the run failed
            raise click.exceptions.Exit(130) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # click itself prints help and versions, and knows closed pipes but no full disks
            _give_up_stdout()
            if sys.stderr is not None:
                click.echo(f"Error: cannot write: {error.strerror or error}", err=True)
            sys.exit(2)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args and os.path.lexists(args[0]):
                from forensics.report.inert import inert

                what = f"no command was given; did you mean: forensics analyze {inert(args[0])}"
                raise click.UsageError(what, ctx) from None
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="forensics")
def main() -> None:
    """Find out why a machine-learning training run failed, hung or silently went wrong.

    Start with: forensics analyze RUN_DIR
    """


@main.command()
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
    "--fail-on", type=click.Choice(("any", "failed", "never")), default="any", help="Which verdicts exit with status 1."
)
@click.option(
    "--signatures",
    "signature_folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own signatures, beside the built-in ones. Can be repeated.",
)
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
    from forensics.run import NothingToRead
    from forensics.signatures.schema import SignatureError

    try:
        oldest = parse_since(since, time.time()) if since else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    if output is not None and str(output) == "-":
        output = None
    if output is not None:
        _check_output(output, paths)
        if ctx.get_parameter_source("format_") is click.core.ParameterSource.DEFAULT:
            format_ = _FORMAT_OF.get(output.suffix.lower(), format_)
    if plots is not None:
        _check_plots(plots, paths)
    _check_redaction(redact, redact_also)
    show = _progress_display() if not quiet and sys.stderr is not None and sys.stderr.isatty() else None
    try:
        project = settings.load(Path(), paths)
        redact = redact if redact is not None else True if redact_also else project.redact
        exclude = (*project.exclude, *exclude)
        options = Options(exclude=exclude, since=oldest, threads=threads, progress=show, deep=deep, sources=sources)
        catalogue = _with_own(project, signature_folders, examples=False)
        found = analyse_with_data(paths, options, catalogue)
    except (NothingToRead, SignatureError, settings.SettingsError) as error:
        raise _stop(str(error)) from None
    finally:
        if show is not None:
            click.echo("\r\x1b[K", nl=False, err=True)
    diagnosis = found.diagnosis
    if format_ == "html":
        text = _page(found, redact, redact_also)
    else:
        shown = _redacted(found, format_, redact, redact_also)
        text = _render(shown, format_, catalogue, to_file=output is not None)
    commands = _annotations(found, redact, redact_also) if annotate else ""
    if os.environ.get("GITHUB_ACTIONS") == "true" and format_ == "terminal":
        from forensics.report import github

        text = github.no_commands(text)
    if output is None:
        _print(text)
    else:
        _write(text, output, format_, _is_redacted(format_, redact), quiet=quiet)
    if commands:
        click.echo(commands, nl=False, err=True)
    if plots is not None:
        _draw(found, redact, plots, redact_also)
    sys.exit(exit_status(diagnosis.verdict, fail_on))


def _signature_folders(project: Settings, given: Sequence[Path]) -> tuple[Path, ...]:
    """Where signatures lie beside the built-in ones; a later folder wins: installed packages, project, command line."""
    from forensics.signatures import plugins

    installed = plugins.installed()
    _warn(installed.problems)
    return (*installed.folders, *project.signatures, *given)


def _with_own(project: Settings, given: Sequence[Path], *, examples: bool = True) -> dict[str, Signature]:
    """The catalogue, with a warning for what is odd about users' own signatures. Raises SignatureError."""
    from forensics.signatures.schema import load_catalogue, notes

    folders = _signature_folders(project, given)
    catalogue = load_catalogue(*folders, examples=examples)
    if folders:
        _warn(notes(catalogue, folders))
    return catalogue


def _warn(lines: Sequence[str]) -> None:
    from forensics.report.inert import inert

    for line in lines:
        click.echo(f"warning: {inert(line, None)}", err=True)


def _catalogue(given: Sequence[Path]) -> dict[str, Signature]:
    from forensics import settings
    from forensics.signatures.schema import SignatureError

    try:
        return _with_own(settings.load(Path()), given)
    except (SignatureError, settings.SettingsError) as error:
        raise _stop(str(error)) from None


_OWN = click.option(
    "--signatures",
    "signature_folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own signatures, beside the built-in ones. Can be repeated.",
)


@main.command(context_settings={"ignore_unknown_options": True})  # -9 is a name
@click.argument("names", nargs=-1, required=True, metavar="NAME|CODE|TEXT...")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal", help="What to print.")
@_OWN
def explain(names: tuple[str, ...], format_: str, signature_folders: tuple[Path, ...]) -> None:
    """Explain entries of the catalogue, by name (cuda-oom), by code (DP15), by another name for it (gpu-oom), or by
    words (shared memory full), by an exit status (-9), or by the line that a run printed ("CUDA out of memory").

    A code can cover several entries; the most usual comes first.
    """
    import json
    import shutil

    from forensics.report import entry
    from forensics.signatures import index, search

    for name in names:
        if name.startswith("-") and not name[1:].isdecimal():
            raise click.NoSuchOption(name)
    catalogue = _catalogue(signature_folders)
    if len(names) > 1 and not all(index.find(catalogue, name) for name in names):
        together = " ".join(names)  # words that were given without quotes
        known = index.find(catalogue, together) or search.search(catalogue, together)
        if known or not any(index.find(catalogue, name) for name in names):
            names = (together,)
    found: dict[str, Signature] = {}
    for name in names:
        meant = index.find(catalogue, name) or _by_words(catalogue, name)
        found |= {s.name: s for s in meant}
    if format_ == "json":
        _print(json.dumps([entry.as_dict(s) for s in found.values()], indent=2, ensure_ascii=False))
    elif format_ == "markdown":
        _print("\n".join(entry.render_markdown(s) for s in found.values()))
    else:
        width = shutil.get_terminal_size((100, 40)).columns
        _print("\n".join(entry.render(s, width=width) for s in found.values()))


def _by_words(catalogue: Mapping[str, Signature], wanted: str) -> tuple[Signature, ...]:
    """The entry that bears all words of `wanted`, where one is clearly meant, or that knows it as a printed line.

    Else ends with those that may be.
    """
    from forensics.report.inert import inert
    from forensics.signatures import index, pasted, search

    matches = search.search(catalogue, wanted)
    meant = search.best(matches)
    if not search.by_name(matches, wanted):
        printed = pasted.of_line(catalogue, wanted) or ([] if meant else pasted.of_piece(catalogue, wanted))
        if printed:
            more = f"; others: {', '.join(s.name for s in printed[1:])}" if printed[1:] else ""
            click.echo(f"nothing is called {inert(repr(wanted))}; the line is one of {printed[0].name}{more}", err=True)
            return (printed[0],)
    others = [m.signature for m in matches if m.signature is not meant]
    if meant is not None:
        more = f"; others: {', '.join(s.name for s in others)}" if others else ""
        click.echo(f"nothing is called {inert(repr(wanted))}; the nearest is {meant.name}{more}", err=True)
        return (meant,)
    if others:
        wide = max(len(s.name) for s in others)
        listed = [inert(f"  {s.name:{wide}}  {s.title}") for s in others]
        raise _Stop("\n".join([f"nothing is called {inert(repr(wanted))}; did you mean one of these?", *listed]))
    near = index.near_names(catalogue, wanted)
    hint = f"; did you mean {', '.join(near)}?" if near else "; see: forensics signatures list"
    raise _stop(f"no signature is called {wanted!r}{hint}")


@main.command()
@click.argument("good", type=click.Path(exists=True), metavar="GOOD")
@click.argument("bad", type=click.Path(exists=True), metavar="BAD")
@click.option(
    "--good",
    "more",
    multiple=True,
    type=click.Path(exists=True),
    metavar="PATH",
    help="A further good run: the spread among good runs then says what is noise. Can be repeated.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal", help="What to print.")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="Take names, hosts, addresses and secrets out. Default: only in Markdown.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to a file; without --format, the format follows its suffix (.md, .json, .txt).",
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files of every run. Can be repeated.")
@click.option("-q", "--quiet", is_flag=True, help="No word of what was written.")
@_OWN
@click.pass_context
def compare(
    ctx: click.Context,
    good: str,
    bad: str,
    more: tuple[str, ...],
    format_: str,
    redact: bool | None,
    output: Path | None,
    exclude: tuple[str, ...],
    quiet: bool,
    signature_folders: tuple[Path, ...],
) -> None:
    """Show where a bad run parts from a good one.

    \b
    Exit status:
      0  no difference but those that any two runs have
      1  differences
      2  one of them could not be analysed, or wrong usage
    """
    import shutil

    from forensics import settings
    from forensics.compare import render
    from forensics.compare.comparison import compare as compared
    from forensics.engine.pipeline import Options
    from forensics.run import NothingToRead
    from forensics.signatures.schema import SignatureError

    runs = (good, *more, bad)
    if output is not None and str(output) == "-":
        output = None
    if output is not None:
        _check_output(output, runs)
        if ctx.get_parameter_source("format_") is click.core.ParameterSource.DEFAULT:
            format_ = _FORMAT_OF.get(output.suffix.lower(), format_)
            if format_ not in FORMATS:
                raise click.BadParameter(f"a comparison is not written as {format_}", param_hint="--output")
    try:
        project = settings.load(Path(), runs)
        options = Options(exclude=(*project.exclude, *exclude))
        redacted = _is_redacted(format_, redact if redact is not None else project.redact)
        catalogue = _with_own(project, signature_folders, examples=False)
        found = compared(runs[:-1], bad, options, catalogue, redact=redacted)
    except (NothingToRead, SignatureError, settings.SettingsError) as error:
        raise _stop(str(error)) from None
    if format_ == "json":
        text = render.as_json(found)
    elif format_ == "markdown":
        text = render.markdown(found)
    else:
        text = render.terminal(found, width=shutil.get_terminal_size((100, 40)).columns)
    if output is None:
        _print(text)
    else:
        _write(text, output, format_, redacted, quiet=quiet)
    sys.exit(1 if found.differs else 0)


@main.group()
def signatures() -> None:
    """List the catalogue, test signatures, write its pages."""


@signatures.command("list")
@click.option("--area", help="Only this area: memory, collectives, nccl, ...")
@click.option("--format", "format_", type=click.Choice(("terminal", "json")), default="terminal", help="What to print.")
@_OWN
def list_signatures(area: str | None, format_: str, signature_folders: tuple[Path, ...]) -> None:
    """One line a signature."""
    import json

    from forensics.report import entry

    catalogue = _catalogue(signature_folders)
    meant = [s for s in catalogue.values() if area is None or s.area.lower() == area.lower()]
    chosen = sorted(meant, key=lambda s: (s.area, s.name))
    if not chosen:
        areas = ", ".join(sorted({s.area for s in catalogue.values()}))
        raise _stop(f"no area is called {area!r}; there are {areas}")
    if format_ == "json":
        _print(json.dumps([entry.as_dict(s) for s in chosen], indent=2, ensure_ascii=False))
        return
    wide = max(len(s.name) for s in chosen)
    _print("\n".join(f"{s.area:12} {s.name:{wide}}  {s.kind:9}  {','.join(s.codes):12}  {s.title}" for s in chosen))


@signatures.command("test")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option(
    "--healthy",
    "runs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of healthy runs, one folder each: no signature may call one of them broken.",
)
def test_signatures(paths: tuple[Path, ...], runs: Path | None) -> None:
    """Check signatures against their own examples: the built-in ones, or files and folders of your own.

    Exit status 1 means that something is wrong with them.
    """
    from forensics.report.inert import inert
    from forensics.report.words import plural
    from forensics.signatures import plugins
    from forensics.signatures.check import Bench, alarms, check_signature
    from forensics.signatures.schema import SignatureError, load_catalogue, parse, text_of

    installed = plugins.installed()
    folders = (*installed.folders, *(p for p in paths if p.is_dir()))
    problems = [*installed.problems]
    problems += [f"{folder}: holds no signatures (*.toml)" for folder in folders if not any(folder.rglob("*.toml"))]
    texts: dict[str, str] = {}
    catalogue = load_catalogue()
    chosen = [] if paths else list(catalogue.values())
    for file in (f for p in paths for f in (sorted(p.rglob("*.toml")) if p.is_dir() else [p])):
        try:
            text = text_of(file)
            signature = parse(text, file.resolve().parent.name, str(file))
        except SignatureError as error:
            problems.append(str(error))
            continue
        if file.name != f"{signature.name}.toml":
            problems.append(f"{file}:1: the file of {signature.name!r} must be named {signature.name}.toml")
        chosen.append(signature)
        texts[signature.name] = text
    broken = bool(problems)
    bench = Bench(catalogue | {s.name: s for s in chosen})
    for signature in chosen:
        # Rules that do not compile must not spoil the test of the others, so a user's own are compiled one by one.
        found = check_signature(signature, bench if not paths else None, texts.get(signature.name))
        if paths and not found:
            found = check_signature(signature, bench, texts.get(signature.name))
        broken = broken or bool(found)
        problems += found
    if runs is not None and not broken:
        names = {s.name for s in chosen}
        problems += [
            f"{a.signature}: calls the healthy run {a.run} broken ({a.role}): {a.file}:{a.line or '?'}"
            for a in alarms(bench, runs)
            if not paths or a.signature in names
        ]
    for problem in problems:
        click.echo(inert(problem, None), err=True)
    click.echo(f"{plural(len(chosen), 'signature')}, {plural(len(problems), 'problem')}")
    sys.exit(1 if problems else 0)


@signatures.command("docs")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is not up to date.")
def signature_docs(folder: Path, check: bool) -> None:
    """Write the built-in catalogue as Markdown pages: one an area, and an index."""
    from forensics.report import catalogue_pages
    from forensics.report.words import plural
    from forensics.signatures.schema import load_catalogue

    catalogue = load_catalogue()
    try:
        if check:
            stale = catalogue_pages.stale(catalogue, folder)
            for name in stale:
                click.echo(f"{folder / name}: not up to date", err=True)
            sys.exit(1 if stale else 0)
        click.echo(f"{plural(catalogue_pages.write(catalogue, folder), 'page')} in {folder}")
    except OSError as error:
        raise _stop(f"{error.filename or folder}: {error.strerror or error}") from None


@signatures.command("draft")
@click.argument("group", required=False)
@click.option("--from", "run", type=click.Path(exists=True), metavar="RUN", help="Draft from this run instead.")
@click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="Where triage kept its results.")
@click.option("--name", help="How the signature is to be called. Default: as the group.")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write NAME.toml there."
)
@click.option("--redact/--no-redact", default=True, help="Take names, hosts, addresses and secrets out. On by default.")
@_OWN
def draft_signature(
    group: str | None,
    run: str | None,
    store: Path | None,
    name: str | None,
    output: Path | None,
    redact: bool,
    signature_folders: tuple[Path, ...],
) -> None:
    """Draft a signature for GROUP, a group of unknown failures that triage found; without one, list the groups.

    What is written passes `forensics signatures test` and is meant to be edited.
    """
    from forensics.triage.insight import drafting
    from forensics.triage.insight.drafts import DraftError
    from forensics.triage.store import StoreError

    if group is not None and run is not None:
        raise click.UsageError("GROUP and --from exclude each other")
    try:
        if run is None and group is None:
            _print(drafting.listing(store, redact=redact))
            return
        catalogue = _catalogue(signature_folders)
        made = drafting.from_run(run, catalogue) if run is not None else drafting.from_store(str(group), store)
        drafted = made.draft(name=name, redact=redact, taken=catalogue)
        if output is None:
            _print(drafted.text)
        else:
            if run is not None:
                _check_folder(output, (run,), "draft")
            click.echo(drafting.write(drafted, output), err=True)
    except (DraftError, StoreError) as error:
        raise _stop(str(error)) from None


@main.command()
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
@click.option("--cause", multiple=True, help="Only this cause: slug, code or glob. Can be repeated.")
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
@click.option("--fail-on", multiple=True, metavar="WHAT", help="Exit 1 on: any, failed, a severity, a cause.")
@click.option("--exec", "command", metavar="COMMAND", help="Run this (60 s at most) with the results as JSON on stdin.")
@click.option("--redact/--no-redact", default=None, help="Default: only in HTML, Markdown and GitHub's format.")
@click.option(
    "--signatures",
    "signature_folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own signatures, beside the built-in ones. Can be repeated.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress display.")
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
    from forensics.report.redaction import RedactionError
    from forensics.signatures.schema import SignatureError
    from forensics.triage import batch as batches
    from forensics.triage import command as commands
    from forensics.triage.filters import CONDITIONS, SEVERITIES, Filter, Unknown, check_causes, check_verdicts, failing
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
        _check_output(output, paths)
        _check_folder(output, paths, "output")
    if reports is not None:
        _check_folder(reports, paths, "reports")
    if port is not None and not serve:
        raise click.UsageError("--port goes with --serve")
    bar = commands.Bar() if not quiet and sys.stderr is not None and sys.stderr.isatty() else None
    limits = Limits(job_timeout, job_memory << 20)
    wanted = Filter(cause=cause, node=node, verdict=verdict, severity=severity, label=label, since=oldest)
    try:
        check_verdicts(verdict)
        project = settings.load(Path(), paths)
        if cause or fail_on:
            catalogue = _with_own(project, signature_folders)
            check_causes(cause, catalogue)
            check_causes(fail_on, catalogue, also=(*CONDITIONS, *SEVERITIES))
        options = batches.Options(
            store=store,
            rerun=rerun,
            exclude=(*project.exclude, *exclude),
            signature_folders=tuple(map(str, _signature_folders(project, signature_folders))),
            limits=limits,
            engine=batches.engine_of(engine, jobs, limits),
            wanted=wanted,
            progress=bar,
        )
        found = batches.triage(paths, options)
        asked = redact if redact is not None else project.redact
        if reports is not None:
            found = commands.with_reports(found, reports, output, options, redact=asked, workers=jobs)
    except commands.CannotWrite as error:
        raise _stop(str(error)) from None
    except (NoJobs, StoreError, SignatureError, Unknown, settings.SettingsError) as error:
        raise _stop(str(error)) from None
    finally:
        if bar is not None:
            bar.clear()
    rows = None if everything else 50
    try:
        width = shutil.get_terminal_size((120, 40)).columns
        if output is not None or format_ is not None or not serve:
            commands.write(found, commands.Output(chosen, output, rows, width), asked)
        if command is not None:
            commands.hand_over(found, command)
        if serve:
            commands.serve(found, paths, options, redact=asked, port=port)
    except (commands.CannotWrite, RedactionError) as error:
        raise _stop(str(error)) from None
    sys.exit(1 if any(map(failing(fail_on), found.results)) else 0)


@main.command()
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
    help="Run this for each news, with the news as JSON on its standard input and in FORENSICS_* variables.",
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files and folders. Can be repeated.")
@click.option("--redact/--no-redact", default=None, help="Take names, hosts, addresses and secrets out.")
@_OWN
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
    from forensics.engine.diagnosis import FINISHED
    from forensics.engine.pipeline import Options as Analysing
    from forensics.engine.pipeline import analyse_with_data, sniffers
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
        catalogue = _with_own(project, signature_folders, examples=False)
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
        raise _stop(str(error)) from None

    def whole() -> watching.Whole:
        found = analyse_with_data(paths, Analysing(exclude=exclude), catalogue)
        shown = _redacted(found, "terminal", redact, ())
        ended = any(f.name == FINISHED for f in found.diagnosis.findings)
        if format_ == "jsonl":
            return watching.Whole(jsonreport.render(shown, indent=None), found.diagnosis.verdict, ended)
        return watching.Whole(_render(shown, "terminal", catalogue, to_file=False), found.diagnosis.verdict, ended)

    redacting = Redacting(lambda: watcher.sources or there(paths, sniffers(), exclude)) if redact else None
    try:
        run = redacting.text(" ".join(paths)) if redacting is not None else " ".join(paths)
    except NothingToRead as error:
        raise _stop(str(error)) from None
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
        raise _stop(str(error)) from None
    sys.exit(status)


class _Stop(click.ClickException):
    """Ends the program with a line on stderr and status 2."""

    exit_code = 2


def _stop(message: str) -> _Stop:
    from forensics.report.inert import inert

    return _Stop(inert(message))


def _check_output(output: Path, paths: Sequence[str]) -> None:
    """Refuse, before any work is done, a report that could not be written or would replace a file of the run."""
    from forensics.report.own import is_report

    if not output.parent.is_dir():
        raise _stop(f"{output}: there is no folder {output.parent}")
    try:
        if not output.is_file():
            return
        target = output.resolve()
    except OSError as error:  # a name that no file can have
        raise _stop(f"{output}: {error.strerror}") from None
    if any(target.is_relative_to(Path(path).resolve()) for path in paths if path not in ("", "-")):
        with output.open("rb") as file:
            head = file.read(16 << 10)
        if head and not is_report(head):
            raise _stop(f"{output}: is a file of the run, and would be lost; choose another name for the report")


def _check_folder(folder: Path, paths: Sequence[str], what: str) -> None:
    """Refuse a folder that would be written into the run."""
    from forensics.report.plots.files import within_run

    if within_run(folder, paths):
        raise _stop(f"{folder}: lies in the run, where nothing is written; choose another folder for the {what}")


def _check_plots(folder: Path, paths: Sequence[str]) -> None:
    """Refuse, before any work is done, plots that cannot be drawn or would be written into the run."""
    import importlib.util

    _check_folder(folder, paths, "plots")
    if importlib.util.find_spec("matplotlib") is None:
        raise _stop("--plots needs matplotlib: python -m pip install matplotlib")


def _check_redaction(redact: bool | None, patterns: Sequence[str]) -> None:
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


def _print(text: str) -> None:
    """To stdout in UTF-8 whatever the locale is; a reader that closes the pipe early is no error, a full disk is."""
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        if not text.endswith("\n"):
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        _give_up_stdout()
        if not isinstance(error, BrokenPipeError):
            raise _stop(f"the report cannot be written: {error.strerror or error}") from None


def _write(text: str, output: Path, format_: str, redacted: bool, *, quiet: bool) -> None:
    """Into a file, and a line on stderr that says so."""
    from forensics.report.inert import inert

    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise _stop(f"{output}: {error.strerror}") from None
    if not quiet:
        how = f"{format_}, {'redacted' if redacted else 'not redacted'}"
        click.echo(f"wrote {inert(str(output), None)} ({how})", err=True)


def _give_up_stdout() -> None:
    """What is left in the buffer would fail again when the interpreter ends, with a message of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _slow_patterns_refused() -> Iterator[None]:
    """Redaction happens within it: a pattern of the user's that takes too long ends the program."""
    from forensics.report.redaction.also import RedactionError

    try:
        yield
    except RedactionError as error:
        raise _stop(f"--redact-also: {error}") from None


def _is_redacted(format_: str, redact: bool | None) -> bool:
    return redact if redact is not None else format_ not in _PRIVATE


def _redacted(found: Analysis, format_: str, redact: bool | None, patterns: Sequence[str]) -> Diagnosis:
    if not _is_redacted(format_, redact):
        return found.diagnosis
    from forensics.report.redaction import redact_diagnosis, told

    with _slow_patterns_refused():
        return redact_diagnosis(found.diagnosis, patterns=patterns, told=told(found.data))


def _annotations(found: Analysis, redact: bool | None, patterns: Sequence[str]) -> str:
    from forensics.report import github

    shown = _redacted(found, "github", redact, patterns)
    # A path inside the checkout becomes a link; any other is only a name.
    base = shown.run.path if not Path(shown.run.path).is_absolute() and ".." not in Path(shown.run.path).parts else ""
    return github.commands(shown, "" if base in (".", "-") else base)


def _render(diagnosis: Diagnosis, format_: str, catalogue: Mapping[str, Signature], *, to_file: bool) -> str:
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


def _page(found: Analysis, redact: bool | None, patterns: Sequence[str]) -> str:
    from forensics.report import html

    material = html.gather(found.diagnosis, found.data)
    with _slow_patterns_refused():
        return html.render(material if redact is False else html.redact(material, patterns))


def _draw(found: Analysis, redact: bool | None, folder: Path, patterns: Sequence[str]) -> None:
    from forensics.report import html
    from forensics.report.plots import files
    from forensics.report.plots.canvas import NoMatplotlib
    from forensics.report.words import plural

    material = html.gather(found.diagnosis, found.data, lines=False)
    try:
        with _slow_patterns_refused():
            shown = material if redact is False else html.redact(material, patterns)
        names = files.write(shown.pictures, folder)
    except NoMatplotlib as error:
        raise _stop(str(error)) from None
    except OSError as error:
        raise _stop(f"{error.filename or folder}: {error.strerror or error}") from None
    said = f"{plural(len(names), 'plot')} in {folder}" if names else "nothing to plot: no times, metrics or collectives"
    click.echo(said, err=True)


def exit_status(verdict: Verdict, fail_on: str = "any") -> int:
    """The exit status for a verdict. fail_on: "any" trouble, only "failed", or "never" (0 even then)."""
    if verdict in ("healthy", "recovered"):
        return 0
    if verdict == "unknown":
        return 0 if fail_on == "never" else 3
    if fail_on == "never" or (fail_on == "failed" and verdict != "failed"):
        return 0
    return 1


def parse_since(text: str, now: float) -> float:
    """Seconds since the epoch of "90m", "2h", "3d", "1w" before `now`, or of an ISO date (local time).

    Raises ValueError.
    """
    from datetime import datetime

    units = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    if span := re.fullmatch(r"([0-9]{1,9})([smhdw])", text):
        return now - int(span[1]) * units[span[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is neither a span such as 2h or 3d nor a date such as 2026-11-27") from None


class _progress_display:
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


if __name__ == "__main__":
    main()
