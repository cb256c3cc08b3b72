"""The same failure met several times: where, when and how often are those of the one that nothing outlived."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

SKIPPED = (
    "WARNING | OOM: Ran out of memory with exception: CUDA out of memory. Tried to allocate 2.00 GiB. skipping batch"
)
FATAL = """Traceback (most recent call last):
  File "/w/train.py", line 4, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.64 GiB."""
RAISED = """Traceback (most recent call last):
  File "/w/data.py", line 12, in collate
    raise ValueError(f"bad sample {n}")
ValueError: bad sample {n}"""


def run_of(folder: Path, said: Mapping[int, str], last: int, prefix: str = "", name: str = "train.log") -> None:
    """A log of steps 0 to `last`, with what is said below each step."""
    lines = [
        line
        for step in range(last + 1)
        for line in (f"step {step} loss {2 - step / 100:.3f}", *said.get(step, "").splitlines())
    ]
    (folder / name).write_text("".join(f"{prefix}{line}\n" for line in lines))


def root_of(folder: Path) -> Finding:
    first = analyse([str(folder)], Options(cache=False)).findings[0]
    assert first.role is Role.ROOT
    return first


def test_the_last_of_several_that_were_skipped_is_where_the_run_ended(tmp_path: Path) -> None:
    run_of(tmp_path, {10: SKIPPED, 20: SKIPPED, 57: FATAL}, 57)
    root = root_of(tmp_path)
    assert (root.name, root.step, root.count) == ("cuda-oom", 57, 1)
    assert "3.00 GiB" in root.evidence[0].text
    assert any("met 2 times before (first at train.log:12)" in note for note in root.notes)


def test_exceptions_of_one_message_are_told_apart_by_what_followed(tmp_path: Path) -> None:
    places = {n: RAISED.replace("{n}", str(n)).replace("line 12", f"line {n}") for n in range(41)}
    run_of(tmp_path, places, 40)
    root = root_of(tmp_path)
    assert (root.name, root.step) == ("python-exception", 40)
    assert "bad sample 40" in root.evidence[0].text
    assert any("met 40 times before" in note for note in root.notes)


def test_one_after_which_nothing_was_trained_stays_the_first(tmp_path: Path) -> None:
    """A second message of the same death, printed by a handler, is no sign that the first was outlived."""
    run_of(tmp_path, {57: f"{SKIPPED}\n{FATAL}"}, 57)
    root = root_of(tmp_path)
    assert (root.step, root.count) == (57, 2)
    assert not any("before" in note for note in root.notes)


@pytest.mark.parametrize("merged", [False, True], ids=["a log a rank", "one log"])
def test_a_rank_that_handled_it_is_not_blamed_beside_the_one_that_died(tmp_path: Path, merged: bool) -> None:
    run_of(tmp_path, {10: SKIPPED}, 57, "[rank1]: ", "rank1.log")
    run_of(tmp_path, {57: FATAL}, 57, "[rank2]: ", "rank2.log")
    if merged:
        both = [(tmp_path / f"rank{n}.log").read_text().splitlines(keepends=True) for n in (1, 2)]
        (tmp_path / "rank1.log").unlink()
        (tmp_path / "rank2.log").unlink()
        longest = max(map(len, both))
        (tmp_path / "all.log").write_text(
            "".join(line for n in range(longest) for own in both for line in own[n : n + 1])
        )
    root = root_of(tmp_path)
    assert (root.name, root.ranks, root.step) == ("cuda-oom", (2,), 57)


def test_peers_that_died_of_it_at_different_steps_are_both_to_blame(tmp_path: Path) -> None:
    """Steps that bear no rank may be another's: they show of no rank that it outlived its error."""
    lines = [f"step {n} loss 1.5\n" for n in range(40)]
    for at, rank in ((20, 1), (44, 2)):
        lines[at:at] = [f"[rank{rank}]: {line}\n" for line in FATAL.splitlines()]
    (tmp_path / "all.log").write_text("".join(lines))
    assert root_of(tmp_path).ranks == (1, 2)


# --- records that bear epochs and no steps ---------------------------------------------------------------------------

