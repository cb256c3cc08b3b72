"""`forensics explain`: entries of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.ending import Stop, stop
from forensics.cli.output import FORMATS, print_text
from forensics.cli.own import OWN, catalogue_with

if TYPE_CHECKING:
    from forensics.signatures.schema import Signature


@click.command(context_settings={"ignore_unknown_options": True})  # -9 is a name
@click.argument("names", nargs=-1, required=True, metavar="NAME|CODE|TEXT...")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal", help="What to print.")
@OWN
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
    catalogue = catalogue_with(signature_folders)
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
        print_text(json.dumps([entry.as_dict(s) for s in found.values()], indent=2, ensure_ascii=False))
    elif format_ == "markdown":
        print_text("\n".join(entry.render_markdown(s) for s in found.values()))
    else:
        width = shutil.get_terminal_size((100, 40)).columns
        print_text("\n".join(entry.render(s, width=width) for s in found.values()))


def _by_words(catalogue: Mapping[str, Signature], wanted: str) -> tuple[Signature, ...]:
    """The entry that bears all words of `wanted`, where one is clearly meant, or that knows it as a printed line.

    Else ends with those that may be.
    """
    from forensics.report.inert import inert
    from forensics.signatures import index, pasted, search

    matches = search.search(catalogue, wanted)
    meant = search.best(matches)
    others = search.asked_often(catalogue, wanted)
    if others and not (matches and matches[0].named):
        meant = None
    elif not search.by_name(matches, wanted):
        printed = pasted.of_line(catalogue, wanted) or ([] if meant else pasted.of_piece(catalogue, wanted))
        if printed:
            more = f"; others: {', '.join(s.name for s in printed[1:])}" if printed[1:] else ""
            click.echo(f"nothing is called {inert(repr(wanted))}; the line is one of {printed[0].name}{more}", err=True)
            return (printed[0],)
    others = others if meant is None and others else [m.signature for m in matches if m.signature is not meant]
    if meant is not None:
        more = f"; others: {', '.join(s.name for s in others)}" if others else ""
        click.echo(f"nothing is called {inert(repr(wanted))}; the nearest is {meant.name}{more}", err=True)
        return (meant,)
    near = index.near_names(catalogue, wanted)
    if others := others or ([] if near else search.nearest(catalogue, wanted)):
        wide = max(len(s.name) for s in others)
        listed = [inert(f"  {s.name:{wide}}  {s.title}") for s in others]
        raise Stop("\n".join([f"nothing is called {inert(repr(wanted))}; did you mean one of these?", *listed]))
    hint = f"; did you mean {', '.join(near)}?" if near else "; see: forensics signatures list"
    raise stop(f"no signature is called {wanted!r}{hint}")
