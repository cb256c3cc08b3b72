"""One rank raises, and the others are told to end: by their launcher, which has seen it, or by who ends the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role, Verdict

TOLD = "2026-08-10 09:01:{s:02} WARNING Received SIGTERM, shutting down\n"


def run(folder: Path, error: str, told: tuple[int, ...], raises_at: int = 11, told_at: int = 13) -> tuple[Verdict, str]:
    for rank in range(4):
        text = f"2026-08-10 09:00:00 INFO rank {rank}/4\n"
        text += "".join(f"2026-08-10 09:00:{n:02} INFO step {n} loss 2.5\n" for n in range(1, 30))
        raised = f"2026-08-10 09:01:{raises_at:02} ERROR training failed\nTraceback (most recent call last):\n"
        raised += f'  File "/srv/train.py", line 90, in <module>\n    main()\n{error}\n'
        ends = [(raises_at, raised)] if rank == 3 else []
        ends += [(told_at, TOLD.format(s=told_at))] if rank in told else []
        text += "".join(line for _, line in sorted(ends))
        (folder / f"rank{rank}.log").write_text(text)
    found = analyse([str(folder)], Options(threads=1))
    root = found.of_role(Role.ROOT)[0]
    return found.verdict, f"{root.name} {root.ranks}"


@pytest.mark.parametrize("error", ["KeyError: 'y'", "ValueError: bad sample", "RuntimeError: shapes differ"])
def test_what_one_rank_raised_ended_the_others(tmp_path: Path, error: str) -> None:
    assert run(tmp_path, error, (0, 1, 2)) == (Verdict.FAILED, "python-exception (3,)")


@pytest.mark.parametrize("error", ["KeyError: 'y'", "ConnectionResetError: [Errno 104] Connection reset by peer"])
def test_a_rank_that_was_told_to_end_itself_raised_because_of_it(tmp_path: Path, error: str) -> None:
    told = (0, 1, 2, 3) if error.startswith("Key") else (0, 1, 2)
    assert run(tmp_path, error, told, raises_at=14)[0] is Verdict.INTERRUPTED
