"""Training code beside a run: which findings its hits support, and what else it is worth telling of it.

A hit never makes a root or a cascade, and never changes a verdict. Where a finding of its kind is there, or where the
run stood at the very lines (by a traceback, a stack or a Flight Recorder entry), the finding gets the code as evidence,
a note, and a little more confidence. All else is a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from forensics.engine.diagnosis import with_status
from forensics.files import beginning
from forensics.model import Diagnosis, Finding, Hint, Kind, Role, RunData
from forensics.parsers.stacks import is_users
from forensics.patterns import lazy
from forensics.signatures.schema import Signature
from forensics.sources.hits import Hit
from forensics.sources.program import Program
from forensics.sources.rules import RULES, Rule
from forensics.sources.run import Found, examine

# How much of the remaining doubt a hit takes: as much as a sign of another kind does (docs/confidence.md) where the run
# stood at the place, half of it where only the kind of trouble fits.
DOUBT_AT_PLACE = 0.7
DOUBT_BY_KIND = 0.85
HIGHEST = 0.99
NOTES = 2  # hits that a finding tells of
TEXTS = 5000  # lines of a run that are searched for what programs print
LOGS = 16  # logs whose first HEAD bytes are searched as well
HEAD = 64 << 10
TELLING = 12  # characters of a text that says by itself which program prints it
SHOWN = 200  # characters of code in a note

_CALL = lazy(r"^(?P<file>.+):(?P<line>\d+) (?P<function>\S.*)$")
_FILE = lazy(r"[\w.-]+\.py\b", re.ASCII)
_ANONYMOUS = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


@dataclass(frozen=True, slots=True)
class Stood:
    """A line of code at which some rank was, as the run's own files say it."""

    file: str
    line: int
    function: str


def with_sources(
    diagnosis: Diagnosis, data: RunData, folders: Sequence[Path], catalogue: Mapping[str, Signature]
) -> Diagnosis:
    """The diagnosis of a run, with what its training code (programs under `folders`) adds to it."""
    return join(diagnosis, data, examine(folders), catalogue)


def join(diagnosis: Diagnosis, data: RunData, found: Found, catalogue: Mapping[str, Signature]) -> Diagnosis:
    """The diagnosis with hits joined to its findings, hints, and a coverage row for each program."""
    places = sorted(frames(data), key=lambda frame: (frame.file, frame.line, frame.function))
    stood = _in_programs(places, found.programs)
    started = {program.path for program, _ in stood} | named(data, found.programs)
    started = with_importer(data, found.programs, started) or speaking(data, found.programs)
    # Frames of programs of which none is here: what is here did not run.
    strangers = not started and any(is_users(frame.file) and frame.file.endswith(".py") for frame in places)
    ours = set() if strangers else related(found.programs, started)
    hits = [hit for hit in found.hits if hit.evidence[0].file in ours]
    # Of several programs none of which is known to have run, each can be the wrong one.
    findings = diagnosis.findings if started or len(_training(found.programs)) < 2 else ()
    matches = [(hit, _supported(hit, findings, stood)) for hit in hits]
    findings = tuple(_told(f, [(h, s[f.id]) for h, s in matches if f.id in s], catalogue) for f in diagnosis.findings)
    hints = [_hint(hit, supported, catalogue) for hit, supported in matches]
    ordered = sorted((h for h in hints if h is not None), key=lambda h: (not h.supports, -h.confidence))
    return replace(
        diagnosis,
        findings=findings,
        hints=tuple(ordered),
        coverage=with_status((*diagnosis.coverage, *found.coverage)),
    )


def frames(data: RunData) -> set[Stood]:
    """Where ranks stood: frames of tracebacks, of stack dumps, and of the calls that Flight Recorders saw last."""
    found = {
        Stood(file, line, function)
        for t in data.tracebacks
        if t.chained != "ignored"
        for file, line, function in t.frames
    }
    texts: set[str] = set()
    for o in data.observations:
        texts.update(o.captures.get("frames", "").split("\n"))
    if data.collectives.height:
        import polars as pl

        # A rank's last entry, and whatever was not completed: earlier calls went well.
        kept = data.collectives.filter(
            (pl.col("state") != "completed") | (pl.int_range(pl.len()).reverse().over("source") == 0)
        )
        columns = [name for name in ("frame", "stack") if name in kept.columns]
        for name in columns:
            for value in kept[name].drop_nulls().unique().to_list():
                texts.update(str(value).split("\n"))
    for text in texts:
        if m := _CALL.match(text.strip()):
            found.add(Stood(m["file"], int(m["line"]), m["function"]))
    return found


