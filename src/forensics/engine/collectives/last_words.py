"""What the rank that keeps the others waiting was doing, by the last lines that it printed itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forensics.engine.collectives.observations import spoken
from forensics.files import buffered
from forensics.model import Evidence, Kind, Observation, Source
from forensics.parsers.prefixes import clean
from forensics.patterns import lazy

# Signatures that name the rank and do not know what it did.
ASKED = ("collective-timeout", "straggler-rank")
SIDE_WORK = "rank0-side-work"
TAIL = 256 << 10  # bytes of the end of a file that are read
FILES = 16  # that are read for one rank
COUNTED = 64 << 20  # bytes up to which lines are counted
QUOTED = 2  # lines that tell of it which are shown, the last ones
SHOWN = 200  # characters of a last line in a note
NEUTRAL = 6  # lines that say nothing of what is done, below the one that says it (sizes, names)
# Words of what is being done, as loops, savers and compilers print them: HF Trainer ("***** Running Evaluation *****",
# "Saving model checkpoint to"), Megatron ("saving checkpoint at iteration"), Lightning's and tqdm's bars ("Validation",
# "Map:", or what transformers' examples, TRL and LLaMA-Factory have `Dataset.map` print), inductor ("AUTOTUNE mm(",
# "triton_mm_4 0.04 ms").
_DOING = {
    "loading": lazy(r"\bload(?:ing|ed)\b|\bresuming\b", re.I),
    "saving": lazy(r"\bsav(?:ing|ed)\b|\bcheckpointing\b|\bwriting\b.{0,40}(?:ckpt|checkpoint|shard)", re.I),
    "uploading": lazy(r"\bupload(?:ing|ed)\b|\bpushing\b.{0,40}\bhub\b", re.I),
    "evaluating": lazy(
        r"\bevaluat(?:ing|ion)\b|\bvalidat(?:ing|ion)\b|\bRunning Prediction\b|^\W*(?:eval|valid|val)\b"
        r"|\b(?:eval|valid|val)[ _:-]{1,2}(?:(?:batch|step|iter|sample)\w*)?\W{0,3}\d{1,9}/\d",
        re.I,
    ),
    "compiling": lazy(r"\bAUTOTUNE\b|\bautotuning\b|\bcompil(?:ing|ation)\b|\btriton_\w+_\d+ [\d.]+ ms", re.I),
    "preparing data": lazy(
        r"\b(?:tokeniz|preprocess|download)ing\b|^(?:Map|Filter|Flattening|Generating \w+ split|Running tokenizer"
        r"|Grouping texts|Applying|Packing|Adding EOS|Extracting prompt|Converting)\b.{0,80}\d",
        re.I,
    ),
}  # fmt: skip
_SIDE = ("saving", "uploading", "evaluating", "preparing data")
_OVER = lazy(
    r"\b(?:done|finished|completed?|success\w*|took|saved|wrote|written|uploaded|loaded|evaluated)\b"
    r"|\bin [\d.]+ ?s(?:ec\w*)?\b",
    re.I,
)
_PART = lazy(r"\b(\d{1,9})/(\d{1,9})\b")
_BAR = lazy(r"\d{1,3}%\|")
_TRAINS = lazy(r"\bloss\b|\bgrad_?norm\b", re.I)
# What the distributed runtime prints meanwhile.
_STACK = lazy(r"(?:Thread (?:0x)?[0-9A-Fa-f]+ \((?:active|idle)|Process \d+: |Python v\d)")  # of py-spy, frames below
_RUNTIME = lazy(r"ProcessGroup|\bNCCL\b|\[c10d\]|TCPStore|torch/distributed|torch\.distributed|flight ?recorder", re.I)


BUSY = "When the others gave up, {rank} was busy ({doing}), not stuck: {how}"
IN_PARTS, ENDED_LATER = "its last line tells how far it was", "it said later that this was done"
GIVE_TIME = (
    "Give {rank} the time for it ({doing}), init_process_group(timeout=timedelta(hours=1)), or share it among all ranks"
)


@dataclass(frozen=True, slots=True)
class Words:
    """The last lines of a rank.

    doing: a key of what is looked for, as "saving"; evidence: the lines that tell of it, the last one first; time: of
    its file's last line; how: what shows that this went on, and was not stuck, if anything does.
    """

    doing: str
    evidence: tuple[Evidence, ...]
    time: float | None
    how: str | None = None


@dataclass(frozen=True, slots=True)
class Until:
    """When the others gave up: what a rank prints after that says nothing of why they had waited."""

    time: float | None
    file: str
    offset: int | None

    def passed(self, source: Source, offset: int, time: float | None) -> bool:
        """Whether a line of a file was printed afterwards."""
        if source.path == self.file and self.offset is not None:
            return offset > self.offset
        return time is not None and self.time is not None and time > self.time


def _until(o: Observation) -> Until:
    e = o.evidence[0]
    return Until(o.time if o.timed or o.rule is None else None, e.file, e.offset)


def with_last_words(found: Sequence[Observation], sources: Sequence[Source]) -> list[Observation]:
    """The findings, with what the last lines of the one rank that they blame tell of, or else its last line as it is.

    Rank 0 that saves, evaluates, uploads or prepares data while no other rank's last lines tell of that is
    `rank0-side-work`. What a rank was doing is believed where its last line says so, or shows a part of it as done.
    """
    told = []
    for o in found:
        rank = o.culprits[0] if o.culprits is not None and len(o.culprits) == 1 else None
        asked, until = rank is not None and o.signature in ASKED, _until(o)
        words = last_words(rank, sources, until) if asked else None
        if words is None and rank == 0 and asked and (said := last_words(None, sources, until)) is not None:
            words = said if said.doing in _SIDE else None  # what a log shows without a rank, rank 0 has printed
        if words is not None and rank is not None:
            alone = rank == 0 and words.doing in _SIDE and not _others_do(words.doing, sources)
            whom = spoken([rank])
            busy = f" {BUSY.format(rank=whom, doing=words.doing, how=words.how)}." if words.how else ""
            o = replace(
                o,
                signature=SIDE_WORK if alone else o.signature,
                weight=max(o.weight, 0.8 if words.how else 0.7) if alone else o.weight,
                note=f"{o.note or ''} The last lines of {whom} tell of {words.doing}.{busy}".strip(),
                fix=o.fix if alone else (GIVE_TIME.format(rank=whom, doing=words.doing), *o.fix),
                evidence=(*words.evidence, *o.evidence) if alone else (*o.evidence, *words.evidence),
            )
        elif rank is not None and o.signature in ASKED and (line := last_line(rank, sources)) is not None:
            at = f"{line.file}:{line.line}" if line.line is not None else line.file
            note = f"{o.note or ''} The last line of {spoken([rank])} ({at}): {line.text[:SHOWN]}"
            o = replace(o, note=note.strip(), evidence=(*o.evidence[:1], line, *o.evidence[1:]))
        told.append(o)
    return told


def last_line(rank: int, sources: Sequence[Source]) -> Evidence | None:
    """The last line that a rank printed itself; None where two of its files end and the clock does not tell which last.

    Words of the runtime that stand below it are passed over.
    """
    ends: list[tuple[float | None, Source, str, int]] = []
    for source in _logs(rank, sources)[:FILES]:
        if source.identity.rank is None and ends:
            break
        if lines := _lines(rank, source):
            text, offset, time = lines[0]
            ends.append((time, source, text, offset))
    if not ends or (len(ends) > 1 and any(time is None for time, *_ in ends)):
        return None
    _, source, text, offset = max(ends, key=lambda end: end[0] or 0.0)
    return Evidence(source.path, _number(source, offset), offset, text[:4000])


def _others_do(doing: str, sources: Sequence[Source]) -> bool:
    ranks = sorted({s.identity.rank for s in sources if s.identity.rank})[:4] or [1, 2, 3, 4]
    return any(words.doing == doing for rank in ranks if (words := last_words(rank, sources)) is not None)


def last_words(rank: int | None, sources: Sequence[Source], until: Until | None = None) -> Words | None:
    """What the last lines of a rank tell of; None where they tell of nothing that takes time, or of its end.

    rank: None stands for what is said without a rank. until: what it did then counts where its last lines tell nothing.

    Of several files of the rank, one that ends later by the clock must not say something else.
    """
    heard: list[tuple[float | None, Words | None]] = []
    for source in _logs(rank, sources)[:FILES]:
        if source.identity.rank is None and heard:
            break  # what a rank says in files of its own is all
        lines = _lines(rank, source)
        if lines:
            time = next((t for _, _, t in lines if t is not None), None)
            words = _words(lines, source, time)
            if words is None and until is not None:
                words = _words_then(lines, source, until)
            heard.append((time, words))
    known = [words for _, words in heard if words is not None]
    if len(known) != 1 or (len(heard) > 1 and not _last(known[0], heard)):
        return None
    return known[0]


def _logs(rank: int | None, sources: Sequence[Source]) -> list[Source]:
    """Logs that hold lines of a rank, its own ones first."""
    logs = [s for s in sources if s.kind is Kind.LOG and s.gap is None and s.identity.rank in (rank, None)]
    return sorted(logs, key=lambda s: (s.identity.rank is None, s.path))


def _last(words: Words, heard: Sequence[tuple[float | None, Words | None]]) -> bool:
    times = [time for time, other in heard if other is not words]
    return words.time is not None and all(time is not None and time <= words.time for time in times)


def _lines(rank: int | None, source: Source) -> list[tuple[str, int, float | None]]:
    """(text, offset, time) of the last lines of a rank in a file, the last one first; empty where it holds none."""
    start = max(0, source.size - TAIL)
    try:
        with buffered(source.file) as stream:
            stream.seek(start)
            tail = stream.read(source.size - start)
    except (OSError, ValueError):
        return []
    found = []
    at = start
    in_stack = False
    for raw in tail.replace(b"\r", b"\n").split(b"\n"):
        line = clean(raw[:1000].decode("utf-8", "replace"))
        in_stack = _STACK.match(line.text) is not None or (in_stack and line.text.startswith("    "))
        whose = line.identity.rank if line.identity.rank is not None else source.identity.rank
        if whose == rank and line.text.strip() and not in_stack and not _RUNTIME.search(line.text):
            found.append((line.text.strip(), at, line.time))
        at += len(raw) + 1
    return found[::-1]


def _words_then(lines: Sequence[tuple[str, int, float | None]], source: Source, until: Until) -> Words | None:
    """What the last lines told of when the others gave up, with the later one that says that it is done."""
    before = [line for line in lines if not until.passed(source, *line[1:])]
    if not before or len(before) == len(lines):
        return None
    time = next((t for _, _, t in before if t is not None), None)
    words = _words(before, source, time)
    if words is None:
        return None
    text, offset, _ = lines[len(lines) - len(before) - 1]
    if not _OVER.search(text) or _doing(text) != words.doing:
        return words
    done = Evidence(source.path, _number(source, offset), offset, text[:4000])
    return replace(words, evidence=(done, *words.evidence), how=ENDED_LATER)


def _words(lines: Sequence[tuple[str, int, float | None]], source: Source, time: float | None) -> Words | None:
    newest = lines[0][0]
    under_way = _under_way(newest)
    if not under_way and (_OVER.search(newest) or _BAR.search(newest)):
        return None
    neutral = 0
    found: str | None = None
    shown: list[tuple[str, int]] = []
    for text, offset, _ in lines:
        doing = None if _TRAINS.search(text) else _doing(text)
        if found is not None and doing != found:
            break
        if _TRAINS.search(text):
            return None
        if doing is not None:
            if found is None and _OVER.search(text) and not _under_way(text):
                return None
            found = doing
            shown.append((text, offset))
            if len(shown) == QUOTED:
                break
            continue
        if not _BAR.search(text):
            neutral += 1
        if neutral > NEUTRAL:
            return None
    if found is None:
        return None
    quoted = tuple(Evidence(source.path, _number(source, at), at, text[:4000]) for text, at in shown)
    return Words(found, quoted, time, IN_PARTS if under_way else None)


def _under_way(text: str) -> bool:
    part = _PART.search(text)
    return part is not None and int(part[1]) < int(part[2])


def _doing(text: str) -> str | None:
    return next((what for what, pattern in _DOING.items() if pattern.search(text)), None)


def _number(source: Source, offset: int) -> int | None:
    """The number of the line at an offset; None in a file that is too large to count."""
    if offset > COUNTED:
        return None
    count, left = 1, offset
    try:
        with buffered(source.file) as stream:
            while left > 0 and (block := stream.read(min(left, 1 << 20))):
                count += block.count(b"\n")
                left -= len(block)
    except OSError:
        return None
    return count
