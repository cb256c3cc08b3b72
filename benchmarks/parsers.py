"""MB/s and rows/s of the parsers, one line a kind of file: `python benchmarks/parsers.py [NAME ...]`.

Each entry of PARSERS makes a file of its kind in a folder and reads it. Figures are CPU seconds of one thread (the best
of three), so that a busy machine changes them little.
"""

from __future__ import annotations

import functools
import gzip
import json
import pickle
import random
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forensics.engine.matcher import Matcher
    from forensics.engine.scan import Scan
    from forensics.model import Source


@dataclass(frozen=True)
class Parser:
    make: Callable[[Path], Path]  # writes a file into a folder
    read: Callable[[Path], int]  # reads it, and says how many rows it gave


def _record(payload: bytes) -> bytes:
    from forensics.parsers.tensorboard.checksums import header_checksum, masked_crc

    length = struct.pack("<QI", len(payload), header_checksum(len(payload)))
    return length + payload + struct.pack("<I", masked_crc(payload))


def _event_file(folder: Path, events: Iterator[bytes]) -> Path:
    path = folder / "events.out.tfevents.1700000000.host.1.0"
    with path.open("wb") as stream:
        for payload in events:
            stream.write(_record(payload))
    return path


def _scalars(folder: Path, count: int = 200_000) -> Path:
    """One scalar a record, 20 tags, as PyTorch and TensorFlow 1 write them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    draw = random.Random(0)
    return _event_file(
        folder,
        (
            Event(
                wall_time=1.7e9 + n / 20,
                step=n // 20,
                summary=Summary(value=[Summary.Value(tag=f"train/metric_{n % 20}", simple_value=draw.random())]),
            ).SerializeToString()
            for n in range(count)
        ),
    )


def _probe(folder: Path, count: int = 4_000) -> Path:
    """Fifty scalars a record, as forensics.probe writes them at its interval."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    draw = random.Random(0)
    tags = [f"probe/update_ratio/layers.{n}.mlp" for n in range(50)]
    return _event_file(
        folder,
        (
            Event(
                wall_time=1.7e9 + n,
                step=n,
                summary=Summary(value=[Summary.Value(tag=tag, simple_value=draw.random()) for tag in tags]),
            ).SerializeToString()
            for n in range(count)
        ),
    )


