"""Whole analyses of made-up hangs: who is missing, over many ranks, in the wordings of NCCL and gloo."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options, explain
from forensics.engine.reading import read, sniffers
from forensics.model import Diagnosis, Finding, Role
from forensics.run import discover
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)
START = 9 * 3600
NOBODY: tuple[int, ...] | None = None


def diagnose(folder: Path, files: Mapping[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    run = discover([str(folder)], sniffers())
    return explain(read(run, MATCHER, Options(threads=1)), CATALOGUE)


def first(diagnosis: Diagnosis) -> Finding:
    found = diagnosis.of_role(Role.ROOT)
    assert found, diagnosis.summary
    return found[0]


def clock(seconds: float) -> str:
    whole = int(START + seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def steps(rank: int, upto: int, world: int) -> list[str]:
    head = [f"2026-11-27 {clock(0)} INFO rank={rank} world_size={world}"]
    return head + [
        f"2026-11-27 {clock(n)} INFO rank {rank} | step {n} | loss {5 - n / 100:.3f}" for n in range(1, upto + 1)
    ]


def nccl(
    rank: int, seq: int, *, at: float, enqueued: int | None = None, group: str = "0", op: str = "ALLREDUCE"
) -> list[str]:
    """What the watchdog of a rank prints that waited in vain (torch 2.6 to 2.12)."""
    head = f"[rank{rank}]:[E1127 {clock(at)}.{rank:09} ProcessGroupNCCL.cpp"
    name = f"PG ID {group} PG GUID {group}" + ("(default_pg)" if group == "0" else "")
    ahead = seq if enqueued is None else enqueued
    return [
        f"{head}:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
        "NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600037 milliseconds before timing out.",
        f"{head}:2241] [{name} Rank {rank}]  failure detected by watchdog at work sequence id: {seq} "
        f"PG status: last enqueued work: {ahead}, last completed work: {seq - 1}",
    ]


def told(rank: int, enqueued: int, *, at: float) -> list[str]:
    """What a rank prints that waits for nothing when another one has timed out."""
    return [
        f"[rank{rank}]:[E1127 {clock(at)}.000000042 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. "
        f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is most likely caused by "
        "incorrect usages of collectives, e.g., wrong sizes used across ranks."
    ]


def raised(rank: int, error: str, line: int = 88, function: str = "train_step") -> list[str]:
    text = [
        "Traceback (most recent call last):",
        '  File "/srv/job/train.py", line 140, in <module>',
        "    main()",
        f'  File "/srv/job/train.py", line {line}, in {function}',
        "    loss.backward()",
        error,
    ]
    return [f"[rank{rank}]: {line}" for line in text]


def gloo_timeout(rank: int, ms: int = 300000) -> list[str]:
    return raised(
        rank,
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
        f"{ms}ms for recv operation to complete",
    )


def gloo_closed(rank: int, port: int) -> list[str]:
    return raised(
        rank,
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
        f"[127.0.0.1]:{port}",
    )


def per_rank(lines: Mapping[int, Iterable[str]]) -> dict[str, str]:
    return {f"logs/rank_{rank}.log": "\n".join(text) + "\n" for rank, text in lines.items()}


def merged(lines: Mapping[int, Iterable[str]]) -> dict[str, str]:
    """One file, as torchrun --tee 3 writes it."""
    return {"train.log": "".join(f"[default{rank}]:{line}\n" for rank, text in lines.items() for line in text)}


LAYOUTS = (per_rank, merged)
Layout = Callable[[Mapping[int, Iterable[str]]], dict[str, str]]


@pytest.fixture(params=[(8, 0), (16, 1), (64, 2)], ids=["8-ranks", "16-ranks", "64-ranks"])
def job(request: pytest.FixtureRequest) -> tuple[int, int, random.Random]:
    """(world size, the rank to blame, a source of numbers)."""
    world, seed = request.param
    chance = random.Random(seed)
    return world, chance.randrange(1, world), chance


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nccl_one_rank_is_silent(tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout) -> None:
    world, late, chance = job
    seq = chance.randrange(100, 9000)
    lines = {r: steps(r, 9, world) + ([] if r == late else nccl(r, seq, at=620)) for r in range(world)}
    found = first(diagnose(tmp_path, layout(lines)))
    assert found.name in ("collective-timeout", "straggler-rank", "rank-exited-early")
    assert found.ranks == (late,)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gloo_one_rank_is_silent(tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout) -> None:
    world, late, _ = job
    lines = {r: steps(r, 9, world) + ([] if r == late else gloo_timeout(r)) for r in range(world)}
    found = first(diagnose(tmp_path, layout(lines)))
    assert found.name in ("collective-timeout", "straggler-rank", "rank-exited-early")
    assert found.ranks == (late,)


def test_gloo_one_rank_is_gone(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    world, gone, chance = job
    lines = {
        r: steps(r, 9, world) + ([] if r == gone else gloo_closed(r, chance.randrange(2000, 60000)))
        for r in range(world)
    }
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("rank-exited-early", (gone,))


def test_two_ranks_and_one_lost_its_connection(tmp_path: Path) -> None:
    """Somebody closed it, and there is only one other."""
    lines = {0: steps(0, 9, 2) + gloo_closed(0, 51234), 1: [*steps(1, 9, 2), "stopping here"]}
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("rank-exited-early", (1,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nccl_one_rank_is_behind(tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout) -> None:
    world, late, chance = job
    seq = chance.randrange(100, 9000)
    lines = {
        r: steps(r, 9, world) + (told(r, seq - 1, at=621) if r == late else nccl(r, seq, at=620, enqueued=seq + 1))
        for r in range(world)
    }
    found = first(diagnose(tmp_path, layout(lines)))
    assert (found.name, found.ranks) == ("straggler-rank", (late,))


def test_nccl_one_rank_is_ahead(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    world, odd, chance = job
    seq = chance.randrange(100, 9000)
    lines = {r: steps(r, 9, world) + nccl(r, seq + (r == odd), at=620) for r in range(world)}
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("collective-desync", (odd,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nccl_all_at_one_number(tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout) -> None:
    world, _, chance = job
    seq = chance.randrange(100, 9000)
    lines = {r: steps(r, 9, world) + nccl(r, seq, at=620, enqueued=seq + chance.randrange(3)) for r in range(world)}
    found = first(diagnose(tmp_path, layout(lines)))
    assert (found.name, found.ranks) == ("collective-timeout", NOBODY)


@pytest.mark.parametrize("op", ["ALLREDUCE", "ALLGATHER"])
def test_equal_numbers_of_different_groups(tmp_path: Path, job: tuple[int, int, random.Random], op: str) -> None:
    """Pairs of ranks, each with a group of its own, at one number: nothing is to be compared across groups."""
    world, _, chance = job
    seq = chance.randrange(100, 9000)
    lines = {
        r: steps(r, 9, world) + nccl(r, seq, at=620, group=str(1 + r // 2), op=op if r < 2 else "ALLREDUCE")
        for r in range(world)
    }
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("collective-timeout", NOBODY)


@pytest.mark.parametrize(("nodes", "named"), [(2, False), (3, True)])
def test_a_whole_node_is_silent(tmp_path: Path, nodes: int, named: bool) -> None:
    world = 8 * nodes
    lines = {r: steps(r, 9, world) + ([] if r >= world - 8 else nccl(r, 512, at=620)) for r in range(world)}
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert found.ranks == (tuple(range(world - 8, world)) if named else NOBODY)
    assert f"ranks {world - 8}-{world - 1}" in " ".join(found.notes)


def test_monitored_barrier_lists_ranks(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    world, one, _ = job
    missing = sorted({one, 1 + one % (world - 1)})
    error = f"[Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass monitoredBarrier in 300000 ms"
    lines = {r: steps(r, 9, world) for r in range(world)}
    lines[0] += [
        f"[rank0]:[E1127 {clock(320)}.000000042 ProcessGroupGloo.cpp:67] {error}",
        *raised(0, f"RuntimeError: {error}"),
    ]
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert found.name == "monitored-barrier-timeout"
    assert found.ranks == tuple(missing)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_the_missing_rank_raised_an_exception(
    tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout, backend: str
) -> None:
    world, broken, chance = job
    port = chance.randrange(2000, 60000)
    lines = {}
    for r in range(world):
        waits = nccl(r, 700, at=620) if backend == "nccl" else gloo_closed(r, port)
        lines[r] = steps(r, 9, world) + (raised(r, "KeyError: 'labels'", 71, "collate") if r == broken else waits)
    diagnosis = diagnose(tmp_path, layout(lines))
    found = first(diagnosis)
    assert (found.name, found.ranks) == ("python-exception", (broken,))
    assert len(diagnosis.of_role(Role.ROOT)) == 1


def test_the_desync_report_names_ranks(tmp_path: Path) -> None:
    text = steps(0, 9, 8) + nccl(0, 58, at=620)
    text += ["\t   [2, 5] finished collective #57, but didn't join collective #58 (count from 1)"]
    found = first(diagnose(tmp_path, {"rank_0.log": "\n".join(text) + "\n"}))
    assert (found.name, found.ranks) == ("collective-desync", (2, 5))


def test_detail_lines_with_a_garbled_other_half(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    """What the others read of the odd rank is a helper collective; its own line says what it called."""
    world, odd, chance = job
    seq = chance.randrange(10, 900)

    def mismatch(rank: int) -> str:
        op = "BROADCAST" if rank == odd else "ALLREDUCE"
        other, read_as = (0, "ALLGATHER_COALESCED") if rank == odd else (odd, "GATHER")
        return (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
            f"CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape=[1], TensorDtypes=Float, "
            "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default))), but Rank "
            f"{other} is running collective: CollectiveFingerPrint(SequenceNumber=0OpType={read_as}).Collectives differ "
            f"in the following aspects: \t Sequence number: {seq}vs 0  Op type: {op}vs {read_as}"
        )

    lines = {r: steps(r, 9, world) + raised(r, mismatch(r)) for r in range(world)}
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("collective-op-mismatch", (odd,))
    assert "BROADCAST" in " ".join(found.notes)


def test_a_rank_that_says_that_its_epoch_is_over(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    world, short, _ = job
    lines = {
        r: steps(r, 9, world) + ([f"[rank{r}] epoch done"] if r == short else gloo_timeout(r)) for r in range(world)
    }
    found = first(diagnose(tmp_path, per_rank(lines)))
    assert (found.name, found.ranks) == ("uneven-inputs", (short,))


def test_a_process_that_spawn_started(tmp_path: Path) -> None:
    """The parent prints the traceback of its child and says which one it was."""
    text = """\
