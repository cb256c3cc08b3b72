"""Lets the report tests import their samples under pytest's rootdir-relative collection."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