def _in_programs(stood: Iterable[Stood], programs: Sequence[Program]) -> list[tuple[Program, Stood]]:
    """The frames that lie in programs: by the longest common end of their paths, and by the function at the line.

    A frame whose function is not the one at its line speaks of another version of the program: none of it counts.
    """
    found: list[tuple[Program, Stood]] = []
    changed: set[str] = set()
    by_name: dict[str, list[Program]] = {}
    for program in programs:
        by_name.setdefault(PurePosixPath(program.path).name, []).append(program)
    for frame in stood:
        parts = tuple(reversed(frame.file.replace("\\", "/").split("/")))
        scored = [(_common(parts, p), p) for p in by_name.get(parts[0], ())]
        best = max((score for score, _ in scored), default=0)
        same = [p for score, p in scored if score == best]
        if len(same) != 1:
            continue
        function = frame.function.rsplit(".", 1)[-1]
        if function in _ANONYMOUS or function == (same[0].function_at(frame.line) or "<module>"):
            found.append((same[0], frame))
        else:
            changed.add(same[0].path)
    return [(program, frame) for program, frame in found if program.path not in changed]


def named(data: RunData, programs: Sequence[Program]) -> set[str]:
    """Paths of programs whose file name stands in what the run's files say of commands, frames and failures."""
    texts = [e.text for o in data.observations for e in o.evidence] + [fact.value for fact in data.facts]
    words = {word for text in texts if ".py" in text for word in _FILE.findall(text)}
    return {program.path for program in programs if PurePosixPath(program.path).name in words}


def with_importer(data: RunData, programs: Sequence[Program], started: set[str]) -> set[str]:
    """`started`, and where none of these trains, the one program that trains and imports them all.

    A warning names the module that it is about, and a model's own file runs only in the program that imports it. Of
    several such programs it is the one whose texts the run's files hold, or nobody knows which.
    """
    trained = _training(programs)
    if not started or any(program.path in started for program in trained):
        return started
    users = {program.path for program in trained if started <= related(programs, {program.path})}
    if len(users) > 1:
        users &= speaking(data, programs)
    return started | users if len(users) == 1 else started


def speaking(data: RunData, programs: Sequence[Program]) -> set[str]:
    """Paths of the programs that print what the run's files hold: those with the most of their own texts in there."""
    lines = [e.text for o in data.observations[:TEXTS] for e in o.evidence[:1]]
    heads = (_head(s.file) for s in [s for s in data.sources if s.kind is Kind.LOG][:LOGS])
    text = "\n".join([*lines, *(writer.last_line for writer in data.writers), *heads])
    scores = {
        program.path: sum(
            1 for said in program.texts if len(said) >= TELLING and " " in said.strip() and said.strip() in text
        )
        for program in _training(programs)
    }
    best = max(scores.values(), default=0)
    return {path for path, score in scores.items() if score == best} if best else set()


def _head(file: Path) -> str:
    try:
        return beginning(file, HEAD).decode("utf-8", "replace")
    except OSError:
        return ""


def _training(programs: Sequence[Program]) -> list[Program]:
    return [program for program in programs if {"backward", "Trainer", "fit"} & program.words]


def related(programs: Sequence[Program], started: set[str]) -> set[str]:
    """Paths of the programs that a run used: those known by name, and what these import. All where none is known.

    Folders hold more than one program; what another one does is none of this run's business.
    """
    if not started:
        return {program.path for program in programs}
    reached: set[str] = set()
    todo = [program for program in programs if program.path in started]
    modules: dict[str, list[Program]] = {}
    for program in programs:
        modules.setdefault(program.module.rsplit(".", 1)[-1], []).append(program)
    while todo:
        program = todo.pop()
        if program.path in reached:
            continue
        reached.add(program.path)
        for name in {part for full in program.imports.values() for part in full.split(".")}:
            todo += [p for p in modules.get(name, ()) if p.path not in reached]
    return reached


