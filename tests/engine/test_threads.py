"""The exception of a thread ends that thread: what the process ended of later leads."""

from __future__ import annotations

from pathlib import Path

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

THREAD = [
    "Exception in thread Thread-3 (_flush):",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner',
    "    self.run()",
    '  File "/w/logger.py", line 22, in _flush',
    "    self.fh.flush()",
    "OSError: [Errno 28] No space left on device",
]
OUT_OF_MEMORY = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 100, in <module>',
    "    main()",
    '  File "/w/model.py", line 10, in forward',
    "    return self.fc(x)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of"
    " which 1.20 GiB is free.",
]
SAVING = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 120, in save',
    "    torch.save(state, path)",
    '  File "/opt/torch/serialization.py", line 850, in save',
    "    _save(obj, opened_zipfile)",
    "RuntimeError: [enforce fail at inline_container.cc:595] . PytorchStreamWriter failed writing file data/1: file"
    " write failed",
]


def steps(first: int, last: int) -> list[str]:
    return [f"step {i} loss {2.5 - i / 500:.4f}" for i in range(first, last)]


def first_root(folder: Path, **files: list[str]) -> str:
    for name, lines in files.items():
        (folder / f"{name}.log").write_text("\n".join(lines) + "\n")
    return analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)[0].name


def test_what_ended_the_process_leads_also_right_below(tmp_path: Path) -> None:
    assert first_root(tmp_path, train=[*steps(0, 50), *THREAD, *OUT_OF_MEMORY]) == "cuda-oom"


def test_and_where_the_steps_stand_in_another_file(tmp_path: Path) -> None:
    assert first_root(tmp_path, stdout=steps(0, 50), stderr=[*THREAD, *OUT_OF_MEMORY]) == "cuda-oom"


def test_what_can_come_of_it_does_not(tmp_path: Path) -> None:
    assert first_root(tmp_path, train=[*steps(0, 50), *THREAD, *SAVING]) == "disk-full"


def test_nor_what_came_before(tmp_path: Path) -> None:
    caught = ["skipped a batch: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"]
    assert first_root(tmp_path, train=[*steps(0, 50), *caught, *steps(50, 60), *THREAD]) == "disk-full"
