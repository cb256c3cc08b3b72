"""Processes of an earlier attempt that still hold a GPU's memory when a later one dies of its lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

FULL = (
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 79.25 "
    "GiB of which 1.00 GiB is free. Process {pid} has 30.00 GiB memory in use. Including non-PyTorch memory, this process "
    "has 46.00 GiB memory in use."
)
SEEN = (
    "E1120 08:0{n}:26.000000 4000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) "
    "local_rank: {rank} (pid: {pid}) of binary: /usr/bin/python"
)
AGAIN = (
    "I1120 08:01:27.000000 4000 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. 2/3 "
    "attempts left; will restart worker group"
)


def inits(pid: int) -> list[str]:
    return [
        f"n1:{pid + r}:{pid + 200 + r} [{r}] NCCL INFO comm 0x55d{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId "
        f"{27 + r:x}000 commId 0xabc - Init COMPLETE"
        for r in range(4)
    ]


def steps(first: int, last: int, minute: int = 0) -> list[str]:
    return [
        f"2026-11-20 08:{minute + n // 60:02d}:{n % 60:02d} [rank{r}] step {n} loss {2 + 3 / n:.3f}"
        for n in range(first, last)
        for r in range(4)
    ]


def raised(error: str, rank: int) -> list[str]:
    lines = ["Traceback (most recent call last):", '  File "/opt/train.py", line 88, in <module>', "    main()"]
    return [*(f"[rank{rank}]: {line}" for line in lines), error]


def roots(folder: Path, *, code: int, error: str | None, pid: int, trained: int = 0) -> list[Finding]:
    """A run whose first attempt ends of an error or signal, and its second one of a full card."""
    first = [*inits(5000), *steps(1, 41), *(raised(error, 0) if error else [])]
    first += [SEEN.format(n=1, code=code, rank=0, pid=5000), AGAIN]
    second = [*inits(6000), *(steps(30, 30 + trained, 2) if trained else []), *raised(FULL.format(pid=pid), 2)]
    second += [SEEN.format(n=5, code=1, rank=2, pid=6002)]
    (folder / "train.log").write_text("\n".join([*first, *second]) + "\n")
    return list(analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT))


KEY = "[rank0]: KeyError: 'image'"


@pytest.mark.parametrize("trained", [0, 40])
@pytest.mark.parametrize(("code", "error"), [(1, KEY), (-9, None), (-11, None)])
def test_a_card_that_an_earlier_attempt_still_fills_follows_from_its_end(
    tmp_path: Path, code: int, error: str | None, trained: int
) -> None:
    found = roots(tmp_path, code=code, error=error, pid=5002, trained=trained)
    assert [root.ranks for root in found] == [(0,)]
    assert found[0].name == {1: "python-exception", -9: "sigkill-unknown-sender", -11: "rank-segfault"}[code]


def test_a_card_that_a_process_of_nobody_fills_is_a_cause_of_its_own(tmp_path: Path) -> None:
    found = roots(tmp_path, code=1, error=KEY, pid=77777, trained=40)
    assert (found[0].name, found[0].ranks) == ("gpu-shared-with-other-process", (2,))


def test_a_process_of_the_same_attempt_is_no_leftover(tmp_path: Path) -> None:
    found = roots(tmp_path, code=1, error=KEY, pid=6003, trained=40)
    assert "gpu-shared-with-other-process" in [root.name for root in found]
