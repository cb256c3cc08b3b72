"""Stand-ins: `host-1`, `user-2`. The same thing gets the same one, and no two things share one."""

from __future__ import annotations

import re

KINDS = (
    "secret", "private", "email", "phone", "user", "account", "repo", "project", "run", "bucket", "arn",
    "host", "nodes", "pod", "namespace", "job", "ip", "mac", "gpu", "serial", "guid", "uuid", "resource", "channel",
)  # fmt: skip
# Of a pod that does one part of a job: `job-1-worker-0`. The story is told in its role and number.
ROLES = "worker|master|launcher|chief|ps|evaluator"
_REPLICA = re.compile(rf"(?P<job>[a-z0-9][a-z0-9-]*)-(?P<part>(?:{ROLES})-\d{{1,5}})", re.ASCII)
_OF_REPLICA = re.compile(rf"job-\d{{1,9}}-(?:{ROLES})-\d{{1,5}}", re.ASCII)
_LOOKS_LIKE_ONE = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(KINDS)})-\d{{1,9}}(?![A-Za-z0-9])", re.ASCII)


def is_stand_in(text: str) -> bool:
    """Whether a text is shaped like a stand-in, so that replacing it would only rename it."""
    return _LOOKS_LIKE_ONE.fullmatch(text) is not None or _OF_REPLICA.fullmatch(text) is not None


class StandIns:
    """What stands for what in one report; numbers start at 1 for each kind, in the order in which things are met."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._met: list[tuple[str, str, str]] = []
        self._counts: dict[str, int] = {}
        self._taken: set[str] = set()

    def reserve(self, text: str) -> None:
        """Real names in `text` that look like stand-ins (a folder `run-1`) are given to nothing else."""
        self._taken.update(_LOOKS_LIKE_ONE.findall(text.lower()))

    def __len__(self) -> int:
        return len(self._met)

    def items(self, since: int = 0) -> list[tuple[str, str, str]]:
        """(kind, value, stand-in) of all that is known but the first `since`, in the order in which they were met."""
        return self._met[since:]

    def of_host(self, name: str) -> str:
        """The stand-in of a host: that of a job with its role and number where it is called after these."""
        m = _REPLICA.fullmatch(name)
        return f"{self.of('job', m['job'])}-{m['part']}" if m is not None else self.of("host", name)

    def of(self, kind: str, value: str) -> str:
        """The stand-in of `value`; what is one already stays."""
        if is_stand_in(value):
            return value
        known = self._names.get((kind, value))
        if known is not None:
            return known
        while True:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            name = f"{kind}-{self._counts[kind]}"
            if name not in self._taken:
                break
        self._names[kind, value] = name
        self._met.append((kind, value, name))
        return name
