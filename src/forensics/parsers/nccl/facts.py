"""What NCCL says about its surroundings, as facts: versions, the network it chose, what its environment sets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from forensics.model import Fact, Observation
from forensics.parsers.nccl.lines import parse
from forensics.patterns import lazy

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
# Behind the adapters (NCCL: src/transport/net_ib*): relaxed ordering, and the interface that the bootstrap goes over.
_BEHIND_ADAPTERS = lazy(r"\s*(?:\[RO\])?\s*; OOB \S.*|\s*\[RO\]\s*$")
# Captures that hold an interface and its address: "eth0:10.0.0.5<0>".
_ADDRESSES = ("interfaces", "adapters", "bootstrap")
_ADDRESS = lazy(r"[\w.-]+:\[?(?P<address>\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]{4,45}?)\]?(?:%\w+)?<\d+>", re.ASCII)


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
        if "adapters" in o.captures:
            stated["nccl.adapters"] = _BEHIND_ADAPTERS.sub("", o.captures["adapters"])
        for fact, value in stated.items():
            found.setdefault((place.file, fact, value), Fact(fact, value[:400], place.file, place.line))
    return list(found.values())


def hosts_of_addresses(observations: Iterable[Observation]) -> dict[str, str]:
    """Address -> host, as NCCL prints both: in front of the line, and where it says which interfaces it uses.

    An address that two hosts use (a bridge of a container runtime) is left out.
    """
    found: dict[str, set[str]] = {}
    for o in observations:
        if o.signature != SIGNATURE or not o.evidence:
            continue
        for name in _ADDRESSES:
            if name in o.captures and (line := parse(o.evidence[0].text)) is not None:
                for m in _ADDRESS.finditer(o.captures[name]):
                    found.setdefault(m["address"].lower(), set()).add(line.host)
    return {address: next(iter(hosts)) for address, hosts in found.items() if len(hosts) == 1}


def networks(observations: Iterable[Observation]) -> dict[str, list[Observation]]:
    """Network -> the lines in which processes say that they use it ("Socket", "IB", "AWS Libfabric")."""
    found: dict[str, list[Observation]] = {}
    for o in observations:
        if o.signature == SIGNATURE and "network" in o.captures:
            found.setdefault(o.captures["network"], []).append(o)
    return found


def _driver(number: str) -> str:
    """13000 -> "13.0", 12040 -> "12.4" (cuDriverGetVersion: 1000 * major + 10 * minor)."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number.isdecimal() and len(number) <= 6 else number
