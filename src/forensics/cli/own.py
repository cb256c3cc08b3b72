"""The catalogue, with the signatures that users have beside the built-in ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.ending import stop

if TYPE_CHECKING:
    from forensics.settings import Settings
    from forensics.signatures.schema import Signature


OWN = click.option(
    "--signatures",
    "signature_folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own signatures, beside the built-in ones. Can be repeated.",
)


def every_folder(project: Settings, given: Sequence[Path]) -> tuple[Path, ...]:
    """Where signatures lie beside the built-in ones; a later folder wins: installed packages, project, command line."""
    from forensics.signatures import plugins

    installed = plugins.installed()
    warn(installed.problems)
    return (*installed.folders, *project.signatures, *given)


def own_folders(start: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """(where signatures lie beside the built-in ones in directory `start`, what is wrong with what names them)."""
    from forensics import settings
    from forensics.signatures import plugins

    installed = plugins.installed()
    try:
        project = settings.load(start)
    except settings.SettingsError as error:
        return installed.folders, (*installed.problems, str(error))
    return (*installed.folders, *project.signatures), installed.problems


def with_own(project: Settings, given: Sequence[Path], *, examples: bool = True) -> dict[str, Signature]:
    """The catalogue, with a warning for what is odd about users' own signatures. Raises SignatureError."""
    from forensics.signatures.schema import load_catalogue, notes

    folders = every_folder(project, given)
    catalogue = load_catalogue(*folders, examples=examples)
    if folders:
        warn(notes(catalogue, folders))
    return catalogue


def warn(lines: Sequence[str]) -> None:
    from forensics.report.inert import inert

    for line in lines:
        click.echo(f"warning: {inert(line, None)}", err=True)


def catalogue_with(given: Sequence[Path]) -> dict[str, Signature]:
    from forensics import settings
    from forensics.signatures.schema import SignatureError

    try:
        return with_own(settings.load(Path()), given)
    except (SignatureError, settings.SettingsError) as error:
        raise stop(str(error)) from None
