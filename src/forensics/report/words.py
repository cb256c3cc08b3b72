"""What all reports say in the same words: places, ranks, how sure, what a cause explains, what was not read.

The strings are raw: they can hold text from a log, and each report makes them inert in its own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.model import WAITED_FOR, Coverage, Diagnosis, Evidence, Fact, Finding, Role, RunSummary, Status, Verdict
from forensics.rank_ranges import SHORT, rank_ranges
from forensics.step_units import BATCHES, SAMPLES, of_batches, of_samples

_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)(Z?)\Z", re.ASCII)
# Lines that say that something follows, and not what.
_BARE = frozenset({"Traceback (most recent call last):"})
# How a step is said where it is not simply the step at which it happened.
_TIME_IS = {"last_seen": ", the last one printed before it", "reported": ", when the launcher saw it end"}
_STEP_IS = {"first_logged": "first logged at", "last_seen": "after"}


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one name, taken together. `ranks` is None where none of them names a rank."""

    name: str
    title: str
    ranks: tuple[int, ...] | None
    count: int  # lines
    evidence: tuple[Evidence, ...]  # the first place of each finding


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size(count: int) -> str:
    """Bytes in decimal units, as `ls --si` and disks count: `1.2 GB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def ranks_phrase(ranks: Sequence[int] | None, what: str = "rank") -> str:
    """`rank 2`, `ranks 0-3, 7`; empty where none is named."""
    if not ranks:
        return ""
    return f"{what}{'' if len(set(ranks)) == 1 else 's'} {rank_ranges(ranks, limit=SHORT)}"


def who(finding: Finding) -> str:
    """The culprit in the best numbering that is proven: rank, else local rank, else device; empty if none is."""
    return (
        ranks_phrase(finding.ranks)
        or ranks_phrase(finding.local_ranks, "local rank")
        or ranks_phrase(finding.devices, "GPU")
    )


def percent(confidence: float) -> str:
    """`97 % sure`; never 100 unless it is exactly that, and empty where it is no number."""
    if not math.isfinite(confidence):
        return ""
    hundredths = round(100 * confidence)
    if confidence < 1:
        hundredths = min(hundredths, 99)
    return f"{max(0, min(100, hundredths))} % sure"


def step_phrase(finding: Finding) -> str:
    """`at step 412`, `after iteration 90`, `first logged at step 7`; empty where unknown."""
    if finding.step is None:
        return ""
    if (in_words := {SAMPLES: of_samples, BATCHES: of_batches}.get(finding.step_unit or "")) is not None:
        return f"{_STEP_IS.get(finding.step_is or '', 'at')} {in_words(finding.step, finding.epoch)}"
    unit = "step" if finding.step_unit in (None, "", "global step") else finding.step_unit
    return f"{_STEP_IS.get(finding.step_is or '', 'at')} {unit} {finding.step}"


def time_phrase(time: str) -> str:
    """An ISO time as people read it; says where the zone is not known."""
    if not (match := _ISO_TIME.match(time)):
        return time
    return f"{match[1]} {match[2]} {'UTC' if match[3] else '(zone unknown)'}"


def place(evidence: Evidence) -> str:
    """`file:line`, or the byte offset for a binary source."""
    if evidence.line is not None:
        return f"{evidence.file}:{evidence.line}"
    return evidence.file if evidence.offset is None else f"{evidence.file} (byte {evidence.offset})"


def telling(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The places worth showing first: without bare headers of tracebacks, and each text once where it says it all."""
    kept = [e for e in evidence if e.text.strip() not in _BARE]
    return kept or list(evidence)


def located(finding: Finding) -> str:
    """Title and place in one phrase: `CUDA out of memory on rank 2 (node-7) at step 412`."""
    culprit, node = who(finding), (finding.node or "")[:80]
    text = finding.title.rstrip(" .")
    if culprit:
        how = ", waiting for" if finding.name in WAITED_FOR else " on"
        text += f"{how} {culprit}" + (f" ({node})" if node else "")
    elif node:
        text += f" on {node}"
    if step := step_phrase(finding):
        text += f" {step}" if not step.startswith("first") else f", {step}"
    return text


