"""The kernel's memory killer: the lines of one kill, read as one event.

A kill prints a block (mm/oom_kill.c, 3.x to 6.x): who asked for memory, the limits and use of the control group or of
the host, the table of processes, a summary, and the line that names the victim. The block is rate-limited and may be
cut off by the ring buffer; the victim's line alone is then the event.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_INVOKED = re.compile(r"^(?P<comm>.{1,16}?) invoked oom-killer: gfp_mask=")
_SUMMARY = re.compile(
    r"oom-kill:constraint=CONSTRAINT_(?P<constraint>\w+),nodemask=(?:\(null\)|[\d,-]+)(?:,cpuset=.*?,mems_allowed=[\d,-]+)?"
    r"(?:,oom_memcg=(?P<limited>.*?)|,global_oom)?(?:,task_memcg=(?P<group>.*?))?,task=(?P<comm>.*),pid=(?P<pid>\d{1,10}),uid="
)
_KILL = re.compile(
    r"(?:(?P<why>Out of memory|Memory cgroup out of memory)[^:\n]{0,40}: )?Kill(?:ed)? process (?P<pid>\d{1,10})"
    r"(?:, UID \d+,)? \((?P<comm>[^)\n]{1,64})\)"
)
_SIZES = re.compile(r"\b(?P<what>total-vm|anon-rss|file-rss|shmem-rss):(?P<kb>\d{1,15})kB")
_LIMITED = re.compile(r"Task in (?P<group>/\S*) killed as a result of limit of (?P<limited>/\S*)")
_USAGE = re.compile(r"^memory: usage (?P<usage>\d{1,16})kB, limit (?P<limit>\d{1,16})kB, failcnt \d+")
_GROUP_KILL = re.compile(r"Tasks in (?P<group>\S+) are going to be killed due to memory\.oom\.group set")
_STATS_V1 = re.compile(r"^Memory cgroup stats for (?P<group>\S+?):? .*\bshmem:(?P<kb>\d{1,15})KB")
_STATS_V2 = re.compile(r"^shmem (?P<bytes>\d{1,19})$")
_NODE = re.compile(r"^Node \d+ .*\bshmem:(?P<kb>\d{1,15})kB")
_HEADER = re.compile(r"^\[ *pid *\] +(?P<columns>uid .*\bname)\s*$")
_ROW = re.compile(r"^\[ *(?P<pid>\d{1,10})\] +(?P<cells>\d.*)$")
# A limit above this is none: the counter's own maximum (PAGE_COUNTER_MAX in kB) and what it was in older kernels.
NO_LIMIT = 1 << 50
TASKS = 65536  # rows of one table that are read
LARGEST = 5  # processes that are named
CONSTRAINTS = {"MEMCG": "cgroup", "NONE": "host", "CPUSET": "cpuset", "MEMORY_POLICY": "memory policy"}
# The part of a group's memory that shared memory must hold to be called what filled it.
MOST = 0.5


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the table of processes."""

    pid: int
    name: str
    pages: int  # resident


@dataclass(slots=True)
class _Block:
    invoked_by: str | None = None
    constraint: str | None = None
    limited: str | None = None
    group: str | None = None
    usage: int | None = None
    limit: int | None = None
    shmem: int | None = None
    together: bool = False
    columns: int = 0
    tasks: list[Task] = field(default_factory=list)
    kills: dict[int, _Kill] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)  # of lines that name no victim


@dataclass(slots=True)
class _Kill:
    comm: str
    sizes: dict[str, int] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OomKill:
    """One victim of the memory killer. Sizes are in kB."""

    pid: int
    process: str
    constraint: str | None  # a value of CONSTRAINTS; None where nothing says it
    places: tuple[int, ...]  # keys of the lines that speak of it; the first that bears the sizes leads
    invoked_by: str | None = None  # the process that asked for memory, often another one
    total_vm: int | None = None
    anon: int | None = None
    file: int | None = None
    shmem: int | None = None
    limited: str | None = None  # the control group whose limit was reached
    group: str | None = None  # the control group of the victim
    usage: int | None = None
    limit: int | None = None
    group_shmem: int | None = None  # shared memory (tmpfs) charged to the group, or of the host
    largest: tuple[tuple[str, int, int], ...] = ()  # (name, pid, kB resident), the largest first
    alike: tuple[str, int, int] | None = None  # (name, number, kB) of the name whose processes hold most together
    together: bool = False  # memory.oom.group: all processes of the group were killed

    @property
    def resident(self) -> int | None:
        known = [size for size in (self.anon, self.file, self.shmem) if size is not None]
        return sum(known) if known else None


