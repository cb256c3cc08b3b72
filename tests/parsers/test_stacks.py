"""Stacks of living processes: faulthandler, py-spy, gdb, PyTorch's watchdog; cut off, interleaved, hostile."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.archives.limits import Stop
from forensics.archives.pyspy import looks_like_stacks, text
from forensics.engine.pipeline import analyse
from forensics.engine.reading import sniffers
from forensics.model import Diagnosis, Identity, Kind, Role, Source
from forensics.parsers import stacks
from forensics.parsers.stacks import Stack, in_log, in_text, is_native, is_users, main_threads, observations
from forensics.run import discover

_STARTS = re.compile("|".join(stacks.HEADERS))


def starts(data: bytes) -> list[tuple[int, int]]:
    """(line, offset) of the lines that the scan would point at."""
    found, offset = [], 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        if _STARTS.search(raw.decode("utf-8", "replace")):
            found.append((number, offset))
        offset += len(raw) + 1
    return found


def parse(text: str, **more: object) -> list[Stack]:
    data = text.encode()
    return in_text(data, starts(data), path="x.log", **more)  # type: ignore[arg-type]


def functions(stack: Stack) -> list[str]:
    return [frame.function for frame in stack.frames]


TIMER = """\
2026-11-27 10:00:00 INFO step 25
Timeout (0:00:22)!
Thread 0x00007fc34f7546c0 (most recent call first):
  File "/usr/local/lib/python3.11/threading.py", line 331 in wait
  File "/usr/local/lib/python3.11/queue.py", line 180 in get
  File "/usr/local/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007fc380c45b80 (most recent call first):
  File "/app/train.py", line 74 in cached_index
  File "/app/train.py", line 105 in main
  File "/app/train.py", line 141 in <module>
step 26
"""


def test_a_timer_with_two_threads() -> None:
    helper, main = parse(TIMER)
    assert (helper.kind, helper.main, main.kind, main.main) == ("timeout", False, "timeout", True)
    assert functions(main) == ["cached_index", "main", "<module>"]
    assert [f.line for f in main.frames] == [74, 105, 141]
    assert (main.line, main.frames[0].at.line) == (8, 9)
    assert main.thread == "0x00007fc380c45b80"
    assert main.time is not None


def test_offsets_point_at_the_lines() -> None:
    data = TIMER.encode()
    for stack in parse(TIMER):
        for evidence in (stack.header, *(frame.at for frame in stack.frames)):
            assert data[evidence.offset :].decode().lstrip().startswith(evidence.text)
            assert data[: evidence.offset].count(b"\n") + 1 == evidence.line


def test_several_ranks_in_one_file() -> None:
    a = TIMER.split("\n")[1:2] + TIMER.split("\n")[7:11]
    b = [line.replace("cached_index", "step").replace("74", "90") for line in a]
    text = "".join(f"[default{rank}]:{line}\n" for pair in zip(a, b, strict=True) for rank, line in enumerate(pair))
    first, second = parse(text)
    assert (first.identity.local_rank, functions(first)[0]) == (0, "cached_index")
    assert (second.identity.local_rank, functions(second)[0], second.kind) == (1, "step", "timeout")


def test_a_launchers_line_between_them() -> None:
    text = '[default0]:Thread 0x00007f00 (most recent call first):\n[default0]:  File "/a.py", line 1 in f\nW1127 launcher\n'
    (stack,) = parse(text + '[default0]:  File "/a.py", line 2 in g\n[default0]:done\n')
    assert functions(stack) == ["f", "g"]


def test_on_demand_and_fatal() -> None:
    demand, fatal = parse(
        "INFO asked for stacks\n"
        "Current thread 0x00007f964b01eb80 [python3] (most recent call first):\n"
        '  File "/app/t.py", line 153 in <module>\n'
        "more\n"
        "Fatal Python error: Aborted\n\n"
        "Current thread 0x00007f964b01eb80 (most recent call first):\n"
        "  <no Python frame>\n"
        '  File "/app/t.py", line ??? in f\n'
        "  ...\n\n"
        "Extension modules: numpy (total: 1)\n"
    )
    assert (demand.kind, demand.thread) == ("demand", "python3")
    assert (fatal.kind, fatal.reason, fatal.frames[0].line) == ("fatal", "Aborted", None)


PYSPY = """\
Process 4711: python train.py --local_rank=3 --lr 1e-4
Python v3.11.4 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    wait (threading.py:320)
    acquire (filelock/_api.py:213)
    load_shard (data.py:51)
        Arguments:
            path: "/data/shard (3)"
    main (train.py:88)
    <module> (train.py:120)
