"""Exit lines of scripts and launchers of one's own, threads that nobody caught, and cells of notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.test_hangs import diagnose, first

from forensics.model import Diagnosis, Role

STEPS = "".join(f"step {n}/120 loss {2 / n:.4f} lr 0.01\n" for n in range(1, 71))


@pytest.mark.parametrize(
    "line",
    [
        "status 134",
        "rc=139",
        "ret_code: 1",
        "train.py exit code 124",
        "python exit status: 134",
        "train.py ended with 139",
        "Training process returned 1",
        "[2026-11-28 10:11:12] job finished, exit status = 1",
        "job finished with rc 1",
        "timeout: sending signal TERM to command 'python3'",
        "Worker 2 died with exit code 7",
        "Process 4711 exited with code 7",
    ],
)
def test_a_status_that_is_not_0(line: str, tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, {"train.log": STEPS + line + "\n"})
    assert diagnosis.verdict == "failed"
    assert line in {e.text for f in diagnosis.findings for e in f.evidence}


@pytest.mark.parametrize(
    "line",
    [
        "rc=0",
        "status 200",
        "return code 0",
        "train.py exit code 0",
        "GET /health returned status 204",
        "upload finished with code 201",
        "rc: 0.91",
        "worker 2 exited with code 0",
        "job finished with rc 0",
        "job finished with 3 warnings",
    ],
)
def test_lines_that_tell_of_no_failure(line: str, tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"train.log": STEPS + line + "\n"}).verdict == "healthy"


def test_a_status_that_training_outlived(tmp_path: Path) -> None:
    text = STEPS.replace("step 30/120", "rc=1\nstep 30/120")
    assert diagnose(tmp_path, {"train.log": text}).of_role(Role.ROOT) == ()


def _workers(launcher: str) -> dict[str, str]:
    lines = "2026-11-28 09:00:{n:02} [rank {rank}] INFO step={n} loss={loss:.4f}\n"
    logs = {
        f"logs/worker{rank}.log": "".join(lines.format(n=n, rank=rank, loss=2 / n) for n in range(1, 46))
        for rank in range(4)
    }
    return logs | {"launch.log": launcher}


@pytest.mark.parametrize(
    "told", ["worker 2 exited with code 7", "rank 2 exited with code 7", "worker 2 (pid 4711) exited with status 7"]
)
def test_the_worker_that_ended_by_itself_is_named(told: str, tmp_path: Path) -> None:
    others = "".join(f"worker {rank} exited with code -15\n" for rank in (0, 1, 3))
    diagnosis = diagnose(tmp_path, _workers(others + told + "\n"))
    assert diagnosis.verdict == "failed"
    assert [f.ranks for f in diagnosis.findings if f.name == "child-failed-error"] == [(2,)]


THREAD = """Exception in thread prefetch:
Traceback (most recent call last):
  File "/opt/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/srv/job/data.py", line 5, in loader
    raise OSError(5, "Input/output error", path)
OSError: [Errno 5] Input/output error: '/mnt/nas/shard-0023.bin'
"""
EMPTY = """Traceback (most recent call last):
  File "/srv/job/train.py", line 9, in <module>
    b = q.get(timeout=3)
  File "/opt/lib/python3.11/queue.py", line 179, in get
    raise Empty
_queue.Empty
"""
KEY = """Traceback (most recent call last):
  File "/srv/job/train.py", line 9, in <module>
    b = table[key]
KeyError: 'label'
"""
LATER = "".join(f"step {n}/120 loss {2 / n:.4f} lr 0.01\n" for n in range(71, 76))


def _thread(folder: Path, end: str) -> Diagnosis:
    return diagnose(folder, {"train.log": STEPS + THREAD + LATER + end})


def test_a_thread_that_the_main_one_waited_for(tmp_path: Path) -> None:
    diagnosis = _thread(tmp_path, EMPTY)
    assert (diagnosis.verdict, first(diagnosis).name) == ("failed", "storage-io-error")
    assert [f.role for f in diagnosis.findings if f.name == "python-exception"] == [Role.CASCADE]


@pytest.mark.parametrize("end", [KEY, "Training finished\n"])
def test_a_thread_that_nobody_missed(end: str, tmp_path: Path) -> None:
    roots = _thread(tmp_path, end).of_role(Role.ROOT)
    assert "storage-io-error" not in {f.name for f in roots}


RULE = "-" * 75
CELL = f"""{RULE}
ValueError                                Traceback (most recent call last)
Cell In[3], line 4
      2     for i in range(20):
----> 4         l = net.step(x, y)
Cell In[1], line 6, in Net.step(s, x, y)
      5     def step(s, x, y):
----> 6         p = x @ s.w
ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0
"""
PAPERMILL = f"""Executing:  33%|###3      | 1/3 [00:01<00:02,  1.10s/cell]
Executing: 100%|##########| 3/3 [00:02<00:00,  1.30cell/s]
Traceback (most recent call last):
  File "/opt/conda/bin/papermill", line 8, in <module>
    sys.exit(papermill())
  File "/opt/conda/lib/python3.11/site-packages/papermill/execute.py", line 251, in raise_for_execution_errors
    raise error
papermill.exceptions.PapermillExecutionError:\x20
{RULE}
Exception encountered at "In [3]":
"""
NBCLIENT = """Traceback (most recent call last):
  File "/opt/conda/bin/jupyter-execute", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.11/site-packages/nbclient/client.py", line 918, in _check_raise_for_error
    raise CellExecutionError.from_cell_and_msg(cell, exec_reply_content)
nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:
------------------
for i in range(20):
    l = net.step(x, y)
------------------

"""


@pytest.mark.parametrize("wrapper", [PAPERMILL, NBCLIENT])
def test_the_cell_of_a_notebook_is_the_cause(wrapper: str, tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, {"run.log": wrapper + CELL})
    found = first(diagnosis)
    assert (found.captures["exception"], found.captures["function"]) == ("ValueError", "Net.step")
    assert found.step is None
    assert len(diagnosis.findings) == 1


def test_a_notebook_whose_cell_is_not_shown(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, {"run.log": NBCLIENT})
    assert first(diagnosis).captures["exception"].endswith("CellExecutionError")


RESET = """Traceback (most recent call last):
  File "/srv/job/dist.py", line 11, in recv
    raise ConnectionResetError("peer closed the connection")
ConnectionResetError: peer closed the connection
"""


def test_the_worker_that_all_others_lost(tmp_path: Path) -> None:
    codes = "".join(f"worker {rank} exited with code {7 if rank == 2 else 1}\n" for rank in range(4))
    files = {
        name: text + RESET if "logs/" in name and "worker2" not in name else text
        for name, text in _workers(codes).items()
    }
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == ("rank-exited-early", (2,))


def test_ranks_of_a_script_that_tags_their_lines(tmp_path: Path) -> None:
    lines = [f"[r{rank}] worker of 4 is {word}" for word in ("starting", "binding", "waiting") for rank in range(4)]
    lines.append("[r0] OSError: [Errno 98] Address already in use")
    found = first(diagnose(tmp_path, {"launch.log": "\n".join(lines) + "\n"}))
    assert (found.name, found.ranks) == ("address-in-use", (0,))


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    text = "== prepare ==\ntokenized 1200 docs\ntrain.sh: line 5: DATA_ROOT: unbound variable\n"
    diagnosis = diagnose(tmp_path, {"train.log": text})
    assert (diagnosis.verdict, first(diagnosis).captures["variable"]) == ("failed", "DATA_ROOT")
