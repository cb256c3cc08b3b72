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
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

from forensics import cache

GROUP = "forensics.signatures"


class Installed(NamedTuple):
    """What installed packages declare. problems: a line for each entry point that leads to no folder, and why."""

    folders: tuple[Path, ...]
    problems: tuple[str, ...] = ()


def folders() -> tuple[Path, ...]:
    """The folders of signature files of all installed packages, by the names of their entry points."""
    return installed().folders


def installed() -> Installed:
    """The entry points of all installed packages, followed.

    Remembered until a folder of the search path or a list of entry points changes: reading what a hundred packages
    declare takes longer than a small analysis. Nothing is remembered while an entry point leads nowhere, so that what
    mends it is seen at once.
    """
    searched = _search_path()
    stats = [stat for entry in searched for stat in _stats(entry)]
    name = f"plugins-{hashlib.sha256(repr(stats).encode()).hexdigest()[:32]}.json"
    if data := cache.load(name):
        try:
            known = [Path(folder) for folder in json.loads(data)]
        except (ValueError, TypeError):
            known = []
        if all(folder.is_dir() for folder in known):
            return Installed(tuple(known))
    found = _declared(searched)
    if not found.problems:
        cache.store("plugins", name, json.dumps([str(folder) for folder in found.folders]).encode())
    return found


def _stats(entry: str) -> list[tuple[str, int, int]]:
    """(path, time of change, size) of a folder of the search path, and of the lists of entry points in it."""
    try:
        found = [(entry, os.stat(entry).st_mtime_ns, 0)]  # noqa: PTH116
        with os.scandir(entry) as members:
            names = sorted(m.name for m in members if m.name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return []
    for name in names:
        file = os.path.join(entry, name, "entry_points.txt")  # noqa: PTH118 - a hundred packages at each start
        try:
            info = os.stat(file)  # noqa: PTH116
        except OSError:
            continue
        found.append((file, info.st_mtime_ns, info.st_size))
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


def _declared(searched: Sequence[str]) -> Installed:
    from importlib.metadata import distributions

    problems: list[str] = []
    found: dict[tuple[str, Path], None] = {}  # two packages may choose one name
    for distribution in distributions(path=list(searched)):
        try:
            points = [p for p in distribution.entry_points if p.group == GROUP]
        except Exception:  # a damaged distribution of somebody else is no reason to stop
            continue
        for point in points:
            try:
                found[point.name, _folder(point.value, searched)] = None
            except LookupError as error:
                where = f"entry point {point.name} = {point.value} ({GROUP}) of {distribution.name or 'a package'}"
                problems.append(f"{where}: {error.args[0]}")
    return Installed(tuple(folder for _, folder in sorted(found)), tuple(dict.fromkeys(problems)))


def _folder(value: str, searched: Sequence[str]) -> Path:
    """The folder of a dotted package name, found without importing anything. Raises LookupError, which says why not."""
    name = value.partition(":")[0].strip()
    top, *rest = name.split(".")
    try:
        spec = PathFinder.find_spec(top, list(searched)) or _editable(top)
    except (ImportError, ValueError, OSError) as error:
        raise LookupError(f"{name!r} cannot be looked up: {error}") from None
    if spec is None:
        raise LookupError(f"no installed package is called {top!r}")
    locations = list(spec.submodule_search_locations or ())
    if not locations:
        raise LookupError(f"{top!r} is a single module, and no package with a folder")
    folder = next((folder for location in locations if (folder := Path(location, *rest)).is_dir()), None)
    if folder is None:
        raise LookupError(f"there is no folder {Path(locations[0], *rest)}")
    return folder


def _editable(top: str) -> ModuleSpec | None:
    """The place of a package that setuptools installed as editable, which a finder of its own knows."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is not None and str(getattr(finder, "__module__", "")).startswith("__editable__"):
            spec = find(top, None)
            if isinstance(spec, ModuleSpec):
                return spec
    return None
