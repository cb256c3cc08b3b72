"""Exceptions of ranks that print no steps: caught where the ranks they train with went on for many steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

RAISED = """{p}Traceback (most recent call last):
{p}  File "/w/data.py", line 80, in __getitem__
{p}    x = decode(b)
{p}{error}"""
TRUNCATED = "OSError: image file is truncated (12 bytes not processed)"
LABELLED = RAISED.replace("{p}", "[rank5] ")
SKIPPED = f"[rank5] WARNING data.py:88 Skipping sample shard-3/000912 due to error\n{LABELLED}"
NEXT_ONE = f"2026-03-14 09:00:30 [rank5] ERROR ds.py:33 bad sample, using next one\n{RAISED.replace('{p}', '')}"
INLINE = SKIPPED.replace(" due to error\n[rank5] ", ": ")
OOM = """[rank2]: Traceback (most recent call last):
[rank2]:   File "/w/train.py", line 4, in <module>
[rank2]:     loss.backward()
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.20 GiB. GPU 2 has a total capacity of 79.11 GiB."""
LIMIT = "slurmstepd: error: *** JOB 4242 ON node1 CANCELLED AT 2026-03-14T09:01:14 DUE TO TIME LIMIT ***"
LOST = (
    "[rank0]:[E314 09:10:00.879695030 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=500, OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out."
)
TABLE = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-14_09:10:15
  host      : node1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 7102)
  error_file: <N/A>
  traceback : {why}
============================================================"""
ENABLE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
SEGFAULT = TABLE.format(rank=3, code=-11, why="Signal 11 (SIGSEGV) received by PID 7102")


def findings(folder: Path, said: str, end: str, after: int = 50, error: str = TRUNCATED) -> list[Finding]:
    """What is found in a log in which rank 0 alone prints steps, with what is said below step 20 and at the end."""
    lines = [
        f"[rank0] 2026-03-14 09:{n // 60:02}:{n % 60:02} step {n * 10} loss 2.{999 - n}" for n in range(21 + after)
    ]
    text = [*lines[:21], *said.replace("{error}", error).splitlines(), *lines[21:], *end.splitlines()]
    (folder / "train.log").write_text("\n".join(text) + "\n")
    return analyse([str(folder)], Options(cache=False)).findings


def roots(found: list[Finding]) -> list[tuple[str, tuple[int, ...] | None]]:
    return [(f.name, tuple(f.ranks) if f.ranks else None) for f in found if f.role is Role.ROOT]


@pytest.mark.parametrize(
    ("end", "root"),
    [(OOM, ("cuda-oom", (2,))), (SEGFAULT, ("rank-segfault", (3,))), (LIMIT, ("scheduler-time-limit", None))],
    ids=["memory", "crash", "time limit"],
)
@pytest.mark.parametrize("said", [SKIPPED, NEXT_ONE, INLINE], ids=["labelled", "bare", "on one line"])
def test_what_a_rank_skipped_long_before_is_no_cause_of_the_end(
    tmp_path: Path, said: str, end: str, root: tuple[str, tuple[int, ...] | None]
) -> None:
    found = findings(tmp_path, said, end)
    assert roots(found) == [root]
    skipped = next(f for f in found if f.name == "corrupt-sample")
    assert (skipped.role, skipped.explains) == (Role.CONTEXT, ())
    assert "caught" in (skipped.why or "")


@pytest.mark.parametrize(
    "error", ["zlib.error: Error -3 while decompressing data: incorrect header check", "KeyError: 'caption'"]
)
def test_any_exception_of_a_rank_is_so(tmp_path: Path, error: str) -> None:
    assert roots(findings(tmp_path, SKIPPED, OOM, error=error)) == [("cuda-oom", (2,))]


def test_a_rank_that_is_heard_again_outlived_what_it_printed(tmp_path: Path) -> None:
    end = f"{LOST}\n{LOST.replace('[rank0]', '[rank5]').replace('[Rank 0]', '[Rank 5]')}"
    assert "corrupt-sample" not in dict(roots(findings(tmp_path, SKIPPED, end, after=8)))


def test_of_two_ranks_the_one_that_it_ended_is_blamed(tmp_path: Path) -> None:
    end = LABELLED.replace("rank5", "rank2").replace("{error}", TRUNCATED)
    found = findings(tmp_path, SKIPPED, end)
    assert roots(found) == [("corrupt-sample", (2,))]
    assert found[0].step == 700


def test_a_rank_that_its_exception_ended_is_blamed(tmp_path: Path) -> None:
    table = TABLE.format(rank=5, code=1, why=ENABLE)
    assert roots(findings(tmp_path, LABELLED, table, after=0)) == [("corrupt-sample", (5,))]
    # Steps that others print without waiting for it, until they lose it.
    assert roots(findings(tmp_path, LABELLED, f"{LOST}\n{table}")) == [("corrupt-sample", (5,))]


def test_few_steps_of_others_show_nothing(tmp_path: Path) -> None:
    assert ("corrupt-sample", (5,)) in roots(findings(tmp_path, LABELLED, OOM, after=3))


@pytest.mark.parametrize(("after", "blamed"), [(8, True), (50, False)])
def test_who_waits_for_a_rank_that_is_not_heard_again_clears_it_after_many_steps(
    tmp_path: Path, after: int, blamed: bool
) -> None:
    assert (("corrupt-sample", (5,)) in roots(findings(tmp_path, LABELLED, LOST, after=after))) == blamed


@pytest.mark.parametrize("function", ["<module>", "main"])
def test_what_nothing_caught_is_no_such_exception(tmp_path: Path, function: str) -> None:
    said = LABELLED.replace(
        '  File "/w/data.py"', f'  File "/w/t.py", line 9, in {function}\n[rank5]     f()\n[rank5]   File "/w/data.py"'
    )
    assert ("corrupt-sample", (5,)) in roots(findings(tmp_path, said, OOM))


def test_what_was_raised_from_it_and_not_caught_is_no_such_exception(tmp_path: Path) -> None:
    raised = """[rank5]
[rank5] During handling of the above exception, another exception occurred:
[rank5]
[rank5] Traceback (most recent call last):
[rank5]   File "/w/train.py", line 9, in <module>
[rank5]     batch = next(it)
[rank5] RuntimeError: no sample left"""
    assert any(ranks == (5,) for _, ranks in roots(findings(tmp_path, f"{LABELLED}\n{raised}", OOM)))


def test_what_a_worker_raised_is_raised_again_by_its_rank(tmp_path: Path) -> None:
    again = """[rank5] Traceback (most recent call last):
[rank5]   File "/w/train.py", line 9, in <module>
[rank5]     batch = next(it)
[rank5] OSError: Caught OSError in DataLoader worker process 0.
[rank5] Original Traceback (most recent call last):
[rank5]   File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
[rank5]     data = fetcher.fetch(index)
"""
    said = again + LABELLED.partition("\n")[2]
    assert ("corrupt-sample", (5,)) in roots(findings(tmp_path, said, OOM))


def test_a_rank_that_prints_steps_is_judged_by_them(tmp_path: Path) -> None:
    before = "[rank5] 2026-03-14 09:00:20 step 200 loss 2.500\n"
    assert ("corrupt-sample", (5,)) in roots(findings(tmp_path, before + LABELLED, OOM))
