"""Which pods a run's logs are of, as far as the logs themselves say: by `kubectl logs --prefix`, variables and names.

Events and lists of pods are of a namespace. Whether a pod that they tell of is the run's is known where a log names its
own pod, or is named after it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from forensics.files import beginning
from forensics.model import Source
from forensics.patterns import lazy

HEAD_BYTES = 64 << 10  # of a log: a prefix is on every line, variables are printed at the start
MAX_LOGS = 64  # that are looked into
# What Kubernetes makes up: no vowels, and none of 0, 1 and 3 (apimachinery/pkg/util/rand).
_MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
_PREFIX = re.compile(rb"^\[pod/([a-z0-9][a-z0-9.-]{0,252})/[^\]\n]+\] ", re.M)
_VARIABLE = re.compile(
    rb"\b(?:(POD_NAME|MY_POD_NAME|K8S_POD_NAME)|HOSTNAME)['\"]?[=:] ?['\"]?([a-z0-9][a-z0-9.-]{0,252})"
)
# A pod on its host's network bears the name of the host in HOSTNAME: only what no host is called is believed.
_REPLICA = re.compile(r"(?:^|[-_])(?:worker|master|launcher|chief|ps|leader|trainer|replica)[-_]\d{1,6}(?:$|[-_])")
_GENERATED = re.compile(rf"-{_MADE_UP}{{5}}$")
_DEPLOYED = lazy(rf"[a-z0-9.-]+-{_MADE_UP}{{6,10}}-{_MADE_UP}{{5}}$")
_OF_TRAINING = lazy(
    r"(?:^|[-_.])(?:workers?|master|launcher|chief|leader|trainer|training|train|pretrain(?:ing)?|finetun(?:e|ing)|sft|"
    r"ft|ddp|fsdp|pytorch|pytorchjob|tfjob|mpijob|jaxjob)(?:$|[-_.\d])"
)


def named_in(logs: Iterable[Source]) -> frozenset[str]:
    """The pods that logs say they are of, in the prefixes of their lines or in the variables that they print."""
    found: set[str] = set()
    for _, log in zip(range(MAX_LOGS), logs, strict=False):
        try:
            head = beginning(log.file, HEAD_BYTES)
        except OSError:
            continue
        found.update(m[1].decode() for m in _PREFIX.finditer(head))
        for m in _VARIABLE.finditer(head):
            name = m[2].decode()
            if m[1] or _REPLICA.search(name) or (_GENERATED.search(name) and not name.startswith("gke-")):
                found.add(name)
    return frozenset(found)


def replicas(names: Iterable[str]) -> frozenset[str]:
    """The names of logs that are names of a job's replicas: `llama-worker-0`, and not `worker-0` alone."""
    return frozenset(name for name in names if (m := _REPLICA.search(name)) is not None and m.start() > 0)


def is_replica(pod: str) -> bool:
    """Whether a pod's name says that it does one part of a job's work."""
    return _OF_TRAINING.search(pod) is not None


def may_be_of(pod: str, names: Iterable[str], *, certain: bool) -> bool:
    """Whether a pod may be of one job with others: their names begin with the same word, or do the same part of it.

    certain: the names are those of pods; else they are of logs, which may leave out what a pod's name begins with.
    """
    first = pod.partition("-")[0]
    return any(first == name.partition("-")[0] for name in names) or (not certain and is_replica(pod))


def likely_the_runs(pods: Collection[str], family: Iterable[str]) -> bool:
    """Whether a list of pods is of one job alone that trains, by the names of its pods.

    family: the job that each of these names is of. What a Deployment made serves, and does not train.
    """
    return len(set(family)) == 1 and all(is_replica(pod) and _DEPLOYED.match(pod) is None for pod in pods)
