"""Lint signatures and run their examples: what `forensics signatures test` and the test suite do.

What `stable` asks for is checked here and nowhere taken on trust: real output among the examples, near-misses, and
confusers that the whole catalogue has to tell apart. That a signature is silent on logs of healthy runs is checked by
`alarms`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from forensics.engine.matcher import Matcher
from forensics.engine.scan import scan_span
from forensics.model import Diagnosis, Kind, Observation, Role, Source
from forensics.parsers.logs import read_log
from forensics.signatures.places import Place, line_of
from forensics.signatures.rules import wrong_detector
from forensics.signatures.safety import LONG, unsafe, unscannable
from forensics.signatures.schema import Signature, SignatureError, unknown_names

REFERENCE = 1_767_225_600.0  # 2026-01-01: dates without a year in examples are put before it
STABLE_EXAMPLES = 2  # positive examples of a stable signature with log rules: other versions, other spellings


def observe_text(text: str, matcher: Matcher, folder: Path | None = None) -> tuple[Observation, ...]:
    """The observations that a log with this text yields. folder: where it is written; by default one made for it."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return observe_text(text, matcher, Path(made))
    source = _written(text, folder)
    scan = scan_span(matcher.database, source.file, 0, source.size)
    return read_log(source, scan, matcher, reference=REFERENCE).observations


def _written(text: str, folder: Path) -> Source:
    file = folder / "example.log"
    file.write_text(text, "utf-8", "surrogateescape", newline="")
    return Source("example.log", file, Kind.LOG, file.stat().st_size)


