"""Throughput, memory and store size of `forensics triage` over a generated sweep, and whether every label is right.

python benchmarks/triage.py [JOBS] [PROCESSES] [SEED]

Runs a quarter of the jobs first, so that slopes can be told from what a start costs. CPU time is that of all processes;
it means more than the clock where others use the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import sweep

MEBI = 1 << 20


@dataclass
class Watch:
    """Resident memory of a process and of the largest one below it, looked at every half second."""

    pid: int
    driver: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self.ended.wait(0.5):
            below = []
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdecimal():
                        parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                        held = int((entry / "statm").read_text().split()[1]) * page
                        if int(entry.name) == self.pid:
                            self.driver.append(held)
                        elif parent == self.pid:
                            below.append(held)
                except OSError:
                    continue
            if below:
                self.worker.append(max(below))


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    output: bytes
    driver: int  # bytes, at most
    workers: str  # the most in the first and in the last third of the time


def triage(folder: Path, store: Path, processes: str) -> Run:
    command = [sys.executable, "-m", "forensics", "triage", str(folder), "-j", processes]
    command += ["--store", str(store), "--format", "jsonl"]
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        watch = Watch(process.pid)
        thread = threading.Thread(target=watch.run)
        thread.start()
        _, status, used = os.wait4(process.pid, 0)
        watch.ended.set()
        thread.join()
        if status:
            raise SystemExit(f"triage ended with {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        output = out.read()
    third = len(watch.worker) // 3
    held = [max(part, default=0) / MEBI for part in (watch.worker[: third + 1], watch.worker[2 * third :])]
    workers = f"{held[0]:.0f} -> {held[1]:.0f} MiB"
    return Run(time.monotonic() - began, used.ru_utime + used.ru_stime, output, max(watch.driver, default=0), workers)


def faults(expected: list[sweep.Expected], output: bytes) -> list[str]:
    rows = {Path(row["path"]).name: row for line in output.splitlines() for row in (json.loads(line)["job"],)}
    told = ((one, rows[one.name]) for one in expected)
    found = (sweep.wrong(one, row["root"], row["ranks"], row["step"]) for one, row in told)
    return [fault for fault in found if fault is not None]


def main() -> None:
    given = dict(enumerate(sys.argv))
    most, processes, seed = int(given.get(1, 2_000)), given.get(2, "2"), int(given.get(3, 0))
    runs: dict[tuple[int, str], Run] = {}
    few = max(most // 4, 1)
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        for count in (few, most):
            folder, store = root / f"jobs-{count}", root / f"{count}.sqlite"
            expected = sweep.make(folder, count, seed)
            size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
            for what in ("first", "second"):
                run = runs[count, what] = triage(folder, store, processes)
                print(
                    f"{count} jobs, {what}: {run.wall:.1f} s, {run.cpu:.1f} CPU-s; driver {run.driver / MEBI:.0f} MiB,"
                    f" largest worker {run.workers}; {len(bad := faults(expected, run.output))} wrong {bad[:5]}"
                )
            output, kept = len(runs[count, "first"].output), store.stat().st_size
            print(f"  a job: input {size / count:.0f} bytes, store {kept / count:.0f}, JSON lines {output / count:.0f}")
    for what in ("first", "second"):
        a, b = runs[few, what], runs[most, what]
        more = (most - few) / 1e3
        print(
            f"slope, {what}: {(b.wall - a.wall) / more:.2f} ms and {(b.cpu - a.cpu) / more:.2f} CPU-ms a job, driver"
            f" {(b.driver - a.driver) / more / 1e6:.1f} kB a job"
        )


if __name__ == "__main__":
    main()