def _histograms(folder: Path, count: int = 4_000) -> Path:
    """One histogram of 200 buckets a record."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.histogram_pb2 import HistogramProto
    from tensorboard.compat.proto.summary_pb2 import Summary

    limits = [n / 10 - 10 for n in range(200)]
    draw = random.Random(0)

    def event(n: int) -> bytes:
        counts = [float(draw.randrange(1000)) for _ in limits]
        histogram = HistogramProto(
            min=-10, max=10, num=sum(counts), sum=1.0, sum_squares=5e5, bucket_limit=limits, bucket=counts
        )
        summary = Summary(value=[Summary.Value(tag=f"weights/layer{n % 40}", histo=histogram)])
        return Event(wall_time=1.7e9 + n, step=n // 40, summary=summary).SerializeToString()

    return _event_file(folder, (event(n) for n in range(count)))


def _read_events(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers import tensorboard

    file = tensorboard.read_events(path)
    assert file.problem is None
    return tensorboard.metrics(file, Source("events", path, Kind.TENSORBOARD, 0)).height


_KERNEL_NOISE = (
    "usb 1-14.1: new high-speed USB device number {n} using xhci_hcd",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{n:x}: link becomes ready",
    'audit: type=1400 audit({epoch:.3f}:{n}): apparmor="DENIED" operation="open" profile="snap" pid={n}',
    "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
    "NVRM: Xid (PCI:0000:{bus:02x}:00): 31, pid={n}, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS "
    "GPCCLIENT_T1_10 faulted @ 0x7fd7_90743000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
)


def _kernel_messages(count: int) -> Iterator[tuple[float, str]]:
    """(seconds since boot, message): noise, an Xid in a thousand, and a kill with a table of 300 processes in 20,000."""
    draw = random.Random(0)
    seconds = 0.0
    for n in range(count):
        seconds += draw.random()
        kind = 4 if n % 1000 == 999 else draw.randrange(4)
        yield seconds, _KERNEL_NOISE[kind].format(n=n % 65536, epoch=1.7e9 + seconds, bus=draw.randrange(8) * 16)
        if n % 20_000 == 19_999:
            yield seconds, "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=969"
            yield seconds, "memory: usage 67108864kB, limit 67108864kB, failcnt 91234"
            yield seconds, "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
            for pid in range(4000, 4300):
                yield seconds, f"[{pid:7d}]  1000 {pid:5d}  9000000 {draw.randrange(10**7):8d} 79000000  0  969 python"
            yield seconds, f"Memory cgroup out of memory: Killed process 4242 (python) total-vm:{n}kB, anon-rss:{n}kB"


def _dmesg(folder: Path, count: int = 300_000) -> Path:
    path = folder / "dmesg.txt"
    path.write_text("".join(f"[{t:13.6f}] {text}\n" for t, text in _kernel_messages(count)))
    return path


def _dmesg_json(folder: Path, count: int = 200_000) -> Path:
    records = ({"pri": 4, "time": t, "msg": text} for t, text in _kernel_messages(count))
    path = folder / "dmesg.json"
    path.write_text(json.dumps({"dmesg": list(records)}, indent=3))
    return path


def _journal(folder: Path, count: int = 100_000) -> Path:
    path = folder / "journal.json"
    with path.open("w") as stream:
        for n, (t, text) in enumerate(_kernel_messages(count)):
            record = {
                "__CURSOR": f"s=0123456789abcdef;i={n:x};b=0123456789abcdef;m={n:x};t={n:x};x={n:x}",
                "__REALTIME_TIMESTAMP": str(int(1.7e15 + t * 1e6)),
                "_SOURCE_MONOTONIC_TIMESTAMP": str(int(t * 1e6)),
                "_TRANSPORT": "kernel",
                "SYSLOG_IDENTIFIER": "kernel",
                "_HOSTNAME": "node-0",
                "MESSAGE": text if n % 100 else list(text.encode()),
            }
            stream.write(json.dumps(record, separators=(",", ":")) + "\n")
    return path


@functools.cache
def _matcher() -> Matcher:
    from forensics.engine.matcher import Matcher
    from forensics.signatures.schema import load_catalogue

    return Matcher(load_catalogue())


def _read_kernel(path: Path) -> int:
    """A kernel log from its bytes to observations, as `analyze` reads it; rows are lines."""
    from forensics.engine.scan import scan_span
    from forensics.model import Kind, Source
    from forensics.parsers import kernel
    from forensics.parsers.logs import read_log

    size = path.stat().st_size
    source = Source(path.name, path, Kind.LOG, size)
    scan = scan_span(_matcher().database, path, 0, size)
    lines = scan.newlines
    scan = kernel.unfold(source, kernel.head_of(source), scan, _matcher().database.scan)
    found = read_log(source, scan, _matcher(), reference=1.7e9)
    signs, form = kernel.refine(source, kernel.head_of(source), found.observations, reference=1.7e9)
    assert form is not None and any("was killed" in (o.note or "") for o in signs)
    return lines


def _settings(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _configuration() -> dict[str, dict[str, object]]:
    draw = random.Random(0)
    return {f"section_{n}": {f"key_{k}": draw.random() for k in range(100)} for n in range(150)}


def _json_settings(folder: Path) -> Path:
    return _settings(folder, "train_config.json", json.dumps(_configuration(), indent=2))


def _yaml_settings(folder: Path) -> Path:
    rows = (f"{s}:\n" + "".join(f"  {k}: {v}\n" for k, v in table.items()) for s, table in _configuration().items())
    return _settings(folder, "config.yaml", "".join(rows))


def _log_head(folder: Path) -> Path:
    """The start of a log: a dump of the environment, packages, and ordinary lines."""
    environment = "".join(f"SOME_VARIABLE_{n}=value of it\nNCCL_OPTION_{n}=1\n" for n in range(60))
    packages = "".join(f"package-{n}==1.{n}.0\n" for n in range(300))
    lines = "".join(f"[rank0]: 2026-01-02 03:04:05 INFO step {n} loss=1.{n:04d}\n" for n in range(700))
    return _settings(folder, "job.out", environment + packages + lines)


def _read_settings(path: Path) -> int:
    from forensics.parsers import run_files

    text = path.read_text()
    return len(run_files.read_head(text) if path.suffix == ".out" else run_files.read_text(text, path.name).items)


def _read_stream(path: Path) -> tuple[Source, Scan]:
    from forensics.engine.scan import scan_span
    from forensics.model import Kind, Source

    size = path.stat().st_size
    return Source(path.name, path, Kind.LOG, size), scan_span(_matcher().database, path, 0, size)


def _coll_trace(folder: Path, count: int = 60_000) -> Path:
    """NCCL_DEBUG_SUBSYS=INIT,COLL of two processes of a job: a call a line."""
    head = "node-0:{pid}:{pid} [{rank}] NCCL INFO "
    birth = "comm 0x55d1 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}7000 commId 0xab12 - Init COMPLETE\n"
    call = (
        "AllReduce: opCount {n:x} sendbuff 0x7f0000000000 recvbuff 0x7f0000000000 count {size} datatype 7 op 0 root 0 "
        "comm 0x55d1 [nranks=2] stream 0x55aa\n"
    )
    lines = [(head + birth).format(pid=100 + rank, rank=rank) for rank in range(2)]
    lines += [(head + call).format(pid=100 + n % 2, rank=n % 2, n=n // 2, size=1024 + n // 2 % 7) for n in range(count)]
    return _settings(folder, "nccl.log", "".join(lines))


def _read_calls(path: Path) -> int:
    """Lines of calls; of each rank the newest 2,000 become rows."""
    from forensics.model import Kind, Source
    from forensics.parsers.nccl import calls

    source = Source(path.name, path, Kind.LOG, path.stat().st_size)
    frame, _ = calls.collective_calls([source], 2)
    assert frame is not None and frame.height
    return path.read_bytes().count(b"opCount")


def _recorder(count: int = 2_000) -> dict[str, object]:
    """One rank's dump as torch 2.8 lays it out, with the buffer full."""
    frames = [{"name": f"f{n}", "filename": f"/workspace/train/part{n % 5}.py", "line": n} for n in range(12)]
    entries = [
        {
            "record_id": n, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": n, "p2p_seq_id": 0,
            "op_id": n, "profiling_name": "nccl:all_reduce", "time_created_ns": 1_700_000_000_000_000_000 + n * 10**6,
            "input_sizes": [[256, n % 7]], "input_dtypes": ["Float"], "output_sizes": [[256, n % 7]],
            "output_dtypes": ["Float"], "state": "completed", "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600000, "is_p2p": False,
            "frames": [dict(frame) for frame in frames],
        }
        for n in range(count)
    ]  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    status = {
        "0": {"last_enqueued_collective": count, "last_started_collective": count, "last_completed_collective": count}
    }
    return {"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries}


def _recorder_pickle(folder: Path) -> Path:
    path = folder / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(_recorder(), protocol=2))
    return path


