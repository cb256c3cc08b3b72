"""NCCL's own output: its lines, its warnings, its trace of calls, its status service."""

from forensics.parsers.nccl.calls import collective_calls
from forensics.parsers.nccl.completions import Completion, completion
from forensics.parsers.nccl.facts import environment
from forensics.parsers.nccl.lines import Init, Line, init, parse
from forensics.parsers.nccl.warnings import Meaning, meaning

__all__ = [
    "Completion", "Init", "Line", "Meaning", "collective_calls", "completion", "environment", "init", "meaning",
    "parse",
]  # fmt: skip
