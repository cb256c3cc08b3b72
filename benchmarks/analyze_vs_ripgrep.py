"""`forensics analyze` on many rank logs against `rg -c -F -f` with the catalogue's literals over the same files.

    python benchmarks/analyze_vs_ripgrep.py [--ranks 64] [--megabytes 8] [--rounds 5] [--data benchmarks/data/ranks]

Both commands run alternately, after one round that warms caches; the medians, their ratio and the peak memory of each
are printed. ripgrep counts lines that hold any literal; forensics also reads metrics, finds the cause and reports.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from literals import catalogue_literals
from logs import write_rank_logs


def measure(command: list[str]) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds, peak MB) of one run of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ranks", type=int, default=64)
    arguments.add_argument("--megabytes", type=float, default=8)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--data", type=Path, default=Path(__file__).parent / "data" / "ranks")
    args = arguments.parse_args()
    if shutil.which("rg") is None:
        sys.exit("ripgrep (rg) is not installed")
    files = write_rank_logs(args.data, args.ranks, args.megabytes)
    total = sum(f.stat().st_size for f in files)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as literals:
        words = catalogue_literals()
        literals.write("\n".join(words) + "\n")
        literals.flush()
        commands = {
            "forensics": [sys.executable, "-m", "forensics", "analyze", str(args.data), "--format", "json"],
            "ripgrep": ["rg", "-c", "-F", "-f", literals.name, str(args.data)],
        }
        runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
        for round_ in range(args.rounds + 1):
            for name, command in commands.items():
                result = measure(command)
                if round_:
                    runs[name].append(result)
    print(
        f"{len(files)} files, {total / 1e9:.2f} GB, {len(words)} literals, {args.rounds} rounds, {os.cpu_count()} CPUs"
    )
    medians = {}
    for name, results in runs.items():
        wall, cpu, peak = (statistics.median(column) for column in zip(*results, strict=True))
        medians[name] = wall
        print(f"{name:10} wall {wall:6.2f} s  ({total / wall / 1e9:.2f} GB/s)   CPU {cpu:6.2f} s   peak {peak:6.0f} MB")
    print(f"forensics takes {medians['forensics'] / medians['ripgrep']:.2f} times the wall time of ripgrep")


if __name__ == "__main__":
    main()
