"""How often the first root is right, by the confidence it was given.

    python benchmarks/calibration.py [FOLDER...]

A case is a folder with `input/` and `expected.yaml` (`root_cause`, optionally `acceptable`), as in sample_logs, which is read with
tests/cases where no folder is given.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import yaml

from forensics.engine.pipeline import analyse
from forensics.model import Role


def main() -> None:
    bins: dict[float, list[bool]] = defaultdict(list)
    project = Path(__file__).parent.parent
    folders = [Path(folder) for folder in sys.argv[1:]] or [project / "sample_logs", project / "tests" / "cases"]
    for file in sorted(f for folder in folders for f in folder.rglob("expected.yaml")):
        expected = yaml.safe_load(file.read_text("utf-8"))
        if expected.get("undecidable"):
            continue
        found = analyse([str(file.parent / "input")]).of_role(Role.ROOT)
        if not found:
            continue
        truths = {str(x) for x in (expected["root_cause"], *(expected.get("acceptable") or []))}
        right = found[0].name in truths or bool(truths & set(found[0].codes))
        bins[min(int(found[0].confidence * 10), 9) / 10].append(right)
    print("confidence   findings   right")
    for low, results in sorted(bins.items()):
        print(f"{low:.1f} - {low + 0.1:.1f}    {len(results):8}   {sum(results) / len(results):5.2f}")


if __name__ == "__main__":
    main()
