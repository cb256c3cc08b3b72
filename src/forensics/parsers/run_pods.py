"""Which pods a run's logs are of, as far as the logs themselves say: by `kubectl logs --prefix`, variables and names.

Events and lists of pods are of a namespace. Whether a pod that they tell of is the run's is known where a log names its
own pod, or is named after it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from forensics.files import beginning
from forensics.model import Source
from forensics.parsers.pod_names import MADE_UP, OF_JOBSET, ROLES
from forensics.patterns import lazy

HEAD_BYTES = 64 << 10  # of a log: a prefix is on every line, variables are printed at the start
MAX_LOGS = 64  # that are looked into
_PREFIX = lazy(rb"^\[pod/([a-z0-9][a-z0-9.-]{0,252})/[^\]\n]+\] ", re.M)
_VARIABLE = lazy(rb"\b(?:(POD_NAME|MY_POD_NAME|K8S_POD_NAME)|HOSTNAME)['\"]?[=:] ?['\"]?([a-z0-9][a-z0-9.-]{0,252})")
# What does one part of a job's work, by the job's name, its role and its number.
_REPLICA = lazy(rf"(?P<job>[a-z0-9][a-z0-9.-]*)[-_](?:{ROLES})[-_]\d{{1,6}}(?:$|[-_])")
# What people put before such a role in the name of a file, of whatever job it is.
_ANY_JOB = lazy(
    r"(?:my|the)?-?(?:train(?:ing|er)?|run|job|exp(?:eriment)?|test|eval|main|dist(?:ributed)?|ddp|fsdp|torch(?:run)?"
    r"|pytorch|multi-?node|node|host|gpu|rank|logs?|out(?:put)?|std(?:out|err)|stderr|slurm|ray|mpi|k8s|pod|worker)"
    r"[-_.\d]*$"
)
_JOBSETS = lazy(rf"{OF_JOBSET}$")
_GENERATED = lazy(rf"-{MADE_UP}{{5}}$")
_DEPLOYED = lazy(rf"[a-z0-9.-]+-{MADE_UP}{{6,10}}-{MADE_UP}{{5}}$")
_OF_TRAINING = lazy(
    rf"(?:^|[-_.])(?:{ROLES}|workers|training|train|pretrain(?:ing)?|finetun(?:e|ing)|sft|"
    r"ft|ddp|fsdp|pytorch|pytorchjob|tfjob|mpijob|jaxjob)(?:$|[-_.\d])"
)


def named_in(log: Source) -> frozenset[str]:
    """The pods that a log says it is of, in the prefixes of its lines or in the variables that it prints."""
    found: set[str] = set()
    try:
        head = beginning(log.file, HEAD_BYTES)
    except OSError:
        return frozenset()
    found.update(m[1].decode() for m in _PREFIX.finditer(head))
    for m in _VARIABLE.finditer(head):
        name = m[2].decode()
        # A pod on its host's network bears the name of the host in HOSTNAME: only what no host is called is believed.
        if m[1] or _REPLICA.match(name) or (_GENERATED.search(name) and not name.startswith("gke-")):
            found.add(name)
    return frozenset(found)


def replicas(names: Iterable[str]) -> frozenset[str]:
    """Names of logs that are those of a job's replicas: `llama-worker-0`, and not `worker-0` or `train-worker-0`."""
    found = ((name, _REPLICA.match(name)) for name in names)
    return frozenset(name for name, m in found if m is not None and not _ANY_JOB.match(m["job"]))


def is_replica(pod: str) -> bool:
    """Whether a pod's name says that it does one part of a job's work."""
    return _OF_TRAINING.search(pod) is not None or _JOBSETS.match(pod) is not None


def may_be_of(pod: str, names: Iterable[str]) -> bool:
    """Whether a pod may be of one job with other pods: their names begin with the same word."""
    first = pod.partition("-")[0]
    return any(first == name.partition("-")[0] for name in names)


def likely_the_runs(pods: Collection[str], family: Iterable[str]) -> bool:
    """Whether a list of pods is of one job alone that trains, by the names of its pods.

    family: the job that each of these names is of. What a Deployment made serves, and does not train.
    """
    return len(set(family)) == 1 and all(is_replica(pod) and _DEPLOYED.match(pod) is None for pod in pods)
