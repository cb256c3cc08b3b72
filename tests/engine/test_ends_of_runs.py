"""Whose end a line tells, kills that were announced, what follows a death, and last lines that state a failure."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role, Verdict
from forensics.signatures.schema import Signature, load_catalogue

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {n} has a total capacity of 79.15 GiB "
    "of which 90.00 MiB is free.\n"
)
TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 51, in main
    w = float(row[3])
"""
VALUE_ERROR = TRACEBACK + "ValueError: could not convert string to float: 'n/a'\n"
GLOO = TRACEBACK + (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.2.0.7]:31544\n"
)
NCCL = TRACEBACK + (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote "
    "process exited or there was a network error, NCCL version 2.21.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)


@cache
def catalogue() -> dict[str, Signature]:
    return load_catalogue()


def diagnose(folder: Path, **files: str) -> Diagnosis:
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return analyse([str(folder)], Options(threads=1), catalogue())


def roots(found: Diagnosis) -> list[str]:
    return [f.name for f in found.of_role(Role.ROOT)]


def first(found: Diagnosis) -> Finding:
    return found.of_role(Role.ROOT)[0]


def named(found: Diagnosis, name: str) -> Finding:
    return next(f for f in found.findings if f.name == name)


def steps(last: int, first: int = 1, rank: int | None = None) -> str:
    """One record a second, from 09:00 on."""
    by = "" if rank is None else f"rank={rank} "
    return "".join(
        f"2026-01-05 09:{n // 60:02d}:{n % 60:02d} INFO {by}step {n} loss={3 - n / 400:.4f}\n"
        for n in range(first, last + 1)
    )


def tasks(last: int, ranks: int = 4) -> str:
    """Lines of srun's tasks, untimed."""
    return "".join(f"{r}: it {n} loss {2 - n / 100:.3f}\n" for n in range(1, last + 1) for r in range(ranks))


@pytest.mark.parametrize("error", [OOM.format(n=0), VALUE_ERROR, GLOO, NCCL], ids=["oom", "value", "gloo", "nccl"])
def test_one_ranks_end_is_no_word_of_the_others(tmp_path: Path, error: str) -> None:
    others = {f"rank{r}": steps(120, rank=r) + error for r in (0, 1, 3)}
    done = steps(119, rank=2) + "2026-01-05 09:02:03 INFO rank=2 training finished\n"
    assert diagnose(tmp_path, rank2=done, **others).verdict is Verdict.FAILED


@pytest.mark.parametrize("error", [VALUE_ERROR, GLOO], ids=["value", "gloo"])
@pytest.mark.parametrize("end", ["training finished\n", "2026-01-05 09:02:03 INFO training finished\n"])
def test_files_that_train_are_of_two_processes_also_where_nothing_names_ranks(
    tmp_path: Path, error: str, end: str
) -> None:
    found = diagnose(tmp_path, a=steps(120) + error, b=steps(119) + end, c=steps(120) + error)
    assert found.verdict is Verdict.FAILED


def test_a_file_without_steps_may_be_the_other_stream_of_the_process_that_finished(tmp_path: Path) -> None:
    said = "2026-01-05 09:02:01 WARNING sample 7 left out\n" + VALUE_ERROR
    end = "2026-01-05 09:02:0{} INFO training finished\n"
    assert diagnose(tmp_path, out=steps(120) + end.format(3), err=said).verdict is Verdict.HEALTHY
    assert diagnose(tmp_path, out=steps(120) + end.format(0), err=said).verdict is Verdict.FAILED


def test_a_rank_that_falls_silent_is_dead_though_the_others_train_on(tmp_path: Path) -> None:
    others = {f"rank{r}": steps(150) + "2026-01-05 09:02:31 INFO Training finished\n" for r in (0, 1, 2)}
    found = diagnose(tmp_path, rank3=steps(60) + TRACEBACK + OOM.format(n=3), **others)
    assert (found.verdict, first(found).name, first(found).ranks) == (Verdict.FAILED, "cuda-oom", (3,))


def test_an_error_is_handled_where_its_own_rank_or_the_job_comes_to_its_end(tmp_path: Path) -> None:
    end = "2026-01-05 09:02:31 INFO Training finished\n"
    well = {f"rank{r}": steps(150) + end for r in (0, 1, 2)}
    assert diagnose(tmp_path, rank3=steps(150) + VALUE_ERROR + end, **well).verdict is Verdict.HEALTHY
    silent = steps(150) + VALUE_ERROR
    assert diagnose(tmp_path, rank3=silent, **well).verdict is Verdict.FAILED
    job = "2026-01-05 09:03:00 Job ID: 5511  State: COMPLETED (exit code 0)\n"
    assert diagnose(tmp_path, rank3=silent, seff=job, **well).verdict is Verdict.HEALTHY


def test_rank_0_speaks_for_ranks_that_record_no_steps_once_it_trained_on(tmp_path: Path) -> None:
    logged = "2026-01-05 09:01:00 WARNING sample 7 left out\n" + VALUE_ERROR
    end = "2026-01-05 09:02:31 INFO Training finished\n"
    assert diagnose(tmp_path, rank0=steps(150) + end, rank1=logged).verdict is Verdict.HEALTHY
    at_once = steps(61) + "2026-01-05 09:01:02 INFO Training finished\n"
    assert diagnose(tmp_path, rank0=at_once, rank1=logged).verdict is Verdict.FAILED


TEARDOWN = """\
srun: Terminating StepId=31.0
slurmstepd: error: *** STEP 31.0 ON n01 CANCELLED AT 2026-11-20T14:05:00 ***
srun: error: n01: tasks 0-1: Killed
srun: error: n02: task 3: Killed
"""


def test_slurms_teardown_is_no_cause(tmp_path: Path) -> None:
    raised = "2: Traceback (most recent call last):\n2:   File \"t.py\", line 4, in <module>\n2: KeyError: 'x'\n"
    failed = "srun: error: n02: task 2: Exited with exit code 1\n"
    found = diagnose(tmp_path, job=tasks(20) + raised + failed + TEARDOWN)
    assert (roots(found), first(found).ranks, found.verdict) == (["python-exception"], (2,), Verdict.FAILED)
    assert named(found, "srun-task-exited").explained_by == first(found).id
    assert found.run.nodes == 2  # and srun is none


@pytest.mark.parametrize("killed", ["Killed", "Exited with exit code 137"])
def test_the_order_of_the_lines_tells_a_kill_that_came_first(tmp_path: Path, killed: str) -> None:
    kill = f"srun: error: n01: task 1: {killed}\n"
    terminating = "srun: Terminating StepId=32.0\n"
    found = diagnose(tmp_path, job=tasks(20) + kill + terminating)
    assert (roots(found), first(found).ranks) == (["sigkill-unknown-sender"], (1,))
    assert roots(diagnose(tmp_path, job=tasks(20) + terminating + kill)) == ["insufficient-evidence"]
    # The job step that was ended is not the one that trained afterwards.
    assert roots(diagnose(tmp_path, job=terminating + tasks(20) + kill)) == ["sigkill-unknown-sender"]


def test_a_step_that_somebody_cancelled_is_a_stop_from_outside(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** STEP 31.0 ON n01 CANCELLED AT 2026-11-20T14:05:00 ***\n"
    assert diagnose(tmp_path, job=tasks(20) + cancelled).verdict is Verdict.INTERRUPTED
    other = "srun: Terminating StepId=30.0\n"
    assert diagnose(tmp_path, job=other + tasks(20) + cancelled).verdict is Verdict.INTERRUPTED
    stopped = "srun: error: n01: task 1: Exited with exit code 143\n"
    assert diagnose(tmp_path, job=tasks(20) + stopped + cancelled).verdict is Verdict.INTERRUPTED


def test_a_step_that_is_cancelled_after_a_task_of_it_failed_is_stopped_by_srun(tmp_path: Path) -> None:
    raised = "2: Traceback (most recent call last):\n2:   File \"t.py\", line 4, in <module>\n2: KeyError: 'x'\n"
    failed = "srun: error: n02: task 2: Exited with exit code 1\n"
    cancelled = "slurmstepd: error: *** STEP 31.0 ON n01 CANCELLED AT 2026-11-20T14:05:00 ***\n"
    found = diagnose(tmp_path, job=tasks(20) + raised + failed + cancelled)
    assert (roots(found), first(found).ranks, found.verdict) == (["python-exception"], (2,), Verdict.FAILED)


def test_a_helper_that_a_script_kills_is_no_process_of_the_run(tmp_path: Path) -> None:
    done = steps(60) + "Training complete. Saved to out/final.pt\n"
    kill = "./run.sh: line 44:  2231 Killed                  {} --logdir out\n"
    assert diagnose(tmp_path, run=done + kill.format("tensorboard")).verdict is Verdict.HEALTHY
    found = diagnose(tmp_path, run=steps(60) + kill.format("python train.py"))
    assert roots(found) == ["sigkill-unknown-sender"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Process finished with exit code 1", "1"),
        ("##[error]Process completed with exit code 1.", "1"),
        ("Command exited with non-zero status 3", "3"),
        ("make: *** [Makefile:3: train] Error 2", "2"),
        ("FAILED: exit code 1", "1"),
        ("command terminated with exit code 1", "1"),
        ("Command '['python', 'train.py']' returned non-zero exit status 3.", "3"),
        ("exiting with status 1", "1"),
    ],
)
def test_an_exit_status_is_the_last_word(tmp_path: Path, line: str, status: str) -> None:
    found = diagnose(tmp_path, run=steps(60) + line + "\n")
    assert (found.verdict, roots(found)) == (Verdict.FAILED, ["insufficient-evidence"])
    assert named(found, "process-failed").captures["exitcode"] == status
    said = diagnose(tmp_path, run=steps(60) + "Training complete\n" + line + "\n")
    assert said.verdict is Verdict.FAILED  # whatever it had printed before
    assert roots(diagnose(tmp_path, run=steps(60) + VALUE_ERROR + line + "\n")) == ["python-exception"]
    assert diagnose(tmp_path, run=line + "\n" + steps(60)).verdict is Verdict.HEALTHY  # of what ran before


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Bus error", "rank-sigbus"),
        ("Aborted", "rank-sigabrt"),
        ("run.sh: line 5: 23022 Segmentation fault      python3 train.py", "rank-segfault"),
        ("python: malloc.c:2617: sysmalloc: Assertion `(old_top == 0)' failed.", "heap-corruption"),
        ("ERROR: LoadError: DimensionMismatch: A has dimensions (32,64)", "other-program-error"),
        ("thread 'main' panicked at src/loader.rs:88:21:", "other-program-error"),
        ("2026-01-05T09:01:31Z RuntimeError: boom", "python-exception"),
    ],
)
def test_a_signal_or_an_uncaught_error_that_ends_a_log_is_found(tmp_path: Path, line: str, name: str) -> None:
    assert roots(diagnose(tmp_path, run=steps(60) + line + "\n")) == [name]