def headline(diagnosis: Diagnosis) -> tuple[str, str, str]:
    """(verdict in capitals, one sentence, how sure). Of a run without a root the sentence is its summary."""
    verdict = diagnosis.verdict.value.upper()
    roots = diagnosis.of_role(Role.ROOT)
    if not roots:
        return verdict, diagnosis.summary.strip() or "no reason was given", ""
    top = roots[0]
    text = located(top)
    if diagnosis.verdict is Verdict.RECOVERED:
        text = f"after: {text}" + (f", in attempt {top.attempt}" if top.attempt is not None else "")
    return verdict, text, percent(top.confidence)


def after_the_first(roots: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """(the first root again in later attempts, causes independent of it) of the roots of a diagnosis."""
    rest = roots[1:]
    again = [root for root in rest if (root.name, root.title) == (roots[0].name, roots[0].title)]
    return again, [root for root in rest if root not in again]


def in_attempt(root: Finding, first: Finding) -> str:
    """Where a root is, with its attempt where that is not the first root's."""
    elsewhere = root.attempt is not None and root.attempt != first.attempt
    return located(root) + (f", in attempt {root.attempt}" if elsewhere else "")


def says_more(summary: str, than: str) -> bool:
    """Whether a summary has a word that the headline lacks, so that it is worth a line of its own."""
    fillers = {"the", "a", "an", "on", "of", "at", "in", "is", "was", "with", "run", "failed", "by", "to", "and"}
    return bool(set(re.findall(r"\w+", summary.lower())) - set(re.findall(r"\w+", than.lower())) - fillers)


def continued(summary: str) -> str:
    """A summary without its first link, which the headline has said: "→ what followed → what followed from that"."""
    first, arrow, rest = summary.partition(" → ")
    return f"→ {rest}" if arrow else first


def stated_at(fact: Fact) -> str:
    """The place in a file that states a fact: `config.json`, `train.log:12`."""
    return fact.source if fact.line is None else f"{fact.source}:{fact.line}"


def where(finding: Finding, run: RunSummary) -> list[tuple[str, str]]:
    """What is known of the place, as (label, value), in the order rank, node, step, time, attempt."""
    rows: list[tuple[str, str]] = []
    if finding.ranks:
        rows.append(("rank" if len(set(finding.ranks)) == 1 else "ranks", rank_ranges(finding.ranks, limit=SHORT)))
        if finding.stopped_first is not None:
            rows.append(("stopped first", f"rank {finding.stopped_first}"))
    elif run.world_size != 1:
        rows.append(("rank", "no single rank is to blame, or none is proven"))
    if finding.local_ranks:
        rows.append(("local rank", rank_ranges(finding.local_ranks, limit=SHORT)))
    if finding.devices:
        rows.append(("GPU", rank_ranges(finding.devices, limit=SHORT)))
    if finding.node:
        rows.append(("node", finding.node))
    if finding.step is not None:
        unit = finding.step_unit or "step"
        how = {"first_logged": " (first logged)", "last_seen": " (the last one seen)"}.get(finding.step_is or "", "")
        rows.append(("step" if unit == "global step" else unit, f"{finding.step}{how}"))
    if finding.epoch is not None:
        rows.append(("epoch", f"{finding.epoch:g}"))
    if finding.time:
        source = f", from {finding.time_source}" if finding.time_source else ""
        rows.append(("time", time_phrase(finding.time) + source + _TIME_IS.get(finding.time_is or "", "")))
    if finding.attempt is not None and (run.attempts > 1 or finding.attempt > 0):
        rows.append(("attempt", f"{finding.attempt} (counted from 0, {run.attempts} seen)"))
    if finding.count > 1:
        rows.append(("seen", f"{finding.count:,} times"))
    return rows


def _span(started: str, ended: str) -> str:
    """From when to when, with date and zone once where both agree."""
    first, last = _ISO_TIME.match(started), _ISO_TIME.match(ended)
    if not first or not last or first[3] != last[3]:
        return f"{time_phrase(started)} to {time_phrase(ended)}"
    end = last[2] if first[1] == last[1] else f"{last[1]} {last[2]}"
    return f"{first[1]} {first[2]} to {end} {'UTC' if first[3] else '(zone unknown)'}"


def run_phrase(run: RunSummary) -> list[str]:
    """What is known of the run: `8 ranks`, `2 nodes`, `2 attempts`, from when to when."""
    parts: list[str] = []
    if run.world_size is not None:
        parts.append(plural(run.world_size, "rank"))
    if run.nodes is not None:
        parts.append(plural(run.nodes, "node"))
    if run.attempts > 1:
        parts.append(plural(run.attempts, "attempt"))
    if run.started and run.ended:
        parts.append(_span(run.started, run.ended))
    elif run.started:
        parts.append(f"started {time_phrase(run.started)}, no end seen")
    elif run.ended:
        parts.append(f"ended {time_phrase(run.ended)}")
    return parts


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Findings of one name as one group, in the order of their first ones."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        by_name.setdefault(finding.name, []).append(finding)
    groups = []
    for name, members in by_name.items():
        ranks = {rank for member in members for rank in member.ranks or ()}
        groups.append(
            Group(
                name=name,
                title=members[0].title,
                ranks=tuple(sorted(ranks)) or None,
                count=sum(max(1, member.count) for member in members),
                evidence=tuple(member.evidence[0] for member in members if member.evidence),
            )
        )
    return groups


def cascades(diagnosis: Diagnosis) -> list[tuple[Finding | None, list[Group]]]:
    """What each root explains, directly or through another finding; None holds what names no root that is here."""
    by_id = {finding.id: finding for finding in diagnosis.findings}
    of_root: dict[str | None, list[Finding]] = {}
    for finding in diagnosis.of_role(Role.CASCADE):
        seen = {finding.id}
        above = by_id.get(finding.explained_by or "")
        # A chain that bites its own tail would be an error of the cause analysis; it must not hang a report.
        while above is not None and above.role is not Role.ROOT and above.id not in seen:
            seen.add(above.id)
            above = by_id.get(above.explained_by or "")
        root = above.id if above is not None and above.role is Role.ROOT else None
        of_root.setdefault(root, []).append(finding)
    ordered: list[tuple[Finding | None, list[Group]]] = [
        (root, grouped(of_root[root.id])) for root in diagnosis.of_role(Role.ROOT) if root.id in of_root
    ]
    if None in of_root:
        ordered.append((None, grouped(of_root[None])))
    return ordered


def group_phrase(group: Group) -> str:
    """`rank-exited-early on ranks 0, 1, 3 (7 lines)`, `collective-timeout waiting for rank 2 (7 lines)`."""
    how = "waiting for" if group.name in WAITED_FOR else "on"
    on = f" {how} {ranks_phrase(group.ranks)}" if group.ranks else ""
    return f"{group.name}{on} ({plural(group.count, 'line')})"


def coverage_phrase(coverage: Sequence[Coverage]) -> str:
    """`12 files read (1.2 GB), 1 partial, 2 skipped`."""
    if not coverage:
        return "no file was found"
    counts = {status: [c for c in coverage if c.status is status] for status in Status}
    read = counts[Status.READ]
    text = f"{plural(len(read), 'file')} read" + (f" ({size(sum(c.bytes for c in read))})" if read else "")
    for status in (Status.PARTIAL, Status.SKIPPED, Status.UNREADABLE):
        if counts[status]:
            text += f", {len(counts[status]):,} {status.value}"
    return text


def not_read(coverage: Sequence[Coverage]) -> list[tuple[Status, str, list[str]]]:
    """Sources that were not read in full, by status (the worst first) and reason, with their paths."""
    groups: dict[tuple[Status, str], list[str]] = {}
    for status in (Status.UNREADABLE, Status.PARTIAL, Status.SKIPPED):
        for source in coverage:
            if source.status is status:
                groups.setdefault((status, source.reason or "no reason given"), []).append(source.path)
    return [(status, reason, paths) for (status, reason), paths in groups.items()]


def nothing_in_the_code(diagnosis: Diagnosis) -> str | None:
    """How much training code was looked at, where nothing was found in it; None where something was, or none was given.

    `--sources` gives each program a coverage row of the kind "code".
    """
    code = [row for row in diagnosis.coverage if row.kind == "code"]
    if not code or diagnosis.hints:
        return None
    from forensics.sources.checks import REGISTRY

    read = [row for row in code if row.status in (Status.READ, Status.PARTIAL)]
    idle = sum(row.reason == "uses no training library" for row in read)
    parts = [f"{plural(len(read), 'program')} read"]
    if idle:
        parts.append(f"{idle:,} of them without a training library")
    if len(read) < len(code):
        parts.append(f"{len(code) - len(read):,} skipped")
    return f"Nothing was found: {', '.join(parts)}; {plural(len(REGISTRY), 'check')}."
