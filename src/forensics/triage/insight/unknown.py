"""Failures without a known signature, grouped by exception, place in the user's code, and message template.

What a job belongs to is told from that job alone, so that it has the same name on every machine and in every subset of
jobs. Parts that differ by a few words are then joined under the name of the largest; the names of the others find the
group too.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.triage.aborts import BY_WORDS
from forensics.triage.endings import TROUBLE, passes_on
from forensics.triage.insight import templates
from forensics.triage.insight.model import UnknownGroup
from forensics.triage.model import IN_A_WORKER, VAGUE, JobResult, Unexplained

LONGEST = 300  # characters of a template
FRAMES = 5
LEADERS = 64  # parts that one exception at one place is compared with; further ones stand alone
# Dice's coefficient of the words from which templates are the same message. Where the exception and the function that
# raised it are the same, less has to be: what else a function says in the same words is the same failure to its author.
ALIKE_AT_ONE_PLACE = 0.6
ALIKE_ANYWHERE = 0.8
_SLASH = re.compile(r"[/\\]")
_PLAIN = frozenset({"<module>", "<lambda>", "main", "__init__", "__call__", "forward", "run", "wrapper", "inner"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What failures have in common. frame: "data.py load_shard", the innermost of the user's own."""

    exception: str | None
    frame: str | None
    template: str
    verdict: str = ""  # of jobs that left no exception; their last line alone says less

    @property
    def name(self) -> str:
        """Made from the exception, the function and a digest of all; free of words from the message."""
        said = "\0".join((self.exception or "", self.frame or "", self.template, self.verdict))
        digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:8]
        if self.exception is None:
            return f"{slug(self.verdict) or 'unknown'}-{digest}"
        parts = [slug(self.exception.rpartition(".")[2])[:40], slug(_place(self.frame))[:40], digest]
        return "-".join(filter(None, parts))


def _place(frame: str | None) -> str:
    file, _, function = (frame or "").rpartition(" ")
    return file.rpartition(".")[0] or file if function in _PLAIN else function