@dataclass(frozen=True)
class Bench:
    """The whole catalogue that confusers are tried on, compiled when the first one asks for it."""

    catalogue: Mapping[str, Signature]

    @cached_property
    def matcher(self) -> Matcher:
        """Its log rules. Raises SignatureError."""
        return Matcher(self.catalogue)

    @cached_property
    def folder(self) -> Path:
        """A folder for one log at a time, which goes when the bench does; making one takes longer than reading."""
        folder = tempfile.mkdtemp(prefix="forensics-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def diagnose(self, path: Path) -> Diagnosis:
        """The diagnosis of a run directory. Raises NothingToRead."""
        from forensics.engine.pipeline import Options, explain
        from forensics.engine.reading import read, sniffers
        from forensics.run import discover

        options = Options(threads=1)
        return explain(read(discover([str(path)], sniffers()), self.matcher, options), self.catalogue)

    def root(self, text: str) -> str | None:
        """The slug of the first root of a log with this text; None where there is none."""
        _written(text, self.folder)
        first = next(iter(self.diagnose(self.folder).of_role(Role.ROOT)), None)
        return first.name if first is not None else None

    def found(self, text: str) -> set[str]:
        """The slugs of all findings of a log with this text."""
        _written(text, self.folder)
        return {finding.name for finding in self.diagnose(self.folder).findings}


def check_signature(signature: Signature, bench: Bench | None = None, text: str | None = None) -> list[str]:
    """What is wrong with a signature, a line each; empty if nothing is.

    bench: the catalogue that it belongs to, for the slugs that it names and for confusers; without one both go unseen.
    text: the TOML that it was read from, so that problems can name the line.
    """
    problems = [*_fields(signature), *_patterns(signature)]
    if bench is not None:
        problems += unknown_names(signature, bench.catalogue)
    if signature.status == "stable":
        problems += _stable(signature)
    if not any(place[:1] == ("evidence",) for place, _ in problems):
        problems += _examples(signature, bench)
        if bench is not None:
            problems += _confusers(signature, bench)

    def where(place: Place) -> str:
        return signature.name if text is None else f"{signature.file}:{line_of(text, place)}: {signature.name}"

    return [f"{where(place)}: {problem}" for place, problem in problems]


Problems = Iterator[tuple[Place, str]]


def _fields(signature: Signature) -> Problems:
    if signature.kind == "knowledge" and not signature.fix:
        yield (), "says what is wrong and not what to do (fix)"
    if signature.kind == "cause" and not signature.evidence:
        yield ("kind",), 'a cause needs [[evidence]]; what no run shows by itself is of kind "knowledge"'
    if signature.kind == "knowledge" and not signature.confirm:
        yield (), "nothing shows it by itself: say how it can be made visible (confirm)"
    for n, entry in enumerate(signature.confirm):
        if not all(part.strip() for part in entry.partition("::")):
            yield ("confirm",), f'confirm {n + 1} must be written as "what is missing :: how to get it"'
    if not signature.title or signature.title.endswith("."):
        yield ("title",), "the title is a short phrase without a full stop"


def _patterns(signature: Signature) -> Problems:
    for n, rule in enumerate(signature.evidence):
        for key in ("pattern", "unless", "near", "unless_near"):
            expression = getattr(rule, key)
            if expression is None:
                continue
            scanned = key == "pattern" and rule.source == "log" and rule.anchor is None
            refused = unscannable(expression) if scanned else None
            if slow := unsafe(expression, LONG):
                refused = unsafe(expression) or refused or slow  # first of all what an analysis says of it
            if refused is not None:
                yield ("evidence", n, key), refused
        if wrong := wrong_detector(rule):
            yield ("evidence", n, *wrong[0]), wrong[1]
        if rule.source != "log" or rule.pattern is None:
            continue
        if rule.pattern.endswith((".*", ".+", ".*?")):
            yield (
                ("evidence", n, "pattern"),
                f"a pattern must not end in {rule.pattern[-3:]!r}: every byte would be a match end",
            )
        if rule.anchor is not None and len(rule.anchor) < 3:
            yield ("evidence", n, "anchor"), "the anchor is too short: nearly every line would be looked at"


def _stable(signature: Signature) -> Problems:
    """What a signature must bring to be called stable."""
    place: Place = ("status",)
    if not signature.evidence:
        yield place, "is called stable and has no evidence"
        return
    positive = [e for e in signature.examples if not e.is_not and e.root is None]
    needed = STABLE_EXAMPLES if any(rule.source == "log" for rule in signature.evidence) else 1
    if len(positive) < needed:
        yield place, f"stable needs {needed} positive examples, and there are {len(positive)}"
    if not any(e.seen_in for e in positive):
        yield place, 'stable needs an example from real output (seen_in = "program version")'
    if not any(e.is_not for e in signature.examples):
        yield place, "stable needs a near-miss (is_not = true)"
    if signature.kind in ("cause", "symptom"):
        for key, what in (
            ("lookalikes", "look-alikes ([[lookalike]])"),
            ("fix", "fix"),
            ("confirm", "confirm"),
            ("references", "references"),
        ):
            if not getattr(signature, key):
                yield place, f"stable needs {what}"
    if signature.kind in ("cause", "symptom", "echo") and not any(e.root for e in signature.examples):
        yield place, "stable needs a confuser: a log with signs of another cause beside it, and the root it must have"


def _examples(signature: Signature, bench: Bench | None) -> Problems:
    """The signature's rules on its examples: what must match does, and what must not does not."""
    patterns = [rule.pattern for rule in signature.evidence if rule.source == "log" and rule.pattern]
    if not patterns:
        if bench is not None:
            yield from _detected(signature, bench)
        return
    try:
        own = bench is not None and bench.catalogue.get(signature.name) is signature
        matcher = bench.matcher if bench is not None and own else Matcher({signature.name: signature}, use_cache=False)
    except SignatureError as error:
        yield ("evidence", 0, "pattern"), str(error)
        return
    mixed = len(patterns) < len(signature.evidence)
    if not any(not e.is_not for e in signature.examples):
        yield (), "no positive example"
    for n, example in enumerate(signature.examples):
        seen = [
            o
            for o in observe_text(example.log, matcher, bench.folder if bench is not None else None)
            if o.signature == signature.name
        ]
        if example.is_not and seen:
            yield ("example", n), f"example {n + 1} must not match: {example.log[:100]!r}"
        if not example.is_not and not seen and example.root in (None, signature.name):
            if mixed and (bench is None or signature.name in bench.found(example.log)):
                continue  # it is a detector that sees this one, or may be: only a bench can tell
            yield ("example", n), f"example {n + 1} does not match: {example.log[:100]!r}"
        for key, value in example.captures.items():
            got = [o.captures.get(key) for o in seen]
            if value not in got:
                yield ("example", n, "captures"), f"example {n + 1}: {key} should be {value!r}, got {got}"


def _detected(signature: Signature, bench: Bench) -> Problems:
    """The whole catalogue on the examples of a signature that has detectors only."""
    for n, example in enumerate(signature.examples):
        if example.root is None and (signature.name in bench.found(example.log)) is example.is_not:
            yield ("example", n), f"example {n + 1} {'must not be' if example.is_not else 'is not'} found by a detector"


def _confusers(signature: Signature, bench: Bench) -> Problems:
    """The whole catalogue on the examples that state a root."""
    for n, example in enumerate(signature.examples):
        if example.root is None:
            continue
        try:
            got = bench.root(example.log)
        except SignatureError as error:
            yield (), str(error)
            return
        if got != example.root:
            yield ("example", n, "root"), f"example {n + 1}: the root should be {example.root}, and is {got}"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A signature that calls a healthy run broken."""

    signature: str
    run: str
    file: str
    line: int | None
    role: str


def alarms(bench: Bench, runs: Path) -> list[Alarm]:
    """Findings of healthy runs that are more than context.

    runs: a folder with one folder (or file) a run; where that holds a folder `input`, the run is in there. Benign
    lines, milestones, and what a run survived are context, and none of them is an alarm.
    """
    from forensics.run import NothingToRead

    found = []
    for run in sorted(runs.iterdir()):
        try:
            diagnosis = bench.diagnose(run / "input" if (run / "input").is_dir() else run)
        except NothingToRead:
            continue
        for finding in diagnosis.findings:
            if finding.role is not Role.CONTEXT:
                place = finding.evidence[0] if finding.evidence else None
                found.append(
                    Alarm(
                        finding.name,
                        run.name,
                        place.file if place else "?",
                        place.line if place else None,
                        finding.role.value,
                    )
                )
    return found