def _common(parts: Sequence[str], program: Program) -> int:
    theirs = tuple(reversed(program.path.split("/")))
    return next(
        (i for i, (a, b) in enumerate(zip(parts, theirs, strict=False)) if a != b), min(len(parts), len(theirs))
    )


def _supported(
    hit: Hit, findings: Sequence[Finding], stood: Sequence[tuple[Program, Stood]]
) -> dict[str, Stood | None]:
    """Findings that a hit supports, by id, with the frame that lies in its lines where there is one."""
    rule = RULES[hit.check]
    by_kind = {hit.signature or rule.signature, *(hit.supports if hit.supports is not None else rule.supports)}
    here = _here(hit, stood)
    # A place speaks against a hit as well: a hang elsewhere in the same programs is not this one.
    elsewhere = rule.placed and bool(stood) and here is None
    supported: dict[str, Stood | None] = {}
    for finding in findings:
        if finding.role is Role.CONTEXT or elsewhere:
            continue
        if finding.name in by_kind or (here is not None and finding.name in rule.at_place):
            supported[finding.id] = here
    return supported


def _here(hit: Hit, stood: Sequence[tuple[Program, Stood]]) -> Stood | None:
    """The frame that lies in the lines of a hit; of several the one in its narrowest place (the call itself)."""
    found = [
        (place.last - place.first, frame.function == "<module>", frame.line, frame)
        for program, frame in stood
        for place in hit.places
        if place.path == program.path and place.first <= frame.line <= place.last
    ]
    return min(found, key=lambda item: item[:3])[3] if found else None


def _told(finding: Finding, hits: Sequence[tuple[Hit, Stood | None]], catalogue: Mapping[str, Signature]) -> Finding:
    """A finding with the code that supports it as its second place, a note, and less doubt.

    Where the run stood there, and the hit is of another entry, that one's first advice goes before the finding's own:
    tensors of two sizes that met because only some ranks made a call are not to be padded.
    """
    if not hits:
        return finding
    hits = sorted(hits, key=lambda pair: (pair[1] is None, -pair[0].weight))[:NOTES]
    doubt = min(DOUBT_AT_PLACE if frame is not None else DOUBT_BY_KIND for _, frame in hits)
    code = [hit.evidence[0] for hit, _ in hits]
    notes = [_note(hit, frame) for hit, frame in hits]
    advice = [
        entry.fix[0]
        for hit, frame in hits
        if frame is not None
        and (entry := catalogue.get(hit.signature or RULES[hit.check].signature)) is not None
        and entry.name != finding.name
        and entry.fix
    ]
    sure = max(finding.confidence, min(HIGHEST, 1 - (1 - finding.confidence) * doubt))
    return replace(
        finding,
        confidence=round(sure, 2),
        evidence=(*finding.evidence[:1], *code, *finding.evidence[1:]),
        notes=(*notes, *finding.notes),
        fix=tuple(dict.fromkeys((*advice, *finding.fix))),
    )


def _note(hit: Hit, frame: Stood | None) -> str:
    at = hit.evidence[0]
    where = f"{at.file}:{at.line}"
    stood = (
        f" The run stood there: {PurePosixPath(frame.file).name}:{frame.line}, in {frame.function}." if frame else ""
    )
    return f"The code at {where} (`{at.text[:SHOWN]}`) fits this. {hit.note}{stood}"


def _hint(hit: Hit, supported: Mapping[str, Stood | None], catalogue: Mapping[str, Signature]) -> Hint | None:
    rule: Rule = RULES[hit.check]
    signature = catalogue.get(hit.signature or rule.signature)
    if signature is None or not (supported or rule.alone):
        return None
    return Hint(
        name=signature.name,
        codes=signature.codes,
        title=signature.title,
        check=hit.check,
        confidence=round(min(hit.weight, rule.weight), 2),
        evidence=hit.evidence,
        why=hit.note,
        fix=signature.fix,
        supports=tuple(supported),
    )
