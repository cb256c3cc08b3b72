"""What Kubernetes says of a pod: `kubectl describe pod`, `get pod -o yaml` or `-o json`, rows of pods and of events.

All three are read by their indentation, line by line, so that each of a pod's values is known by the keys above it and
by its line. A sign that stands in one of them (OOMKilled, Exit Code: 137, an eviction) is of the pod and the node that
the same text names, and not of whoever wrote the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from forensics.files import beginning
from forensics.model import POD_SUCCEEDED, Observation, Source
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

MAX_BYTES = 4 << 20  # of a file; a pod takes some 10 kB
COMPACT_BYTES = 1 << 20  # of an object in one line
DEPTH = 40  # keys above a value
_MARKS = (b"kind: Pod\n", b'"kind": "Pod"', b'"kind":"Pod"', b"kind: Pod\r")
_DESCRIBED = lazy(rb"(?:^|\n)Name:[ \t]+\S+[^\n]*\n(?:[^\n]*\n){0,6}(?:Node|Namespace):[ \t]+\S")
_LINE = lazy(
    r"(?P<indent> *)(?P<item>- )?(?:(?P<brace>[{\[])|(?P<key>[^\s{}\[\]][^\n:]{0,200}?)\s*:(?:\s+(?P<value>.*))?)$"
)
_EVENT = lazy(r"(?:Warning|Normal)\s+\w+\s+(?P<what>pod|node)/(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s")
# A row of `kubectl get pods`, also of -o wide and --all-namespaces; restarts are "5 (88s ago)" where there were any.
_ROW = lazy(
    r"(?:[a-z0-9][a-z0-9-]{0,62}\s+)?(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s+\d+/\d+\s+(?P<status>[A-Z][\w:/-]{2,60})\s+"
    r"\d+(?: \([^)]{1,40}\))?\s+(?:\d+[a-z])+(?:\s+(?P<ip>[0-9a-f.:]{3,45}|<none>)\s+(?P<node>\S{1,253}))?(?:\s|$)"
)
# A row of `kubectl get events -o wide` has its source: the kubelet with its node.
_KUBELET = lazy(r"\s(?:kubelet, (?P<node>[a-z0-9][a-z0-9.-]{0,252}))\s")
# The scheduler's message (pkg/scheduler/schedule_one.go: "Successfully assigned %v/%v to %v"); older ones lack "ns/".
_ASSIGNED = lazy(
    r"Successfully assigned (?:[a-z0-9][a-z0-9-]{0,62}/)?(?P<pod>[a-z0-9][a-z0-9.-]{0,252}) to "
    r"(?P<node>[a-z0-9][a-z0-9.-]{0,252})"
)
_RFC1123 = "%a, %d %b %Y %H:%M:%S %z"  # describe's times: time.RFC1123Z of Go
# What starts several processes in a pod: there `RANK` is the number of the pod among the job's.
_LAUNCHERS = lazy(
    r"torchrun|nproc|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|mpirun|mpiexec|horovodrun|srun|ray start"
)
_INDEX = ("job-completion-index", "replica-index", "replica-type")
Path = tuple[str, ...]


@dataclass(slots=True)
class Container:
    """A container of a pod, by its specification."""

    name: str | None = None
    memory: str | None = None  # limit, as Kubernetes writes it: "64Gi"
    gpus: int | None = None
    devices: bool = False  # limits name a device of another kind, of which nothing says what it is
    env: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class End:
    """One end of a container: that of its last state, or of the one before it."""

    container: str | None
    first: int  # lines, 1-based
    last: int
    reason: str | None = None
    code: str | None = None
    finished: str | None = None  # as printed


@dataclass(slots=True)
class Pod:
    """A pod as one text tells of it."""

    first: int  # line
    name: str | None = None
    node: str | None = None
    launched: bool = False  # its text names what starts several processes
    failed: bool = False  # its phase
    succeeded: bool = False  # its phase: every container ended with 0, and none will be started again
    labels: dict[str, str] = field(default_factory=dict)
    containers: dict[Path, Container] = field(default_factory=dict)
    ends: list[End] = field(default_factory=list)

    def container(self, name: str | None) -> Container | None:
        return next((c for c in self.containers.values() if c.name == name), None)


def may_tell(head: bytes, observations: Sequence[Observation]) -> bool:
    """Whether `refine` could add anything: a head that tells of pods, or a row among the signs."""
    if not observations:
        return False
    return _tells(head) or any(is_row(o.evidence[0].text) for o in observations)


def _tells(head: bytes) -> bool:
    return any(mark in head for mark in _MARKS) or (
        (b"\nNode:" in head or b"\nContainers:" in head) and _DESCRIBED.search(head) is not None
    )


def refine(source: Source, head: bytes, observations: Sequence[Observation]) -> Sequence[Observation]:
    """The observations of a log, with pod, node, time and limits where it is Kubernetes' account of pods.

    head: the first bytes of the file. Raises OSError where it cannot be read again.
    """
    observations = [_of_row(_of_event(o)) for o in observations]
    unplaced = any("pod" in o.captures and _EVENT.search(o.evidence[0].text[:600]) for o in observations)
    if not unplaced and not _tells(head):
        return observations
    text = beginning(source.file, MAX_BYTES).decode("utf-8", "replace")
    if unplaced:
        nodes = assigned(text)
        observations = [_placed(o, nodes) for o in observations]
    if not _tells(head):
        return observations
    pods = read(text)
    return [_refined(o, pods) for o in observations]


def listed(text: str) -> dict[str, set[str]]:
    """Pod -> the nodes that it is said to be on, of the rows of events and of pods in a text."""
    found: dict[str, set[str]] = {}
    for m in _ASSIGNED.finditer(text):
        found.setdefault(m["pod"], set()).add(m["node"])
    for line in text.split("\n"):
        if (event := _EVENT.search(line[:600])) is not None and event["what"] == "pod":
            found.setdefault(event["name"], set())
        elif (row := _ROW.match(line[:600])) is not None:
            found.setdefault(row["name"], set()).update(() if row["node"] in (None, "<none>") else (row["node"],))
    return found


def assigned(text: str) -> dict[str, str]:
    """Pod -> the node that it is on, by the rows of a text; none for one that was on two."""
    return {pod: nodes.pop() for pod, nodes in listed(text).items() if len(nodes) == 1}


def is_row(text: str) -> bool:
    """Whether a line is a row of `kubectl get events` or `get pods`: it is of a namespace, and not of one pod."""
    event = ("pod/" in text or "node/" in text) and _EVENT.search(text[:600]) is not None
    return event or _ROW.match(text[:600]) is not None


def node_of_event(text: str) -> str | None:
    """The node that a row of `kubectl get events` is about; None for rows about anything else."""
    m = _EVENT.search(text[:600])
    return m["name"] if m is not None and m["what"] == "node" else None


def _placed(o: Observation, nodes: Mapping[str, str]) -> Observation:
    """A row of an event of a pod, with the node that other rows say it is on."""
    pod = o.captures.get("pod", "")
    node = nodes.get(pod)
    if node is None or not _EVENT.search(o.evidence[0].text[:600]):
        return o
    note = f"pod {pod} on {node}" if o.note == f"pod {pod}" else o.note
    return replace(o, identity=replace(o.identity, node=node), note=note)


def read(text: str) -> list[Pod]:
    """The pods of a text, in its order. Never raises for what it holds."""
    compact = [(n, line) for n, line in enumerate(text.split("\n"), 1) if _is_compact(line)]
    pods = [pod for n, line in compact for pod in _compact(line, n)] if compact else _pods(values(text))
    if _LAUNCHERS.search(text) is not None:
        for pod in pods:
            pod.launched = True
    return pods


def _is_compact(line: str) -> bool:
    """Whether a line is a whole object that holds a pod, as the API and `jq -c` give it."""
    whole = len(line) <= COMPACT_BYTES and line.startswith("{") and line.rstrip().endswith("}")
    return whole and ('"kind":"Pod"' in line or '"kind": "Pod"' in line)


def _compact(line: str, number: int) -> list[Pod]:
    """The pod of one line of JSON; of several the only one that failed, and none where no sign in it is one pod's."""
    try:
        pods = _pods(walked(json.loads(line), number, ()))
    except (ValueError, RecursionError):
        return []
    for pod in pods:
        pod.ends.sort(key=lambda end: end.reason != "OOMKilled")  # what a sign in the line is likely of
    failed = [p for p in pods if p.failed or any(end.code not in (None, "0") for end in p.ends)]
    return pods if len(pods) == 1 else [replace(failed[0], first=number)] if len(failed) == 1 else []