FELL_BACK = [
    "ERROR:model:flash attn failed, falling back to sdpa",
    "Traceback (most recent call last):",
    '  File "/w/model.py", line 8, in build',
    "    import flash_attn",
    "ModuleNotFoundError: No module named 'flash_attn'",
]
ENDED = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 90, in <module>',
    "    np.save(path, features)",
    "OSError: [Errno 122] Disk quota exceeded",
]


def by_epochs(first: int, last: int) -> list[str]:
    """Records of a Trainer without its bar."""
    return [
        f"{{'loss': {2 - n / 100:.4f}, 'grad_norm': 1.{n:02d}, 'learning_rate': 1e-05, 'epoch': {n / 40}}}"
        for n in range(first, last + 1)
    ]


@pytest.mark.parametrize("before", [[], by_epochs(1, 5)])
def test_what_a_trainer_went_on_past_is_no_cause(tmp_path: Path, before: list[str]) -> None:
    lines = [*before, *FELL_BACK, *by_epochs(6, 30), *ENDED]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    found = analyse([str(tmp_path)], Options(cache=False)).findings
    assert [f.name for f in found if f.role is Role.ROOT] == ["disk-full"]


@pytest.mark.parametrize(
    "after",
    [
        [],
        by_epochs(6, 7),  # what peers had under way
        by_epochs(1, 20),  # another start
    ],
    ids=["nothing", "few", "anew"],
)
def test_what_nothing_shows_to_be_handled_stays(tmp_path: Path, after: list[str]) -> None:
    lines = [*by_epochs(1, 5), *FELL_BACK, *after]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    found = analyse([str(tmp_path)], Options(cache=False)).findings
    assert "module-not-found" in [f.name for f in found if f.role is Role.ROOT]


NO_SPACE = "OSError: [Errno 28] No space left on device: '/scratch/{where}'"
OOM_OF_RANK_1 = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 4, in main
[rank1]:     loss.backward()
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 23.64 GiB."""


@pytest.mark.parametrize(
    ("said", "root"),
    [
        (f"{NO_SPACE} -- ignored, the tracker runs offline", "cuda-oom"),
        (f"WARNING cache not written (non-fatal): {NO_SPACE}", "cuda-oom"),
        (f"INFO ignoring {NO_SPACE}", "cuda-oom"),
        (f"{NO_SPACE}; continuing without", "disk-full"),
        (NO_SPACE, "disk-full"),
        (f"ERROR the ignored_paths could not be written: {NO_SPACE}", "disk-full"),
    ],
)
def test_what_the_program_says_it_ignores_is_no_cause(tmp_path: Path, said: str, root: str) -> None:
    """Nothing is trained after either, and the sign of the disk comes first."""
    lines = [f"[rank{r}]: step {n} loss {2 - n / 100:.3f}" for n in range(20) for r in range(2)]
    text = said.format(where="cache")
    (tmp_path / "train.log").write_text("\n".join([*lines, f"[rank0]: {text}", OOM_OF_RANK_1, ""]))
    assert root_of(tmp_path).name == root


def test_a_failure_that_was_ignored_first_and_not_the_next_time(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/save.py", line 4, in save\n    write(path)\n'
    first, last = NO_SPACE.format(where="cache"), NO_SPACE.format(where="step_57.pt")
    run_of(tmp_path, {57: f"{first} -- ignored\n{raised}{last}"}, 57)
    root = root_of(tmp_path)
    assert root.name == "disk-full" and "step_57.pt" in root.evidence[0].text


def test_the_words_of_an_exception_are_none_that_a_handler_added(tmp_path: Path) -> None:
    """The Trainer's own text speaks of columns that "have been ignored"; that ends the program all the same."""
    message = (
        "ValueError: No columns in the dataset match the model's forward method signature: (input_ids, labels). The"
        " following columns have been ignored: [text]. Please check the dataset and model."
    )
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 7, in <module>', "    main()", message]
    (tmp_path / "train.log").write_text("\n".join(["loading data", *lines]) + "\n")
    roots = [f.name for f in analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)]
    assert roots == ["dataset-schema-mismatch"]
