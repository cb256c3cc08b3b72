"""A log that breaks off in zero bytes: alone no run that is well; with a journal that starts anew, a host went down."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Verdict

STEPS = "".join(f"2026-11-20 08:{n // 6:02d}:{n % 6}0 step {n} loss {3 - n / 200:.3f}\n" for n in range(200))
CUT = STEPS.encode() + b"2026-11-20 08:33:20 step 200 lo"
BOOT = """\
Nov 20 08:{before:02d}:01 box systemd[1]: Started session 32.
-- Boot 5f0e11a6c1d04be2a7a4a8b4bb6f43a1 --
Nov 20 {hour}:{minute:02d}:12 box kernel: Linux version 6.8.0-45-generic (buildd@lcy02)
Nov 20 {hour}:{minute:02d}:13 box systemd-journald[411]: File /var/log/journal/a/system.journal corrupted or uncleanly shut down, renaming and replacing.
"""


def diagnosed(folder: Path, log: bytes, journal: str | None = None) -> Diagnosis:
    (folder / "train.log").write_bytes(log)
    if journal is not None:
        (folder / "journal.txt").write_text(journal)
    return analyse([str(folder)], Options(cache=False))


def test_zeros_and_a_start_of_the_host_after_them(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, CUT + bytes(4000), BOOT.format(before=32, hour="08", minute=41))
    root = found.findings[0]
    assert (found.verdict, root.name, root.node, root.step) == (Verdict.FAILED, "node-failure", "box", 199)
    assert root.evidence[0].text.endswith("step 200 lo… and 4,000 zero bytes")
    assert "\0" not in root.evidence[0].text


@pytest.mark.parametrize("journal", [None, BOOT.format(before=1, hour="07", minute=2)], ids=["alone", "started before"])
def test_zeros_that_nothing_explains_are_said_and_leave_no_run_healthy(tmp_path: Path, journal: str | None) -> None:
    found = diagnosed(tmp_path, CUT + bytes(4000), journal)
    assert found.verdict is Verdict.UNKNOWN
    assert "train.log breaks off in 4,000 zero bytes" in found.summary
    assert next(c.reason for c in found.coverage if c.path == "train.log") == "ends in 4,000 zero bytes"


@pytest.mark.parametrize(
    "log", [STEPS.encode(), STEPS.encode() + b"\0", bytes(4000) + STEPS.encode()], ids=["none", "one", "in front"]
)
def test_a_start_of_the_host_says_nothing_of_a_log_without_them(tmp_path: Path, log: bytes) -> None:
    assert diagnosed(tmp_path, log, BOOT.format(before=32, hour="08", minute=41)).verdict is Verdict.HEALTHY


def test_a_run_that_says_that_it_ended_is_well(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, STEPS.encode() + b"Training completed.\n" + bytes(4000)).verdict is Verdict.HEALTHY


def test_the_journal_of_another_host_is_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "train.log").write_bytes(CUT + bytes(4000))
    journal = BOOT.format(before=32, hour="08", minute=41)
    (tmp_path / "journal.txt").write_text(journal.replace(" box ", " node-2 "))
    assert analyse([str(tmp_path)], Options(cache=False)).verdict is Verdict.UNKNOWN
