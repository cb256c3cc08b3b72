"""A Git LFS pointer in place of a file of weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345678\n"
STEPS = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(9))
FAILED = """\
Traceback (most recent call last):
  File "/srv/job/train.py", line 14, in <module>
    model = AutoModel.from_pretrained("./model")
  File "/opt/lib/python3.11/site-packages/transformers/modeling_utils.py", line 3700, in load_state_dict
    with safe_open(checkpoint_file, framework="pt") as f:
safetensors_rust.SafetensorError: Error while deserializing header: {what}
"""


def diagnose(folder: Path, log: str, weights: str, name: str = "model.safetensors") -> Diagnosis:
    (folder / "model").mkdir()
    (folder / "model" / name).write_text(weights)
    (folder / "train.log").write_text(log)
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize("what", ["HeaderTooLarge", "header too large"])
def test_a_pointer_that_was_read_as_weights(tmp_path: Path, what: str) -> None:
    root = diagnose(tmp_path, FAILED.format(what=what), POINTER).findings[0]
    assert root.name == "checkpoint-not-a-checkpoint"
    assert "model/model.safetensors is a Git LFS pointer" in " ".join(root.notes)
    assert "git lfs pull" in root.fix[0]


@pytest.mark.parametrize(
    ("what", "weights", "name"),
    [
        ("HeaderTooLarge", "\0" * 200, "model.safetensors"),
        ("HeaderTooLarge", POINTER, "notes.txt"),
        ("MetadataIncompleteBuffer", POINTER, "model.safetensors"),
    ],
)
def test_a_file_that_is_damaged_is_no_pointer(tmp_path: Path, what: str, weights: str, name: str) -> None:
    root = diagnose(tmp_path, FAILED.format(what=what), weights, name).findings[0]
    assert root.name == "checkpoint-corrupt"


def test_a_pointer_that_nobody_reads_is_no_finding(tmp_path: Path) -> None:
    found = diagnose(tmp_path, STEPS + "Training finished\n", POINTER)
    assert (found.verdict, list(found.findings)) == ("healthy", [])
