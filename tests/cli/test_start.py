"""What a small run does not pay for: readers of files that it does not have, and a last look for garbage at the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from forensics.patterns import lazy

# What reads checkpoints, numbers of metric lines and calls of dumps.
_RARE = (
    "forensics.parsers.checkpoints.contents",
    "forensics.parsers.metric_lines.reader",
    "forensics.engine.collectives.dumps",
)
_LOADED = """
import atexit, gc, sys
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 0, file=sys.stderr))
from forensics.cli import main
try:
    main(["analyze", *sys.argv[1:]])
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def _after_analyze(path: Path) -> list[str]:
    """The modules that an analysis has loaded, and what is said at exit."""
    done = subprocess.run([sys.executable, "-c", _LOADED, str(path)], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()


def test_readers_are_loaded_for_what_there_is_to_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    log = tmp_path / "run" / "train.log"
    log.write_text("loading\nRuntimeError: address already in use\n")
    loaded = _after_analyze(log)
    assert "forensics.engine.pipeline" in loaded
    assert not set(loaded) & set(_RARE)
    log.write_text("step 1 loss 2.5\nstep 2 loss 2.4\n")
    assert set(_after_analyze(log)) & set(_RARE) == {"forensics.parsers.metric_lines.reader"}


def test_no_look_for_garbage_at_exit(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2.5\n")
    assert "frozen True" in _after_analyze(tmp_path)


def test_a_lazy_pattern_is_the_pattern_that_it_stands_for() -> None:
    pattern = lazy(r"(?P<n>\d+)", re.A)
    assert pattern.sub(r"<\g<n>>", "a1b22") == "a<1>b<22>"
    assert (pattern.pattern, pattern.groups, pattern.flags) == (r"(?P<n>\d+)", 1, re.compile(r"\d", re.A).flags)


def test_a_lazy_pattern_that_is_wrong_says_so_when_it_is_used() -> None:
    wrong = lazy("(")
    with pytest.raises(re.error):
        wrong.search("")
