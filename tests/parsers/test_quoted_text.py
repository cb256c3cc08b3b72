"""Failures that a run's samples, prompts and previews quote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis
from forensics.parsers.quoted_text import is_field, is_within

STEPS = "".join(f"2026-04-03 04:{m:02d}:00 INFO step {m * 100} loss {3 - m / 20:.3f}\n" for m in range(31))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB"
RAISED = f'Traceback (most recent call last):\n  File "train.py", line 31, in <module>\n    loss.backward()\n{OOM}\n'
KILLED = "Out of memory: Killed process 4411 (python) total-vm:99120012kB, anon-rss:64012000kB, file-rss:0kB"
END = "2026-04-03 05:00:05 INFO training finished\n"


def analysed(folder: Path, text: str) -> Diagnosis:
    (folder / "train.log").write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize(
    "quoted",
    [
        f"--- sample (prompt: 'How do I fix this?') ---\nHow do I fix this?\n{RAISED}--- end of sample ---\n",
        f"<|im_start|>user\nWhat does this say?\n{KILLED}\n<|im_end|>\n",
        f"[INST] What does this say?\n{RAISED}[/INST] You ran out of memory.\n",
        "2026-04-03 04:50:00 INFO sample: hyp: Aucun espace disponible sur le périphérique\n",
        "2026-04-03 04:50:00 INFO eval sample | prompt: Why? | completion: It was OOMKilled. Exit Code: 137\n",
        "T-12\tNo space left on device\nH-12\t-0.31\tNo space left on device\n",
    ],
)
def test_a_quoted_failure_is_no_failure(tmp_path: Path, quoted: str) -> None:
    diagnosis = analysed(tmp_path, STEPS + quoted + END)
    assert diagnosis.verdict == "healthy"
    assert not [f for f in diagnosis.findings if f.role in ("root", "cascade")]


@pytest.mark.parametrize(
    "real",
    [
        f"--- generating samples ---\n{RAISED}{'=' * 60}\n",
        f"<|im_start|>user\nWhat does this\n{RAISED}",
        f"<|im_start|>user\nHello\n<|im_end|>\n{RAISED}",
        "2026-04-03 04:50:00 ERROR prompt: [Errno 28] No space left on device\n",
        "2026-04-03 04:50:00 failed to write completion: [Errno 28] No space left on device\n",
    ],
)
def test_a_failure_beside_a_text_is_one(tmp_path: Path, real: str) -> None:
    assert analysed(tmp_path, STEPS + real).verdict == "failed"


def test_a_real_failure_is_not_counted_with_the_quoted_ones(tmp_path: Path) -> None:
    quoted = f"<|im_start|>user\nWhat does this say?\n{RAISED}<|im_end|>\n"
    found = analysed(tmp_path, quoted + STEPS + RAISED).findings[0]
    assert (found.name, found.step) == ("cuda-oom", 3000)
    assert found.evidence[0].line is not None and found.evidence[0].line > 30


@given(st.text(max_size=300), st.lists(st.text(max_size=60), max_size=90), st.lists(st.text(max_size=60), max_size=90))
def test_any_text(line: str, before: list[str], after: list[str]) -> None:
    is_field(line)
    is_within(before, after)
