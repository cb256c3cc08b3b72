"""Logs that collectors keep as records of JSON, as the lines that programs printed.

Three forms: a record a line (Docker, `journalctl -o json`, fluent-bit, `logcli -o jsonl`), records spread over lines,
one after another (`journalctl -o json-pretty`), and records within one document (`aws logs`, `gcloud logging read`,
answers of APIs). Which fields hold what, `collected` knows. Each line of text gets the head that Kubernetes' runtimes
and `kubectl --prefix` give it (`<time> <stream> F [pod/<pod>/<container>] <line>`), or a journal's, which
`parsers.prefixes` reads.

A line of the text has the number of the line on which its record stands in the file. Where a record holds several
lines, carriage returns stand between them, which every reader of logs takes for ends of lines that do not count. Two
kinds of files cannot keep their numbers, and their text is called otherwise than they (`x.txt` for `x.json`): those
that are one line, and those that begin with the newest record, as `gcloud logging read` and `logcli` print by default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, BinaryIO, NamedTuple

from forensics.archives.collected import MARKS, SYSTEMS, Said, is_kernels
from forensics.archives.limits import Stop
from forensics.patterns import lazy

HEAD = 16 << 10  # bytes by which a file is told
RECORD = 1 << 20  # bytes of one record on a line; longer ones are passed over
LINE = 1 << 20  # characters of one line that was put together; the rest stands on the next
DOCUMENT = 64 << 20  # bytes of a file that has to be read whole
EFFORT = 12  # times the length of a document that is parsed at most: records lie within objects, these in others
SAMPLE = 40  # records of the head by which the order is told
_DECODER = json.JSONDecoder(strict=False)
# json-seq's separator, json-sse's field, and the time and tag that fluentd's out_file puts before a record.
_FRONT = lazy(
    rb"\s*(?:\xef\xbb\xbf)?(?:\x1e|data: |\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)\t[^\t\n]{1,200}\t)?\{"
)
# Answers whose one record, with all the lines in it, may be larger than the head: Loki's API, CloudWatch Logs Insights.
_LARGE = {
    "Loki": lazy(rb'[\[,]\s*\[\s*"(\d{19})"\s*,\s*"'),
    "CloudWatch Logs": lazy(rb'"field"\s*:\s*"@timestamp"\s*,\s*"value"\s*:\s*"([^"]{1,40})"'),
}
_BEGINS = lazy(rb"\s*(?:\xef\xbb\xbf)?\s*(?:\x1e|data: |\d{4}-[\d:.TZ+-]{16,32}\t[^\t\n]{1,200}\t)?[\[{]")


class Form(NamedTuple):
    """How a file holds its records. system: a key of `collected.SYSTEMS`."""

    system: str
    by_line: bool  # a record a line
    numbered: bool  # its text can have the file's own line numbers
    ended: bool = True  # texts bear the end of their line, so that one without it is a piece of a longer one


def form_of(head: bytes) -> Form | None:
    """How a file that begins with these bytes holds records of a log; None where it holds none."""
    if not _BEGINS.match(head) or not any(mark in head for mark in MARKS):
        return None
    first = head.lstrip(b" \t\r\n\xef\xbb\xbf").split(b"\n", 1)[0]
    if (record := _object(first)) is not None and (system := _system(record)) is not None:
        lines = head.split(b"\n")
        records = [r for line in lines[: SAMPLE + 1] if (r := _object(line)) is not None]
        # The head may end within a line; a single record that is a whole document has no order.
        return _form(system, records, True, len(lines) > 1)
    several_lines = b"\n" in head.strip()[: len(first) + 2]
    for system, pattern in _LARGE.items():
        if times := [m.group(1).decode("utf-8", "replace") for m in pattern.finditer(head)]:
            return Form(system, False, several_lines and not _descend(times))
    records = []
    try:
        for found in islice(_in_document(head.decode("utf-8", "replace")), SAMPLE):
            records.append(found.record)
    except Stop:
        pass
    if not records or (system := _system(records[0])) is None:
        return None
    return _form(system, records, False, several_lines)


def _form(system: str, records: list[Mapping[str, Any]], by_line: bool, several_lines: bool) -> Form | None:
    if system == "journald" and all(map(is_kernels, records)):
        return None
    said = [one for record in records for one in SYSTEMS[system](record)]
    ended = any(one.text.endswith("\n") for one in said)
    return Form(system, by_line, several_lines and not _descend([one.time for one in said if one.time]), ended)


def _descend(times: Sequence[str]) -> bool:
    """Whether times run backwards: the newest record is the first."""
    times = [time.rstrip("Z") for time in times]
    return len(set(times)) > 1 and all(a >= b for a, b in pairwise(times))


def text(raw: BinaryIO, form: Form) -> Iterator[bytes]:
    """The lines of a file of that form. Raises Stop behind the last one where something could not be read as a text.

    Of a line in pieces the last one's place bears it whole, and the others are empty. What is no record stays as it is,
    where a record is a line; elsewhere it is left out.
    """
    said = _by_line(raw, form) if form.by_line and form.numbered else _whole(raw, form)
    unknown = total = 0
    pieces: dict[str, str] = {}
    problem: str | None = None
    try:
        for found in said:
            if isinstance(found, bytes):
                yield found
                continue
            shown = []
            for one in found:
                total += 1
                unknown += not one.known
                whole = pieces.pop(one.stream, "") + one.text
                if one.piece and form.ended and len(whole) < LINE:
                    pieces[one.stream] = whole
                else:
                    shown.append(_shown(one._replace(text=whole), "\r" if form.numbered else "\n"))
            yield ("\r" if form.numbered else "\n").join(shown).encode("utf-8", "replace") + b"\n"
    except Stop as stop:
        problem = str(stop)
    for rest in pieces.values():
        if rest:
            yield _shown(Said(rest, ""), "\r").encode("utf-8", "replace") + b"\n"
    if unknown:
        told = f"{unknown:,} of {total:,} records hold no text in a field that is known for it, and stand there as JSON"
        problem = f"{problem}; {told}" if problem else told
    if problem:
        raise Stop(problem)


def _shown(said: Said, end: str) -> str:
    front = said.front
    if front is None:
        front = f"{said.time} {said.stream or '-'} F " if said.time else ""
        front += f"[pod/{_word(said.whose)}] " if said.whose else ""
    body = said.text.removesuffix("\n").removesuffix("\r")
    return end.join(front + line for line in re.split(r"\r?\n", body))


def _word(whose: str) -> str:
    """A pod and its container; of a log stream's path the last part."""
    owner, _, container = whose.rpartition("/")
    return re.sub(r"[^\w.-]", "_", owner.rpartition("/")[2])[:200] + "/" + re.sub(r"[^\w.-]", "_", container)[:100]


