"""One event file, from its bytes to rows; goes on after damage and never raises on content."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from forensics.files import buffered
from forensics.parsers.tensorboard import frames
from forensics.parsers.tensorboard.checksums import masked_crcs
from forensics.parsers.tensorboard.events import Rows, Session

if TYPE_CHECKING:
    import polars as pl


class EventFile(NamedTuple):
    """What one event file says."""

    scalars: pl.DataFrame  # events.EVENT_COLUMNS, in file order; time in seconds since the epoch; NaN and Inf kept
    records: int  # records with correct checksums, whatever they hold
    bytes_read: int
    problem: str | None  # what could not be read and why, for people; None where all was
    text: tuple[tuple[str, int, str], ...] = ()  # (tag, step, text) of text summaries and hyperparameters
    sessions: tuple[Session, ...] = ()  # where sessions start, in file order


def read_events(path: Path, *, max_bytes: int | None = None) -> EventFile:
    """Read every number and text of an event file, and go on after damage.

    Never raises on content: cut tails, wrong checksums and foreign bytes are told in `problem`, and what stands before
    and after them is still read. A file that cannot be opened has `problem` too. Histograms become numbers named
    `<tag>/min`, `/max`, `/mean`, `/std`, `/zeros` and `/nonfinite` (shares). With `max_bytes` only that many bytes from
    the start are looked at.
    """
    walk = frames.Walk(tries=frames.RESYNC_TRIES)
    rows = Rows()
    try:
        with buffered(path) as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            walk.size = size
            walk.limit = size if max_bytes is None else max(0, min(size, max_bytes))
            for block in frames.blocks(stream, walk):
                _read_block(block, walk, rows)
    except OSError as error:
        walk.notes.append(f"cannot be read: {error.strerror or error}")
    problem = "; ".join(filter(None, (walk.problem(), rows.problem()))) or None
    return EventFile(rows.frame(), walk.records, walk.read, problem, tuple(rows.text), tuple(rows.sessions))


class Follower:
    """Reads what an event file has grown by since the last look: whole records only."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self.path = path
        self.position = position  # bytes that are done with
        self.restarts = 0  # sessions so far that went back in the steps of those before
        self._highest: int | None = None
        self._rows = Rows()

    def more(self) -> EventFile:
        """The records from `position` to the last whole one. Row numbers count from the first of them.

        Damage is passed over without a word, as the next record shows: what there is to say of it says `read_events`.
        Raises OSError.
        """
        rows = self._rows = self._rows.following()
        start, records = self.position, 0
        walk = frames.Walk(tries=frames.RESYNC_TRIES // 100)
        with buffered(self.path) as stream:
            size = stream.seek(0, 2)
            while self.position < size:
                stream.seek(self.position)
                buffer = stream.read(min(frames.BLOCK + frames.LARGE, size - self.position))
                found, used = frames.whole(buffer, size - self.position, walk)
                if found.payloads:
                    _read_block(found, walk, rows)
                    records += len(found.payloads)
                if not used:
                    break
                self.position += used
        file = EventFile(rows.frame(), records, self.position - start, None, tuple(rows.text), tuple(rows.sessions))
        self._count(file)
        return file

    def _count(self, file: EventFile) -> None:
        if any(self._highest is not None and s.step <= self._highest for s in file.sessions if s.row == 0):
            self.restarts += 1
        highest = file.scalars["step"].max()
        if isinstance(highest, int):
            self._highest = max(highest, self._highest) if self._highest is not None else highest


def _read_block(block: frames.Frames, walk: frames.Walk, rows: Rows) -> None:
    """Check the payloads of one block, and take the numbers and texts out of those that are right."""
    offsets, payloads = block.offsets, block.payloads
    computed = masked_crcs(payloads)
    if computed != block.checksums:
        right = [n for n, (a, b) in enumerate(zip(computed, block.checksums, strict=True)) if a == b]
        if not walk.wrong:
            good = set(right)
            walk.wrong_at = next(offset for n, offset in enumerate(offsets) if n not in good)
        walk.wrong += len(offsets) - len(right)
        offsets = [offsets[n] for n in right]
        payloads = [payloads[n] for n in right]
    if not payloads:
        return
    walk.records += len(payloads)
    walk.last_good = offsets[-1]
    strange = rows.add(payloads)
    if strange and not walk.strange:
        walk.strange_at = offsets[strange[0]]
    walk.strange += len(strange)
