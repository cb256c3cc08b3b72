"""Which of two errors came first: by clocks that agree, and by what ranks say that wait for another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role

STACK = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 88, in <module>',
    "    main()",
    '  File "/opt/train/train.py", line 60, in main',
    "    step(batch)",
]
KEY = "KeyError: 'image'"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.25 GiB"
FULL = "OSError: [Errno 28] No space left on device: '/data/ckpt/step_30.pt'"
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356,"
    " remote process exited or there was a network error, NCCL version 2.21.5"
)


def stamp(seconds: float) -> str:
    return f"2026-11-20 08:{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def log(rank: int, error: str | None, at: float = 0, steps: int = 40, zone: str = "") -> str:
    """A rank's log: a step every two seconds, and an error `at` seconds."""
    lines = [f"{stamp(2 * n)}{zone} [rank{rank}] step {n} loss {2 + 3 / n:.3f}" for n in range(1, steps + 1)]
    if error is not None:
        lines += [f"{stamp(at)}{zone} [rank{rank}]: ERROR uncaught exception", *STACK, error]
    return "\n".join(lines) + "\n"


def diagnosed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def roots(
    folder: Path, errors: Sequence[tuple[str | None, float]], names: Sequence[str] = (), **more: int
) -> list[Finding]:
    """The roots of a run whose ranks ended by these errors at these times, each in a file of its own."""
    files = {
        names[rank] if names else f"rank{rank}.log": log(rank, error, at, **more)
        for rank, (error, at) in enumerate(errors)
    }
    return list(diagnosed(folder, files).of_role(Role.ROOT))


@pytest.mark.parametrize("later", [OOM, FULL])
@pytest.mark.parametrize("apart", [9, 30, 80])
def test_what_came_after_others_lost_a_peer_is_no_cause_of_that(tmp_path: Path, later: str, apart: int) -> None:
    found = roots(tmp_path, [(LOST, 83), (KEY, 82), (LOST, 83), (later, 82 + apart)])
    assert (found[0].name, found[0].ranks) == ("python-exception", (1,))
    assert found[1].ranks == (3,) and found[1].confidence < 0.8
    assert any("after others had lost a peer, and rank 1 has an error from before" in n for n in found[1].notes)
    assert found[1].explains == ()


def test_what_came_before_others_lost_a_peer_stays_first(tmp_path: Path) -> None:
    found = roots(tmp_path, [(LOST, 86), (KEY, 100), (LOST, 86), (OOM, 82)])
    assert (found[0].name, found[0].ranks) == ("cuda-oom", (3,))
    assert found[0].confidence > 0.9


def test_an_error_after_the_echoes_is_the_cause_where_no_other_rank_has_one(tmp_path: Path) -> None:
    """A process may close its connections some seconds before it prints its traceback."""
    found = roots(tmp_path, [(LOST, 83), (LOST, 83), (LOST, 83), (OOM, 95)])
    assert [(f.name, f.ranks) for f in found] == [("cuda-oom", (3,))]


def test_clocks_that_cannot_be_compared_order_nothing(tmp_path: Path) -> None:
    names = ["a/rank0.log", "a/rank1.log", "b/rank2.log", "b/rank3.log"]
    found = roots(tmp_path, [(LOST, 83), (KEY, 82), (LOST, 83), (OOM, 112)], names, steps=2)
    assert found[0].name == "cuda-oom"


def test_an_echo_is_no_root_beside_an_error_whose_zone_is_another(tmp_path: Path) -> None:
    """06:00 apart by their stamps, of which one names no zone."""
    ahead = log(1, KEY, 82, steps=1, zone="Z").replace(" 08:", "T14:")
    found = diagnosed(tmp_path, {"a/rank0.log": log(0, LOST, 84, steps=1), "b/rank1.log": ahead})
    assert [(f.name, f.ranks) for f in found.of_role(Role.ROOT)] == [("python-exception", (1,))]


STORE = (
    "torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
    "via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer"
)
WAITING = [
    STORE,
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /worker/group_rank_1",
    "torch.distributed.DistNetworkError: Connection reset by peer",
    "RuntimeError: Broken pipe",
    "RuntimeError: Socket Timeout",
]


