"""The new records of files that are no logs: event files and files of metric lines as they grow, the others whole."""

from __future__ import annotations

from dataclasses import replace

from forensics.engine.matcher import Matcher
from forensics.files import beginning, opened
from forensics.model import Kind
from forensics.watch.files import PRINT, TRAIL, Followed
from forensics.watch.logs import NEW, Piece, line_end


def read(followed: Followed, matcher: Matcher) -> Piece | None:
    """What is new in a file that is no log; None where nothing is. Raises OSError.

    Checkpoints are not looked into: that is left to the analysis of the whole run.
    """
    source = followed.source
    if not followed.head:
        followed.head = beginning(source.file, PRINT) if source.kind in _GROWING else b""
    if source.kind is Kind.TENSORBOARD:
        return _events(followed)
    if source.kind is Kind.METRICS:
        return _metrics(followed)
    if source.kind is Kind.FLIGHT_RECORDER:
        from forensics.parsers import flight_recorder

        dump = flight_recorder.read_dump(source.file, source)
        return Piece(path=source.path, collectives=flight_recorder.collectives(dump, source))
    if source.kind is Kind.ERROR_FILE:
        from forensics.parsers import error_files

        record = error_files.read(source, matcher, reference=followed.mtime)
        return Piece(path=source.path, tracebacks=record.tracebacks, observations=record.observations)
    if source.kind is Kind.CONFIG:
        from forensics.parsers import run_files

        return Piece(path=source.path, facts=run_files.collect([source], str).facts)
    return None


_GROWING = (Kind.TENSORBOARD, Kind.METRICS)


def _events(followed: Followed) -> Piece | None:
    from forensics.parsers import tensorboard

    source = followed.source
    if followed.reader is None:
        followed.reader = tensorboard.Follower(source.file)
    file = followed.reader.more()
    followed.done = followed.reader.position
    if not file.records:
        return None
    if followed.reader.restarts and source.identity.attempt is None:
        source = replace(source, identity=replace(source.identity, attempt=followed.reader.restarts))
    return Piece(
        path=source.path,
        since=followed.done,
        rows=tensorboard.metrics(file, source),
        observations=tensorboard.resumes(file, source),
        facts=tensorboard.facts(file, source),
    )


def _metrics(followed: Followed) -> Piece | None:
    from forensics.parsers import metric_files

    source = followed.source
    if followed.form is None and followed.done == 0:
        followed.form = metric_files.form_of_lines(beginning(source.file, 64 << 10), source.path)
    if followed.form is None or (followed.done == 0 and followed.size > NEW):
        rows, _ = metric_files.read(source.file, source)
        if followed.form is None:
            return Piece(path=source.path, rows=rows, whole=True)
        followed.done, _ = line_end(source.file, 0, followed.size)
        followed.newlines = _newlines(followed)
        return Piece(path=source.path, rows=rows, whole=True)
    end, at_line = line_end(source.file, followed.done, followed.size)
    if end <= followed.done or not at_line:
        return None
    with opened(source.file) as stream:
        stream.seek(max(followed.done, end - NEW))
        data = stream.read(end - max(followed.done, end - NEW)) or b""
    head = beginning(source.file, 64 << 10)
    rows = metric_files.read_lines(followed.form, data, head, followed.newlines + 1, source)
    followed.done, followed.newlines, followed.trail = end, followed.newlines + data.count(b"\n"), data[-TRAIL:]
    return Piece(path=source.path, rows=rows, since=end)


def _newlines(followed: Followed) -> int:
    count, left = 0, followed.done
    with opened(followed.source.file) as stream:
        while left and (data := stream.read(min(1 << 20, left))):
            count += data.count(b"\n")
            left -= len(data)
    return count