def slug(text: str) -> str:
    """Lower-case letters, digits, `_` and `-` of a text; "" where it has none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9_]+", "-", plain.lower()).strip("-_")


def is_unknown(result: JobResult) -> bool:
    """Whether a job failed of something that has no signature, and left something to group it by.

    What got over it did not fail.
    """
    if result.verdict == "recovered":
        return False
    rest = result.unexplained
    vague = result.root is None or result.root in VAGUE or result.root in BY_WORDS or result.root == IN_A_WORKER
    if rest is None or result.error is not None or not vague:
        return False
    told = rest.last_error is not None or (bool(rest.last_lines) and (result.failed or telling(rest) is not None))
    return rest.exception is not None or told


def telling(rest: Unexplained) -> str | None:
    """The most frequent last line of trouble, and of more than a status if one is; None where none is."""
    lines = sorted(filter(TROUBLE.search, rest.last_lines), key=passes_on)
    return lines[0] if lines else None


def said(rest: Unexplained) -> str:
    """The line that stands for a failure, as it was printed: the end of the traceback, else a last line."""
    if rest.exception is not None:
        message = rest.message or ""
        return f"{rest.exception}: {message}" if message.strip() else rest.exception
    line = telling(rest)
    if line is not None and not passes_on(line):
        return line
    return rest.last_error or line or (rest.last_lines[0] if rest.last_lines else "")


def kind_of(result: JobResult) -> Kind:
    """The kind of a job for which `is_unknown` holds."""
    rest = result.unexplained or Unexplained()
    if rest.exception is None:
        return Kind(None, None, templates.template(said(rest))[:LONGEST], result.verdict or "unknown")
    frames = _frames(rest)
    return Kind(
        templates.clean(rest.exception),
        frames[0] if frames else None,
        templates.template(rest.message or "")[:LONGEST],
    )


def _frames(rest: Unexplained) -> tuple[str, ...]:
    """Innermost first; without folders and line numbers, which differ between machines and versions of the code."""
    named = [templates.clean(f"{_SLASH.split(file)[-1]} {function}") for file, _, function in rest.frames]
    return tuple(reversed(named))[:FRAMES]


def group(results: Iterable[JobResult]) -> tuple[UnknownGroup, ...]:
    """The groups of unknown failures, most jobs first; a job is in one group at most, and may be alone in it."""
    members: dict[Kind, list[JobResult]] = defaultdict(list)
    for result in results:
        if is_unknown(result):
            members[kind_of(result)].append(result)
    joined = _joined({kind: len(rows) for kind, rows in members.items()})
    groups = [_group(leader, kinds, members) for leader, kinds in joined.items()]
    return tuple(sorted(groups, key=lambda g: (-len(g.jobs), g.name)))


def _joined(sizes: Mapping[Kind, int]) -> dict[Kind, list[Kind]]:
    """Leader -> the kinds that are joined under it, itself first. The order of the input makes no difference."""
    buckets: dict[tuple[str | None, str | None, str], list[Kind]] = defaultdict(list)
    for kind in sizes:
        buckets[kind.exception, kind.frame, kind.verdict].append(kind)
    joined: dict[Kind, list[Kind]] = {}
    for bucket in buckets.values():
        leaders: list[tuple[Kind, frozenset[str]]] = []
        for kind in sorted(bucket, key=lambda k: (-sizes[k], k.name)):
            spoken = templates.words(kind.template)
            least = ALIKE_AT_ONE_PLACE if kind.frame is not None else ALIKE_ANYWHERE
            best, like = 0.0, None
            for leader, theirs in leaders[:LEADERS]:
                near = templates.similarity(spoken, theirs)
                if near > best and near >= least and _share_words(spoken, theirs):
                    best, like = near, leader
            if like is not None:
                joined[like].append(kind)
            else:
                leaders.append((kind, spoken))
                joined[kind] = [kind]
    return joined


def _share_words(a: frozenset[str], b: frozenset[str]) -> bool:
    return sum(not word.startswith("<") for word in a & b) >= 2


def _group(leader: Kind, kinds: Sequence[Kind], members: Mapping[Kind, list[JobResult]]) -> UnknownGroup:
    from forensics.triage.layouts import natural

    rows = sorted((r for kind in kinds for r in members[kind]), key=lambda r: natural(r.path))
    shown = min(members[leader], key=lambda r: (-(r.confidence or 0.0), r.time or r.ended or "9", natural(r.path)))
    rest = shown.unexplained or Unexplained()
    hours = [r.gpu_hours for r in rows if r.gpu_hours is not None]
    times = [t for r in rows if (t := r.time or r.ended) is not None]
    return UnknownGroup(
        name=leader.name,
        aliases=tuple(kind.name for kind in kinds),
        title=title_of(leader),
        exception=leader.exception,
        template=leader.template,
        frames=_frames(rest),
        jobs=tuple(r.path for r in rows),
        representative=shown.path,
        line=templates.clean(said(rest)),
        gpu_hours=round(sum(hours), 3),
        gpu_hours_known=len(hours),
        first=min(times, default=None),
        last=max(times, default=None),
    )


def title_of(kind: Kind) -> str:
    """One line: "KeyError in load_shard (data.py): <text>"."""
    if kind.exception is None:
        return kind.template or f"{kind.verdict}, without a word"
    file, _, function = (kind.frame or "").rpartition(" ")
    where = f" in {function} ({file})" if function else ""
    return f"{kind.exception}{where}{': ' if kind.template else ''}{kind.template}"


def retold(group: UnknownGroup, text: Callable[[str], str]) -> UnknownGroup:
    """The group with its line redacted by `text`, and its template made of what is left.

    A template by itself no longer looks like the host or address that it was made from. Paths are left as they are.
    """
    line = templates.clean(text(group.line))
    frames = tuple(map(text, group.frames))
    message = line.partition(": ")[2] if group.exception is not None else line
    template = templates.template(message)[:LONGEST]
    exception = text(group.exception) if group.exception is not None else None
    kind = Kind(exception, frames[0] if frames else None, template)
    title = title_of(kind) if exception is not None or template else text(group.title)
    return replace(group, line=line, frames=frames, exception=exception, template=template, title=title)


def members_of(groups: Iterable[UnknownGroup]) -> dict[str, str]:
    """Path of each job -> the name of its group."""
    return {path: found.name for found in groups for path in found.jobs}


def named(groups: Iterable[UnknownGroup], globs: Sequence[str]) -> frozenset[str]:
    """Paths of the jobs of groups of which a name meets one of the globs."""
    return frozenset(
        path
        for group in groups
        if any(fnmatch.fnmatchcase(alias, glob) for alias in group.aliases for glob in globs)
        for path in group.jobs
    )


def find(groups: Sequence[UnknownGroup], name: str) -> UnknownGroup | None:
    """The group of that name, alias, or beginning of a name that only one has."""
    exact = [g for g in groups if name in g.aliases]
    begun = exact or [g for g in groups if any(alias.startswith(name) for alias in g.aliases)]
    return begun[0] if len(begun) == 1 else None
