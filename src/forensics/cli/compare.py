"""`forensics compare`: where two runs part."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from forensics.cli.ending import stop
from forensics.cli.output import FORMAT_OF, FORMATS, is_redacted, print_text, write_text
from forensics.cli.own import OWN, with_own
from forensics.cli.refusals import check_output


@click.command()
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
@OWN
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
        check_output(output, runs)
        if ctx.get_parameter_source("format_") is click.core.ParameterSource.DEFAULT:
            format_ = FORMAT_OF.get(output.suffix.lower(), format_)
            if format_ not in FORMATS:
                raise click.BadParameter(f"a comparison is not written as {format_}", param_hint="--output")
    try:
        project = settings.load(Path(), runs)
        options = Options(exclude=(*project.exclude, *exclude))
        redacted = is_redacted(format_, redact if redact is not None else project.redact)
        catalogue = with_own(project, signature_folders, examples=False)
        found = compared(runs[:-1], bad, options, catalogue, redact=redacted)
    except (NothingToRead, SignatureError, settings.SettingsError) as error:
        raise stop(str(error)) from None
    if format_ == "json":
        text = render.as_json(found)
    elif format_ == "markdown":
        text = render.markdown(found)
    else:
        text = render.terminal(found, width=shutil.get_terminal_size((100, 40)).columns)
    if output is None:
        print_text(text)
    else:
        write_text(text, output, format_, redacted, quiet=quiet)
    sys.exit(1 if found.differs else 0)
