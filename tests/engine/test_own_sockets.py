"""Connections that ranks lost: in their own code and before all other trouble, or because a peer was gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
PIPE = "BrokenPipeError: [Errno 32] Broken pipe"
STEPS = "".join(f"2026-08-10 09:00:{n:02} INFO step {n} loss 2.5\n" for n in range(1, 30))
OWN = (
    '  File "/srv/train.py", line 90, in <module>\n    main()\n  File "/srv/stream.py", line 31, in read\n    recv()\n'
)
STORE = OWN + (
    '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/rendezvous.py", line 189, in _create\n'
    "    return TCPStore(host, port)\n"
)
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:2011"


def traceback(error: str, frames: str = OWN) -> str:
    return f"Traceback (most recent call last):\n{frames}{error}\n"


CLOSED = traceback(GLOO, '  File "/srv/train.py", line 188, in main\n    dist.all_reduce(t)\n')


def timed_out(rank: int) -> str:
    at = "[E0810 09:10:31.623716052 ProcessGroupNCCL.cpp:683]"
    return (
        f"{at} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=901, OpType=ALLREDUCE, "
        "NumelIn=22, NumelOut=22, Timeout(ms)=600000) ran for 600086 milliseconds before timing out.\n"
    )


def root(folder: Path, ends: dict[int, str]) -> Finding:
    for rank, end in ends.items():
        (folder / f"rank_{rank}.log").write_text(f"2026-08-10 09:00:00 INFO rank {rank}/{len(ends)}\n{STEPS}{end}")
    return analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("error", [RESET, PIPE, "ConnectionAbortedError: [Errno 103] Software caused connection abort"])
def test_a_rank_that_lost_a_connection_in_its_own_code_is_the_one_for_which_all_others_waited(
    tmp_path: Path, error: str
) -> None:
    found = root(tmp_path, {0: timed_out(0), 1: timed_out(1), 2: timed_out(2), 3: traceback(error)})
    assert (found.name, found.ranks) == ("python-exception", (3,))


def test_the_others_whose_connections_to_it_are_closed_have_lost_it(tmp_path: Path) -> None:
    found = root(tmp_path, {0: CLOSED, 1: CLOSED, 2: CLOSED, 3: traceback(RESET)})
    assert (found.name, found.ranks) == ("python-exception", (3,))


@pytest.mark.parametrize("second", [RESET, PIPE])
def test_a_few_ranks_that_lost_a_server_began_what_many_others_time_out_of(tmp_path: Path, second: str) -> None:
    waited = {rank: timed_out(rank) for rank in range(4)}
    found = root(tmp_path, waited | {4: traceback(RESET), 5: traceback(second)})
    assert found.name == "python-exception"
    assert found.ranks == ((4, 5) if second == RESET else (4,))


def failed(*pids: int) -> str:
    """What torchrun prints of the first of the processes that failed, and of each."""
    agent = "torch/distributed/elastic/multiprocessing/api.py"
    return (
        f"W0810 09:00:29.551000 4100 {agent}:897] Sending process 1 closing signal SIGTERM\n"
        f"E0810 09:00:29.915000 4100 {agent}:869] failed (exitcode: 1) local_rank: 2 (pid: {pids[0]}) of binary: /bin/py\n"
        + "".join(
            f"[{n}]:\n  rank      : {6 + n} (local_rank: {2 + n})\n  exitcode  : 1 (pid: {p})\n"
            for n, p in enumerate(pids)
        )
    )


def test_torchrun_names_each_of_two_ranks_that_lost_a_server(tmp_path: Path) -> None:
    raised = "".join(f"[rank{n}]: {line}\n" for n in (6, 7) for line in traceback(RESET).splitlines())
    (tmp_path / "node1.log").write_text(STEPS + raised + failed(4, 5))
    (tmp_path / "node0.log").write_text(STEPS + "".join(f"[rank{n}]:{timed_out(n)}" for n in range(4)))
    found = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks) == ("python-exception", (6, 7))


def test_one_of_two_ranks_that_torchrun_names_may_have_broken_the_connection_of_the_other(tmp_path: Path) -> None:
    raised = "".join(f"[rank{n}]: {line}\n" for n in (6, 7) for line in traceback(RESET).splitlines())
    (tmp_path / "node1.log").write_text(STEPS + raised + failed(4))
    (tmp_path / "node0.log").write_text(STEPS + "".join(f"[rank{n}]:{timed_out(n)}" for n in range(4)))
    assert analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0].ranks != (6, 7)


def test_torchrun_names_the_rank_that_lost_a_connection_while_other_nodes_wait(tmp_path: Path) -> None:
    agent = "torch/distributed/elastic/multiprocessing/api.py"
    raised = "".join(f"[rank6]: {line}\n" for line in traceback(RESET).splitlines())
    ends = (
        f"W0810 09:00:29.551000 4100 {agent}:897] Sending process 1 closing signal SIGTERM\n"
        f"E0810 09:00:29.915000 4100 {agent}:869] failed (exitcode: 1) local_rank: 2 (pid: 4) of binary: /usr/bin/python\n"
    )
    (tmp_path / "node1.log").write_text(STEPS + raised + ends)
    (tmp_path / "node0.log").write_text(STEPS + "".join(f"[rank{n}]:{timed_out(n)}" for n in range(4)))
    found = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks) == ("python-exception", (6,))


@pytest.mark.parametrize(
    "ends",
    [
        {0: timed_out(0), 1: timed_out(1), 2: timed_out(2), 3: traceback(RESET, STORE)},
        {0: timed_out(0), 1: timed_out(1), 2: "", 3: traceback(RESET)},
        {0: timed_out(0), 1: timed_out(1), 2: traceback(PIPE), 3: traceback(RESET)},
        {0: CLOSED, 1: CLOSED, 4: CLOSED, 2: traceback(RESET), 3: traceback(RESET)},
        {0: timed_out(0), 1: timed_out(1), 4: "", 2: traceback(RESET), 3: traceback(RESET)},
        {0: timed_out(0), 1: timed_out(1), 4: timed_out(4), 2: traceback(RESET), 3: traceback(RESET, STORE)},
        {0: timed_out(0), 1: timed_out(1), 2: traceback("KeyError: 'y'"), 3: traceback(RESET)},
        {0: timed_out(0), 1: timed_out(1), 2: timed_out(2), 3: timed_out(3) + traceback(RESET)},
    ],
    ids=[
        "to the store",
        "another is silent",
        "of two ranks",
        "two lost it as others lost a peer",
        "two, and one is silent",
        "one of two to the store",
        "another raised",
        "it waited as well",
    ],
)
def test_an_echo_stays_one_where_a_peer_may_have_been_gone(tmp_path: Path, ends: dict[int, str]) -> None:
    found = root(tmp_path, ends)
    assert not (found.name == "python-exception" and 3 in (found.ranks or ()))
