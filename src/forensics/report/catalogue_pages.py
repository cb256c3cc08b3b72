"""The catalogue as a folder of Markdown pages: one an area, and an index by code and by area."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from forensics.report.entry import render_markdown
from forensics.signatures.index import codes
from forensics.signatures.schema import Signature

INDEX = "index.md"
_MADE = "<!-- Made from the signature files by `forensics signatures docs`; edit those. -->"


def pages(catalogue: Mapping[str, Signature]) -> dict[str, str]:
    """File name -> text of every page."""
    areas: dict[str, list[Signature]] = {}
    for signature in sorted(catalogue.values(), key=lambda s: s.name):
        areas.setdefault(signature.area, []).append(signature)
    made = {f"{area}.md": _area(area, areas[area]) for area in sorted(areas)}
    return {INDEX: _index(catalogue, areas), **made}


def _area(area: str, signatures: list[Signature]) -> str:
    lines = [_MADE, "", f"# {area}", ""]
    lines += [*_table(signatures, ""), ""]
    lines += [render_markdown(s, level=2) for s in signatures]
    return "\n".join(lines).rstrip() + "\n"


def _table(signatures: list[Signature], page: str) -> list[str]:
    rows = ["| Name | Codes | Kind | Status | Title |", "| --- | --- | --- | --- | --- |"]
    for s in signatures:
        title = s.title.replace("|", r"\|")
        status = "" if s.kind == "knowledge" else s.status
        rows.append(f"| [{s.name}]({page}#{_anchor(s)}) | {', '.join(s.codes)} | {s.kind} | {status} | {title} |")
    return rows


def _anchor(signature: Signature) -> str:
    """The anchor that GitHub gives the heading "name (A1, B2)"."""
    codes_ = "".join(f"-{code.lower()}" for code in signature.codes)
    return f"{signature.name}{codes_}"


def _index(catalogue: Mapping[str, Signature], areas: Mapping[str, list[Signature]]) -> str:
    lines = [_MADE, "", "# The catalogue", ""]
    stable = sum(s.status == "stable" for s in catalogue.values())
    lines += [f"{len(catalogue)} signatures in {len(areas)} areas; {stable} of them are stable.", ""]
    lines += ["`forensics explain NAME` (or a code) shows an entry in the terminal.", ""]
    lines += ["## By area", "", "| Area | Signatures | Stable |", "| --- | --- | --- |"]
    for area in sorted(areas):
        count = sum(s.status == "stable" for s in areas[area])
        lines.append(f"| [{area}]({area}.md) | {len(areas[area])} | {count} |")
    lines += ["", "## By code", "", "| Code | Signatures, the most usual first |", "| --- | --- |"]
    for code, signatures in codes(catalogue).items():
        links = ", ".join(f"[{s.name}]({s.area}.md#{_anchor(s)})" for s in signatures)
        lines.append(f"| {code} | {links} |")
    return "\n".join(lines) + "\n"


def stale(catalogue: Mapping[str, Signature], folder: Path) -> list[str]:
    """Names of pages in a folder that are not what the catalogue gives: missing, changed, or left over."""
    made = pages(catalogue)
    there = {p.name for p in folder.glob("*.md")} if folder.is_dir() else set()
    changed = [n for n, text in made.items() if n not in there or (folder / n).read_text("utf-8") != text]
    return sorted([*changed, *(there - made.keys())])


def write(catalogue: Mapping[str, Signature], folder: Path) -> int:
    """Write all pages into a folder, which is made if need be, and remove pages of areas that are gone.

    Returns how many there are. Raises OSError.
    """
    made = pages(catalogue)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, "utf-8")
    for page in folder.glob("*.md"):
        if page.name not in made and page.read_text("utf-8", "replace").startswith(_MADE):
            page.unlink()
    return len(made)
