"""Stand-ins: `host-1`, `user-2`. The same thing gets the same one, and no two things share one."""

from __future__ import annotations

import re

KINDS = (
    "secret", "private", "email", "phone", "user", "account", "repo", "project", "run", "bucket", "arn",
    "host", "nodes", "pod", "namespace", "job", "ip", "mac", "gpu", "serial", "guid", "uuid", "resource", "channel",
)  # fmt: skip
_LOOKS_LIKE_ONE = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(KINDS)})-\d{{1,9}}(?![A-Za-z0-9])", re.ASCII)


def is_stand_in(text: str) -> bool:
    """Whether a text is shaped like a stand-in, so that replacing it would only rename it."""
    return _LOOKS_LIKE_ONE.fullmatch(text) is not None


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
