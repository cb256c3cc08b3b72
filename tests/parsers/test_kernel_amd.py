"""amdgpu's messages: the process that they name, on their own line or below it, and the rank that it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

STEPS = "".join(f"step {n} | loss {3 - n / 100:.3f}\n" for n in range(0, 60, 10))
LAUNCHER = (
    "W1124 10:00:00.000000 4400 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4511 closing signal "
    "SIGTERM\nE1124 10:00:01.000000 4400 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) "
    "local_rank: 1 (pid: 4512) of binary: /usr/bin/python3\n"
)
HEAD = "amdgpu 0000:c1:00.0: amdgpu: "
FAULT = HEAD + "[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32771{more})"
PAGE = HEAD + "  in page starting at address 0x00007f2a1c000000 from IH client 0x1b (UTCL2)"
FORMS = {
    "on its own line": [FAULT.format(more=", for process python pid 4512 thread python pid 4530"), PAGE],
    "in process": [FAULT.format(more=""), HEAD + " in process python pid 4512 thread python pid 4530)", PAGE],
    "Process": [FAULT.format(more=""), HEAD + " Process python pid 4512 thread python pid 4530", PAGE],
    "name with blanks": [FAULT.format(more=""), HEAD + " Process ray::Worker.run pid 4512 thread pt main pid 4530"],
}


def stamped(lines: list[str]) -> str:
    return "".join(f"[88120.1122{n:02d}] {line}\n" for n, line in enumerate(lines))


# Both processes ended so, and only a pid tells whose fault it was.
BOTH = LAUNCHER + LAUNCHER.replace("local_rank: 1 (pid: 4512)", "local_rank: 0 (pid: 4511)")


def fault(folder: Path, kernel: str, launcher: str = BOTH) -> Finding:
    (folder / "dmesg.txt").write_text(kernel)
    (folder / "train.log").write_text(STEPS + launcher)
    return next(f for f in analyse([str(folder)]).of_role(Role.ROOT) if f.name == "cuda-illegal-memory-access")


@pytest.mark.parametrize("form", FORMS)
def test_the_rank_is_that_of_the_process(tmp_path: Path, form: str) -> None:
    found = fault(tmp_path, stamped(FORMS[form]))
    assert (found.ranks, found.captures["pid"]) == ((1,), "4512")


def test_dmesg_as_objects(tmp_path: Path) -> None:
    entries = [
        {"pri": 3, "time": 88120.1122 + n, "msg": line} for n, line in enumerate(["amdgpu loaded", *FORMS["Process"]])
    ]
    found = fault(tmp_path, json.dumps({"dmesg": entries}, indent=3))
    assert found.ranks == (1,)


def test_without_a_pid_it_is_the_one_process_that_aborted(tmp_path: Path) -> None:
    assert fault(tmp_path, stamped([FAULT.format(more="")]), LAUNCHER).ranks == (1,)


@pytest.mark.parametrize(
    "below",
    [
        [HEAD.replace("c1", "c2") + " Process python pid 4512 thread python pid 4512"],  # of another card
        [PAGE, PAGE, PAGE, HEAD + " Process python pid 4512 thread python pid 4512"],  # of a later message
        [HEAD + " Process python pid 9999 thread python pid 9999"],  # of nobody that is known
        [HEAD + " Process  pid 0 thread  pid 0"],  # what the driver prints where it knows of none
        [],
    ],
)
def test_no_rank_where_none_is_named(tmp_path: Path, below: list[str]) -> None:
    assert fault(tmp_path, stamped([FAULT.format(more=""), *below])).ranks is None


def test_the_process_whose_ring_timed_out(tmp_path: Path) -> None:
    ring = [HEAD + "ring comp_1.1.0 timeout, signaled seq=66, emitted seq=67"]
    ring.append(HEAD + "Process information: process python pid 4512 thread python pid 4530")
    (tmp_path / "dmesg.txt").write_text(stamped(ring))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.captures["pid"], root.captures["process"]) == ("gpu-hang", "4512", "python")