Traceback (most recent call last):
  File "/srv/job/train.py", line 6, in <module>
    mp.spawn(main, nprocs=4)
  File "/opt/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 211, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException: \n
-- Process 3 terminated with the following error:
Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 87, in _wrap
    fn(i, *args)
  File "/srv/job/train.py", line 4, in main
    raise ValueError("no shard left")
ValueError: no shard left
"""
    found = first(diagnose(tmp_path, {"job.log": text}))
    assert (found.name, found.ranks) == ("python-exception", (3,))


BACKWARD = """Thread 0x00007f{r:010x} (most recent call first):
  File "/opt/lib/python3.11/site-packages/torch/autograd/graph.py", line 979 in _engine_run_backward
  File "/opt/lib/python3.11/site-packages/torch/_tensor.py", line 623 in backward
  File "/srv/job/train.py", line 109 in main
  File "/srv/job/train.py", line 141 in <module>"""
BUSY = """Thread 0x00007f{r:010x} (most recent call first):
  File "/srv/job/data.py", line 31 in read_index
  File "/srv/job/train.py", line 104 in main
  File "/srv/job/train.py", line 141 in <module>"""
STOP = (
    "W1127 {at}.978000 8040 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down "
    "workers\n"
)


def stacks(rank: int, text: str) -> list[str]:
    return ["Timeout (0:00:30)!", *text.format(r=rank).split("\n")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stopped", [True, False])
def test_stacks_of_a_timer(tmp_path: Path, job: tuple[int, int, random.Random], layout: Layout, stopped: bool) -> None:
    world, late, _ = job
    lines = {r: steps(r, 9, world) + stacks(r, BUSY if r == late else BACKWARD) for r in range(world)}
    files = layout(lines)
    if stopped:
        files["launcher.log"] = STOP.format(at=clock(90))
    diagnosis = diagnose(tmp_path, files)
    found = first(diagnosis)
    assert (found.name, found.ranks, diagnosis.verdict) == ("straggler-rank", (late,), "hung")
    assert "data.py:31 read_index" in " ".join(found.notes)


PYSPY = """Process {pid}: /opt/bin/python train.py --lr 3e-4
Python v3.11.4 (/opt/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {top}
    main (train.py:88)
    <module> (train.py:120)
Thread 99{pid} (idle): "Thread-1 (_monitor)"
    wait (threading.py:320)
    _bootstrap (threading.py:1002)
"""


def test_stacks_that_somebody_took_with_py_spy(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    """Nothing but steps in the logs, which stop; one file of stacks a rank."""
    world, late, chance = job
    files = per_rank({r: steps(r, 9, world) for r in range(world)})
    for r in range(world):
        top = "acquire (filelock/_api.py:213)" if r == late else "wait (torch/distributed/distributed_c10d.py:2501)"
        files[f"pyspy/rank_{r}.txt"] = PYSPY.format(pid=chance.randrange(2000, 9000), top=top)
    diagnosis = diagnose(tmp_path, files)
    found = first(diagnosis)
    assert (found.name, found.ranks, diagnosis.verdict) == ("straggler-rank", (late,), "hung")
    assert "a file lock" in " ".join(found.notes)


def test_stacks_that_are_all_alike_name_nobody(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    world, _, _ = job
    lines = {r: steps(r, 9, world) + stacks(r, BACKWARD) for r in range(world)}
    files = per_rank(lines) | {"launcher.log": STOP.format(at=clock(90))}
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == ("external-sigterm", NOBODY)


def test_stacks_of_a_run_that_went_on(tmp_path: Path, job: tuple[int, int, random.Random]) -> None:
    """A timer that fired in a slow step, and training that went on: no hang."""
    world, late, _ = job
    lines = {
        r: steps(r, 9, world) + stacks(r, BUSY if r == late else BACKWARD) + steps(r, 30, world)[10:]
        for r in range(world)
    }
    assert diagnose(tmp_path, per_rank(lines)).of_role(Role.ROOT) == ()


def test_a_stop_that_came_first(tmp_path: Path) -> None:
    """One node is told to end; ten minutes later the other one's ranks have waited for it in vain."""
    lines = {r: steps(r, 9, 16) + nccl(r, 512, at=612) for r in range(8)}
    files = per_rank(lines) | {"node1-launcher.log": STOP.format(at=clock(10))}
    diagnosis = diagnose(tmp_path, files)
    assert (first(diagnosis).name, diagnosis.verdict) == ("external-sigterm", "interrupted")


def test_a_stop_that_came_last(tmp_path: Path) -> None:
    lines = {r: steps(r, 9, 8) + nccl(r, 512, at=612) for r in range(7)} | {7: steps(7, 9, 8)}
    files = per_rank(lines) | {"launcher.log": STOP.format(at=clock(660))}
    found = first(diagnose(tmp_path, files))
    assert found.name in ("collective-timeout", "straggler-rank")
    assert found.ranks == (7,)
