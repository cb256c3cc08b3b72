"""`forensics signatures`: list, test, write pages of, and draft signatures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.ending import stop
from forensics.cli.output import print_text
from forensics.cli.own import OWN, catalogue_with, own_folders
from forensics.cli.refusals import check_folder

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature


@click.group()
def signatures() -> None:
    """List the catalogue, test signatures, write its pages."""


@signatures.command("list")
@click.option("--area", help="Only this area: memory, collectives, nccl, ...")
@click.option("--format", "format_", type=click.Choice(("terminal", "json")), default="terminal", help="What to print.")
@OWN
def list_signatures(area: str | None, format_: str, signature_folders: tuple[Path, ...]) -> None:
    """One line a signature."""
    import json

    from forensics.report import entry

    catalogue = catalogue_with(signature_folders)
    meant = [s for s in catalogue.values() if area is None or s.area.lower() == area.lower()]
    chosen = sorted(meant, key=lambda s: (s.area, s.name))
    if not chosen:
        areas = ", ".join(sorted({s.area for s in catalogue.values()}))
        raise stop(f"no area is called {area!r}; there are {areas}")
    if format_ == "json":
        print_text(json.dumps([entry.as_dict(s) for s in chosen], indent=2, ensure_ascii=False))
        return
    wide = max(len(s.name) for s in chosen)
    print_text("\n".join(f"{s.area:12} {s.name:{wide}}  {s.kind:9}  {','.join(s.codes):12}  {s.title}" for s in chosen))


@signatures.command("test")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option(
    "--healthy",
    "runs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of healthy runs, one folder each: no signature may call one of them broken.",
)
def test_signatures(paths: tuple[Path, ...], runs: Path | None) -> None:
    """Check signatures against their own examples: those in files and folders, or else all that a command would read.

    These are the built-in ones, those of installed packages, and those that the project's pyproject.toml names. Exit
    status 1 means that something is wrong with them.
    """
    from forensics.report.inert import inert
    from forensics.report.words import plural
    from forensics.signatures.check import Bench, alarms, check_signature
    from forensics.signatures.schema import BUILT_IN, SignatureError, load_catalogue, parse, signature_files, text_of

    own, wrong = own_folders(Path())
    problems = [*wrong]
    asked = paths or (BUILT_IN, *own)
    looked_at = dict.fromkeys((*own, *(p for p in asked if p.is_dir())))
    problems += [f"{folder}: holds no signatures (*.toml)" for folder in looked_at if not signature_files(folder)]
    catalogue = load_catalogue()
    chosen: list[tuple[Signature, str]] = []
    for file in (f for p in asked for f in (signature_files(p) if p.is_dir() else [p])):
        try:
            text = text_of(file)
            signature = parse(text, file.resolve().parent.name, str(file))
        except SignatureError as error:
            problems.append(str(error))
            continue
        if file.name != f"{signature.name}.toml":
            problems.append(f"{file}:1: the file of {signature.name!r} must be named {signature.name}.toml")
        chosen.append((signature, text))
    broken = bool(problems)
    # The built-in ones are to agree with each other, whatever a user's own replace of them.
    catalogue |= {s.name: s for s, _ in chosen if _is_built_in(s)}
    alone, bench = Bench(catalogue), Bench(catalogue | {s.name: s for s, _ in chosen})
    for signature, text in chosen:
        # Rules that do not compile must not spoil the test of the others, so a user's own are compiled one by one.
        built_in = not paths and _is_built_in(signature)
        found = check_signature(signature, alone if built_in else None, text)
        if not built_in and not found:
            found = check_signature(signature, bench, text)
        broken = broken or bool(found)
        problems += found
    if runs is not None and not broken:
        names = {s.name for s, _ in chosen}
        problems += [
            f"{a.signature}: calls the healthy run {a.run} broken ({a.role}): {a.file}:{a.line or '?'}"
            for a in alarms(bench, runs)
            if not paths or a.signature in names
        ]
    for problem in problems:
        click.echo(inert(problem, None), err=True)
    click.echo(f"{plural(len(chosen), 'signature')}, {plural(len(problems), 'problem')}")
    sys.exit(1 if problems else 0)


def _is_built_in(signature: Signature) -> bool:
    from forensics.signatures.schema import BUILT_IN

    return BUILT_IN in Path(signature.file).parents


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
        raise stop(f"{error.filename or folder}: {error.strerror or error}") from None


@signatures.command("draft")
@click.argument("group", required=False)
@click.option("--from", "run", type=click.Path(exists=True), metavar="RUN", help="Draft from this run instead.")
@click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="Where triage kept its results.")
@click.option("--name", help="How the signature is to be called. Default: as the group.")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write NAME.toml there."
)
@click.option("--redact/--no-redact", default=True, help="Take names, hosts, addresses and secrets out. On by default.")
@OWN
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
            print_text(drafting.listing(store, redact=redact))
            return
        catalogue = catalogue_with(signature_folders)
        made = drafting.from_run(run, catalogue) if run is not None else drafting.from_store(str(group), store)
        drafted = made.draft(name=name, redact=redact, taken=catalogue)
        if output is None:
            print_text(drafted.text)
        else:
            if run is not None:
                check_folder(output, (run,), "draft")
            click.echo(drafting.write(drafted, output), err=True)
    except (DraftError, StoreError) as error:
        raise stop(str(error)) from None