@pytest.mark.parametrize("line", ["fatal: CUDA driver lost", "error: lost the lease"])
def test_a_log_that_ends_in_an_error_of_no_known_kind_is_not_healthy(tmp_path: Path, line: str) -> None:
    assert diagnose(tmp_path, run=steps(60) + line + "\n").verdict is Verdict.UNKNOWN
    assert diagnose(tmp_path, run=steps(30) + line + "\n" + steps(60, 31)).verdict is Verdict.HEALTHY


REFUSED = (
    "{n}: [rank{n}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting.\n"
    "{n}: [rank{n}]: socketPollConnect: connect to 10.4.5.1<41235> returned {why}, exceeded error retry count after 35 "
    "attempts\n"
)


def test_peers_that_are_refused_after_a_ranks_death_are_an_echo(tmp_path: Path) -> None:
    lost = "".join(REFUSED.format(n=n, why="Connection refused") for n in (0, 1, 2))
    death = "srun: error: n01: task 3: Segmentation fault (core dumped)\n"
    found = diagnose(tmp_path, job=tasks(20) + lost + death)
    assert (roots(found), first(found).ranks) == (["rank-segfault"], (3,))
    assert roots(diagnose(tmp_path, job=tasks(20) + lost))[0] == "nccl-connect-failed"
    unreached = lost.replace("Connection refused", "No route to host")
    assert "nccl-connect-failed" in roots(diagnose(tmp_path, job=tasks(20) + unreached + death))
    own = death.replace("task 3", "task 1")  # of a rank that was refused itself
    assert "nccl-connect-failed" in roots(diagnose(tmp_path, job=tasks(20) + lost + own))


