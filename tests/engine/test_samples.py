"""The sample, batch or file that a run's own lines name beside its first loss that is not finite."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis


def log(rank: int, lost: int, *more: str, beside: str = "") -> str:
    """25 steps with a loss of nan from `lost` on; `beside` stands in its line, `more` after all."""
    lines = []
    for n in range(1, 26):
        said = f"{beside} | " if n == lost and beside else ""
        loss = f"{2.5 - n / 100:.4f}" if n < lost else "nan"
        lines.append(f"[rank{rank}] step {n} | {said}loss {loss} | lr 3.0e-04")
    return "".join(f"{line}\n" for line in [*lines, *more])


def diagnosed(folder: Path, *texts: str) -> Diagnosis:
    for n, text in enumerate(texts):
        (folder / f"rank_{n}.log").write_text(text, "utf-8")
    return analyse([str(folder)], Options(threads=1))


def missing(found: Diagnosis) -> list[str]:
    return [item.what for item in found.missing_evidence]


@pytest.mark.parametrize(
    ("beside", "names"),
    [
        ("sample_id 991283", "sample_id 991283"),
        ("batch_idx=20, sample ids=[8812, 9913]", "batch_idx 20, sample ids [8812, 9913]"),
        ("shard: train-0012.tar idx=7", "shard train-0012.tar, idx 7"),
        ("file='clips/a7.wav'", "file clips/a7.wav"),
        ("(sample 884213)", "sample 884213"),
        ("sample=884213", "sample 884213"),
        ("example #17", "example 17"),
        ("uid: 7f3a-11", "uid 7f3a-11"),
        ("utt_id=spk3-0042", "utt_id spk3-0042"),
        ("document 88, doc_id=4", "document 88, doc_id 4"),
    ],
)
def test_the_line_of_the_first_bad_record_names_it(tmp_path: Path, beside: str, names: str) -> None:
    found = diagnosed(tmp_path, *(log(r, 15 if r == 1 else 16, beside=beside if r == 1 else "") for r in range(3)))
    first = found.findings[0]
    assert (first.name, first.ranks, first.step) == ("nan-in-data", (1,), 15)
    assert first.captures["samples"] == names
    assert any(f"its line names {names}" in note for note in first.notes)
    assert "which sample" not in missing(found)
    assert first.confidence <= 0.8


@pytest.mark.parametrize(
    "beside",
    [
        "",
        "device idx=3",
        "index",
        "sample ids are logged",
        "batch 20",
        "sample 3/16",
        "example 3 of 16",
        "samples 30",
        "sample 16k",
        "record 2.5",
    ],
)
def test_a_line_that_names_none(tmp_path: Path, beside: str) -> None:
    found = diagnosed(tmp_path, *(log(r, 15 if r == 1 else 16, beside=beside if r == 1 else "") for r in range(3)))
    assert found.findings[0].name == "nan-in-data"
    assert "samples" not in found.findings[0].captures
    assert "which sample" in missing(found)


def test_a_guard_names_it_in_another_line_and_another_rank(tmp_path: Path) -> None:
    said = "[rank1] ERROR non-finite loss at step 15, batch_idx=14, sample ids=[8812, 9913]"
    first = diagnosed(tmp_path, log(0, 15), log(1, 15, said)).findings[0]
    assert (first.name, first.captures["samples"]) == ("nan-loss", "batch_idx 14, sample ids [8812, 9913]")
    assert any("rank_1.log:26" in note for note in first.notes)


@pytest.mark.parametrize(
    "said",
    ["[rank1] ERROR non-finite loss at step 5, sample_id=8", "[rank1] WARNING slow read at step 15, sample_id=8"],
)
def test_lines_of_another_step_or_another_matter(tmp_path: Path, said: str) -> None:
    assert "samples" not in diagnosed(tmp_path, log(0, 15), log(1, 15, said)).findings[0].captures


def test_the_batch_of_a_json_record_is_told(tmp_path: Path) -> None:
    rows = [
        f'{{"step": {n}, "loss": {"NaN" if n >= 60 else 2.5 - n / 100}, "sample_ids": [{6000 + n}], "batch_id": "shard07-{n}"}}'
        for n in range(80)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    root = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert root.name == "nan-loss" and "sample_ids [6060]" in root.captures["samples"]


CHECK = [
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 210, in <module>',
    "    main()",
    "FloatingPointError: loss is nan",
]


@pytest.mark.parametrize("rank", [1, 0])
def test_a_guard_above_the_error_that_it_raises_names_step_and_samples(tmp_path: Path, rank: int) -> None:
    lines = [f"[rank0]: step {n} loss {2 - n / 1000:.4f}" for n in range(0, 231, 10)]
    lines.append(f"[rank {rank}] not finite at step 233, sample_ids=[88120, 40417]")
    lines += [f"[rank1]: {line}" for line in CHECK]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    root = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert ("samples" in root.captures) is (rank == 1)
    assert rank == 0 or (root.step, root.step_is) == (233, "exact")