def _by_line(raw: BinaryIO, form: Form) -> Iterator[bytes | list[Said]]:
    """What each line of a file holds, read as a stream."""
    read = SYSTEMS[form.system]
    while line := raw.readline(RECORD):
        if not line.endswith(b"\n") and len(line) == RECORD:
            while line and not line.endswith(b"\n"):
                line = raw.readline(RECORD)
            yield b"\n"
            continue
        record = _object(line)
        found = read(record) if record is not None else []
        yield found or (line if line.endswith(b"\n") else line + b"\n")


def _whole(raw: BinaryIO, form: Form) -> Iterator[bytes | list[Said]]:
    """What the records of a file hold, on as many lines as the file has where it keeps its numbers."""
    data = raw.read(DOCUMENT + 1)
    cut = len(data) > DOCUMENT
    document = data[:DOCUMENT].decode("utf-8", "replace")
    read = SYSTEMS[form.system]
    problem: str | None = f"only its first {DOCUMENT >> 20} MiB were read" if cut else None
    placed: list[tuple[int, Said]] = []  # (where it stands, what is said)
    try:
        for found in _in_document(document):
            at = found.start
            for said in read(found.record):
                mark = document.find(said.mark, at, found.end)
                at = mark if mark >= 0 else at
                placed.append((at, said))
                at += mark >= 0
    except Stop as stop:
        problem = problem or str(stop)
    if not form.numbered:
        times = [said.time for _, said in placed if said.time]
        newest_first = bool(times) and times[0] > times[-1]
        yield from ([said] for _, said in (reversed(placed) if newest_first else placed))
    else:
        yield from _on_their_lines(document, placed)
    if problem is None and not _ends(document):
        problem = "cut off within its last record"
    if problem:
        raise Stop(problem)


def _on_their_lines(document: str, placed: list[tuple[int, Said]]) -> Iterator[bytes | list[Said]]:
    number, here, at = 0, 0, 0
    lines: list[Said] = []
    for place, said in placed:
        here += document.count("\n", at, place)
        at = place
        if here > number:
            yield lines or b"\n"
            yield from (b"\n" for _ in range(here - number - 1))
            number, lines = here, []
        lines.append(said)
    if lines:
        yield lines


class _Found(NamedTuple):
    start: int
    end: int
    record: Mapping[str, Any]


def _in_document(document: str) -> Iterator[_Found]:
    """The records in a text of JSON, also of one that is cut off. Raises Stop where they lie too deep."""
    at, left = 0, EFFORT * len(document) + HEAD
    while (at := document.find("{", at)) >= 0:
        end = at
        try:
            value, end = _DECODER.raw_decode(document, at)
        except json.JSONDecodeError as error:
            left -= max(error.pos - at, 1)
            value = None
        except RecursionError:
            raise Stop("objects lie too deep within each other") from None
        if isinstance(value, dict) and _system(value) is not None:
            yield _Found(at, end, value)
            at = end
            continue
        left -= end - at
        if left < 0:
            raise Stop("records lie too deep within other objects")
        at += 1


def _ends(document: str) -> bool:
    return document.rstrip()[-1:] in ("}", "]")


def _object(line: bytes) -> Mapping[str, Any] | None:
    """The record on a line; None where a line holds none. Never raises."""
    if (m := _FRONT.match(line)) is None:
        return None
    try:
        record: Any = json.loads(line[m.end() - 1 :].decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _system(record: Mapping[str, Any]) -> str | None:
    return next((name for name, read in SYSTEMS.items() if read(record)), None)
