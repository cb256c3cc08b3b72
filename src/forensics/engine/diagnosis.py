"""One verdict for the run: linked candidates become findings, with where, when, how sure, and what is missing."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forensics.engine import lost_hosts
from forensics.engine.candidates import Candidate, times_seen
from forensics.engine.causes import ended_by_a_stop, roots, with_step
from forensics.engine.cluster import untied
from forensics.engine.configs import is_setting
from forensics.engine.ending import broken_off, how_far, how_it_ends, last_words, left_open
from forensics.engine.environment import environment, printed_versions, saved_progress
from forensics.engine.faults import STACK as PYTHON_STACK
from forensics.engine.few import Row, few
from forensics.engine.finishes import ANYBODYS_END, FINISHED, was_over
from forensics.engine.first_silent import stopped_first
from forensics.engine.hangs import is_hang
from forensics.engine.hosts import Hosts
from forensics.engine.identity import World
from forensics.engine.kernel import FACT as KERNEL_LOG
from forensics.engine.kernel import FOREIGN, KILLED
from forensics.engine.probed import OF_STEP
from forensics.engine.restarts import after_failures, anew_in_words, of_unknown_cause
from forensics.engine.ruled_out import ruled_out
from forensics.engine.samples import NAMED
from forensics.engine.stalls import spell
from forensics.engine.steps import StepClock
from forensics.engine.survival import DEATHS, ENDS_A_RUN, STEPS_AFTER_DEATH
from forensics.engine.trials import finished_trials
from forensics.engine.unexplained import INSUFFICIENT, with_stand_in
from forensics.engine.whose import WORKER_EXIT
from forensics.model import (
    UNTIED,
    WAITED_FOR,
    Coverage,
    Diagnosis,
    Evidence,
    Fact,
    Finding,
    MissingEvidence,
    Observation,
    Role,
    RunData,
    RunSummary,
    Status,
    Verdict,
)
from forensics.parsers.logs import MAX_TRACEBACKS
from forensics.parsers.stacks import SIGNATURE as STACKS
from forensics.parsers.zeros import POWER_LOST
from forensics.parsers.zeros import of as zeros_of
from forensics.rank_ranges import rank_ranges
from forensics.signatures.schema import Signature
from forensics.step_units import BATCHES, SAMPLES, of_batches, of_samples

if TYPE_CHECKING:
    import polars as pl

_INT64 = 2.0**63
EVIDENCE_LINES = 6  # a finding shows this many places; `count` says how many there are
EFFECTS = 3  # effects that the one-line chain names
# Two records of one counter, the second later, are progress: one alone may be the state at a crash.
PROGRESS_RECORDS = 2
_TROUBLES = ("cause", "symptom", "echo")  # kinds of signatures that tell of a failure
PROGRESS_LOSSES = 20  # records of one of these that are progress where nothing counts them
LATE = 0.8  # what came after others had lost a peer may be an effect as well
UNLABELLED = "which rank each line is of: no line or file names one"
ONE_LOG_A_RANK = "keep one log a rank: torchrun --log-dir DIR --redirects 3 --tee 3"
AFTER_END = "It had said before that it came to its end: it died while it was torn down, and what it had saved is there"
SENDER = "uid"  # capture: the user on whose request a scheduler stopped the job
FAULTHANDLER = "PYTHONFAULTHANDLER=1"
# How evidence is made that the run may hold already: then it is not asked for.
_HOW_MADE = {
    "kernel log": re.compile(r"^ *(?:dmesg|journalctl -k)\b[^;]*$"),
    "dumps": re.compile(r"^ *TORCH_FR_BUFFER_SIZE\b"),
    "stacks": re.compile(r"^ *py-spy dump\b"),
    "traceback": re.compile(r"^ *torchrun --redirects\b.*@record\b"),
    "samples": re.compile(r"^ *log the indices of each batch\b"),
    "python stack": re.compile(rf"^ *{FAULTHANDLER}$"),
    "rank of a card": re.compile(r"^ *nvidia-smi -L and NCCL_DEBUG=INFO \(busId\b"),
    "sender": re.compile(r"^ *the scheduler's record of the job; auditctl\b"),
    "calls in detail": re.compile(r"^ *(?:rerun a few steps with )?TORCH_DISTRIBUTED_DEBUG=DETAIL\b"),
    "loss scale": re.compile(r"^ *log scaler\.get_scale\(\)"),
}
_KERNELS_OWN = re.compile(r"\[ *\d+\.\d{3,6}\] ")  # seconds since boot, as a console and dmesg print them
_IN_DETAIL = "CollectiveFingerPrint"  # which TORCH_DISTRIBUTED_DEBUG=DETAIL alone prints (ProcessGroupWrapper.cpp)
_LEARNING = ("loss", "policy_loss", "value_loss", "reward", "accuracy")


def stamp(time: float | None, zone_known: bool) -> str | None:
    """ISO 8601, with Z only where the zone is known."""
    if time is None:
        return None
    try:
        text = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return None
    return text + ("Z" if zone_known else "")


def confidence(candidate: Candidate, rivals: int) -> float:
    """How likely the finding is to be right, 0..1.

    It starts from the weight of the surest sign (how often such a line is right by itself), grows with independent
    signs (other kinds of evidence, other ranks), and shrinks where other roots stand beside it or where the finding is
    a symptom, whose own cause is not known. Factors are set on cases with known answers; docs/confidence.md. What a
    kernel says of the crash of a process that the run's own files do not name, which may be another one, adds nothing.
    """
    sure = candidate.weight
    kinds = {
        (o.evidence[0].line is None, round(o.weight, 2))
        for o in candidate.observations
        if FOREIGN not in o.captures or o.signature not in KILLED
    }
    doubt = 1 - sure
    doubt *= 0.7 ** max(0, min(len(kinds) - 1, 2))
    sure = 1 - doubt
    if candidate.signature.kind == "symptom":
        sure *= 0.85
    if candidate.signature.kind == "echo":
        sure *= 0.5
    if candidate.late:
        sure *= LATE
    elif rivals or candidate.untold:
        sure *= 0.9 if rivals < 2 else 0.8
    return round(max(0.05, min(sure, 0.99)), 2)


class _Findings:
    """Makes findings; holds what all of them need."""

    def __init__(
        self,
        world: World,
        steps: StepClock,
        hosts: Hosts,
        over: Collection[int],
        exits: Sequence[Observation],
    ) -> None:
        self.world = world
        self.steps = steps
        self.hosts = hosts
        self.exits = exits  # what launchers say of the end of each process
        self.over = over  # ids of candidates that met processes which had come to their end

    def finding(self, c: Candidate, number: int, role: Role, sure: float, ids: Mapping[int, str]) -> Finding:
        key = c.key
        rank = c.ranks[0] if c.ranks and len(c.ranks) == 1 else None
        if c.ranks and self.world.of(key) not in c.ranks:
            key = next((o for o in c.observations if self.world.of(o) in c.ranks), key)
        # What every rank meets is met at one step: the last rank that says so has the most records before it.
        told = [o for o in c.observations if not is_setting(o)][-1:] if c.everywhere else [key]
        stepped = next(iter(_onsets(c)), None) or key
        # What is harmless is mostly printed at the start, and which steps had passed by then is of no interest.
        if stepped.step is None and told and not is_setting(told[0]) and c.signature.kind != "benign":
            stepped = self._with_last_step(c, told[0], rank)
        clocked, how = self._clocked(c, key, rank)
        about_itself = c.signature.culprit not in ("none", "silent")  # and not of those who wait for another
        unresolved = c.ranks is None and not c.everywhere and self.world.size != 1 and about_itself
        unresolved = unresolved and not c.lost_host  # processes of other hosts report the loss of one
        blamed = [o.identity for o in c.observations if o.culprits != ()] if unresolved else []
        locals_ = _numbers(who.local_rank for who in blamed) or None
        devices = _numbers(who.device for who in blamed) if locals_ is None else None
        return Finding(
            id=f"f{number}",
            name=c.signature.name,
            codes=c.signature.codes,
            title=f"{c.signature.title}: {c.subject}" if c.subject else c.signature.title,
            role=role,
            severity=c.signature.severity if c.context is None else "info",
            confidence=sure,
            ranks=c.ranks,
            local_ranks=locals_,
            devices=devices,
            node=self.hosts.of(c),
            step=stepped.step,
            step_is=stepped.step_is,
            step_unit=stepped.step_unit or ("global step" if stepped.step is not None else None),
            epoch=stepped.epoch,
            time=stamp(clocked.time, clocked.zone_known),
            time_is=how if clocked.time is not None else None,
            time_source=clocked.evidence[0].file if clocked.time is not None else None,
            attempt=c.attempt,
            count=c.count,
            evidence=_evidence(c),
            captures={k: v for o in reversed(c.observations) for k, v in o.captures.items()},
            explains=tuple(ids[id(e)] for e in c.explains if id(e) in ids),
            explained_by=ids.get(id(c.explained_by)) if c.explained_by is not None else None,
            fix=_fix(c),
            why=c.signature.why if c.context is None else f"Here {c.context}. {c.signature.why}",
            notes=(*([AFTER_END] if id(c) in self.over else []), *_notes(c)),
            see_also=c.signature.see_also,
        )

    def _clocked(self, c: Candidate, key: Observation, rank: int | None) -> tuple[Observation, str]:
        """(the sign whose time is told, what that time is): a sign without one was printed after the last one above it.

        A launcher's table says when it saw that rank end, which may be an hour after the last line with a time.
        """
        if key.timed or key.evidence[0].offset is None:
            return key, "exact"
        for o in self.exits if rank is not None else ():
            mine = self.world.of(o) == rank and (o.identity.attempt or 0) == c.attempt
            if mine and o.time is not None and (key.time is None or o.time >= key.time):
                return o, "reported"
        return key, "last_seen"

    def _with_last_step(self, c: Candidate, o: Observation, rank: int | None) -> Observation:
        """The observation with the last step before it, or before what its rank says in another time zone."""
        within = replace(o, identity=replace(o.identity, attempt=c.attempt)) if o.identity.attempt is None else o
        found = with_step(within, self.steps, self.world, rank)
        if found.step is not None or rank is None:
            return found
        effects = [e.key for e in c.explains if e.ranks == c.ranks and e.key.zone_known != o.zone_known]
        steps = (with_step(e, self.steps, self.world, rank) for e in effects)
        return next((e for e in steps if e.step is not None), found)


def _onsets(c: Candidate) -> list[Observation]:
    """The observations that bear a step; of numbers that are not finite the one with the first step comes first."""
    stepped = [o for o in c.observations if o.step is not None]
    if stepped and c.signature.area == "numerics" and c.signature.name.startswith("nan"):
        units = {o.step_unit or "global step" for o in stepped}
        return sorted(stepped, key=lambda o: o.step or 0) if len(units) == 1 else stepped
    return stepped


def _numbers(values: Iterable[int | None]) -> tuple[int, ...] | None:
    known = sorted({v for v in values if v is not None})
    return tuple(known) or None


def _fix(c: Candidate) -> tuple[str, ...]:
    """What to do: what the signs call for first; without the switch whose output is there."""
    printed = any(PYTHON_STACK in o.captures for o in c.observations)
    texts = dict.fromkeys((*(text for o in c.observations for text in o.fix), *c.signature.fix))
    return tuple(text for text in texts if not (printed and FAULTHANDLER in text))


def _notes(c: Candidate) -> tuple[str, ...]:
    notes: list[str] = [c.yields[0].upper() + c.yields[1:]] if c.yields is not None else []
    notes += [_outlived(c.outlived)] if c.outlived else []
    asked = dict.fromkeys(o.captures[SENDER] for o in c.observations if o.captures.get(SENDER))
    notes += [f"The scheduler's record says that the user with the id {uid} asked for it" for uid in asked]
    for o in c.observations:
        if len(notes) < 4 and o.note and o.note not in notes:
            notes.append(o.note)
    return tuple(notes[:4])


def _outlived(signs: Sequence[Observation]) -> str:
    """What is said of earlier signs that did not end the run. Of many tracebacks in a file only the first are read."""
    first, count = signs[0].evidence[0], times_seen(signs)
    often = "once" if count == 1 else f"{'at least ' if count >= MAX_TRACEBACKS else ''}{count} times"
    where = f"{'' if count == 1 else 'first at '}{first.file}:{first.line}"
    return f"The same was met {often} before ({where}) and outlived: training went on"


def _evidence(c: Candidate) -> tuple[Evidence, ...]:
    """The key line first, then one of each other kind of sign, then others, without repetition."""
    key = c.key  # found by a search, which there is no need to repeat for each of thousands
    ordered = [key, *(o for o in c.observations if o is not key)]
    ordered.sort(key=lambda o: (o is not key, -o.weight))
    seen: set[tuple[str, int | None]] = set()
    texts: set[str] = set()
    chosen: list[Evidence] = []
    for fresh_text_only in (True, False):
        for o in ordered:
            for e in o.evidence:
                place = (e.file, e.line if e.line is not None else hash(e.text))
                if place in seen or (fresh_text_only and e.text in texts) or len(chosen) >= EVIDENCE_LINES:
                    continue
                seen.add(place)
                texts.add(e.text)
                chosen.append(e)
    return tuple(chosen)


def diagnose(
    data: RunData,
    found: Sequence[Candidate],
    linked: Sequence[Candidate],
    world: World,
    steps: StepClock,
    catalogue: Mapping[str, Signature],
) -> Diagnosis:
    """The diagnosis of a run from its linked candidates."""
    top = with_stand_in(roots(linked), catalogue, data, world)
    rest = [c for c in linked if c.explained_by is not None]
    if top and top[0].signature.name == INSUFFICIENT:
        rest = [c for c in linked if c is not top[0]]
    taken = {look.name for c in top for look in c.signature.lookalikes}  # the same lines, as what they are not
    context = [
        c for c in found if c.context is not None or (c.signature.kind == "benign" and c.signature.name not in taken)
    ]
    ids = {id(c): f"f{n}" for n, c in enumerate([*top, *rest, *context], 1)}
    finished = [c for c in found if c.signature.name == FINISHED]
    over = {id(c) for c in top if c.signature.name in DEATHS and was_over(c, finished, steps, world)}
    exits = [o for o in data.observations if o.signature == WORKER_EXIT]
    hosts = Hosts(data, world)
    lost_hosts.settle(top, found, data, hosts.of_ranks, world)
    made = _Findings(world, steps, hosts, over, exits)
    findings = []
    for n, c in enumerate(top, 1):
        rivals = sum(1 for o in top if _rivals(c, o))
        finding = made.finding(c, n, Role.ROOT, confidence(c, rivals), ids)
        findings.append(_with_first(finding, data, steps))
    for n, c in enumerate(rest, len(top) + 1):
        findings.append(made.finding(c, n, Role.CASCADE, confidence(c, 0), ids))
    for n, c in enumerate(context, len(top) + len(rest) + 1):
        findings.append(made.finding(c, n, Role.CONTEXT, round(c.weight, 2), ids))
    verdict = _verdict(top, found, data, steps)
    first = top[0] if top else None
    standing = {c.signature.name for c in (*top, *rest)}
    ruled, unseen = ruled_out(first, found, standing, data, catalogue) if first else ((), ())
    running = verdict is Verdict.HEALTHY and not any(c.signature.name == FINISHED for c in found)
    return Diagnosis(
        run=_summary_of_run(data, world, running),
        verdict=verdict,
        summary=_summary(verdict, findings, found, data, steps),
        findings=tuple(findings),
        ruled_out=ruled,
        missing_evidence=(*_missing(first, data, world), *unseen),
        coverage=data.coverage,
        environment=environment((*data.facts, *printed_versions(data.sources, data.facts))),
    )


def _with_first(finding: Finding, data: RunData, steps: StepClock) -> Finding:
    """The finding, with the rank that stopped first of several that others waited for, where the logs tell it."""
    first = stopped_first(finding.ranks, data, steps, finding.attempt) if finding.name in WAITED_FOR else None
    if first is None:
        return finding
    note = f"Of these, rank {first.rank} stopped first: its log ends {spell(first.before)} before that of the next"
    return replace(finding, stopped_first=first.rank, notes=(note, *finding.notes))


def _rivals(c: Candidate, other: Candidate) -> bool:
    """Whether another root stands against one: not the same again in a later attempt, nor what was overcome.

    Against what came late stands what came before it, of whatever kind.
    """
    again = (other.signature.name, other.subject) == (c.signature.name, c.subject)
    kind = c.late or other.signature.kind == c.signature.kind
    return other is not c and not again and other.yields is None and kind


def _verdict(top: Sequence[Candidate], found: Sequence[Candidate], data: RunData, steps: StepClock) -> Verdict:
    if top:
        last = max((c.attempt for c in found), default=0)
        ends = [c for c in found if c.signature.name == FINISHED]
        failed_at = max(c.attempt for c in top)
        over = bool(ends) and max(c.attempt for c in ends) == last
        if all(c.recovered for c in top) or (over and failed_at < last) or _trained_past(top, found, data, steps):
            return Verdict.RECOVERED
        # Where the last attempt came to its end, what earlier ones died of is over; what is wrong with the last counts.
        first = next((c for c in top if over and c.attempt == last and not c.recovered), top[0])
        if first.signature.verdict == "failed" and is_hang(first) and _nothing_ended_it(first, found):
            return Verdict.HUNG
        # What is merely suspect has done its harm where the loss is lost by it.
        lost = any(c.signature.verdict == Verdict.DIVERGED and c.explained_by is first for c in found)
        if first.signature.verdict == Verdict.SUSPECT and lost:
            return Verdict.DIVERGED
        # A stop that leaves a later attempt nothing to go on from has made the run fail.
        if first.signature.verdict == "interrupted" and any(
            c.attempt > first.attempt and c.signature.verdict == "failed" for c in first.explains
        ):
            return Verdict.FAILED
        return Verdict(first.signature.verdict)
    if _left_open(found, data) is not None:
        return Verdict.UNKNOWN
    if not _ended(found, data) and _nobodys(found) is not None:
        return Verdict.UNKNOWN  # it may have ended the run, and nothing tells when it was
    went_on = _progress(data) or len(finished_trials(found)) >= PROGRESS_RECORDS
    goes_on = went_on and last_words(data) is None and _broken_off(found, data) is None
    if _ended(found, data) or goes_on:
        return Verdict.RECOVERED if after_failures(found) else Verdict.HEALTHY
    return Verdict.UNKNOWN


def _trained_past(top: Sequence[Candidate], found: Sequence[Candidate], data: RunData, steps: StepClock) -> bool:
    """Whether a later attempt, in which nothing failed, came further than all those that did.

    Of a loss that is lost in every attempt the first is told alone: what comes after it is no proof of anything.
    """
    if any(c.signature.verdict not in ENDS_A_RUN for c in top):
        return False
    # A milestone is no failure, whatever its verdict would be.
    ends = (c for c in found if c.signature.kind in _TROUBLES and c.signature.verdict in ENDS_A_RUN)
    failed = {c.attempt for c in (*top, *(c for c in ends if c.context is None))}
    last = max(steps.reached, default=0)
    if max(failed) >= last or any(o.identity.attempt is None for c in top for o in c.observations):
        return False
    before = max((step for attempt, step in steps.reached.items() if attempt < last), default=None)
    past = before is not None and steps.reached[last] >= before + STEPS_AFTER_DEATH
    earlier = {s.path for s in data.sources if s.identity.attempt is not None and s.identity.attempt < last}
    held = replace(data, last_errors=tuple(e for e in data.last_errors if e.file not in earlier))
    return past and last_words(held) is None and _broken_off(found, held) is None


def _nobodys(found: Sequence[Candidate]) -> Candidate | None:
    """The end of a pod that may be the run's or another's, at a time that nothing tells."""
    return next((c for c in found if untied(c) and not all(o.timed for o in c.observations)), None)


def _left_open(found: Sequence[Candidate], data: RunData) -> Evidence | None:
    return left_open(data, (o for c in found if c.signature.name == FINISHED for o in c.observations))


def _broken_off(found: Sequence[Candidate], data: RunData) -> Fact | None:
    return broken_off(data, (o for c in found if c.signature.name == FINISHED for o in c.observations))


def _ended(found: Sequence[Candidate], data: RunData) -> bool:
    """Whether something says that a run came to its end.

    Any program says "done" and "exit 0": that is the end of a run only where something else is of one.
    """
    ends = [c for c in found if c.signature.name == FINISHED]
    if any(c.weight > ANYBODYS_END for c in ends):
        return True
    others = any(c.signature.name != FINISHED and c.signature.name != "process-seen" for c in found)
    return bool(ends) and (others or data.metrics.height > 0)


def _nothing_ended_it(hang: Candidate, found: Sequence[Candidate]) -> bool:
    """Whether a run hung until somebody stopped it, or hangs still: no timeout and no crash ended it.

    That it hangs still is believed where stacks of living processes are all that tells of trouble.
    """
    others = [c for c in found if c is not hang and c.context is None and c.signature.kind in _TROUBLES]
    living = any(c.signature.name == STACKS for c in found)
    return ended_by_a_stop(hang) or (living and not others)


def _progress(data: RunData) -> bool:
    """Positive evidence that training went on: some counter advanced."""
    return data.metrics.height > 0 and _advanced(data.metrics)


def _advanced(metrics: pl.DataFrame) -> bool:
    """Whether some source's counter advanced, or it learned often enough where nothing counts."""
    if (small := few(metrics)) is not None:
        return _advanced_in_few(small)
    import polars as pl

    counters = metrics.with_columns(
        pl.coalesce(
            "step", pl.when(pl.col("name") == "progress").then(pl.col("value")).cast(pl.Int64, strict=False)
        ).alias("count")
    )
    counted = counters.group_by("source").agg(
        pl.max_horizontal(pl.col("count").drop_nulls().n_unique(), pl.col("epoch").drop_nulls().n_unique()).alias(
            "count"
        ),
        pl.col("value").filter(pl.col("name").is_in(_LEARNING) & pl.col("value").is_finite()).len().alias("losses"),
    )
    return counted.filter((pl.col("count") >= PROGRESS_RECORDS) | (pl.col("losses") >= PROGRESS_LOSSES)).height > 0