def test_a_time_limit_that_a_dead_rank_left_the_job_to_is_an_effect(tmp_path: Path) -> None:
    limit = "slurmstepd: error: *** JOB 4 ON c12 CANCELLED AT 2026-11-21T02:00:11 DUE TO TIME LIMIT ***\n"
    died = "1: [rank1]: " + OOM.format(n=1)
    assert roots(diagnose(tmp_path, job=tasks(20, 2) + died + limit)) == ["cuda-oom"]
    assert roots(diagnose(tmp_path, job=tasks(20, 2) + limit)) == ["scheduler-time-limit"]
    assert "scheduler-time-limit" in roots(diagnose(tmp_path, job=tasks(20, 2) + limit + died))


def test_a_launchers_pid_gives_a_kernels_kill_its_rank(tmp_path: Path) -> None:
    lines = "".join(f"[1,{r}]<stdout>:step {n} loss {2 - n / 10}\n" for n in range(1, 9) for r in range(8))
    noticed = "mpirun noticed that process rank 5 with PID {pid} on node nodeB exited on signal 9 (Killed).\n"
    kernel = (
        "Nov 20 14:02:40 nodeB kernel: Out of memory: Killed process 8812 (python3) total-vm:91234567kB, "
        "anon-rss:81234567kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:160000kB oom_score_adj:0\n"
    )
    found = diagnose(tmp_path, mpi=lines + noticed.format(pid=8812), nodeB_journal=kernel)
    assert (first(found).name, first(found).ranks) == ("host-oom", (5,))
    other = diagnose(tmp_path, mpi=lines + noticed.format(pid=9001), nodeB_journal=kernel)
    assert all(f.ranks is None for f in other.findings if f.name == "host-oom")  # of another process


