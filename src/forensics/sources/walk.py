"""From folders to parsed programs: which files are read, how far, and a coverage row for each.

Nothing is imported or executed, links out of a folder are not followed, and only regular files are opened. Files that
use no training library are counted as read without being parsed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.files import printable
from forensics.model import Coverage, Status
from forensics.sources.program import Program

KIND = "code"
SUFFIXES = (".py", ".ipynb")
MAX_FILES = 5_000  # programs in all
MAX_ENTRIES = 200_000  # names looked at, whatever they are
MAX_SIZE = 1 << 20  # bytes of one program: ten times the largest trainers in use
MAX_NOTEBOOK = 16 << 20  # bytes of one notebook, pictures included
MAX_TOTAL = 24 << 20  # bytes of programs that are parsed
MAX_NODES = 2_000_000  # of all syntax trees together: about 1 GB; 7 MB of common programs have 600,000
MAX_DEPTH = 30  # folders
MAX_NESTING = 150  # levels of the syntax tree; the deepest of some thousand training programs has 60
BUDGET = 60.0  # seconds for reading and parsing all

_SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn __pycache__ site-packages dist-packages node_modules .venv venv .tox .nox .mypy_cache .eggs"
    " .ipynb_checkpoints .pytest_cache .ruff_cache".split()
)
# Tests do on purpose, and in small, what a training run must not do.
_TEST = re.compile(r"/(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
# A program that names none of these trains nothing that a check knows.
_LIBRARIES = (b"torch", b"lightning", b"accelerat", b"deepspeed", b"transformers", b"sklearn")


@dataclass(frozen=True, slots=True)
class Code:
    """The programs under some folders, and what became of each file."""

    programs: tuple[Program, ...]
    coverage: tuple[Coverage, ...]


class Unreadable(Exception):
    """A file that cannot be read as a program; the message says why."""


def read_code(folders: Sequence[Path]) -> Code:
    """Parse the programs (.py) and notebooks (.ipynb) under folders or among files. Never raises for what they hold.

    Paths are shown as the folder's own name and the path in it: `src/train.py` for `--sources /home/me/src`.
    """
    programs: list[Program] = []
    coverage: list[Coverage] = []
    seen: set[tuple[int, int]] = set()
    deadline = time.monotonic() + BUDGET
    total = nodes = 0
    for file, path, problem in _files(folders):
        if problem is not None:
            coverage.append(Coverage(path, KIND, 0, Status.SKIPPED, problem))
            continue
        size = 0
        try:
            info = file.stat()
            size = info.st_size
            if not stat.S_ISREG(info.st_mode):
                raise Unreadable("not a regular file")
            if info.st_ino and (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
            limit = MAX_NOTEBOOK if path.endswith(".ipynb") else MAX_SIZE
            if size > limit:
                raise Unreadable(f"larger than {limit >> 20} MB")
            if time.monotonic() > deadline:
                raise Unreadable(f"not read: {BUDGET:.0f} seconds had passed")
            data = _bytes(file, limit)
            if _TEST.search(path):
                coverage.append(Coverage(path, KIND, size, Status.SKIPPED, "a test"))
                continue
            if not any(word in data for word in _LIBRARIES):
                if path.endswith(".ipynb"):
                    _cells_of(data)  # one that is damaged uses nothing that can be told
                coverage.append(Coverage(path, KIND, size, Status.READ, "uses no training library"))
                continue
            total += len(data)
            if total > MAX_TOTAL:
                raise Unreadable(f"more than {MAX_TOTAL >> 20} MB of programs")
            if nodes > MAX_NODES:
                raise Unreadable(f"more than {MAX_NODES:,} syntax nodes in the programs before it")
            found, partly = parse_notebook(data, path) if path.endswith(".ipynb") else ([parse(data, path)], None)
            programs += found
            nodes += sum(len(program.nodes) for program in found)
            coverage.append(Coverage(path, KIND, size, Status.PARTIAL if partly else Status.READ, partly))
        except Unreadable as error:
            coverage.append(Coverage(path, KIND, size, Status.SKIPPED, str(error)))
        except OSError as error:
            coverage.append(Coverage(path, KIND, size, Status.UNREADABLE, error.strerror or "cannot be read"))
    return Code(tuple(programs), tuple(coverage))


def _bytes(file: Path, limit: int) -> bytes:
    fd = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(fd, "rb") as stream:
        return stream.read(limit + 1)


def _files(folders: Sequence[Path]) -> Iterator[tuple[Path, str, str | None]]:
    """(file, path as shown, why it is not read) of every program under the folders."""
    count = entries_seen = 0
    labels: dict[str, int] = {}
    for given in folders:
        name = printable(given.name or given.resolve().name or "sources")
        labels[name] = labels.get(name, 0) + 1
        label = name if labels[name] == 1 else f"{name}.{labels[name]}"
        if not given.is_dir():
            yield given, label, None if given.suffix in SUFFIXES else "no program"
            continue
        boundary, before = given.resolve(), count
        stack = [(given, f"{label}/", 0)]
        while stack:
            folder, at, depth = stack.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda e: e.name)
            except OSError as error:
                yield folder, at, f"cannot list: {error.strerror}"
                continue
            below = []
            for entry in entries:
                entries_seen += 1
                path = f"{at}{printable(entry.name)}"
                if entries_seen > MAX_ENTRIES:
                    yield folder, at, f"more than {MAX_ENTRIES} files"
                    return
                try:
                    is_folder, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
                except OSError:
                    continue
                if is_folder:
                    if entry.name not in _SKIPPED_FOLDERS:
                        if depth < MAX_DEPTH:
                            below.append((Path(entry.path), path + "/", depth + 1))
                        else:
                            yield folder, path, f"deeper than {MAX_DEPTH} folders"
                    continue
                if not entry.name.endswith(SUFFIXES):
                    continue
                if is_link and not _inside(Path(entry.path), boundary):
                    yield Path(entry.path), path, "symbolic link that is broken, loops or leaves the folder"
                    continue
                count += 1
                if count > MAX_FILES:
                    yield folder, path, f"more than {MAX_FILES} programs"
                    return
                yield Path(entry.path), path, None
            stack.extend(reversed(below))
        if count == before:
            yield given, label, "holds no program"


def _inside(link: Path, boundary: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(boundary) and not link.is_dir()
    except (OSError, RuntimeError):
        return False


def parse(data: bytes, path: str) -> Program:
    """A program from its bytes. Raises Unreadable with the reason where it is none that this Python can parse."""
    if b"\0" in data[: 64 << 10]:
        raise Unreadable("binary file")
    tree = _tree(data)
    lines = data.decode("utf-8", "replace").split("\n")
    starts, at = [], 0
    for line in data.split(b"\n"):
        starts.append(at)
        at += len(line) + 1
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return _not_too_deep(Program(path, [line.rstrip("\r") for line in lines], tree, starts, module))


def _tree(source: bytes | str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise Unreadable(_why_not(source, f"{error.msg}{where}")) from None
    except (ValueError, LookupError) as error:
        raise Unreadable(f"no Python text: {str(error)[:120]}") from None
    except (RecursionError, MemoryError, OverflowError):
        raise Unreadable("nested too deeply to be parsed") from None
    return tree


def _not_too_deep(program: Program) -> Program:
    if program.depth > MAX_NESTING:
        raise Unreadable(f"nested deeper than {MAX_NESTING} levels")
    return program


def _why_not(source: bytes | str, message: str) -> str:
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if ("print" in message and ("parentheses" in message or "Missing" in message)) or "except" in message:
        return f"written for Python 2: {message[:120]}"
    return f"no program that {version} can parse: {message[:120]}"


def parse_notebook(data: bytes, path: str) -> tuple[list[Program], str | None]:
    """The code cells of a notebook as one program, and what could not be read of it.

    Cells are parsed one by one, and one that is no Python (a magic for another language, a cut cell) costs itself only.
    Lines count through all code cells, since line numbers of the JSON file are of no use to anyone. Raises Unreadable.
    """
    cells = _cells_of(data)
    lines: list[str] = []
    bad = 0
    for cell in cells:
        text = _plain_python(cell)
        try:
            _tree("\n".join(text))
        except Unreadable:
            bad += 1
            text = [""] * len(text)
        lines += text
    tree = _tree("\n".join(lines))
    partly = f"{bad} of {len(cells)} code cells are no Python" if bad else None
    program = Program(path, lines, tree, None, path.removesuffix(".ipynb").replace("/", "."))
    return [_not_too_deep(program)], partly


def _cells_of(data: bytes) -> list[str]:
    """The texts of a notebook's code cells. Raises Unreadable where the file is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("no notebook: not valid JSON") from None
    cells = _cells(document)
    if cells is None:
        raise Unreadable("no notebook: it has no cells")
    return cells


def _cells(document: Any) -> list[str] | None:
    if not isinstance(document, dict):
        return None
    cells = document.get("cells")
    if cells is None and isinstance(sheets := document.get("worksheets"), list):  # notebooks before format 4
        cells = [
            c for s in sheets if isinstance(s, dict) for c in s.get("cells", []) if isinstance(s.get("cells"), list)
        ]
    if not isinstance(cells, list):
        return None
    found = []
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", cell.get("input", ""))
        if isinstance(text, list):
            text = "".join(part for part in text if isinstance(part, str))
        if isinstance(text, str):
            found.append(text)
    return found


def _plain_python(cell: str) -> list[str]:
    """A cell's lines with IPython's own commands (`%magic`, `!shell`, `?help`) emptied; of `%%magic` cells nothing."""
    lines = cell.split("\n")
    if lines and lines[0].lstrip().startswith("%%") and not lines[0].lstrip().startswith(("%%time", "%%capture")):
        return [""] * len(lines)
    plain = []
    for line in lines:
        text = line.lstrip()
        if text.startswith(("%", "!", "?")) or text.rstrip().endswith("?"):
            plain.append(line[: len(line) - len(text)] + "pass")
        else:
            plain.append(line)
    return plain
