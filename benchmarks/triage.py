"""Throughput, memory and store size of `forensics triage` over a generated sweep, and whether every label is right.

python benchmarks/triage.py [JOBS] [PROCESSES]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import sweep


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    processes = sys.argv[2] if len(sys.argv) > 2 else "2"
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        expected = sweep.make(root / "jobs", count)
        size = sum(p.stat().st_size for p in (root / "jobs").rglob("*") if p.is_file())
        time.sleep(2.5)  # until quick keys are trusted
        command = [sys.executable, "-m", "forensics", "triage", str(root / "jobs"), "-j", processes]
        command += ["--store", str(root / "s.sqlite"), "--format", "jsonl"]
        for what in ("first", "second"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.monotonic()
            out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            wall = time.monotonic() - began
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{what}: {wall:.1f} s, {wall / count * 1e3:.2f} ms a job, {cpu / count * 1e3:.2f} CPU-ms a job")
        rows = {Path(row["path"]).name: row for line in out.splitlines() for row in (json.loads(line)["job"],)}
        wrong = [
            e.name for e in expected if (rows[e.name]["root"] not in e.causes if e.causes else rows[e.name]["root"])
        ]
        print(f"{count} jobs, {size / 1e6:.0f} MB; {len(wrong)} wrong labels {wrong[:5]}")
        print(
            f"store: {(root / 's.sqlite').stat().st_size / count:.0f} bytes a job; output {len(out) / count:.0f} bytes a job"
        )
        print(f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
