"""What NCCL says about its surroundings, as facts: versions, the network it chose, what its environment sets."""

from __future__ import annotations

from collections.abc import Iterable

from forensics.model import Fact, Observation

SIGNATURE = "nccl-environment"
# Captures of that signature, and the facts that they are.
NAMES = {
    "nccl_version": "nccl.version",
    "driver_version": "cuda.driver",
    "network": "nccl.network",
    "plugin": "nccl.plugin",
    "provider": "nccl.provider",
    "adapters": "nccl.adapters",
    "interfaces": "nccl.interfaces",
}
MOST = 2000  # facts of a run


def environment(observations: Iterable[Observation]) -> list[Fact]:
    """The facts that lines of `nccl-environment` state, each once a file.

    `cuda.driver` is the CUDA version that the driver supports, as 13.0; `nccl.env.NCCL_X` what the environment sets.
    """
    found: dict[tuple[str, str, str], Fact] = {}
    for o in observations:
        if o.signature != SIGNATURE or not o.evidence or len(found) >= MOST:
            continue
        place = o.evidence[0]
        stated = {NAMES[name]: value for name, value in o.captures.items() if name in NAMES}
        if "driver_version" in o.captures:
            stated["cuda.driver"] = _driver(o.captures["driver_version"])
        if (name := o.captures.get("variable")) is not None:
            stated[f"nccl.env.{name}"] = o.captures.get("value", "")
        for fact, value in stated.items():
            found.setdefault((place.file, fact, value), Fact(fact, value[:400], place.file, place.line))
    return list(found.values())


def _driver(number: str) -> str:
    """13000 -> "13.0", 12040 -> "12.4" (cuDriverGetVersion: 1000 * major + 10 * minor)."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number.isdecimal() and len(number) <= 6 else number
