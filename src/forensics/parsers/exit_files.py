"""Files in which a wrapper writes down with which status a program ended: `exit_code`, `job.rc`, a number alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from forensics.files import beginning
from forensics.model import Evidence, Kind, Observation, Source
from forensics.patterns import lazy

SIGNATURE = "process-failed"
WEIGHT = 0.6  # as what else passes on an exit status
LONGEST = 16  # bytes of such a file
_NAME = lazy(
    r"(?:^|[/._-])(?:(?:exit|return)[-_.]?(?:code|status|value)|exitcode|returncode|retcode|rc)(?:\.txt)?$",
    re.I,
)
_STATUS = lazy(r"\s*(-?\d{1,3})\s*$")


def told(sources: Iterable[Source]) -> list[Observation]:
    """One observation for each such file with a status other than 0. What cannot be read says nothing."""
    named = (s for s in sources if s.kind is Kind.LOG and s.size <= LONGEST and _NAME.search(s.path))
    return [_observation(source, status) for source in named if (status := _status(source))]


def _observation(source: Source, status: int) -> Observation:
    return Observation(
        signature=SIGNATURE,
        weight=WEIGHT,
        evidence=(Evidence(source.path, 1, 0, str(status)),),
        identity=source.identity,
        culprits=(),
        captures={"exitcode": str(status)},
        note=f"{source.path.rpartition('/')[2]} says that the program ended with status {status}",
    )


def _status(source: Source) -> int | None:
    try:
        m = _STATUS.match(beginning(source.file, LONGEST).decode("ascii", "replace"))
    except OSError:
        return None
    return int(m[1]) if m is not None else None
