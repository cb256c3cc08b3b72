"""Logs that begin or end within the tracebacks of their ranks: what the last lines still say."""

from __future__ import annotations

from pathlib import Path

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role

STEPS = "".join(f"step {step} loss: {2 - step / 100:.3f}\n" for step in range(5))


def diagnose(folder: Path, text: str) -> Diagnosis:
    (folder / "train.log").write_text(STEPS + text)
    return analyse([str(folder)], Options(cache=False))


def test_the_last_line_of_a_rank_tells_its_exception(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        "[rank2]:     out = layer(x)\n"
        "[rank2]: RuntimeError: the grid is empty\n"
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/w/train.py", line 23, in <module>\n',
    )
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("python-exception", (2,))
    assert root.evidence[0].text.endswith("RuntimeError: the grid is empty")
    assert root.evidence[0].line == 7


def test_a_rank_with_a_traceback_is_not_told_twice(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/w/train.py", line 23, in <module>\n'
        "[rank2]:     main()\n"
        "[rank2]: RuntimeError: the grid is empty\n",
    )
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.ranks, root.count) == ("python-exception", (2,), 1)


def test_a_rank_that_goes_on_has_not_failed(tmp_path: Path) -> None:
    found = diagnose(tmp_path, "a logger says [rank2] RuntimeError: retried\n" + STEPS.replace("step ", "step 1"))
    assert not found.of_role(Role.ROOT)