KILLED = (
    "E1120 14:06:04.120000 5480 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) "
    "local_rank: {r} (pid: 551{r}) of binary: /usr/bin/python3\n"
)
CGROUP = "slurmstepd: error: Detected 1 oom_kill event in StepId=99.0. Some of the step tasks have been OOM Killed.\n"


def test_a_memory_kill_without_a_process_is_of_the_one_rank_that_was_killed(tmp_path: Path) -> None:
    lines = "".join(f"[default{r}]:step {n} loss {2 - n / 100}\n" for n in range(1, 30) for r in range(4))
    found = diagnose(tmp_path, job=lines + KILLED.format(r=2) + CGROUP)
    assert (roots(found), first(found).ranks) == (["host-oom-cgroup"], (2,))
    several = diagnose(tmp_path, job=lines + KILLED.format(r=1) + KILLED.format(r=2) + CGROUP)
    assert (roots(several), first(several).ranks) == (["host-oom-cgroup"], None)


def test_a_library_that_one_rank_alone_misses_names_it(tmp_path: Path) -> None:
    header = 'Traceback (most recent call last):\n  File "/a/m.py", line 1, in <module>\n'
    missing = header + ("ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n")
    waits = header + (
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
        "(10.0.0.1, 29500).\n"
    )
    found = diagnose(tmp_path, rank0=missing, **{f"rank{r}": waits for r in (1, 2, 3)})
    assert (first(found).name, first(found).ranks) == ("missing-shared-library", (0,))
    everywhere = diagnose(tmp_path, **{f"rank{r}": missing for r in range(4)})
    assert (first(everywhere).name, first(everywhere).ranks) == ("missing-shared-library", None)


