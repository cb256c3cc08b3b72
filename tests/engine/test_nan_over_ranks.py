"""A number that is not finite on some ranks: whose it is, what only repeats it, and how sure that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role

RAISED = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 88, in <module>',
    "    main()",
    '  File "/opt/train/train.py", line 60, in main',
    "    check(loss)",
]
REAL = (
    "ValueError: Expected parameter loc (Tensor of shape (4,)) of distribution Normal(loc: torch.Size([4])) to satisfy "
    "the constraint Real(), but found invalid values:"
)


def clock(seconds: int) -> str:
    return f"2026-11-20 08:{seconds // 60:02d}:{seconds % 60:02d}"


def log(rank: int, lost: int, last: int = 60) -> str:
    """Steps up to `last`, with a loss of NaN from step `lost` on."""
    losses = [f"{2 + 3 / n:.4f}" if n < lost else "nan" for n in range(1, last + 1)]
    return "".join(f"{clock(2 * n)} [rank{rank}] step {n} loss {loss}\n" for n, loss in enumerate(losses, 1))


def raised(rank: int, at: int, *last: str) -> str:
    return "".join(f"{clock(at)} [rank{rank}]: {text}\n" for text in (*RAISED, *last))


def diagnosed(folder: Path, *texts: str) -> Diagnosis:
    for n, text in enumerate(texts):
        (folder / f"rank{n}.log").write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize(
    ("error", "follows"),
    [
        ((REAL + " tensor([nan, nan])",), True),
        (("RuntimeError: loss is not finite after the reduction",), True),
        (("KeyError: 'nan'",), False),
        (("ValueError: inflow of 3 tenants",), False),
    ],
)
def test_a_check_on_another_rank_follows_from_what_it_found(
    tmp_path: Path, error: tuple[str, ...], follows: bool
) -> None:
    found = diagnosed(tmp_path, log(0, 41, 42) + raised(0, 85, *error), log(1, 41, 42), log(2, 40, 41))
    first = found.of_role(Role.ROOT)[0]
    assert (first.name, first.ranks, first.step) == ("nan-in-data", (2,), 40)
    assert [f.name for f in found.of_role(Role.ROOT)[1:]] == ([] if follows else ["python-exception"])


def test_a_rank_whose_nan_does_not_spread_is_not_surely_one_of_data(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, log(0, 99), log(1, 99), log(2, 40)).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks, found.step) == ("nan-in-data", (2,), 40)
    assert found.confidence < 0.6
    assert "stays finite for 20 records more" in found.notes[0]


def test_a_rank_whose_nan_spreads_is_likely(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, log(0, 41), log(1, 41), log(2, 40)).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks, found.step) == ("nan-in-data", (2,), 40)
    assert 0.7 < found.confidence <= 0.8


def test_a_batch_that_the_log_names_is_believed(tmp_path: Path) -> None:
    text = log(2, 40) + raised(2, 121, "ValueError: NaN found in input batch")
    found = diagnosed(tmp_path, log(0, 99), log(1, 99), text).of_role(Role.ROOT)[0]
    assert (found.name, found.step) == ("nan-in-data", 40)
    assert found.confidence > 0.8


def test_the_step_is_that_of_the_first_bad_record(tmp_path: Path) -> None:
    """The program notices it later, in a line that bears a time where the records bear none."""
    text = "".join(f"{line.partition('] ')[2]}\n" for line in log(0, 40, 45).splitlines())
    (tmp_path / "train.log").write_text(text + "2026-11-20 08:01:29 Loss is nan at step 44, stopping training\n")
    found = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0]
    assert (found.name, found.step) == ("nan-loss", 40)


NOTICED = "ValueError: Loss is nan, stopping training"


def test_who_notices_first_what_all_ranks_lost_at_one_step_is_not_to_blame(tmp_path: Path) -> None:
    first = diagnosed(tmp_path, log(0, 41, 41) + raised(0, 85, NOTICED), log(1, 41, 41), log(2, 41, 41)).findings[0]
    assert (first.name, first.ranks, first.step) == ("nan-loss", None, 41)
    assert any("on all 3 ranks that log it" in note for note in first.notes)


def test_who_lost_it_alone_is(tmp_path: Path) -> None:
    first = diagnosed(tmp_path, log(0, 99, 41), log(1, 41, 41) + raised(1, 85, NOTICED), log(2, 99, 41)).findings[0]
    assert first.ranks == (1,)


def test_who_says_that_it_was_where_it_began_is(tmp_path: Path) -> None:
    told = "RuntimeError: Rank 1, node n2, device 1, iteration 41: Unexpected result nan (message='found NaN in local forward loss calculation')"
    first = diagnosed(tmp_path, log(0, 41, 41), log(1, 41, 41) + raised(1, 85, told), log(2, 41, 41)).findings[0]
    assert first.ranks == (1,)


def merged(warned_at: int, *warnings: str, last: int = 60) -> str:
    """A log in which rank 0 alone logs its loss, NaN from step 31 on, and others what they are given at a step."""
    lines = [(n, f"[rank 0] step {n} loss {2 + 3 / n if n < 31 else float('nan'):.4f}") for n in range(1, last + 1)]
    lines += [(warned_at, text) for text in warnings]
    return "".join(f"{clock(2 * n)} INFO {text}\n" for n, text in sorted(lines, key=lambda line: line[0]))


def test_a_batch_that_one_rank_says_holds_nan_is_the_cause_of_the_loss_that_another_logs(tmp_path: Path) -> None:
    log = merged(28, "[rank 1] step 28: input contains NaN (sample_id=88213)")
    found = diagnosed(tmp_path, log).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks, found.step) == ("nan-in-data", (1,), 28)


def test_inputs_that_are_not_finite_after_the_loss_was_nan_are_no_cause_of_it(tmp_path: Path) -> None:
    log = merged(45, "[rank 1] step 45: input contains NaN (sample_id=88213)")
    found = diagnosed(tmp_path, log).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks) == ("nan-loss", None)
