"""Logs whose every line is indented, or wrapped in a colour: whose the lines are, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.expressions import scan_expression
from forensics.engine.pipeline import Options, analyse
from forensics.parsers.prefixes import clean, sample_lines, vote
from forensics.parsers.stamps import parse_time

RAISED = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 31, in <module>',
    "    main()",
    '  File "/w/train.py", line 12, in main',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
]
STEPS = [f"{{label}}step {n} loss {2 - n / 99:.3f}" for n in range(20)]


def labelled(form: Callable[[int], str]) -> list[str]:
    """Four ranks, of which one raises."""
    lines = [step.format(label=form(rank)) for step in STEPS for rank in range(4)]
    return lines + [form(2) + line for line in RAISED]


def text(lines: list[str], before: str, after: str = "") -> str:
    return "".join(f"{before}{line}{after}\n" for line in lines)


@pytest.mark.parametrize("form", ["{}: ", "[rank{}]: ", "[default{}]:"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("    ", ""), ("  ", ""), ("      ", ""), ("\x1b[36m", "\x1b[0m"), ("    \x1b[36m", "\x1b[0m")],
)
def test_the_rank_of_each_line_is_known(tmp_path: Path, form: str, before: str, after: str) -> None:
    (tmp_path / "job.log").write_text(text(labelled(form.format), before, after))
    found = analyse([str(tmp_path)], Options(threads=1))
    root = found.findings[0]
    assert (root.name, root.ranks, root.step, found.run.world_size) == ("cuda-oom", (2,), 19, 4)


def test_only_what_all_lines_are_indented_by_is_taken_off() -> None:
    lines = [
        "      [rank3]: Traceback (most recent call last):",
        '        File "/w/x.py", line 3',
        "      end",
        "      e",
    ]
    voted = vote(lines)
    assert clean(lines[0], voted).text == "Traceback (most recent call last):"
    assert clean(lines[0], voted).identity.rank == 3
    assert clean(lines[1], voted).text == '  File "/w/x.py", line 3'
    assert vote([*lines, "not indented"]) == frozenset()


def test_one_blank_is_what_megatron_begins_with() -> None:
    assert vote([f" iteration {n}/ 100 | lm loss: 2.{n}" for n in range(9)]) == frozenset()


def test_a_colour_before_a_word_hides_no_sign(tmp_path: Path) -> None:
    lines = ["FloatingPointError: gradients are inconsistent between workers.", "grad_norm across the workers:"]
    lines += [f"rank {rank} = nan" for rank in range(4)]
    (tmp_path / "out.log").write_text(text(lines, "\x1b[31m", "\x1b[0m"))
    assert analyse([str(tmp_path)], Options(threads=1)).findings[0].name == "nan-gradients"


def test_bounds_of_words_at_the_beginning_are_not_scanned_for() -> None:
    assert scan_expression(r"\brank +\d+ = nan\b") == r"rank +\d+ = nan\b"
    assert scan_expression(r"\bone \d|\btwo \d") == r"one \d|two \d"
    assert scan_expression(r"one\b two \d") == r"one\b two \d"
    bound = r"(?:\b|[\d\[]m)"
    assert scan_expression(r"(?i:\bone|(?:x|\btwo)\b) \d") == rf"(?i:{bound}one|(?:x|{bound}two)\b) \d"


def test_a_coloured_word_in_either_case_is_read(tmp_path: Path) -> None:
    steps = [f"step {n} loss {3 - n / 10:.1f}" for n in range(1, 9)]
    (tmp_path / "out.log").write_text("\n".join([*steps, "\x1b[32mTraining finished\x1b[0m", ""]))
    assert "reached its end" in analyse([str(tmp_path)], Options(threads=1)).summary


def test_samples_bear_no_colours() -> None:
    assert sample_lines(b"\x1b[36m3: step\x1b[0m\n") == ["3: step", ""]


def test_the_time_of_an_indented_record_of_glog_is_read() -> None:
    reference = 1795800000.0
    assert parse_time("    W1127 22:11:50.978000 8040 torch/x.py:753] Received", reference)[0] is not None
    assert parse_time("the W1127 22:11:50.978000 8040 torch/x.py:753] Received", reference)[0] is None