def walked(value: object, line: int, path: Path) -> Iterator[tuple[int, Path, str]]:
    """`values` of parsed JSON, all of it on one line."""
    if len(path) >= DEPTH:
        return
    # What an object is comes first, as in what kubectl prints.
    items = sorted(value.items(), key=lambda item: item[0] != "kind") if isinstance(value, dict) else ()
    for key, inner in items:
        own = (*path, str(key).lower())
        plain = inner is None or isinstance(inner, (dict, list))
        yield line, own, "" if plain else str(inner)[:2000]
        yield from walked(inner, line, own)
    for n, inner in enumerate(value if isinstance(value, list) else ()):
        yield from walked(inner, line, (*path, f"[{n}]"))


def _pods(values: Iterable[tuple[int, Path, str]]) -> list[Pod]:
    """The pods of `values`."""
    pods: list[Pod] = []
    statuses: dict[Path, tuple[dict[str, End], list[str]]] = {}
    env_name: str | None = None
    for line, path, value in values:
        plain = tuple(key for key in path if not key.startswith("[")) or ("",)
        key = plain[-1]
        # An event speaks of a pod as its `involvedObject`: parsers.kube_events.
        if (plain == ("name",) and value) or (key == "kind" and value == "Pod" and "involvedobject" not in plain):
            pods.append(Pod(line))
            pods[-1].name = value if plain == ("name",) else None
            statuses = {}
        if not pods:
            continue
        pod = pods[-1]
        if plain[-2:] == ("metadata", "name"):
            pod.name = value
        elif plain == ("node",) or plain[-2:] == ("spec", "nodename"):
            pod.node = None if value in ("", "<none>") else value.partition("/")[0]
        elif plain == ("status",) or plain[-2:] == ("status", "phase"):
            pod.succeeded, pod.failed = value == "Succeeded", value == "Failed"
        elif plain[0] in ("labels", "annotations") or plain[-2:-1] in (("labels",), ("annotations",)):
            _label(pod, key, value)
        elif "containers" in plain:
            own = path[: path.index("containers") + 2]
            found = pod.containers.setdefault(own, Container())
            if not own[-1].startswith("["):  # describe: the name is the key above
                found.name = own[-1]
            inner = tuple(k for k in path[len(own) :] if not k.startswith("["))
            if inner == ("name",):
                found.name = value
            elif inner[-2:] == ("limits", "memory"):
                found.memory = value
            elif inner[-2:] == ("limits", "nvidia.com/gpu") and value.isdecimal() and len(value) < 6:
                found.gpus = int(value)
            elif inner[-2:-1] == ("limits",) and "/" in inner[-1]:
                found.devices = True
            elif inner == ("env", "name"):
                env_name = value
            elif inner == ("env", "value") and env_name is not None:
                found.env[env_name] = value
            elif inner[:1] == ("environment",) and len(inner) == 2:
                found.env[path[-1].upper()] = value
            elif inner and inner[0] in ("state", "last state") and not own[-1].startswith("["):
                _state(pod, found.name, inner, line, value)
        elif "containerstatuses" in plain:
            own = path[: path.index("containerstatuses") + 2]
            inner = tuple(k for k in path[len(own) :] if not k.startswith("["))
            ends, names = statuses.setdefault(own, ({}, []))
            if inner == ("name",):
                names.append(value)
                for end in ends.values():
                    end.container = value
            elif len(inner) == 3 and inner[1] == "terminated":
                if inner[0] not in ends:
                    ends[inner[0]] = End(names[0] if names else None, line, line)
                    pod.ends.append(ends[inner[0]])
                _ended(ends[inner[0]], inner[2], line, value)
    return pods


