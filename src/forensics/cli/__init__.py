"""The command line: a module a command, with its options, and what commands share."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from typing import Any

import click

from forensics import __version__
from forensics.cli import analyze, compare, explain, signatures, triage, watch
from forensics.cli.ending import give_up_stdout, stop

__all__ = ["main"]


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
            raise stop(f"a fault of forensics, not of your run: {what} (FORENSICS_DEBUG=1 shows where)") from None
        except KeyboardInterrupt:  # click would end with 1, which says that the run failed
            raise click.exceptions.Exit(130) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # As it ends, the interpreter looks once more for garbage among all that there is, which takes it longer than
        # reading a small run. Nothing is lost by leaving that to the system.
        atexit.register(gc.freeze)
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # click itself prints help and versions, and knows closed pipes but no full disks
            give_up_stdout()
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


for _command in (
    analyze.analyze,
    explain.explain,
    compare.compare,
    signatures.signatures,
    triage.triage,
    watch.watch,
):
    main.add_command(_command)
