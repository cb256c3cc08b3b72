"""Whose a traceback is of which an MPI launcher alone names the rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

ERROR = (
    'Traceback (most recent call last):\n  File "train.py", line 33, in <module>\n    ds = load("/data/cifar")\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/cifar'\n"
)
BAR = "-" * 74 + "\n"
ABORT = f"{BAR}MPI_ABORT was invoked on rank {{n}} in communicator MPI_COMM_WORLD\nwith errorcode 1.\n{BAR}"
STATUS = (
    f"{BAR}mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    f"the job to be terminated. The first process to do so was:\n\n  Process name: [[51221,1],{{n}}]\n"
    f"  Exit code:    1\n{BAR}"
)
KILLED = f"{BAR}mpirun noticed that process rank {{n}} with PID 411 on node n1 exited on signal 9 (Killed).\n{BAR}"


@pytest.mark.parametrize(
    ("log", "ranks"),
    [
        (ERROR + ABORT.format(n=2) + STATUS.format(n=2), (2,)),
        (ERROR + BAR * 3 + STATUS.format(n=3), (3,)),
        (ERROR + ABORT.format(n=2) + STATUS.format(n=3), None),
        (ERROR + ERROR.replace("cifar", "mnist") + ABORT.format(n=2) + STATUS.format(n=2), None),
        (ERROR + BAR * 3 + KILLED.format(n=2), None),
    ],
)
def test_the_one_traceback_above_is_of_the_rank_that_gave_up(
    tmp_path: Path, log: str, ranks: tuple[int, ...] | None
) -> None:
    (tmp_path / "mpi.err").write_text(log)
    found = analyse([str(tmp_path)], Options())
    raised = [f for f in (*found.of_role(Role.ROOT), *found.findings) if f.name == "python-exception"]
    assert raised[0].ranks == ranks