Thread 4790 (active+gil): "Thread-1 (_monitor)"
    _run (tensorboard/writer.py:269)
    _bootstrap (threading.py:1002)
Process 4712: python train.py --local_rank=4
Python v3.11.4 (/usr/bin/python3.11)

Thread 4712 (active): "MainThread"
    pthread_cond_wait@@GLIBC_2.3.2 (libc.so.6)
    c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono) (libtorch_cpu.so)
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    main (train.py:91)
    <module> (train.py:120)
"""


def test_py_spy() -> None:
    main, helper, other = parse(PYSPY)
    assert (main.kind, main.main, helper.main, other.main) == ("py-spy", True, False, True)
    assert (main.identity.pid, main.identity.local_rank) == (4711, 3)
    assert (other.identity.pid, other.identity.local_rank) == (4712, 4)
    assert functions(main) == ["wait", "acquire", "load_shard", "main", "<module>"]
    assert other.frames[2].file == "torch/distributed/distributed_c10d.py"
    shown = observations([main, helper, other])
    assert [o.evidence[0].text for o in shown] == ["load_shard (data.py:51)", "main (train.py:91)"]


def test_processes_that_are_no_rank() -> None:
    (worker,) = parse(
        'Thread 4790 (idle): "MainThread"\n'
        "    poll (multiprocessing/connection.py:257)\n"
        "    _worker_loop (torch/utils/data/_utils/worker.py:275)\n"
        "    <module> (<string>:1)\n"
    )
    assert list(main_threads([worker])) == []


def test_gdb() -> None:
    text = """\
Thread 1 (Thread 0x7f33 (LWP 991)):
Traceback (most recent call first):
  File "/app/data.py", line 31, in read_index
    fcntl.flock(f, fcntl.LOCK_EX)
  <built-in method flock of module object at remote 0x7f1>
  File "/app/train.py", line 104, in main
    index = read_index()
(gdb)
"""
    (stack,) = parse(text)
    assert (stack.kind, functions(stack), stack.main) == ("gdb", ["read_index", "main"], True)
    frames = """\
