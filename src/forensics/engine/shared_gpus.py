"""Whose processes fill a GPU, where torch's messages of too little memory list them: another program's, or the run's.

torch lists each process that NVML knows on the device, but the one that prints (c10/cuda/CUDACachingAllocator.cpp).
Where several ranks print such lists, the number that a rank's list lacks and the others' have is its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from forensics.model import Observation

SHARED, WRONG_DEVICE = "gpu-shared-with-other-process", "wrong-device-assignment"
_LISTED = re.compile(r"\bProcess (\d{1,9}) has ([\d.]+ [KMG]iB) memory in use")
_Device = tuple[str | None, int | None, str]  # host, attempt, device


def told(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with those of ranks that all stand on one GPU as what they show: a wrong choice of device."""
    lists: dict[_Device, dict[int, set[str]]] = defaultdict(dict)
    for o in observations:
        if (device := _device(o)) is not None and o.identity.rank is not None:
            lists[device].setdefault(o.identity.rank, set()).update(map(str, listed(o)))
    alone = {device for device, of_rank in lists.items() if _only_each_other(list(of_rank.values()))}
    if not alone:
        return list(observations)
    found = []
    for o in observations:
        device = _device(o)
        if device in alone:
            ranks = ", ".join(map(str, sorted(lists[device])))
            note = (
                f"ranks {ranks} all allocate on GPU {device[2]}: the processes that their messages list are each other"
            )
            o = replace(o, signature=WRONG_DEVICE, rule=None, culprits=(), note=note)
        found.append(o)
    return found


def listed(o: Observation) -> dict[int, str]:
    """The processes that a message lists, each with the memory that it holds."""
    return {int(pid): memory for pid, memory in _LISTED.findall(o.evidence[0].text)}


def _device(o: Observation) -> _Device | None:
    if o.signature != SHARED or not o.captures.get("device"):
        return None
    return o.identity.node, o.identity.attempt, o.captures["device"]


def _only_each_other(lists: Sequence[set[str]]) -> bool:
    """Whether each list lacks one number, its own, and no number is on all of them.

    Two lists of one number each can be of two devices, which two ranks that see one GPU each both call 0.
    """
    everyone = set().union(*lists)
    own = [everyone - listed for listed in lists]
    return len(lists) > 2 and all(len(one) == 1 for one in own) and set().union(*own) == everyone
