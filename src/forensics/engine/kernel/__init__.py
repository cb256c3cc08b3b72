"""What kernel logs and the run's own logs say of each other: when, which rank, and whether the run suffered by it.

These functions stand in the pipeline and load their modules only for runs that hold a kernel's lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forensics.model import Observation, RunData
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate
    from forensics.engine.identity import World
    from forensics.engine.steps import StepClock

FACT = "kernel_log"  # name of the facts that say which sources are kernel logs; the value is the form
# How a launcher sees the end of a process of which the kernel says this.
KILLED = {"host-oom": "-9", "host-oom-cgroup": "-9", "rank-segfault": "-11", "rank-sigill": "-4", "rank-sigfpe": "-8"}
# Captures of kernel lines (kernel.owners): of what that is none of the run's; that no rank can be told from it.
FOREIGN, UNPLACED = "foreign", "unplaced"
MARKS = ("kernel-clock", "gpu-listed")
_KERNELS = re.compile(
    r"\[ *\d{1,10}\.\d{6}\]|\[ *\+\d+\.\d{6}\]|\bkernel: |\bNVRM: |^\d{1,3},\d+,\d+,[-c+]"
    r"|^(?:[a-z]+\d? *:[a-z]+ *: ?)?(?:\[\S+ +\S+ +\d+ \d\d:\d\d:\d\d \d{4}\] |\d{4}-\d\d-\d\dT[\d:]{8},\d{6}[+-])"
    r"|^\[[A-Z][a-z]{2} ?\d+ \d\d:\d\d\]"
)


# Messages that Linux alone prints, where no stamp stands before them (`dmesg -t`, `journalctl -k -o cat`, kernels that
# were built without CONFIG_PRINTK_TIME) or a cut one: of mm/oom_kill.c, arch/x86's show_signal_msg and traps.c,
# kernel/hung_task.c, kernel/watchdog.c, block/blk-core.c, fs/buffer.c, file systems, net/sunrpc, and dev_printk's
# driver and PCI device.
_MESSAGES = lazy(
    r"(?:<\d{1,3}>)?(?:\[ *\d{1,10}(?:\.\d{1,9})?\] ?)?(?:"
    r"[^\[\]]{1,16}\[\d+\]:? (?:segfault at |trap [a-z ]{3,30} ip:|general protection(?: fault)? ip:)"
    r"|.{1,16} invoked oom-killer: |oom-kill:constraint=|(?:[A-Z][\w ]{2,60}: )?Kill(?:ed)? process \d+ \("
    r"|INFO: task \S.{0,20}:\d+ blocked for more than |(?:watchdog: )?BUG: soft lockup - CPU#|mce: \[Hardware Error\]"
    r"|(?:\w+: )?(?:[A-Za-z/]+ ){1,3}error, dev [\w!-]+, sector \d|Buffer I/O error on dev"
    r"|(?:EXT[234]-fs|XFS|BTRFS|F2FS-fs)(?: \w+)? \(|nfs: server \S+ (?:not responding|OK)"
    r"|[a-z][\w-]* [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7][: ]"
    r")"
)


def in_words_of_kernel(text: str) -> bool:
    """Whether a line begins, apart from seconds since boot, with a message that Linux alone prints."""
    return _MESSAGES.match(text) is not None


def _of_kernel(o: Observation) -> bool:
    text = o.evidence[0].text
    return o.signature in MARKS or _KERNELS.search(text) is not None or in_words_of_kernel(text)


def elsewhere(o: Observation) -> str:
    """ "host", "gpu" or "victim" where a kernel's line is of one that is known to be none of the run's; else empty."""
    return o.captures.get(FOREIGN, "") if UNPLACED in o.captures else ""


def concerns(data: RunData) -> bool:
    """Whether a run holds lines of a kernel or lists of its devices."""
    return any(fact.name == FACT for fact in data.facts) or any(map(_of_kernel, data.observations))


def align(data: RunData) -> RunData:
    """`clock.align`."""
    from forensics.engine.kernel import clock

    return clock.align(data)


def number_tasks(data: RunData) -> RunData:
    """`slurm_tasks.number`."""
    from forensics.engine.kernel import slurm_tasks

    return slurm_tasks.number(data)


def in_zone_of_victims(data: RunData) -> RunData:
    """`clock.in_zone_of_victims`."""
    from forensics.engine.kernel import clock

    return clock.in_zone_of_victims(data)


def place(data: RunData, world: World) -> RunData:
    """`places.place`."""
    from forensics.engine.kernel import places

    return places.place(data, world)


def went_down(
    data: RunData, found: Sequence[Observation], steps: StepClock, catalogue: Mapping[str, Signature]
) -> list[Observation]:
    """`boots.went_down`."""
    from forensics.engine.kernel import boots

    return boots.went_down(data, found, steps, catalogue)


def settle(found: Sequence[Observation], catalogue: Mapping[str, Signature]) -> list[Observation]:
    """`relevance.settle`."""
    from forensics.engine.kernel import relevance

    return relevance.settle(found, catalogue)


def set_aside(found: Sequence[Candidate], steps: StepClock) -> None:
    """`relevance.set_aside`."""
    if any(_of_kernel(c.observations[0]) for c in found):
        from forensics.engine.kernel import relevance

        relevance.set_aside(found, steps)
