#!/usr/bin/env python3
"""Make the sample runs again: really run each scenario, keep what it left, write the expected answer beside it.

    python examples/runs/make.py               # every scenario, one after another (a few minutes on two cores)
    python examples/runs/make.py NAME...       # only these
    python examples/runs/make.py --list

Needs Linux with `unshare` and `mount`, and a Python that can import torch (CPU is enough), tensorboard, numpy and yaml.
Each scenario runs in namespaces of its own (see `sandbox.py`), so what it leaves names no machine and no user, and a
full disk or a full /dev/shm is a small tmpfs that is gone afterwards.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml
from neutral import audit, neutralise
from sandbox import enter
from scenarios import SCENARIOS, Scenario

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "sample_logs"
MOST_BYTES = 150_000  # of one run directory: the samples are part of the source distribution


def make(scenario: Scenario, samples: Path) -> list[str]:
    """Run one scenario, write `samples/<name>/`; what is wrong with the result, empty if nothing."""
    with tempfile.TemporaryDirectory(prefix="sample-") as staging:
        out = Path(staging)
        code = enter(scenario.name, code=HERE, out=out)
        if code != 0:
            for log in sorted((out / "input").rglob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
            return [f"the scenario itself failed with exit status {code}"]
        learned = out / "learned.yaml"
        expected = {**scenario.expected, **(yaml.safe_load(learned.read_text()) if learned.exists() else {})}
        produced = out / "input"
        neutralise(produced)
        complaints = audit(produced)
        glob, pattern = scenario.shows
        if not any(re.search(pattern, p.read_text(errors="replace")) for p in produced.glob(glob)):
            complaints.append(f"nothing like {pattern!r} in {glob}")
        size = sum(p.stat().st_size for p in produced.rglob("*") if p.is_file())
        if size > MOST_BYTES:
            complaints.append(f"{size} bytes, more than {MOST_BYTES}")
        target = samples / scenario.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(produced, target / "input")
        (target / "expected.yaml").write_text(yaml.safe_dump(expected, sort_keys=False, allow_unicode=True, width=118))
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="only say which scenarios there are")
    parser.add_argument("--into", type=Path, default=SAMPLES, help="where the sample directories go")
    args = parser.parse_args()
    if args.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:32} {scenario.expected['root_cause']}")
        return 0
    if unknown := [name for name in args.names if name not in SCENARIOS]:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    failed = False
    for name in args.names or SCENARIOS:
        started = time.monotonic()
        complaints = make(SCENARIOS[name], args.into)
        failed = failed or bool(complaints)
        print(f"{name:32} {time.monotonic() - started:5.1f} s  {'; '.join(complaints) or 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
