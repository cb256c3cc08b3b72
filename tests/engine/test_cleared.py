"""A shell's `Killed` of what a script clears before its run starts, and of the run itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role

STEPS = "".join(f"2026-03-14 09:12:{n:02} step {n}0 loss 2.{99 - n}\n" for n in range(40))
FINISHED = "Training completed.\n"
STARTED = """W0314 09:12:05.412000 3120 site-packages/torch/distributed/run.py:792]
W0314 09:12:05.412000 3120 site-packages/torch/distributed/run.py:792] *****************************************
W0314 09:12:05.412000 3120 site-packages/torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.
"""


def diagnosis(folder: Path, log: str) -> Diagnosis:
    (folder / "train.log").write_text(log)
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize(
    "said",
    [
        "Killing stale process 3321 on port 29500",
        "Cleaning up leftover python processes",
        "killing 2 previous jobs\nroot      3321  0.0  0.1 python train.py",
        "+ pkill -9 -f train.py",
        "++ kill -9 3321",
        "+ fuser -k 29500/tcp",
    ],
)
def test_what_is_cleared_before_the_start_is_none_of_the_run(tmp_path: Path, said: str) -> None:
    found = diagnosis(tmp_path, f"{said}\nKilled\n{STARTED}{STEPS}{FINISHED}")
    assert (found.verdict, found.of_role(Role.ROOT)) == ("healthy", ())
    assert [f.name for f in found.findings if f.name == "sigkill-unknown-sender"] == ["sigkill-unknown-sender"]


@pytest.mark.parametrize(
    "log",
    [
        f"{STEPS}Killed\n",
        f"Killing stale process 3321 on port 29500\n{STEPS}Killed\n",
        f"Killing stale process 3321 on port 29500\nKilled\n{STEPS}Killed\n",
        f"{STEPS}Killed\nKilling stale process 3321 on port 29500\n",
        f"{STEPS}+ kill -9 3321\nKilled\n",
        "Loading the previous checkpoint\nKilled\n",
        "loading checkpoint shards: existing process group is used\nKilled\n",
    ],
)
def test_a_kill_of_the_run_stays_one(tmp_path: Path, log: str) -> None:
    found = diagnosis(tmp_path, log)
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.count) == ("sigkill-unknown-sender", 1)


@pytest.mark.parametrize(
    "said", ["/bin/sh: line 1:  77 Killed   apt-get update", "setup.sh: line 9: 5521 Killed    pip install x"]
)
def test_a_killed_command_that_prepares_a_run_is_none_of_it(tmp_path: Path, said: str) -> None:
    found = diagnosis(tmp_path, f"{said}\n{STARTED}{STEPS}{FINISHED}")
    assert (found.verdict, found.of_role(Role.ROOT)) == ("healthy", ())


@pytest.mark.parametrize(
    "log",
    [
        "setup.sh: line 9: 5521 Killed    pip install flash-attn\n",  # nothing came of it
        f"{STEPS}run.sh: line 9: 5521 Killed    cp -r out /backup\n",
        f"run.sh: line 9: 5521 Killed    python train.py\n{STARTED}{STEPS}{FINISHED}",
    ],
)
def test_any_other_killed_command_may_be_the_run(tmp_path: Path, log: str) -> None:
    found = diagnosis(tmp_path, log)
    assert [f.name for f in found.of_role(Role.ROOT)] == ["sigkill-unknown-sender"]
