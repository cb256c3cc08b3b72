"""A log whose last words are an exception's message, with what a library puts below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = "step 10 loss 2.31\nstep 20 loss 2.29\n"
ERROR = "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked\n"
BACKGROUND = "(Background on this error at: https://sqlalche.me/e/20/e3q8)\n"


@pytest.mark.parametrize(
    "below", ["", BACKGROUND, "[SQL: SELECT trials.id FROM trials]\n[parameters: (7,)]\n" + BACKGROUND.rstrip()]
)
def test_what_sqlalchemy_puts_below_its_message_belongs_to_it(tmp_path: Path, below: str) -> None:
    (tmp_path / "train.log").write_text(STEPS + ERROR + below)
    (root,) = analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)
    assert (root.name, root.evidence[0].line) == ("python-exception", 3)


@pytest.mark.parametrize("below", [BACKGROUND + "step 30 loss 2.28\n", "trying again\n"])
def test_words_behind_which_the_log_goes_on_are_not_its_last(tmp_path: Path, below: str) -> None:
    (tmp_path / "train.log").write_text(STEPS + ERROR + below)
    assert not analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)
