"""Lines that a Kubernetes runtime has written in parts."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from forensics.archives.cri import looks_like_parts, text
from forensics.engine.pipeline import Options, analyse

TIME = "2026-11-20T09:00:30.123456789Z"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RAISED = [
    "Traceback (most recent call last):",
    '  File "/srv/job/train.py", line 14, in <module>',
    "    loss.backward()",
]
STEPS = [f"2026-11-20T09:00:{n:02}.123456789Z stdout F step {n} loss {2 / (n + 1):.4f}" for n in range(20)]


def read(log: str) -> list[str]:
    return b"".join(text(BytesIO(log.encode()))).decode().split("\n")


def test_an_error_in_parts_is_read(tmp_path: Path) -> None:
    lines = [*STEPS, *(f"{TIME} stderr F {line}" for line in RAISED)]
    lines += [f"{TIME} stderr P {OOM[:30]}", f"{TIME} stderr P {OOM[30:50]}", f"{TIME} stdout F saving"]
    lines += [f"{TIME} stderr F {OOM[50:]}"]
    (tmp_path / "0.log").write_text("\n".join(lines) + "\n")
    root = analyse([str(tmp_path)], Options(cache=False)).findings[0]
    assert (root.name, root.evidence[0].line) == ("cuda-oom", len(lines))
    assert OOM in root.evidence[0].text


def test_streams_are_apart_and_lines_keep_their_numbers() -> None:
    log = f"{TIME} stdout P a\n{TIME} stderr P x\n{TIME} stdout F b\n{TIME} stderr F y\nother\n{TIME} stdout P c\n"
    assert read(log) == ["", "", f"{TIME} stdout F ab", f"{TIME} stderr F xy", "other", "", f"{TIME} stdout F c", ""]


def test_blanks_at_the_joint_stay() -> None:
    assert read(f"{TIME} stdout P of \n{TIME} stdout F  memory\n")[1] == f"{TIME} stdout F of  memory"


def test_a_line_of_very_many_parts_is_put_together() -> None:
    lines = read(f"{TIME} stdout P .\n" * 40_000 + f"{TIME} stdout F done\n")
    assert lines[40_000] == f"{TIME} stdout F {'.' * 40_000}done"


@pytest.mark.parametrize(
    "head",
    [f"{TIME} stdout F a\n{TIME} stdout F P\n", f"{TIME} P a\n", f"step 1\n{TIME} stdout P a\n", ""],
)
def test_logs_of_whole_lines_are_left_as_they_are(head: str) -> None:
    assert not looks_like_parts(head.encode())
