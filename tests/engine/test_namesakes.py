"""Logs that bear the name of a host whose kernel's log lies beside them, and a client that Lustre evicted."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Role

LOST = (
    "Nov 20 13:40:01 {host} kernel: Lustre: scratch-OST0014-osc-ffff9b8e: Connection to scratch-OST0014 (at 192.0.2.20@o2ib) "
    "was lost; in progress operations using this service will wait for recovery to complete\n"
)
EVICTED = (
    "Nov 20 13:43:12 {host} kernel: LustreError: 167-0: scratch-OST0014-osc-ffff9b8e: This client was evicted by "
    "scratch-OST0014; in progress operations using this service will fail.\n"
)
RESTORED = (
    "Nov 20 13:43:12 {host} kernel: Lustre: scratch-OST0014-osc-ffff9b8e: Connection restored to scratch-OST0014 "
    "(at 192.0.2.20@o2ib)\n"
)
STEPS = "".join(f"2026-11-20 13:{n:02d}:00 step {n} loss {2 - n / 100:.3f}\n" for n in range(43))
FAILED = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/data.py", line 30, in __getitem__\n'
    "[rank1]:     buf = f.read(n)\n[rank1]: OSError: [Errno 5] Input/output error\n"
)


def told(folder: Path, log: str, kernel: str, host: str = "c11", text: str = STEPS + FAILED) -> Diagnosis:
    (folder / "messages").write_text(kernel.format(host=host))
    (folder / log).write_text(text)
    return analyse([str(folder)])


@pytest.mark.parametrize(
    ("log", "host", "node"),
    [
        ("train-c11.log", "c11", "c11"),
        ("train_C11.out", "c11.cluster.example", "c11.cluster.example"),
        ("train-c1.log", "c11", None),
        ("train-c110.log", "c11", None),
        ("train-login.log", "login", None),
    ],
)
def test_a_log_that_is_named_after_the_kernels_host_is_of_it(
    tmp_path: Path, log: str, host: str, node: str | None
) -> None:
    root = told(tmp_path, log, LOST + EVICTED + RESTORED, host).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks, root.node) == ("storage-io-error", (1,), node)


def test_a_name_that_holds_two_hosts_is_of_neither(tmp_path: Path) -> None:
    kernel = (LOST + EVICTED).format(host="c11") + (LOST + RESTORED).format(host="c12")
    assert told(tmp_path, "train-c11-c12.log", kernel).of_role(Role.ROOT)[0].node is None


def test_an_eviction_is_no_stall_that_was_got_over(tmp_path: Path) -> None:
    diagnosis = told(tmp_path, "train.log", LOST + EVICTED + RESTORED)
    assert "storage-stalled-recovered" not in [f.name for f in diagnosis.findings]


def test_a_connection_that_was_restored_is(tmp_path: Path) -> None:
    diagnosis = told(tmp_path, "train.log", LOST + RESTORED, text=STEPS)
    assert diagnosis.of_role(Role.ROOT) == ()
    assert "storage-stalled-recovered" in [f.name for f in diagnosis.findings]
