"""Writes the pictures of a run into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.report.plots import draw
from forensics.report.plots.model import Pictures


def within_run(folder: Path, paths: Sequence[str]) -> bool:
    """Whether a folder is, or lies in, one of the paths that are analysed: nothing is ever written there."""
    target = folder.resolve()
    return any(target.is_relative_to(Path(path).resolve()) for path in paths if path not in ("", "-"))


def write(pictures: Pictures, folder: Path) -> list[str]:
    """Writes each picture as NAME.png and NAME.svg, and gives their names. Raises OSError and NoMatplotlib."""
    names = []
    for name, content in draw.for_folder(pictures):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        names.append(name)
    return names
