"""MB/s and rows/s of the parsers, one line a kind of file: `python benchmarks/parsers.py [NAME ...]`.

Each entry of PARSERS makes a file of its kind in a folder and reads it. Figures are CPU seconds of one thread (the best
of three), so that a busy machine changes them little.
"""

from __future__ import annotations

import functools
import json
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forensics.engine.matcher import Matcher


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
    scan = kernel.unfold(source, scan, _matcher().database.scan)
    found = read_log(source, scan, _matcher(), reference=1.7e9)
    signs, form = kernel.refine(source, found.observations, reference=1.7e9)
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


PARSERS: dict[str, Parser] = {
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