#0  0x00007f0000000001 in flock () from /lib/x86_64-linux-gnu/libc.so.6
#5 Frame 0x7f1, for file /app/data.py, line 31, in read_index (f=<TextIOWrapper>)
#8 0x01 in _PyEval_EvalFrameDefault (f=Frame 0x7f2, for file /app/train.py, line 104, in main ()) at ceval.c:3469
"""
    (old,) = parse(frames)
    assert functions(old) == ["read_index", "main"]


def test_the_watchdogs_own_stack() -> None:
    text = (
        "[default2]:[rank2]:[E1127 20:49:24.123456789 ProcessGroupNCCL.cpp:730] Stack trace of the failed collective: \n"
        "[default2]:#0 all_reduce from /opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2501\n"
        "[default2]:#1 evaluate from /app/train.py:33\n"
        "[default2]:\n"
    )
    (stack,) = parse(text)
    assert (stack.kind, stack.rank, functions(stack)) == ("recorder", 2, ["all_reduce", "evaluate"])


def test_a_c_plus_plus_backtrace_is_none() -> None:
    text = "Exception raised from checkTimeout at ProcessGroupNCCL.cpp:629 (most recent call first):\nframe #0: c10::Error (0x7f)\n"
    assert parse(text) == []


def test_a_stack_that_is_cut_off() -> None:
    (stack,) = parse('Thread 0x00007f0ff01bcb80 (most recent call first):\n  File "/app/train.py", line 74 in cached')
    assert functions(stack) == ["cached"]
    (empty,) = parse("Thread 0x00007f0ff01bcb80 (most recent call first):")
    assert empty.frames == ()
    assert observations([empty]) == []


def test_who_wrote_a_file() -> None:
    users = ["/app/train.py", "train.py", "src/model/net.py", "C:\\work\\train.py"]
    others = ["/opt/lib/python3.11/threading.py", "threading.py", "torch/nn/module.py", "multiprocessing/pool.py",
              "/env/site-packages/x/y.py", "<frozen runpy>", "<string>", "libc.so.6", "", "/opt/pytorch/torch/autograd/graph.py",
              "C:\\Python311\\Lib\\threading.py"]  # fmt: skip
    assert all(is_users(file) for file in users)
    assert not any(is_users(file) for file in others)


def test_a_file_is_read_around_its_headers(tmp_path: Path) -> None:
    data = b"0: x\n" * 200000 + TIMER.encode()
    file = tmp_path / "rank_3.log"
    file.write_bytes(data)
    source = Source("rank_3.log", file, Kind.LOG, len(data), Identity(rank=3))
    found = in_log(source, starts(data))
    assert [o.identity.rank for o in found] == [3]
    assert found[0].captures["frames"].split("\n")[0] == "/app/train.py:74 cached_index"
    file.unlink()
    assert in_log(source, starts(data)) == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [*TIMER.split("\n"), *PYSPY.split("\n"), "Traceback (most recent call first):", "Process 1: "]
            ),
            st.text(max_size=40),
        ),
        max_size=40,
    ),
    st.integers(0, 400),
)
def test_any_text_is_read(lines: list[str], cut: int) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    data = data[: max(0, len(data) - cut)]
    found = in_text(data, starts(data), path="x")
    assert len(found) <= len(starts(data))
    for stack in found:
        assert len(stack.frames) <= stacks.MAX_FRAMES
    observations(found)


def test_many_headers_are_bounded() -> None:
    text = "Thread 0x00007f0ff01bcb80 (most recent call first):\n" * 3000 + '  File "/a.py", line 1 in f\n' * 5000
    assert len(parse(text)) <= stacks.MAX_STACKS


_LINES = st.sampled_from([
    '  File "/w/train.py", line 7 in step', '  File "/w/a b.py", line ??? in <module>', "  ...", "", "step 3 loss 2.1",
    '    File "/w/é.py", line 8 in f', '  File "/w/x.py", line 9 in g\r', "    1 in h", '  File "/w/\x1b[1mx.py", line 1 in f',
    "Thread 0x00007f02 (most recent call first):", '  File "/w/y.py", line 12 in f\x0cg',
])  # fmt: skip


@given(prefix=st.sampled_from(["", "[rank1]: ", "é: "]), lines=st.lists(_LINES, max_size=14), other=st.integers(0, 5))
def test_frames_read_in_one_go_are_those_read_line_by_line(prefix: str, lines: list[str], other: int) -> None:
    text = [prefix + line for line in ("Thread 0x00007f01 (most recent call first):", *lines)]
    text.insert(min(other + 1, len(text)), "[rank0]: step 4 loss 2.0")
    data = "\n".join(text).encode()

    def read() -> list[object]:
        found = in_text(data, starts(data), path="a.log")
        return [(s._replace(frames=()), [(str(f), f.at) for f in s.frames]) for s in found]

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacks._Lines, "plain_frames", lambda *_: [])
        slow = read()
    assert fast == slow


def pyspy_thread(
    pid: int, *frames: tuple[str, str, int], name: str = "MainThread", command: str | None = None
) -> object:
    shown = [
        {"name": n, "filename": f"/w/{file}", "short_filename": file, "line": line, "locals": None, "is_entry": True}
        for n, file, line in frames
    ]
    info = {"pid": pid, "ppid": 1, "command_line": command, "parent": None} if command is not None else None
    thread = {"pid": pid, "thread_id": 140, "thread_name": name, "os_thread_id": pid, "active": True, "owns_gil": False}
    return {**thread, "frames": shown, "process_info": info}


WAITS = (("all_reduce", "torch/distributed/distributed_c10d.py", 2806), ("step", "train.py", 131))
READS = (("read", "codecs.py", 322), ("read_index", "data.py", 77), ("step", "train.py", 119))


def test_py_spy_in_json_is_read_as_its_text(tmp_path: Path) -> None:
    helper = pyspy_thread(701, ("get", "queue.py", 171), name="Thread-1")
    lists = [[pyspy_thread(701, *WAITS, command="python train.py --local-rank=1"), helper], [pyspy_thread(702, *READS)]]
    (tmp_path / "dumps.json").write_text("\n".join(json.dumps(one, indent=2) for one in lists))
    (source,) = discover([str(tmp_path)], sniffers()).sources
    assert source.path == "dumps.json!/dumps.txt"
    main, other, second = parse(source.file.read_text())
    assert [(s.kind, s.main, s.identity.pid) for s in (main, other, second)] == [
        ("py-spy", True, 701), ("py-spy", False, 701), ("py-spy", True, 702),
    ]  # fmt: skip
    assert (main.identity.local_rank, second.identity.local_rank) == (1, None)
    assert [str(f) for f in second.frames] == ["codecs.py:322 read", "data.py:77 read_index", "train.py:119 step"]


def test_other_lists_are_no_dump_of_py_spy() -> None:
    assert not looks_like_stacks(json.dumps([{"pid": 1, "frames": [], "name": "trace"}]).encode())
    assert looks_like_stacks(json.dumps([pyspy_thread(1, *WAITS)]).encode())


def test_a_dump_of_py_spy_that_is_cut_off_is_damaged() -> None:
    whole = json.dumps([pyspy_thread(1, *WAITS)])
    with pytest.raises(Stop, match="damaged"):
        list(text(io.BytesIO(whole[:-9].encode())))


def dumped(folder: Path, stacks_of: list[tuple[tuple[str, str, int], ...]], *, named: bool) -> Diagnosis:
    folder.mkdir()
    (folder / "train.log").write_text("".join(f"step: {n} loss: {3 - n / 100:.3f}\n" for n in range(30)))
    shown = []
    for n, frames in enumerate(stacks_of):
        rank = f" --local-rank={n}" if named else ""
        lines = "".join(f"    {name} ({file}{f':{line}' * bool(line)})\n" for name, file, line in frames)
        head = f"Process {7000 + n}: python train.py{rank}\nPython v3.11.9 (/usr/bin/python3.11)\n\n"
        helper = f'Thread {7100 + n} (idle): "Thread-1"\n    wait (threading.py:331)\n'
        shown.append(f'{head}Thread {7000 + n} (active): "MainThread"\n{lines}{helper}')
    (folder / "pyspy_all.txt").write_text("\n".join(shown))
    return analyse([str(folder)])


def test_the_odd_process_of_one_file_is_named(tmp_path: Path) -> None:
    stood = [WAITS] * 6 + [READS, WAITS]
    (root,) = dumped(tmp_path / "pids", stood, named=False).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", None)
    assert any("The stack of process 7006 is at data.py:77 read_index" in note for note in root.notes)
    (root,) = dumped(tmp_path / "ranks", stood, named=True).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", (6,))
    assert not any("The last line of rank 6" in note for note in root.notes)  # frames are no line of its log


@pytest.mark.parametrize("label", ["gpu-a{}: ", "{}: ", "[pod/trainer-{}/main] ", "trainer-{}  | "])
def test_the_odd_process_behind_labels_is_named(tmp_path: Path, label: str) -> None:
    dumped(tmp_path / "run", [WAITS] * 6 + [READS, WAITS], named=True)
    file = tmp_path / "run" / "pyspy_all.txt"
    blocks = file.read_text().split("\nProcess ")
    lines = [
        label.format(n) + line
        for n, block in enumerate(blocks)
        for line in (block if n == 0 else f"Process {block}").split("\n")
    ]
    file.write_text("\n".join(lines) + "\n")
    (root,) = analyse([str(tmp_path / "run")]).of_role(Role.ROOT)
    assert root.name == "straggler-rank"
    assert root.ranks == (6,) or (root.node or "").endswith("6")  # a label may be that of a host or a pod


def test_the_first_thread_of_gdb_is_the_process(tmp_path: Path) -> None:
    def frames(file: str, line: int, name: str) -> str:
        return f'  File "{file}", line {line}, in {name}\n    call()\n  File "/w/train.py", line 160, in <module>\n    main()\n'

    shown = []
    for n in range(4):
        place = (
            frames("/w/tar_reader.py", 66, "read")
            if n == 2
            else frames("/t/distributed/distributed_c10d.py", 9, "barrier")
        )
        main = f'Thread 1 (Thread 0x7f12bb (LWP {5000 + n}) "python"):\nTraceback (most recent call first):\n{place}\n'
        helper = (
            f'Thread 2 (Thread 0x7f11aa (LWP {5100 + n}) "python"):\nTraceback (most recent call first):\n'
            '  File "/usr/lib/python3.10/threading.py", line 324, in wait\n    gotit = waiter.acquire()\n\n'
        )
        shown += [f"n{n}: {line}" for line in (helper + main).split("\n")]
        said = f"2026-01-07 11:00:00 rank {n} of 4 host n{n} pid {5000 + n}\n"
        (tmp_path / f"rank{n}.log").write_text(said + "".join(f"step {k} loss {2 - k / 100}\n" for k in range(20)))
    (tmp_path / "gdb_all.txt").write_text("\n".join(shown) + "\n")
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", (2,))


def test_native_frames_are_no_place_in_the_program(tmp_path: Path) -> None:
    native = (
        'Process 1: python train.py\n\nThread 1 (active): "MainThread"\n    pread64 (libc.so.6)\n    read (data.py:7)\n'
    )
    (stack,) = parse(native)
    assert [is_native(frame.file) for frame in stack.frames] == [True, False]
    waits = (("cuEventSynchronize", "libcuda.so.1", 0), *WAITS)
    reads = (("pread64", "libc.so.6", 0), *READS)
    (root,) = dumped(tmp_path / "native", [waits] * 6 + [reads, waits], named=False).of_role(Role.ROOT)
    assert any("The stack of process 7006 is at data.py:77 read_index" in note for note in root.notes)


def test_processes_that_stand_together_or_are_two_tell_of_nobody(tmp_path: Path) -> None:
    for name, stood in (("alike", [WAITS] * 4), ("two", [WAITS, READS])):
        assert dumped(tmp_path / name, stood, named=False).verdict == "healthy"


@pytest.mark.parametrize(
    ("head", "ranks"),
    [
        ("=== pod-{n} rank {n} ===\n", (6,)),
        ("# rank {n} (node-1)\n$ py-spy dump --pid 700{n}\n", (6,)),
        ("--- RANK={n} pid 700{n} ---\n\n", (6,)),
        ("=== node-1 rank {n} ===\n", (6,)),
        ("=== local rank {n} of node-1 ===\n", None),
        ("=== node rank {n} ===\n", None),
        ("--- tp rank {n} ---\n", None),
        ("data parallel rank {n}:\n", None),
        ("top rank 1.5 of {n}\n", None),
        ("waiting for rank {n}\n", None),
        ("Lost rank {n}\n", None),
        ("=== pod-{n} ===\n", None),
    ],
)
def test_a_line_above_a_dump_names_the_rank(tmp_path: Path, head: str, ranks: tuple[int, ...] | None) -> None:
    dumped(tmp_path / "run", [WAITS] * 6 + [READS, WAITS], named=False)
    file = tmp_path / "run" / "pyspy_all.txt"
    blocks = [block.removeprefix("Process ") for block in file.read_text().split("\nProcess ")]
    file.write_text("\n".join(f"{head.format(n=n)}Process {block}" for n, block in enumerate(blocks)))
    (root,) = analyse([str(tmp_path / "run")]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", ranks)


def test_the_run_s_own_log_names_the_ranks_of_the_processes(tmp_path: Path) -> None:
    dumped(tmp_path / "run", [WAITS] * 6 + [READS, WAITS], named=False)
    log = tmp_path / "run" / "train.log"
    said = "".join(
        f"[rank{n}] 2026-11-24 09:00:0{n} INFO pid=700{7 - n} local_rank={n} device=cuda:{n}\n" for n in range(8)
    )
    log.write_text(said + log.read_text())
    (root,) = analyse([str(tmp_path / "run")]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", (1,))
