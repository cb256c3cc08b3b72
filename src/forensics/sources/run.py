"""From folders to hits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.model import Coverage, Status
from forensics.sources.checks import REGISTRY
from forensics.sources.hits import Hit
from forensics.sources.program import Program
from forensics.sources.project import Project
from forensics.sources.walk import read_code

BUDGET = 60.0  # seconds for all checks together
MAX_HITS = 20  # of one check; a program of many variants repeats itself


@dataclass(frozen=True, slots=True)
class Found:
    """Hits of all checks, the programs that they are in, and a coverage row for each file."""

    hits: tuple[Hit, ...]
    programs: tuple[Program, ...]
    coverage: tuple[Coverage, ...]


def examine(folders: Sequence[Path], checks: Iterable[str] | None = None) -> Found:
    """Read the programs under folders and run checks on them (all that there are, or those named)."""
    code = read_code(folders)
    hits, faults = run_checks(code.programs, checks)
    coverage = tuple(
        replace(row, status=Status.PARTIAL, reason=faults[row.path]) if row.path in faults else row
        for row in code.coverage
    )
    return Found(hits, code.programs, coverage)


def run_checks(
    programs: Sequence[Program], checks: Iterable[str] | None = None
) -> tuple[tuple[Hit, ...], Mapping[str, str]]:
    """(hits, what went wrong by program). A check that fails costs its own hits in its program only."""
    project = Project(tuple(programs))
    names = list(REGISTRY) if checks is None else [name for name in checks if name in REGISTRY]
    deadline = time.monotonic() + BUDGET
    hits: list[Hit] = []
    faults: dict[str, str] = {}
    counts = dict.fromkeys(names, 0)
    for program in programs:
        if time.monotonic() > deadline:
            faults[program.path] = f"not checked: {BUDGET:.0f} seconds had passed"
            continue
        for name in names:
            try:
                for found in REGISTRY[name](program, project):
                    counts[name] += 1
                    if counts[name] <= MAX_HITS:
                        hits.append(found)
            except Exception as error:  # RecursionError of ast.unparse among them
                faults[program.path] = f"the check {name} failed: {type(error).__name__}: {str(error)[:120]}"
    return tuple(hits), faults