def _advanced_in_few(rows: Sequence[Row]) -> bool:
    counts: dict[str, set[float | None]] = defaultdict(set)
    epochs: dict[str, set[float | None]] = defaultdict(set)
    losses: dict[str, int] = defaultdict(int)
    for row in rows:
        finite = row.value is not None and math.isfinite(row.value)
        if row.step is not None:
            counts[row.source].add(row.step)
        elif row.name == "progress" and row.value is not None and -_INT64 <= row.value < _INT64:
            counts[row.source].add(int(row.value))
        if row.epoch is not None:
            epochs[row.source].add(row.epoch if row.epoch == row.epoch else None)  # all that are no number are one
        if finite and row.name in _LEARNING:
            losses[row.source] += 1
    most = max((len(seen) for told in (counts, epochs) for seen in told.values()), default=0)
    return most >= PROGRESS_RECORDS or max(losses.values(), default=0) >= PROGRESS_LOSSES


def _summary_of_run(data: RunData, world: World, running: bool) -> RunSummary:
    times = [t for w in data.writers for t in (w.first_time, w.last_time) if t is not None]  # some clocks go back
    attempts = {s.identity.attempt for s in data.sources if s.identity.attempt is not None}
    attempts |= {o.identity.attempt for o in data.observations if o.identity.attempt is not None}
    if data.metrics.height and isinstance(recorded := data.metrics["attempt"].max(), int):
        attempts.add(recorded)  # one that nothing but its steps tells of
    return RunSummary(
        path=data.path,
        world_size=world.known_size,
        nodes=len(world.nodes) or (1 if world.one_host and world.ranks else None),
        attempts=max(attempts, default=0) + 1,
        started=stamp(min(times, default=None), False),
        ended=None if running else stamp(max(times, default=None), False),
    )