def test_the_rank_of_the_only_process_is_not_named(tmp_path: Path) -> None:
    assert first(diagnose(tmp_path, train=steps(40) + OOM.format(n=0))).ranks is None
    named_by_file = diagnose(tmp_path, train=steps(40), rank1=steps(40, rank=1) + OOM.format(n=1))
    assert first(named_by_file).ranks == (1,)


def test_a_report_of_a_desync_tells_who_takes_part(tmp_path: Path) -> None:
    report = (
        "[rank0]:[E1120 14:20:00.100000001 ProcessGroupNCCL.cpp:1536] \n"
        "\t - [0] Timeout at collective: ALLREDUCE, #14\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        "\t   - [1] finished collective #13, but didn't join collective #14 (count from 1)\n"
        "\t - Snapshot of ranks' latest states:\n\t   #14 started ranks:\n\t     [0, 2, 3] started ALLREDUCE\n"
        "\t   #13 finished ranks:\n\t     [1] finished ALLREDUCE\n"
    )
    assert diagnose(tmp_path, log=steps(14) + report).run.world_size == 4


def test_of_several_hosts_that_fail_alike_none_is_named(tmp_path: Path) -> None:
    message = (
        TRACEBACK + "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
    )
    for n in range(3):
        (tmp_path / f"worker-{n}").mkdir()
        (tmp_path / f"worker-{n}" / "stderr.log").write_text(message)
    found = analyse([str(tmp_path)], Options(threads=1), catalogue())
    assert (first(found).name, first(found).node) == ("checkpoint-corrupt", None)


TABLE = """E1103 09:23:10.221000 4021 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -15) local_rank: 1 (pid: 501) of binary: python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-03_09:23:09
  host      : node-1
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 502)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-03_09:23:08
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 501)
  error_file: <N/A>
  traceback : Signal 15 received by PID 501
============================================================
"""


@pytest.mark.parametrize(
    ("raised", "announced", "root"),
    [
        ("KeyError: 'mask'", False, "python-exception"),
        ("ZeroDivisionError: division by zero", True, "python-exception"),
        # What its peers' end looks like to a rank is no error of its own.
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2395, remote process exited or there "
            "was a network error, NCCL version 2.21.5",
            False,
            "external-sigterm",
        ),
    ],
)
def test_the_worker_that_was_seen_dead_first_had_been_stopped(
    tmp_path: Path, raised: str, announced: bool, root: str
) -> None:
    for rank in range(4):
        steps = "".join(f"[rank{rank}] step {n} | loss {2.5 - n / 100:.4f}\n" for n in range(1, 13))
        error = (
            "[rank2]: Traceback (most recent call last):\n"
            '[rank2]:   File "/app/train.py", line 152, in train_step\n'
            f"[rank2]:     out = model(batch)\n[rank2]: {raised}\n"
        )
        (tmp_path / f"rank_{rank}.log").write_text(steps + (error if rank == 2 else ""))
    sent = (
        "W1103 09:23:09.100000 4021 torch/distributed/elastic/multiprocessing/api.py:898] Sending process 501 closing "
    )
    (tmp_path / "launcher.log").write_text((f"{sent}signal SIGTERM\n" if announced else "") + TABLE)
    found = analyse([str(tmp_path)])
    assert found.findings[0].name == root
    assert found.findings[0].ranks == ((2,) if root == "python-exception" else None)


def test_a_record_that_says_training_failed_holds_its_exception(tmp_path: Path) -> None:
    steps = "".join(f'{{"event": "step", "step": {n}, "loss": 1.5, "level": "info"}}\n' for n in range(20))
    raised = json.dumps({"event": "training failed", "level": "critical", "exception": VALUE_ERROR.rstrip()})
    found = diagnose(tmp_path, log=steps + raised + "\n").of_role(Role.ROOT)[0]
    assert found.name == "python-exception" and "train.py:51" in found.notes[0]


