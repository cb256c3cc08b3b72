"""Signatures that other installed packages bring: entry points of the group `forensics.signatures`.

    [project.entry-points."forensics.signatures"]
    ours = "our_package.signatures"

The value names a package (or a folder in one) that holds TOML files. It is looked up and never imported: what it brings
is data. The current directory is not searched, for it may be the run that is analysed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from forensics import cache

GROUP = "forensics.signatures"


def folders() -> tuple[Path, ...]:
    """The folders of signature files of all installed packages, by the names of their entry points.

    Remembered until a folder of the search path changes: reading what a hundred packages declare takes longer than a
    small analysis.
    """
    searched = _search_path()
    stats = []
    for entry in searched:
        try:
            stats.append((entry, os.stat(entry).st_mtime_ns))  # noqa: PTH116
        except OSError:
            continue
    name = f"plugins-{hashlib.sha256(repr(stats).encode()).hexdigest()[:32]}.json"
    if data := cache.load(name):
        try:
            known = [Path(folder) for folder in json.loads(data)]
        except (ValueError, TypeError):
            known = []
        if all(folder.is_dir() for folder in known):
            return tuple(known)
    found = _declared(searched)
    cache.store("plugins", name, json.dumps([str(folder) for folder in found]).encode())
    return found


def _search_path() -> list[str]:
    """sys.path without the current directory, in whatever way it is written there."""
    try:
        here = Path.cwd().resolve()
    except OSError:
        here = None
    kept = []
    for entry in sys.path:
        try:
            if entry and (here is None or Path(entry).resolve() != here) and Path(entry).is_absolute():
                kept.append(entry)
        except (OSError, RuntimeError, ValueError):
            continue
    return kept


def _declared(searched: Sequence[str]) -> tuple[Path, ...]:
    from importlib.metadata import distributions

    found: dict[tuple[str, Path], None] = {}  # two packages may choose one name
    for distribution in distributions(path=list(searched)):
        try:
            points = [p for p in distribution.entry_points if p.group == GROUP]
        except Exception:  # a damaged distribution of somebody else is no reason to stop
            continue
        for point in points:
            folder = _folder(point.value, searched)
            if folder is not None:
                found[point.name, folder] = None
    return tuple(folder for _, folder in sorted(found))


def _folder(value: str, searched: Sequence[str]) -> Path | None:
    """The folder of a dotted package name, found without importing anything; None where there is none."""
    top, *rest = value.partition(":")[0].strip().split(".")
    try:
        spec = PathFinder.find_spec(top, list(searched))
    except (ImportError, ValueError, OSError):
        return None
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(location, *rest)
        if folder.is_dir():
            return folder
    return None