def speaks_of_oom(message: str) -> bool:
    """Whether a message is one of those that begin or name a kill."""
    return bool(
        _INVOKED.search(message)
        or _SUMMARY.search(message)
        or _KILL.search(message)
        or _LIMITED.search(message)
        or _GROUP_KILL.search(message)
    )


def read_kills(messages: Iterable[tuple[int, str]]) -> list[OomKill]:
    """The kills among messages of one kernel log, given in order as (key, message); keys come back in `places`."""
    found: list[OomKill] = []
    block = _Block()

    def close() -> None:
        found.extend(_kill(block, pid, kill) for pid, kill in block.kills.items())

    for key, message in messages:
        text = message.strip()
        if m := _INVOKED.search(text):
            close()
            block = _Block(invoked_by=m["comm"].strip(), places=[key])
        elif m := _SUMMARY.search(text):
            if any(pid != int(m["pid"]) for pid in block.kills) and not block.together:
                close()
                block = _Block()
            block.constraint = CONSTRAINTS.get(m["constraint"], block.constraint)
            block.limited, block.group = m["limited"] or block.limited, m["group"] or block.group
            block.kills.setdefault(int(m["pid"]), _Kill(m["comm"])).places.append(key)
        elif m := _KILL.search(text):
            why = _kind(m["why"])
            # A child or another user of the victim's memory dies by a line that gives no reason.
            group_goes = block.together and block.constraint in (None, why)
            if why and any(pid != int(m["pid"]) for pid in block.kills) and not group_goes:
                close()
                block = _Block()
            kill = block.kills.setdefault(int(m["pid"]), _Kill(m["comm"]))
            sizes = {s["what"]: int(s["kb"]) for s in _SIZES.finditer(text)}
            kill.sizes |= sizes
            kill.places.insert(0, key) if sizes else kill.places.append(key)
            if why and block.constraint is None:
                block.constraint = why
        elif m := _LIMITED.search(text):
            block.limited, block.group, block.constraint = m["limited"], m["group"], "cgroup"
            block.places.append(key)
        elif m := _GROUP_KILL.search(text):
            block.together, block.group = True, block.group or m["group"]
            block.constraint = block.constraint or "cgroup"
            block.places.append(key)
        elif m := _USAGE.match(text):
            block.usage, block.limit = int(m["usage"]), int(m["limit"])
        elif m := _STATS_V1.match(text):
            if block.shmem is None:
                block.shmem = int(m["kb"])
        elif m := _STATS_V2.match(text):
            block.shmem = int(m["bytes"]) // 1024
        elif m := _NODE.match(text):
            block.shmem = (block.shmem or 0) + int(m["kb"])
        elif m := _HEADER.match(text):
            block.columns = len(m["columns"].split())
        elif block.columns and len(block.tasks) < TASKS and (m := _ROW.match(text)):
            cells = m["cells"].split(None, block.columns - 1)
            if len(cells) == block.columns and cells[3].isdigit():
                block.tasks.append(Task(int(m["pid"]), cells[-1].strip(), int(cells[3])))
    close()
    return found


def _kind(why: str | None) -> str | None:
    """Which memory was full by the words before a victim, as a value of CONSTRAINTS; None where there are none."""
    return None if why is None else "cgroup" if "cgroup" in why else "host"


def _kill(block: _Block, pid: int, kill: _Kill) -> OomKill:
    sizes = kill.sizes
    page = _page(block.tasks, pid, sizes)
    ordered = sorted(block.tasks, key=lambda t: -t.pages)
    by_name: Counter[str] = Counter()
    for task in block.tasks:
        by_name[task.name] += task.pages
    top = by_name.most_common(1)
    number = sum(1 for t in block.tasks if top and t.name == top[0][0])
    limit = block.limit if block.limit is not None and block.limit < NO_LIMIT else None
    return OomKill(
        pid=pid,
        process=kill.comm,
        constraint=block.constraint,
        places=(*kill.places, *block.places),
        invoked_by=block.invoked_by,
        total_vm=sizes.get("total-vm"),
        anon=sizes.get("anon-rss"),
        file=sizes.get("file-rss"),
        shmem=sizes.get("shmem-rss"),
        limited=block.limited,
        group=block.group,
        usage=block.usage,
        limit=limit,
        group_shmem=block.shmem,
        largest=tuple((t.name, t.pid, t.pages * page) for t in ordered[:LARGEST]),
        alike=(top[0][0], number, top[0][1] * page) if top and number > 1 else None,
        together=block.together,
    )