def _recorder_json(folder: Path) -> Path:
    return _settings(folder, "nccl_trace_rank_0.json", json.dumps(_recorder()))


def _read_recorder(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers import flight_recorder

    source = Source(path.name, path, Kind.FLIGHT_RECORDER, path.stat().st_size)
    dump = flight_recorder.read_dump(path, source)
    assert dump.problem is None
    return flight_recorder.collectives(dump, source).height


def _weights(folder: Path, tensors: int = 64, size: int = 1 << 20) -> Path:
    """A safetensors file of fp32, finite but for the last value: all of it has to be read."""
    length = size * 4
    header = {
        f"layers.{n}.weight": {"dtype": "F32", "shape": [size], "data_offsets": [n * length, (n + 1) * length]}
        for n in range(tensors)
    }
    head = json.dumps(header).encode()
    path = folder / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(head)) + head)
        block = struct.pack("<1024f", *(n / 1024 for n in range(1024))) * (size // 1024)
        for n in range(tensors):
            stream.write(block if n < tensors - 1 else block[:-4] + struct.pack("<f", float("nan")))
    return path


def _read_weights(path: Path) -> int:
    from forensics.parsers.checkpoints import deep

    found = deep.scan(path, path.name, deep.Allowance())
    assert found.bad and found.problem is None
    return found.tensors


_SHAPES = {
    "plain": "[rank0]: 2026-01-02 03:04:05,000 INFO step {n} loss: {a:.4f} grad_norm: {b:.3f} lr: 1.0e-04",
    "hf": "{{'loss': {a:.4f}, 'grad_norm': {b:.3f}, 'learning_rate': 1e-05, 'epoch': {e:.2f}}}",
    "megatron": (
        " iteration {n:8d}/  900000 | consumed samples: {n} | elapsed time per iteration (ms): 812.1 | learning rate: "
        "1.0E-04 | global batch size:   512 | lm loss: {a:.6E} | loss scale: 1.0 | grad norm: {b:.3f} |"
    ),
    "bar": "Epoch 0:  12%|#2        | {n}/900000 [01:02<07:45, 12.30it/s, loss={a:.3f}]",
}


def _metric_log(folder: Path, shape: str, size: int = 8_000_000) -> Path:
    draw = random.Random(0)
    lines, length = [], 0
    while length < size:
        n = len(lines)
        lines.append(_SHAPES[shape].format(n=n, a=2 + draw.random(), b=draw.random(), e=n / 1000) + "\n")
        length += len(lines[-1])
    return _settings(folder, "train.log", "".join(lines))


def _read_lines(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers.metric_lines import LogText, extract
    from forensics.parsers.prefixes import sample_lines, vote

    data = path.read_bytes()
    source = Source(path.name, path, Kind.LOG, len(data))
    return extract([LogText(source, [(data, 1)], vote(sample_lines(data[:65536])), 1.7e9)]).height


def _metric_records(count: int = 40_000) -> Iterator[dict[str, float]]:
    draw = random.Random(0)
    for n in range(count):
        yield {"step": n, "loss": 2 + draw.random(), "grad_norm": draw.random(), "lr": 1e-4, "epoch": n / 1000}


def _json_lines(folder: Path) -> Path:
    return _settings(folder, "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in _metric_records()))


def _metric_table(folder: Path) -> Path:
    rows = [",".join(map(str, record.values())) for record in _metric_records(60_000)]
    return _settings(folder, "metrics.csv", "\n".join(["step,loss,grad_norm,lr,epoch", *rows]) + "\n")


def _read_metrics(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers import metric_files

    frame, problem = metric_files.read(path, Source(path.name, path, Kind.METRICS, path.stat().st_size))
    assert problem is None, problem
    return frame.height


def _raised(folder: Path, count: int = 150) -> Path:
    """Tracebacks of 40 frames, of four ranks whose lines interleave."""
    frames = [f'  File "/workspace/train/part{n}.py", line {n}, in f{n}\n    return g(x)' for n in range(40)]
    text = ["Traceback (most recent call last):", *"\n".join(frames).split("\n"), "ValueError: bad value"]
    lines = (f"[rank{rank}]: {line}\n" for _ in range(count // 4) for line in text for rank in range(4))
    return _settings(folder, "train.err", "".join(lines))


def _read_raised(path: Path) -> int:
    from forensics.parsers.logs import read_log

    source, scan = _read_stream(path)
    found = read_log(source, scan, _matcher(), reference=1.7e9).tracebacks
    assert found
    return len(found)


def _stack_dump(folder: Path, count: int = 500) -> Path:
    """What faulthandler prints at a timeout, in 500 threads of 40 frames."""
    frames = "".join(f'  File "/workspace/train/part{n}.py", line {n} in f{n}\n' for n in range(40))
    dump = "".join(f"Thread 0x{n + 4096:016x} (most recent call first):\n{frames}\n" for n in range(count))
    return _settings(folder, "hang.err", f"Timeout (0:10:00)!\n{dump}")


def _read_dumped(path: Path) -> int:
    from forensics.engine.matcher import STACK
    from forensics.parsers import stacks

    source, scan = _read_stream(path)
    starts = sorted({(hit.line, hit.offset) for hit in scan.hits if hit.pattern == STACK})
    assert stacks.in_log(source, starts, reference=1.7e9)
    return len(starts)


def _failed_workers(folder: Path, count: int = 4_000) -> Path:
    """torchelastic's table of failed workers, a row each."""
    row = (
        "[{n}]:\n  time      : 2026-11-27_21:47:17\n  host      : node-{host}\n  rank      : {n} (local_rank: {local})\n"
        "  exitcode  : -9 (pid: {pid})\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID {pid}\n"
    )
    rows = (row.format(n=n, host=n // 8, local=n % 8, pid=20_000 + n) for n in range(count))
    return _settings(folder, "launcher.log", "".join(rows))


def _read_workers(path: Path) -> int:
    from forensics.parsers.launchers import SIGNATURE
    from forensics.parsers.logs import read_log

    source, scan = _read_stream(path)
    found = [o for o in read_log(source, scan, _matcher(), reference=1.7e9).observations if o.signature == SIGNATURE]
    assert found
    return len(found)


def _error_file(folder: Path, frames: int = 4_000) -> Path:
    """The error file of a worker that failed in a deep recursion."""
    stack = "".join(
        f'  File "/workspace/train/part{n}.py", line {n}, in f{n}\n    return g(x)\n' for n in range(frames)
    )
    told = f"Traceback (most recent call last):\n{stack}ValueError: bad value\n"
    extra = {"py_callstack": told, "timestamp": "1700000000"}
    return _settings(
        folder, "error.json", json.dumps({"message": {"message": "ValueError: bad value", "extraInfo": extra}})
    )


def _read_error_file(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers import error_files

    source = Source(path.name, path, Kind.ERROR_FILE, path.stat().st_size)
    found = error_files.read(source, _matcher(), reference=1.7e9)
    assert found.problem is None and found.tracebacks
    return len(found.tracebacks)


def _json_records(folder: Path, count: int = 20_000) -> Path:
    """Records of a logger in JSON, a hundredth of which quote a traceback."""
    frames = "".join(f'  File "/workspace/train/part{n}.py", line {n}, in f{n}\n    return g(x)\n' for n in range(20))
    stack = f"Traceback (most recent call last):\n{frames}ValueError: bad value"
    records = (
        {"ts": 1.7e9 + n, "level": "ERROR" if n % 100 == 0 else "INFO", "rank": n % 8, "msg": f"step {n}"}
        | ({"exc_info": stack} if n % 100 == 0 else {})
        for n in range(count)
    )
    return _settings(folder, "train.jsonl", "".join(json.dumps(record) + "\n" for record in records))


def _read_json_records(path: Path) -> int:
    from forensics.model import Kind, Source
    from forensics.parsers import json_logs

    source = Source(path.name, path, Kind.LOG, path.stat().st_size)
    found = json_logs.read(source, _matcher(), reference=1.7e9)
    assert found.tracebacks
    return len(found.tracebacks)


def _pod_list(folder: Path, count: int = 400) -> Path:
    """`kubectl get pods -o json`: workers of a job with their specification and how they ended."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "labels": {f"app.example/label-{k}": f"value-{k}" for k in range(20)},
                "name": f"llm-worker-{n}",
            },
            "spec": {
                "containers": [
                    {
                        "env": [{"name": f"NCCL_OPTION_{k}", "value": str(k)} for k in range(40)],
                        "name": "trainer",
                        "resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": "8"}},
                    }
                ],
                "nodeName": f"pool-{n}",
            },
            "status": {
                "containerStatuses": [
                    {"name": "trainer", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
                ],
                "phase": "Failed",
            },
        }
        for n in range(count)
    ]
    return _settings(folder, "pods.json", json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}, indent=4))


def _read_pods(path: Path) -> int:
    from forensics.parsers import pods

    found = pods.read(path.read_text())
    assert all(pod.node and pod.ends for pod in found)
    return len(found)


def _event_rows(folder: Path, count: int = 20_000) -> Path:
    rows = (
        f"{n % 60}m   Normal   Scheduled   pod/llm-{n}-worker-0   Successfully assigned ml/llm-{n}-worker-0 to gpu-{n % 99}\n"
        for n in range(count)
    )
    return _settings(folder, "events.txt", "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n" + "".join(rows))


def _read_event_rows(path: Path) -> int:
    from forensics.parsers import pods

    return len(pods.listed(path.read_text()))


def _accounted(folder: Path, count: int = 20_000) -> Path:
    """`sacct -P` of a user's month."""
    rows = (f"{4000 + n}|train|gpu|ml|32|{'FAILED' if n % 7 == 0 else 'COMPLETED'}|1:0\n" for n in range(count))
    return _settings(folder, "sacct.txt", "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n" + "".join(rows))


def _read_accounted(path: Path) -> int:
    from forensics.parsers.accounting import rows

    return len(list(rows(path.read_text())))


def _stored(folder: Path) -> Path:
    """A log that is then put into fsspec's store in memory: what fetching costs apart from the network."""
    import fsspec

    path = _metric_log(folder, "plain", 30_000_000)
    fsspec.filesystem("memory").pipe("/bench/train.log", path.read_bytes())
    return path


def _read_stored(path: Path) -> int:
    from forensics.remote import Choice, fetch

    anything = Choice(lambda name: None, lambda head, name: None, lambda name: False)
    found = [one.file for one in fetch("memory://bench", anything)]
    assert [file.stat().st_size for file in found if file is not None] == [path.stat().st_size]
    return len(found)


def _packed(folder: Path, kind: str) -> Path:
    log = _metric_log(folder, "plain", 30_000_000)
    path = folder / ("train.log.gz" if kind == "gzip" else "logs.tar")
    if kind == "gzip":
        path.write_bytes(gzip.compress(log.read_bytes(), 6))
    else:
        with tarfile.open(path, "w") as archive:
            for n in range(4):
                archive.add(log, f"logs/rank{n}.log")
    return path


def _read_archive(path: Path) -> int:
    """Members unpacked into the temporary folder. MB/s are those of the packed file."""
    from forensics.archives.formats import format_of
    from forensics.archives.limits import Unpacked
    from forensics.archives.unpacker import Unpacker

    what = format_of(path.read_bytes()[:16384], path.name)
    assert what is not None
    found = Unpacked()
    members = list(Unpacker().members(path, path.name, what, found, lambda _: None, lambda *_: None))
    assert found.problem is None
    for member in members:
        member.file.unlink()
    return len(members)


PARSERS: dict[str, Parser] = {
    "tracebacks": Parser(_raised, _read_raised),
    "stacks faulthandler": Parser(_stack_dump, _read_dumped),
    **{f"metric lines {shape}": Parser(functools.partial(_metric_log, shape=shape), _read_lines) for shape in _SHAPES},
    "metric files jsonl": Parser(_json_lines, _read_metrics),
    "metric files csv": Parser(_metric_table, _read_metrics),
    "nccl COLL trace": Parser(_coll_trace, _read_calls),
    "flight recorder pickle": Parser(_recorder_pickle, _read_recorder),
    "flight recorder json": Parser(_recorder_json, _read_recorder),
    "checkpoints deep": Parser(_weights, _read_weights),
    "launchers": Parser(_failed_workers, _read_workers),
    "error files": Parser(_error_file, _read_error_file),
    "json logs": Parser(_json_records, _read_json_records),
    "pods json": Parser(_pod_list, _read_pods),
    "pods events": Parser(_event_rows, _read_event_rows),
    "accounting": Parser(_accounted, _read_accounted),
    "remote": Parser(_stored, _read_stored),
    "archives gz": Parser(functools.partial(_packed, kind="gzip"), _read_archive),
    "archives tar": Parser(functools.partial(_packed, kind="tar"), _read_archive),
    "run files json": Parser(_json_settings, _read_settings),
    "run files yaml": Parser(_yaml_settings, _read_settings),
    "run files log head": Parser(_log_head, _read_settings),
    "kernel dmesg": Parser(_dmesg, _read_kernel),
    "kernel dmesg --json": Parser(_dmesg_json, _read_kernel),
    "kernel journal json": Parser(_journal, _read_kernel),
    "tensorboard scalars": Parser(_scalars, _read_events),
    "tensorboard probe": Parser(_probe, _read_events),
    "tensorboard histograms": Parser(_histograms, _read_events),
}


def main() -> None:
    wanted = sys.argv[1:]
    for name, parser in PARSERS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = parser.make(Path(folder))
            megabytes = path.stat().st_size / 1e6
            parser.read(path)  # imports
            best = float("inf")
            for _ in range(3):
                begin = time.process_time()
                rows = parser.read(path)
                best = min(best, time.process_time() - begin)
        print(f"{name:24} {megabytes:6.1f} MB  {megabytes / best:7.1f} MB/s  {rows / best / 1e3:7.0f} k rows/s")


if __name__ == "__main__":
    main()