SEEN = "E1103 09:23:10.221000 4021 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -15) local_rank: {n} (pid: 50{n}) of binary: python\n"
SENT = "W1103 09:23:09.100000 4021 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 501 closing signal SIGTERM\n"
ALONE = (
    SEEN.format(n=1)
    + """============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-03_09:23:08
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 501)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 501
============================================================
"""
)


@pytest.mark.parametrize(
    ("told", "root", "ranks"),
    [
        (ALONE, "external-sigterm", (1,)),
        (SENT + ALONE, "insufficient-evidence", None),  # the agent had stopped it, and says of nothing why
        (SEEN.format(n=1) + SEEN.format(n=2), "external-sigterm", None),
    ],
    ids=["one", "stopped by its agent", "two"],
)
def test_a_worker_that_was_ended_by_a_signal_of_nobody_known(
    tmp_path: Path, told: str, root: str, ranks: tuple[int, ...] | None
) -> None:
    steps = "".join(f"2026-11-03 09:22:{n:02d},000 INFO step {n} | loss {2.5 - n / 100:.4f}\n" for n in range(1, 40))
    found = diagnose(tmp_path, log=steps + told)
    assert (first(found).name, first(found).ranks) == (root, ranks)
    if ranks:
        assert "Who did is not in these logs" in first(found).notes[0]
        assert "scheduler's record" in found.missing_evidence[0].how


def ended(rank: int, code: int) -> str:
    end = (
        f"Signal {-code} (SIGABRT) received by PID 50{rank}"
        if code < 0
        else "To enable traceback see: https://x/errors.html"
    )
    return (
        f"[{rank}]:\n  time      : 2026-11-03_09:23:08\n  host      : node-1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: 50{rank})\n  error_file: <N/A>\n  traceback : {end}\n"
    )


@pytest.mark.parametrize(
    ("said", "root", "ranks"), [((0, 1, 3), "nccl-remote-error", (2,)), ((0, 1), "nccl-remote-error", None)]
)
def test_ranks_that_abort_after_they_lost_a_peer_are_not_to_blame(
    tmp_path: Path, said: tuple[int, ...], root: str, ranks: tuple[int, ...] | None
) -> None:
    for rank in range(4):
        text = "".join(f"2026-11-03 09:22:{n:02d},000 INFO step {n} | loss {2.5 - n / 100:.4f}\n" for n in range(1, 40))
        (tmp_path / f"rank{rank}.log").write_text(text + (NCCL if rank in said else ""))
    table = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\nFailures:\n"
    table += "".join(ended(rank, -6) for rank in (0, 1, 3)) + "Root Cause (first observed failure):\n" + ended(2, 1)
    (tmp_path / "launcher.log").write_text(table)
    found = first(analyse([str(tmp_path)], Options(threads=1), catalogue()))
    assert (found.name, found.ranks) == (root, ranks)


NOTICE = "slurmstepd: error: *** JOB 4242 ON gpu-01 CANCELLED AT 2026-11-27T10:30:00 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize(("hosts", "node"), [(2, None), (1, "gpu-01")])
def test_the_first_host_of_a_job_is_not_to_blame_for_its_time_limit(
    tmp_path: Path, hosts: int, node: str | None
) -> None:
    """Slurm's notice comes from the first host's daemon, whatever the others did."""
    lines = [
        f"gpu-0{1 + r % hosts}: 2026-11-27 10:{n:02}:00 INFO [rank {r}] step {n} loss {2 / (n + 1):.4f}\n"
        for n in range(30)
        for r in range(4)
    ]
    (tmp_path / "slurm-4242.out").write_text("".join(lines) + NOTICE)
    root = analyse([str(tmp_path)]).findings[0]
    assert (root.name, root.node) == ("scheduler-time-limit", node)
