"""How a command ends: exit statuses, and the one line that says why nothing could be done."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from forensics.model import Verdict


class Stop(click.ClickException):
    """Ends the program with a line on stderr and status 2."""

    exit_code = 2


def stop(message: str) -> Stop:
    from forensics.report.inert import inert

    return Stop(inert(message))


def give_up_stdout() -> None:
    """What is left in the buffer would fail again when the interpreter ends, with a message of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_status(verdict: Verdict, fail_on: str = "any") -> int:
    """The exit status for a verdict.

    fail_on: "any" that is not well, only the verdict "failed" (not hung, diverged, suspect or interrupted), or "never"
    (0 even then).
    """
    if verdict in ("healthy", "recovered"):
        return 0
    if verdict == "unknown":
        return 0 if fail_on == "never" else 3
    if fail_on == "never" or (fail_on == "failed" and verdict != "failed"):
        return 0
    return 1
