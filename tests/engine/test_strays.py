"""What a command or service said beside the program, and an error of the program's own further below."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.engine.strays import counts_on
from forensics.model import Diagnosis, Role

STRAYS = {
    "command-not-found": "/bin/sh: 1: nvidia-smi: not found",
    "ssh-launch-failed": "ssh: connect to host backup01 port 22: Connection timed out\nlost connection",
    "disk-full": "cp: error writing '/backup/a.pt': No space left on device",
    "permission-denied": "cp: cannot create regular file '/backup/a.pt': Permission denied",
    "object-store-error": "upload failed: ./tb/events to s3://b/tb/events An error occurred (AccessDenied) when calling "
    "the PutObject operation: Access Denied",
    "slurm-launch-failed": "sbatch: error: Batch job submission failed: Invalid account or account/partition "
    "combination specified",
}
ERRORS = {
    "IndexError: index 51200 is out of bounds for dimension 0 with size 50257": "python-exception",
    "KeyError: 'input_ids'": "python-exception",
    "AttributeError: 'NoneType' object has no attribute 'shape'": "python-exception",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8192x4096 and 5120x5120)": "layer-shape-mismatch",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.19 GiB is free.": "cuda-oom",
}
INDEX = next(iter(ERRORS))
BATCHES = [f"2026-05-17 10:{5 + i // 6:02d}:{i % 6}0 INFO warmup batch {i * 10}/500" for i in range(12)]
# No program counts here: it says what it does.
QUIET = [f"2026-05-17 10:{5 + i:02d}:00 INFO the sampler has drawn a new order" for i in range(5)]
STEPS = [f"2026-05-17 10:00:{s:02d} INFO step {s} loss {4 - s * 0.01:.3f}" for s in range(60)]
RETRY = "2026-05-17 10:01:01 WARNING upload of logs failed (rc=255), will retry at next save"


def raised(error: str, line: str = "y = labels[idx]") -> str:
    return f'Traceback (most recent call last):\n  File "/w/train.py", line 31, in step\n    {line}\n{error}'


def told(folder: Path, *parts: str) -> Diagnosis:
    (folder / "train.log").write_text("\n".join(parts) + "\n")
    return analyse([str(folder)], Options(cache=False))


def roots(found: Diagnosis) -> list[str]:
    return [f.name for f in found.of_role(Role.ROOT)]


@pytest.mark.parametrize("stray", STRAYS)
@pytest.mark.parametrize(("error", "name"), ERRORS.items())
def test_an_error_of_the_program_below_its_progress_is_the_only_root(
    stray: str, error: str, name: str, tmp_path: Path
) -> None:
    found = told(tmp_path, STRAYS[stray], *BATCHES, raised(error))
    assert roots(found) == [name]
    assert stray in [f.name for f in found.of_role(Role.CONTEXT)]


@pytest.mark.parametrize("stray", STRAYS)
@pytest.mark.parametrize("between", [[RETRY], QUIET], ids=["says so", "minutes"])
def test_a_program_that_had_trained_goes_on_by_its_words_and_by_its_clock(
    stray: str, between: list[str], tmp_path: Path
) -> None:
    assert roots(told(tmp_path, *STEPS, STRAYS[stray], *between, raised(INDEX))) == ["python-exception"]


@pytest.mark.parametrize(
    "between",
    [
        [],
        BATCHES[:3],
        QUIET,  # a start may take minutes
        [f"Downloading shards: {i}/30" for i in range(30)],
        [f"waiting for node n2, attempt {i} of 30" for i in range(30)],
    ],
    ids=["nothing", "a few batches", "a start", "downloads", "waiting"],
)
def test_what_stands_above_a_start_alone_explains_it(between: list[str], tmp_path: Path) -> None:
    found = told(tmp_path, STRAYS["disk-full"], *between, raised(INDEX))
    assert roots(found)[0] == "disk-full"


def test_a_value_that_a_failed_call_gave_back_is_of_that_call(tmp_path: Path) -> None:
    none = raised("AttributeError: 'NoneType' object has no attribute 'shape'")
    assert roots(told(tmp_path, *STEPS, STRAYS["object-store-error"], RETRY, none))[0] == "object-store-error"


def test_a_full_disk_explains_the_save_that_it_ended(tmp_path: Path) -> None:
    save = raised(
        "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0", "torch.save(state, path)"
    )
    assert roots(told(tmp_path, STRAYS["disk-full"], *BATCHES, save)) == ["disk-full"]


@pytest.mark.parametrize(
    "error",
    [
        "OSError: [Errno 5] Input/output error: '/data/shard-3'",
        "ConnectionError: no route to host",
        "RuntimeError: the exporter failed",
        "AssertionError: the last checkpoint is incomplete",
        "KeyError: '/backup/a.pt'",
    ],
)
def test_an_error_that_a_full_disk_can_bring_about_or_that_names_its_path_does_not_clear_it(
    error: str, tmp_path: Path
) -> None:
    found = told(tmp_path, STRAYS["disk-full"], *BATCHES, raised(error))
    assert "disk-full" in roots(found)


def test_a_command_that_the_program_ran_explains_the_error_of_that_command(tmp_path: Path) -> None:
    error = raised("subprocess.CalledProcessError: Command 'nvidia-smi -L' returned non-zero exit status 127.")
    assert roots(told(tmp_path, STRAYS["command-not-found"], *BATCHES, error))[0] == "command-not-found"


def test_a_host_that_ssh_does_not_reach_explains_that_its_ranks_are_missing(tmp_path: Path) -> None:
    waits = [f"2026-05-17 10:{5 + i}:00 INFO still waiting for 8 of 16 workers" for i in range(20)]
    late = raised(
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 8/16 clients joined.",
        "dist.init_process_group()",
    )
    assert roots(told(tmp_path, STRAYS["ssh-launch-failed"], *waits, late)) == ["ssh-launch-failed"]


def test_a_hub_that_limits_the_rate_explains_its_own_exception(tmp_path: Path) -> None:
    limited = "429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/x"
    found = told(tmp_path, limited, *BATCHES, raised(f"huggingface_hub.errors.HfHubHTTPError: {limited}"))
    assert roots(found) == ["hf-rate-limited"]


def test_a_run_that_trains_on_below_all_of_it_stays_healthy(tmp_path: Path) -> None:
    later = [f"2026-05-17 10:20:{s - 60:02d} INFO step {s} loss {4 - s * 0.01:.3f}" for s in range(60, 100)]
    found = told(tmp_path, *STEPS, STRAYS["disk-full"], *BATCHES, raised(INDEX), *later, "Training complete")
    assert found.verdict.value == "healthy"


def test_records_count_once_however_many_ranks_print_them() -> None:
    assert not counts_on([f"[rank{i}]: batch {n}" for n in range(4) for i in range(8)])
    assert counts_on([f"[rank{i}]: batch {n}" for n in range(5) for i in range(8)])
    assert counts_on([f"train: {n * 10}%|## | {n}/10 [00:0{n}<00:09]" for n in range(6)])
    assert not counts_on([f"[05/17 10:0{n}:00 trainer]: saying hello" for n in range(9)])


MINUTES = [f"2026-05-17 10:{s // 6:02d}:{s % 6}0 INFO step {s} loss {4 - s * 0.01:.3f}" for s in range(36)]


def beside(folder: Path, sign: str, *program: str) -> Diagnosis:
    """A sign in the log of something else than the program."""
    (folder / "watch.log").write_text(f"{sign}\n")
    return told(folder, *program)


@pytest.mark.parametrize("at", ["", "2026-05-17 10:02:05 "], ids=["no time", "amid the steps"])
@pytest.mark.parametrize("stray", STRAYS)
def test_what_another_log_says_is_no_cause_of_an_error_of_the_program_that_trained(
    stray: str, at: str, tmp_path: Path
) -> None:
    found = beside(tmp_path, at + STRAYS[stray], *MINUTES, raised(INDEX))
    assert roots(found) == ["python-exception"]
    assert stray in [f.name for f in found.of_role(Role.CONTEXT)]


@pytest.mark.parametrize(
    ("at", "program"),
    [
        ("2026-05-17 10:05:45 ", [*MINUTES, raised(INDEX)]),
        ("", [raised(INDEX)]),
        ("", [*MINUTES, raised("AttributeError: 'NoneType' object has no attribute 'shape'")]),
        ("", [*MINUTES, raised("ValueError: nothing to read")]),
        ("", [*MINUTES, raised("KeyError: '/backup/a.pt'")]),
        ("", [*MINUTES, raised("OSError: [Errno 5] Input/output error")]),
        ("", [*MINUTES, "WARNING could not save: [Errno 28] No space left on device", raised(INDEX)]),
    ],
    ids=["at the end", "before any step", "got nothing", "a check", "names the same", "of a disk", "met it itself"],
)
def test_what_another_log_says_stands_where_the_program_may_have_ended_of_it(
    at: str, program: list[str], tmp_path: Path
) -> None:
    found = beside(tmp_path, at + STRAYS["disk-full"], *program)
    assert "disk-full" in roots(found)