@pytest.mark.parametrize("waiting", WAITING)
@pytest.mark.parametrize("own", [KEY, "app.errors.BadShard: 7 of 8 files", "RuntimeError: shard 3 is truncated"])
def test_what_waiting_ranks_say_follows_from_another_ranks_own_error(tmp_path: Path, waiting: str, own: str) -> None:
    errors = [(waiting.format(rank=rank) if rank != 2 else own, 82.0) for rank in range(4)]
    found = roots(tmp_path, errors)
    assert [(f.name, f.ranks) for f in found] == [("python-exception", (2,))]
    assert found[0].explains


def test_waiting_ranks_alone_are_no_effect_of_anything(tmp_path: Path) -> None:
    found = roots(tmp_path, [(STORE.format(rank=rank) if rank else None, 82) for rank in range(4)])
    assert [f.name for f in found] == ["store-timeout"]


def test_a_programs_own_network_error_is_its_own(tmp_path: Path) -> None:
    own = "requests.exceptions.ConnectionError: Connection reset by peer"
    found = roots(tmp_path, [(LOST, 84), (own, 82), (LOST, 84), (LOST, 84)])
    assert [f.ranks for f in found] == [(1,)]


SEGFAULT = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  <no Python frame>"
)


def test_a_rank_that_a_signal_ended_after_it_lost_a_peer_is_no_second_cause(tmp_path: Path) -> None:
    found = roots(tmp_path, [(LOST, 84), (OOM, 82), (f"{LOST}\n{SEGFAULT}", 84), (LOST, 84)])
    assert [(f.name, f.ranks) for f in found] == [("cuda-oom", (1,))]


def test_a_rank_that_a_signal_ended_without_a_word_is(tmp_path: Path) -> None:
    found = roots(tmp_path, [(LOST, 84), (OOM, 82), (SEGFAULT, 84), (LOST, 84)])
    assert {(f.name, f.ranks) for f in found} == {("cuda-oom", (1,)), ("rank-segfault", (2,))}


ASSERT = (
    "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: operator(): block: [3,0,0], thread: [5,0,0] Assertion "
    "`index >= -sizes[i] && index < sizes[i]` failed.\nRuntimeError: CUDA error: device-side assert triggered"
)
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def test_an_assertion_on_one_rank_breaks_no_other_ranks_device(tmp_path: Path) -> None:
    found = roots(tmp_path, [(ILLEGAL, 83), (LOST, 84), (ASSERT, 82), (LOST, 84)])
    assert {(f.name, f.ranks) for f in found} == {("device-side-assert", (2,)), ("cuda-illegal-memory-access", (0,))}


def test_an_assertion_breaks_the_device_of_its_own_rank(tmp_path: Path) -> None:
    found = roots(tmp_path, [(LOST, 84), (LOST, 84), (f"{ASSERT}\n{ILLEGAL}", 82), (LOST, 84)])
    assert [(f.name, f.ranks) for f in found] == [("device-side-assert", (2,))]


def test_ranks_that_wait_for_the_id_of_a_communicator_tell_that_rank_0_is_silent(tmp_path: Path) -> None:
    """The number in brackets is that of the member of a group: only where it is the rank is member 0 rank 0."""
    said = STORE.replace("Connection reset by peer", "wait timeout after 600000ms, keys: /default_pg/0//cuda//0")
    files = {f"a/rank{n}.log": log(n, said.format(rank=n) if n in (1, 3) else None, 82) for n in range(4)}
    found = diagnosed(tmp_path / "a", files).of_role(Role.ROOT)
    assert [(f.name, f.ranks) for f in found] == [("store-timeout", (0,))]
    groups = {f"b/rank{n}.log": log(n, said.format(rank=n // 2) if n in (2, 3) else None, 82) for n in range(4)}
    assert [f.ranks for f in diagnosed(tmp_path / "b", groups).of_role(Role.ROOT)] == [None]
    own = {**files, "a/rank0.log": log(0, KEY, 60)}
    assert [(f.name, f.ranks) for f in diagnosed(tmp_path / "c", own).of_role(Role.ROOT)] == [
        ("python-exception", (0,))
    ]