def _page(tasks: Sequence[Task], pid: int, sizes: Mapping[str, int]) -> int:
    """kB of a page: 4 on x86 and on most others, 16 or 64 on some ARM and POWER hosts, told by the victim's row."""
    pages = next((t.pages for t in tasks if t.pid == pid), 0)
    resident = sum(sizes.get(what, 0) for what in ("anon-rss", "file-rss", "shmem-rss"))
    return min((4, 16, 64), key=lambda size: abs(size - resident / pages)) if pages and resident else 4


_SLURM = re.compile(r"job_(?P<slurm_job>\d+)(?:/step_(?P<slurm_step>\w+))?(?:/(?:user/)?task_(?P<task>\d{1,9}))?")
_POD = re.compile(r"pod(?P<pod>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER = re.compile(r"(?:cri-containerd-|crio-|docker-|docker/|/)(?P<container>[0-9a-f]{64})(?:\.scope)?(?:/|$)")
_UNIT = re.compile(r"(?P<unit>[\w@:.\\-]+\.(?:service|scope))(?:/|$)")


def owner(path: str | None) -> dict[str, str]:
    """Whose a control group is by its path: pod, container, slurm_job, slurm_step, task (Slurm's), or systemd unit."""
    if not path:
        return {}
    found: dict[str, str] = {}
    for pattern in (_SLURM, _POD, _CONTAINER):
        if m := pattern.search(path):
            found |= {k: v for k, v in m.groupdict().items() if v is not None}
    if "pod" in found:
        found["pod"] = found["pod"].replace("_", "-")
    if not found and (m := _UNIT.search(path)):
        found["unit"] = m["unit"]
    return found


def size(kb: int) -> str:
    """kB as people write it."""
    for unit, by in (("TiB", 1 << 30), ("GiB", 1 << 20), ("MiB", 1 << 10)):
        if kb >= by:
            return f"{kb / by:.1f} {unit}"
    return f"{kb} kB"


def filled_by_shared_memory(kill: OomKill) -> bool:
    """Whether files in /dev/shm and other tmpfs hold most of the memory that ran out."""
    whole = kill.limit if kill.limit is not None else kill.usage
    if kill.group_shmem is not None and whole:
        return kill.group_shmem >= MOST * whole
    return kill.shmem is not None and kill.resident is not None and kill.shmem > MOST * kill.resident > 0


def captures(kill: OomKill) -> dict[str, str]:
    """What a kill says, as named values: sizes in kB."""
    group = owner(kill.group) | owner(kill.limited)
    values: dict[str, str | int | None] = {
        "pid": kill.pid,
        "process": kill.process,
        "constraint": kill.constraint,
        "rss_kb": kill.resident,
        "anon_kb": kill.anon,
        "shmem_kb": kill.shmem,
        "cgroup": kill.limited or kill.group,
        "limit_kb": kill.limit,
        "usage_kb": kill.usage,
        "cgroup_shmem_kb": kill.group_shmem,
        "invoked_by": kill.invoked_by,
        **group,
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def describe(kill: OomKill) -> str:
    """A kill in sentences for people."""
    text = f"{kill.process} (pid {kill.pid}) was killed"
    if kill.resident is not None:
        text += f" with {size(kill.resident)} resident"
        if kill.shmem:
            text += f", {size(kill.shmem)} of it shared memory"
    if kill.constraint == "cgroup":
        whose = owner(kill.limited) or owner(kill.group)
        names = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in whose.items())
        text += f": the limit of its control group{f' ({names})' if names else ''} was reached"
        if kill.limit is not None:
            text += f", {size(kill.limit)}"
    elif kill.constraint in ("cpuset", "memory policy"):
        text += f": the memory nodes that its {kill.constraint} allows were full, not the host"
    elif kill.constraint == "host":
        text += ": the host's memory was full"
    if filled_by_shared_memory(kill):
        held = kill.group_shmem if kill.group_shmem is not None else kill.shmem
        text += f". Shared memory (files in /dev/shm and other tmpfs) held {size(held or 0)}, most of what ran out"
    elif kill.group_shmem and kill.constraint == "cgroup":
        text += f". Shared memory held {size(kill.group_shmem)} of it"
    if kill.largest:
        text += ". Largest: " + ", ".join(f"{name} {pid} ({size(kb)})" for name, pid, kb in kill.largest[:3])
        if kill.alike is not None:
            text += f"; {kill.alike[1]} processes named {kill.alike[0]} hold {size(kill.alike[2])} together"
    if kill.together:
        text += ". Its whole group was killed with it (memory.oom.group)"
    if kill.invoked_by and kill.invoked_by != kill.process:
        text += f". {kill.invoked_by} had asked for memory"
    return text
