"""A shell's `Killed` before a script starts its run: nobody of the run died.

A bare `Killed` names no process. Right below the line in which a script says that it ends a process left from before,
or below that command as `set -x` prints it, and above all steps of its file, it is that process. Where a shell names
the command that was killed, and the file goes on to steps, a tool that only prepares (a package manager, say) is none
of the run's either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from forensics.engine.above import lines_above
from forensics.engine.steps import StepClock
from forensics.engine.teardowns import KILLED
from forensics.model import BYSTANDER, Kind, Observation, Source
from forensics.patterns import lazy

WHOSE = "a process that was left from before"
OF_PREPARATION = "a command that came before the run's start"
BEFORE = 2048  # bytes above the line that are read
# Lines above it: the announcement, and what a command that lists the processes prints.
LINES = 2
_BARE = lazy(r"(?:^|[ :])Killed$")
# What installs, fetches, unpacks or builds; trainings are started by interpreters, launchers and programs of one's own.
_PREPARES = lazy(
    r"\bline \d+: +\d+ Killed +(?:sudo |nohup |\S*/)*(?:apt(?:-get)?|dpkg|yum|dnf|apk|pip3?|npm|curl|wget|git|rsync|scp"
    r"|(?:conda|mamba) (?:install|create|env)|uv (?:pip|sync|add)|cp|mv|rm|tar|unzip|gzip|pigz|zstd|find|du|md5sum"
    r"|sha256sum|cmake|ninja|gcc|g\+\+|nvcc|aws|gsutil|gcloud|azcopy|huggingface-cli)(?:\s|$)"
)
_CLEARS = lazy(
    r"(?i)\b(?:kill|terminat|clean|clear|remov|stopp?)(?:s|e|es|ed|ing)?\b(?: up)?[^\n]{0,40}"
    r"\b(?:stale|old|left-?over|left over|lingering|orphan(?:ed)?|zombie|dangling|previous(?:ly)?|earlier|existing)\b"
    r"[^\n]{0,40}\b(?:process(?:es)?|pids?|jobs?|runs?|workers?|trainers?|servers?|python3?)\b"
    r"|^\++ (?:sudo )?(?:pkill|killall|fuser -k|kill -(?:9|KILL|s KILL))\b"
)


def told(found: Sequence[Observation], sources: Iterable[Source], steps: StepClock) -> list[Observation]:
    """The observations, with the kills of such processes as what befell none of the run's.

    They are left out where one of the run's own processes was killed as well.
    """
    bare = [n for n, o in enumerate(found) if _may_be(o, steps)]
    logs = {s.path: s for s in sources if s.kind is Kind.LOG and s.gap is None} if bare else {}
    cleared = {n for n in bare if _announced(logs.get(found[n].evidence[0].file), found[n].evidence[0].offset)}
    whose = dict.fromkeys(cleared, WHOSE) | {n: OF_PREPARATION for n, o in enumerate(found) if _prepares(o, steps)}
    if not whose:
        return list(found)
    if any(o.signature == KILLED for n, o in enumerate(found) if n not in whose):
        return [o for n, o in enumerate(found) if n not in whose]
    return [replace(o, captures={**o.captures, BYSTANDER: whose[n]}) if n in whose else o for n, o in enumerate(found)]


def _may_be(o: Observation, steps: StepClock) -> bool:
    bare = o.signature == KILLED and o.rule is not None and _BARE.search(o.evidence[0].text) is not None
    return bare and not steps.began_before(o)


def _prepares(o: Observation, steps: StepClock) -> bool:
    """Whether a shell tells of a killed command that only prepares a run, whose steps begin below it."""
    named = o.signature == KILLED and _PREPARES.search(o.evidence[0].text) is not None
    return named and not steps.began_before(o) and steps.first_in(o.evidence[0].file) is not None


def _announced(source: Source | None, offset: int | None) -> bool:
    """Whether one of the lines right above an offset tells that a process from before is ended; False if unreadable."""
    if source is None or offset is None:
        return False
    return any(_CLEARS.search(line) for line in lines_above(source, offset, BEFORE)[-LINES:])