def where(finding: Finding) -> str:
    """ "on rank 3 (node-7) at step 412", as far as it is known; empty if nothing is."""
    parts = []
    if finding.ranks:
        parts.append(f"on rank{'s' if len(finding.ranks) > 1 else ''} {rank_ranges(finding.ranks)}")
    elif finding.local_ranks:
        parts.append(f"on local rank{'s' if len(finding.local_ranks) > 1 else ''} {rank_ranges(finding.local_ranks)}")
    elif finding.devices:
        parts.append(f"on device {rank_ranges(finding.devices)}")
    if finding.node:
        parts.append(f"({finding.node})" if parts else f"on {finding.node}")
    if finding.step is not None:
        about = {"exact": "at", "first_logged": "at or before"}.get(finding.step_is or "", "after")
        in_words = {SAMPLES: of_samples, BATCHES: of_batches}.get(finding.step_unit or "")
        parts.append(f"{about} {in_words(finding.step, finding.epoch) if in_words else f'step {finding.step}'}")
    elif finding.epoch is not None:
        parts.append(f"at epoch {finding.epoch:g}")
    return " ".join(parts)


def _summary(
    verdict: Verdict, findings: Sequence[Finding], found: Sequence[Candidate], data: RunData, steps: StepClock
) -> str:
    first = findings[0] if findings and findings[0].role is Role.ROOT else None
    anew = anew_in_words(steps) if verdict in (Verdict.RECOVERED, Verdict.HEALTHY) else None
    if first is None:
        if verdict is Verdict.RECOVERED:
            return " ".join(filter(None, [of_unknown_cause(found), anew]))
        if verdict is Verdict.HEALTHY:
            done = any(c.signature.name == FINISHED for c in found)
            if done:
                return " ".join(filter(None, ["The run reached its end and shows no failure.", anew]))
            if (trials := finished_trials(found)) and not data.metrics.height:
                return (
                    f"A study came to the end of {len(trials)} trials and shows no failure; nothing says that it ended."
                )
            return " ".join(filter(None, [how_it_ends(data), anew, saved_progress(data.facts)]))
        read = sum(1 for c in data.coverage if c.status in (Status.READ, Status.PARTIAL))
        files = "one file" if read == 1 else f"{read} files"
        if (open_at := _left_open(found, data)) is not None:
            place = f"{open_at.file}:{open_at.line}"
            nothing = f"{how_far(data)}. The traceback at {place} has no last line that could be read: see there."
        elif (words := last_words(data)) is not None:
            place = f"{words.file}:{words.line}"
            nothing = f"{how_far(data)}. The log ends in an error that no signature knows ({place}): {words.text[:200]}"
        elif (broken := _broken_off(found, data)) is not None:
            end = f"{broken.source} breaks off in {zeros_of(broken).size:,} zero bytes"
            nothing = f"{how_far(data)}. {end}, {POWER_LOST}; the host's journal tells: journalctl --list-boots."
        elif (other := _nobodys(found)) is not None:
            e = other.key.evidence[0]
            pod = other.key.captures[UNTIED]
            nothing = f"{how_far(data)}. What ended pod {pod} ({e.file}:{e.line}) ended the run if it is the run's pod."
        else:
            nothing = f"Nothing in the {files} read says that the run failed, and nothing says that it ended well."
        return " ".join(filter(None, [nothing, saved_progress(data.facts)]))
    text = first.title
    if place := where(first):
        waited = first.name in WAITED_FOR and place.startswith("on rank")
        text += f", waiting for {place.removeprefix('on ')}" if waited else f" {place}"
    return " ".join(filter(None, [" → ".join([text, *_effects(findings, first)]) + ".", anew]))


