"""Ends of workers of which only a launcher tells: which of them came first, and which follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role, Verdict

Row = tuple[int, int, int]  # rank, exit code, second of its time
AGENT = "torch/distributed/elastic/multiprocessing/api.py"
TO_READ = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
NAMES = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def launched(first: Row, *others: Row, host: str = "node-a") -> str:
    """What torchrun prints of workers that failed, the one last that it takes for the first."""

    def row(n: int, end: Row) -> str:
        rank, code, second = end
        told = f"Signal {-code} ({NAMES[-code]}) received by PID {900 + rank}" if code < 0 else TO_READ
        return (
            f"[{n}]:\n  time      : 2026-06-01_02:11:{second:02}\n  host      : {host}\n"
            f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {900 + rank})\n"
            f"  error_file: <N/A>\n  traceback : {told}\n"
        )

    seen = f"failed (exitcode: {first[1]}) local_rank: {first[0]} (pid: {900 + first[0]}) of binary: /usr/bin/python"
    rows = "".join(row(n, end) for n, end in enumerate(others, 1)) or "  <NO_OTHER_FAILURES>\n"
    line = "-" * 60 + "\n"
    return (
        f"E0601 02:11:59.281000 2201 {AGENT}:874] {seen}\nTraceback (most recent call last):\n"
        '  File "/usr/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + f"\ntrain.py FAILED\n{line}Failures:\n{rows}{line}Root Cause (first observed failure):\n{row(0, first)}"
    )


def root(folder: Path, text: str, name: str = "out.log") -> Finding:
    (folder / name).write_text(text)
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


def aborted(ranks: Sequence[int], second: int) -> list[Row]:
    return [(rank, -6, second) for rank in ranks]


@pytest.mark.parametrize("code", [1, 2])
@pytest.mark.parametrize("later", [41, 42, 50])
def test_aborts_follow_from_the_rank_that_ended_by_itself_before(tmp_path: Path, code: int, later: int) -> None:
    found = root(tmp_path, launched((4, code, 40), *aborted([0, 1, 2, 3, 5], later)))
    assert (found.name, found.ranks, found.node) == ("insufficient-evidence", (4,), "node-a")
    assert found.confidence < 0.7


def test_aborts_at_the_same_time_are_blamed_no_more_than_the_rank_that_ended_by_itself(tmp_path: Path) -> None:
    found = root(tmp_path, launched((0, -6, 40), *aborted([1, 2, 3, 5], 40), (4, 1, 40)))
    assert (found.name, found.ranks) == ("insufficient-evidence", None)
    assert "rank 4 ended with an exit code and 0-3, 5 aborted" in found.notes[0]


def test_the_lowest_rank_is_named_first_for_its_number(tmp_path: Path) -> None:
    """Of the workers that an agent finds dead in one look it names the lowest."""
    found = root(tmp_path, launched((0, 1, 40), *aborted([1, 2, 3], 40)))
    assert (found.name, found.ranks) == ("insufficient-evidence", None)


def test_one_abort_before_the_others_is_what_they_follow_from(tmp_path: Path) -> None:
    found = root(tmp_path, launched((2, -6, 40), (0, 1, 45), (1, 1, 45), (3, 1, 45)))
    assert (found.name, found.ranks) == ("rank-sigabrt", (2,))
    found = root(tmp_path, launched((2, -6, 40), (0, 1, 45)))
    assert (found.name, found.ranks) == ("rank-sigabrt", (2,))


def test_one_abort_among_several_that_raised_is_the_one_to_look_at(tmp_path: Path) -> None:
    found = root(tmp_path, launched((0, 1, 40), (1, 1, 40), (2, -6, 40), (3, 1, 40)))
    assert (found.name, found.ranks) == ("rank-sigabrt", (2,))


def test_another_signal_comes_before_both(tmp_path: Path) -> None:
    found = root(tmp_path, launched((0, -6, 40), (1, -11, 40), (2, -6, 40), (3, 1, 40)))
    assert (found.name, found.ranks) == ("rank-segfault", (1,))


def test_all_that_abort_have_a_cause_of_their_own(tmp_path: Path) -> None:
    assert root(tmp_path, launched((0, -6, 40), *aborted([1, 2, 3], 40))).name == "rank-sigabrt"


def test_an_abort_that_says_what_it_is_of_follows_from_no_exit(tmp_path: Path) -> None:
    said = (
        "[rank1]: terminate called after throwing an instance of 'std::bad_alloc'\n[rank1]:   what():  std::bad_alloc\n"
    )
    found = root(tmp_path, said + launched((0, 1, 40), *aborted([1, 2], 40)))
    assert (found.name, found.ranks) == ("cpu-allocation-failed", (1,))


def test_stops_follow_from_the_rank_that_ended_before(tmp_path: Path) -> None:
    found = root(tmp_path, launched((0, 1, 40), (1, -15, 42), (2, -15, 42), (3, -15, 42)))
    assert (found.name, found.ranks) == ("insufficient-evidence", (0,))
    found = root(tmp_path, launched((0, 1, 40), (1, -15, 40), (2, -15, 40), (3, -15, 40)))
    assert found.ranks is None  # whoever stopped them may have stopped rank 0 as well


def _sends(*ranks: int) -> str:
    of = f"W0601 02:11:40.281000 2201 {AGENT}:900] Sending process "
    return "".join(f"{of}{900 + rank} closing signal SIGTERM\n" for rank in ranks)


TOLD = (
    "W0601 02:11:40.100000 2201 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, "
    "shutting down workers\n"
)


@pytest.mark.parametrize(
    ("before", "ranks"),
    [
        pytest.param(_sends(0, 1, 3), (2,), id="all-of-the-others"),
        pytest.param(_sends(0, 1), None, id="one-was-dead-before"),
        pytest.param(TOLD + _sends(0, 1, 3), None, id="the-agent-was-told-to-stop-itself"),
    ],
)
def test_stops_by_the_agent_itself_follow_from_the_rank_that_it_had_found(
    tmp_path: Path, before: str, ranks: tuple[int, ...] | None
) -> None:
    """All in one second: an agent sends its signal to those that live still, and says so of each."""
    found = root(tmp_path, before + launched((2, 1, 40), (0, -15, 40), (1, -15, 40), (3, -15, 40)))
    assert found.ranks == ranks
    if ranks:
        assert (found.name, found.node) == ("insufficient-evidence", "node-a")


def test_two_that_ended_by_themselves_before_the_agent_stopped_the_others(tmp_path: Path) -> None:
    text = _sends(0, 3) + launched((1, 1, 40), (2, 1, 40), (0, -15, 40), (3, -15, 40))
    assert root(tmp_path, text).ranks is None


def test_tables_of_two_hosts_bear_two_clocks(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text(launched((1, -6, 41), *aborted([0], 41), host="node-b"))
    found = root(tmp_path, launched((3, 1, 40), *aborted([2], 46)), "a.log")
    assert found.ranks != (3,)


SRUN = "srun: error: {}: {}: {}\n"
STOP = "srun: Terminating StepId=4.0\n"


@pytest.mark.parametrize("end", ["Terminated", "Killed", "Aborted (core dumped)"])
def test_the_task_that_exited_before_srun_ended_the_others(tmp_path: Path, end: str) -> None:
    exited = SRUN.format("gpu-3", "task 5", "Exited with exit code 1") + STOP
    others = SRUN.format("gpu-2", "tasks 0-3", end) + SRUN.format("gpu-3", "tasks 4,6-7", end)
    found = root(tmp_path, exited + others)
    assert (found.name, found.ranks, found.node) == ("insufficient-evidence", (5,), "gpu-3")


def test_tasks_that_exited_together_are_not_told_apart(tmp_path: Path) -> None:
    exited = SRUN.format("gpu-3", "tasks 4-5", "Exited with exit code 1") + STOP
    assert root(tmp_path, exited + SRUN.format("gpu-2", "tasks 0-3", "Terminated")).ranks is None


def test_a_task_that_exited_below_others_that_were_stopped_is_not_the_first(tmp_path: Path) -> None:
    stopped = SRUN.format("gpu-2", "tasks 0-3", "Terminated")
    assert root(tmp_path, stopped + STOP + SRUN.format("gpu-3", "task 5", "Exited with exit code 1")).ranks is None


def test_a_task_of_an_agent_is_no_rank(tmp_path: Path) -> None:
    agent = SRUN.format("node-a", "task 0", "Exited with exit code 1") + STOP
    found = root(tmp_path, launched((4, 1, 40), *aborted([0, 1, 2, 3, 5], 42)) + agent)
    assert found.ranks == (4,)


def test_an_exit_alone_may_be_of_a_victim(tmp_path: Path) -> None:
    assert root(tmp_path, launched((3, 1, 40))).ranks is None


def test_a_run_without_failures_has_no_root(tmp_path: Path) -> None:
    steps = "".join(f"[rank{rank}]: step {n} loss {3 - n / 50:.3f}\n" for n in range(20) for rank in range(2))
    (tmp_path / "out.log").write_text(steps + "Training completed.\n")
    assert analyse([str(tmp_path)], Options(cache=False)).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (132, "rank-sigill"),
        (134, "rank-sigabrt"),
        (135, "rank-sigbus"),
        (136, "rank-sigfpe"),
        (137, "sigkill-unknown-sender"),
        (139, "rank-segfault"),
        (143, "external-sigterm"),
    ],
)
def test_a_status_for_a_signal_names_the_task(tmp_path: Path, code: int, name: str) -> None:
    exited = SRUN.format("gpu-3", "task 12", f"Exited with exit code {code}") + STOP
    found = root(tmp_path, exited + SRUN.format("gpu-2", "tasks 0-7", "Terminated"))
    assert (found.name, found.ranks, found.node) == (name, (12,), "gpu-3")


def test_a_status_for_a_stop_that_srun_announced_is_its_own(tmp_path: Path) -> None:
    exited = SRUN.format("gpu-3", "task 5", "Exited with exit code 1") + STOP
    stopped = SRUN.format("gpu-2", "tasks 0-3", "Exited with exit code 143")
    found = root(tmp_path, exited + stopped)
    assert (found.name, found.ranks) == ("insufficient-evidence", (5,))


BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"


def test_the_one_that_aborted_had_the_error_that_cpp_prints(tmp_path: Path) -> None:
    found = root(tmp_path, BAD_ALLOC + launched((1, -6, 40)))
    assert (found.name, found.ranks, found.node) == ("cpu-allocation-failed", (1,), "node-a")


def test_of_several_that_aborted_none_had_the_error_for_sure(tmp_path: Path) -> None:
    found = root(tmp_path, BAD_ALLOC + launched((1, -6, 40), (2, -6, 40), (3, -15, 42)))
    assert (found.name, found.ranks) == ("cpu-allocation-failed", None)


def test_a_loop_that_ends_with_what_came_out_reached_its_end(tmp_path: Path) -> None:
    epochs = "".join(f"epoch {n} train_error: {0.4 / (n + 1):.4f} val_error: {0.5 / (n + 1):.4f}\n" for n in range(20))
    (tmp_path / "out.log").write_text(epochs + "Done. Best val_error 0.03\n")
    assert analyse([str(tmp_path)], Options(cache=False)).verdict is Verdict.HEALTHY
    (tmp_path / "out.log").write_text(epochs + "Done. Best checkpoint so far is kept\n")
    assert analyse([str(tmp_path)], Options(cache=False)).verdict is not Verdict.FAILED