def values(text: str) -> Iterator[tuple[int, Path, str]]:
    """(line, keys from the outermost on, value) of what stands as `key: value`; items of lists are keys "[n]"."""
    stack: list[tuple[int, str]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        m = _LINE.match(raw.rstrip("\r").rstrip(" ,")[:2000])
        if m is None:
            if stack and stack[0] in ((0, "labels"), (0, "annotations")) and raw.startswith("  "):
                yield number, (stack[0][1], ""), raw.strip()[:2000]
            continue
        indent = len(m["indent"])
        if m["item"] or m["brace"] == "{":
            at = indent + 1 if m["item"] else indent
            while stack and stack[-1][0] >= at:
                stack.pop()
            stack.append((at, f"[{number}]"))
        if m["key"] is None:
            continue
        indent += 2 if m["item"] else 0
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key = m["key"].strip("\"'").lower()
        value = (m["value"] or "").strip().strip("\"'")
        if len(stack) < DEPTH:
            stack.append((indent, key))
            yield number, tuple(k for _, k in stack), "" if value in ("{", "[", "{}", "[]") else value


def _label(pod: Pod, key: str, value: str) -> None:
    """A label or annotation: `key: value`, or `key=value` behind the heading, as describe prints the first one."""
    name, equals, own = value.partition("=") if "=" in value else (key, "=", value)
    known = next((index for index in _INDEX if name.rpartition("/")[2] == index), None)
    if known is not None and equals:
        pod.labels[known] = own.lower()


def _state(pod: Pod, container: str | None, inner: Path, line: int, value: str) -> None:
    if len(inner) == 1 and value == "Terminated":
        pod.ends.append(End(container, line, line))
    elif len(inner) == 2 and pod.ends and pod.ends[-1].container == container:
        _ended(pod.ends[-1], inner[1].replace(" ", ""), line, value)


def _ended(end: End, key: str, line: int, value: str) -> None:
    end.last = line
    if key == "reason":
        end.reason = value
    elif key == "exitcode":
        end.code = value
    elif key in ("finished", "finishedat"):
        end.finished = value


def _time(text: str | None) -> tuple[float | None, bool]:
    if text is None:
        return None, False
    try:
        return datetime.strptime(text, _RFC1123).timestamp(), True
    except (ValueError, OverflowError):
        return parse_time(text, 0.0)


def _rank(pod: Pod, container: Container | None) -> int | None:
    """The rank of a pod's one process: only where it has one GPU, and something counts the pods of the job.

    Of a pod without devices its own setting alone tells it, where nothing starts several processes.
    """
    if container is None:
        return None
    if container.gpus is None and not container.devices and not pod.launched:
        own, size = (container.env.get(name, "") for name in ("RANK", "WORLD_SIZE"))
        counted = own.isdecimal() and size.isdecimal() and len(own) < 7 and len(size) < 7
        return int(own) if counted and int(own) < int(size) else None
    if container.gpus != 1:
        return None
    told = container.env.get("RANK") or pod.labels.get("job-completion-index")
    if told is None and "replica-index" in pod.labels and "-master-" in container.env.get("MASTER_ADDR", ""):
        index = pod.labels["replica-index"]  # PyTorchJob: the master is rank 0, and workers are counted after it
        if pod.labels.get("replica-type") == "worker" and index.isdecimal() and len(index) < 7:
            told = str(int(index) + 1)
    return int(told) if told is not None and told.isdecimal() and len(told) < 7 else None


def _refined(o: Observation, pods: Sequence[Pod]) -> Observation:
    line = o.evidence[0].line
    pod = next((p for p in reversed(pods) if line is not None and p.first <= line), None)
    if pod is None or line is None or pod.name is None:
        return o
    end = next((e for e in pod.ends if e.first <= line <= e.last), None)
    container = pod.container(end.container) if end is not None else None
    rank = _rank(pod, container)
    identity = replace(o.identity, node=pod.node or o.identity.node, rank=rank if rank is not None else o.identity.rank)
    captures = {**o.captures, "pod": pod.name}
    if pod.succeeded:
        captures[POD_SUCCEEDED] = "yes"
    note = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
    if end is None:
        return replace(o, identity=identity, captures=captures, note=o.note or note)
    time, zone_known = _time(end.finished)
    parts = [f"container {end.container}"] if end.container else []
    parts += [end.reason] if end.reason else []
    parts += [f"exit code {end.code}"] if end.code else []
    parts += [f"finished {_spoken(time)}"] if time is not None and zone_known else []
    if container is not None and container.memory is not None:
        parts.append(f"memory limit {container.memory}")
        captures["limit"] = container.memory
    if end.code == "137" and end.reason == "Error":  # the container's own limit would have been OOMKilled
        parts.append("by what Kubernetes saw no kill at the container's memory limit")
    note = f"{note}: {', '.join(parts)}"
    o = replace(o, culprits=(rank,)) if rank is not None and o.culprits is None else o
    if time is None:
        return replace(o, identity=identity, captures=captures, note=note)
    return replace(o, identity=identity, captures=captures, note=note, time=time, zone_known=zone_known, timed=True)


def _spoken(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _of_event(o: Observation) -> Observation:
    """A row of `kubectl get events`, with the pod or the node that it is about."""
    text = o.evidence[0].text
    m = _EVENT.search(text[:600]) if "Warning" in text or "Normal" in text else None
    if m is None:
        return o
    if m["what"] == "node":
        return replace(o, identity=replace(o.identity, node=m["name"]))
    kubelet = _KUBELET.search(text, m.end(), 600)
    node = kubelet["node"] if kubelet is not None else o.captures.get("node")
    note = f"pod {m['name']}{f' on {node}' if node else ''}"
    identity = replace(o.identity, node=node or o.identity.node)
    return replace(o, identity=identity, captures={**o.captures, "pod": m["name"]}, note=o.note or note)


def _of_row(o: Observation) -> Observation:
    """A row of `kubectl get pods`, with the pod and, where it is told, the node that it is on."""
    m = _ROW.match(o.evidence[0].text[:600])
    if m is None:
        return o
    node = m["node"] if m["node"] not in (None, "<none>") else None
    note = f"pod {m['name']}{f' on {node}' if node else ''}: {m['status']}"
    identity = replace(o.identity, node=node or o.identity.node)
    return replace(o, identity=identity, captures={**o.captures, "pod": m["name"]}, note=o.note or note)