def _effects(findings: Sequence[Finding], first: Finding) -> list[str]:
    """What followed from the first root, in short: trouble of its own kind first, then what only echoes it."""
    order = {"fatal": 0, "error": 1, "warning": 2, "info": 3}
    effects = [f for f in findings if f.role is Role.CASCADE and f.explained_by == first.id]
    effects.sort(key=lambda f: (order.get(f.severity, 3), f.time or "~"))
    phrases = []
    for f in effects[:EFFECTS]:
        how = "waiting for" if f.name in WAITED_FOR else "on"
        ranks = f" {how} rank{'s' if len(f.ranks) > 1 else ''} {rank_ranges(f.ranks)}" if f.ranks else ""
        ranks = ranks if len(ranks) < 60 else f" {how} {len(f.ranks or ())} ranks"
        op, seq = f.captures.get("op", ""), f.captures.get("seq", "")
        call = f" of {op.lower()} #{seq}" if f.name in WAITED_FOR and op.isidentifier() and seq.isdecimal() else ""
        phrases.append(f"{f.name}{call}{ranks}")
    if len(effects) > EFFECTS:
        phrases.append(f"{len(effects) - EFFECTS} more")
    return phrases


def _held(first: Candidate, data: RunData) -> set[str]:
    """The keys of `_HOW_MADE` that the run holds; a traceback counts where it is the finding's own."""
    own = {(e.file, e.line) for o in first.observations for e in o.evidence}
    there = {
        "kernel log": any(fact.name == KERNEL_LOG for fact in data.facts)
        or any(_KERNELS_OWN.match(e.text) for o in first.observations for e in o.evidence),
        "dumps": data.collectives.height > 0,
        "stacks": any(o.signature == STACKS for o in data.observations),
        "traceback": any((t.final.file, t.final.line) in own and t.frames for t in data.tracebacks),
        "samples": any(NAMED in o.captures or OF_STEP in (o.note or "") for o in first.observations),
        "python stack": any(PYTHON_STACK in o.captures for o in first.observations),
        "rank of a card": bool(first.ranks),
        "sender": first.captured(SENDER),
        "calls in detail": any(_IN_DETAIL in e.text for o in first.observations for e in o.evidence),
        "loss scale": bool((data.metrics["name"] == "loss_scale").any()),
    }
    return {kind for kind, held in there.items() if held}


def _missing(first: Candidate | None, data: RunData, world: World) -> tuple[MissingEvidence, ...]:
    missing = []
    if first is not None:
        held = _held(first, data)
        for item in first.signature.confirm:
            what, _, how = item.partition("::")
            if any(_HOW_MADE[kind].search(how) for kind in held):
                continue
            missing.append(MissingEvidence(what.strip(), how.strip()))
    if world.size is not None and world.size_is_stated and len(world.ranks) < world.size and first is not None:
        silent = sorted(set(range(world.size)) - set(world.ranks))
        # Lines that bear no rank may be of any: that none is named says nothing of who is missing.
        what = f"anything from rank{'s' if len(silent) > 1 else ''} {rank_ranges(silent)}"
        missing.append(MissingEvidence(what if world.ranks else UNLABELLED, ONE_LOG_A_RANK))
    return tuple(missing)


def with_status(rows: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Coverage in a stable order: what was read first, then what was not."""
    order = {Status.READ: 0, Status.PARTIAL: 1, Status.UNREADABLE: 2, Status.SKIPPED: 3}
    return tuple(sorted(rows, key=lambda row: (order[row.status], row.path)))
