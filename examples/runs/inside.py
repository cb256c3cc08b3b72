"""The driver's half that runs inside the namespaces: `inside.py NAME` runs one scenario and leaves out/input."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from box import Box
from scenarios import SCENARIOS


def main(name: str) -> None:
    out = Path("out")
    box = Box(out / "input")
    learned = SCENARIOS[name].run(box)
    if learned:
        (out / "learned.yaml").write_text(yaml.safe_dump(learned))


if __name__ == "__main__":
    main(sys.argv[1])
