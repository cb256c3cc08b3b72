"""One look at a live run after the other: read what is new, explain what is known, tell what is news."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import explain_with_data
from forensics.engine.reading import sniffers
from forensics.model import Diagnosis, Kind, Role, Source
from forensics.parsers.metric_lines import BATCH
from forensics.signatures.schema import Signature, SignatureError
from forensics.watch import live, logs, structured
from forensics.watch.disk import Disk, Room, room
from forensics.watch.files import Changes, Files, Followed, Key
from forensics.watch.lag import Progress
from forensics.watch.ledger import Ledger
from forensics.watch.logs import Piece
from forensics.watch.memory import Memory
from forensics.watch.news import News, Sign, signs, survived
from forensics.watch.pace import Pace, Slow
from forensics.watch.rhythm import Rhythm

if TYPE_CHECKING:
    import polars as pl

URGENT, PATIENT = 4.0, 20.0  # times its own cost after which the run is explained again: with new signs, and without
LOADING = 0.3  # seconds that the first time is taken to cost at most: it also loads modules
ENDED = 15.0  # seconds of silence at least, after words of an end, until a run counts as ended
DIED = 60.0  # the same after a death: a launcher may be about to start the processes again
LAST_WORDS = 600.0  # the most that is waited after a death, however long the usual silences are
_WRITING = (Kind.LOG, Kind.TENSORBOARD, Kind.METRICS)  # files whose growth is a sign of life
_FATAL = frozenset({"failed", "interrupted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is watched. silence: seconds below which no silence is told. idle: seconds without a word after which
    a run counts as ended whatever it said; None for never. own: files that are the program's own output.
    """

    exclude: tuple[str, ...] = ()
    interval: float = 5.0
    silence: float = 60.0
    idle: float | None = None
    own: frozenset[Key] = frozenset()
    measure: Callable[[Path], Room | None] = room


@dataclass(slots=True)
class Watcher:
    """What is known of a live run. `look` is all that a loop has to call."""

    paths: Sequence[str]
    catalogue: Mapping[str, Signature]
    settings: Settings
    matcher: Matcher | None = None  # of the catalogue; made where none is given
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    diagnosis: Diagnosis | None = None
    read: int = 0  # bytes that were read for the first time
    fault: str | None = None  # what went wrong when the run was explained last
    until: float | None = None  # by `clock`: no further file is read from then on
    cut: bool = False  # whether files were left unread because of `until`
    _files: Files = field(init=False)
    _matcher: Matcher = field(init=False)
    _memory: Memory = field(default_factory=Memory)
    _ledger: Ledger = field(default_factory=Ledger)
    _rhythm: Rhythm = field(init=False)
    _progress: Progress = field(default_factory=Progress)
    _pace: Pace = field(default_factory=Pace)
    _disk: Disk = field(init=False)
    _slow: list[Slow] = field(default_factory=list)
    _silences: dict[Hashable, tuple[Sign, float | None]] = field(default_factory=dict)
    _findings: list[Sign] = field(default_factory=list)
    _survived: set[str] = field(default_factory=set)
    _said_end: bool = False
    _died: bool = False
    _rank_of: dict[str, int | None] = field(default_factory=dict)
    _stale: bool = False  # what was read since the run was explained
    _urgent: bool = False
    _explained: float = float("-inf")
    _cost: float = 0.0
    _warm: bool = False  # whether a run with metrics was explained before
    _looks: int = 0
    _explanations: int = 0
    _began: float | None = None  # when it was looked at first
    _wrote: float | None = None  # when anything was last written

    def __post_init__(self) -> None:
        s = self.settings
        self._files = Files(self.paths, sniffers(), exclude=s.exclude, own=s.own)
        self._matcher = self.matcher if self.matcher is not None else Matcher(self.catalogue)
        self._rhythm = Rhythm(s.silence)
        folders = [Path(p) if Path(p).is_dir() else Path(p).parent for p in self.paths]
        self._disk = Disk(folders, s.measure)

    @property
    def files(self) -> int:
        """How many files are followed."""
        return len(self._files.all())

    @property
    def sources(self) -> list[Source]:
        """The files that are followed, as they were at the last look."""
        return [f.source for f in self._files.all()]

    @property
    def waiting(self) -> bool:
        """Whether something awaits a second look, which should come soon."""
        return self._ledger.waiting

    @property
    def open(self) -> list[Sign]:
        """What is wrong, was told and is not over."""
        return self._ledger.open()

    @property
    def told(self) -> int:
        """How many things were told."""
        return self._ledger.count

    @property
    def written(self) -> float | None:
        """When anything was last written, by `clock`."""
        return self._wrote

    def look(self, *, last: bool = False) -> list[News]:
        """Read what is new and return what is news. last: explain in any case, and tell at once.

        Raises NothingToRead where a path of the run does not exist any more.
        """
        first = self._looks == 0
        self._looks += 1
        moment, at = self.now(), self.clock()
        self._began = at if self._began is None else self._began
        changes = self._files.look()
        self._memory.change(changes.gone, changes.moved, changes.forgotten)
        rows = self._read(changes, at, moment, first)
        if changes.stirred and not first:
            self._stirs(at)
        self._note(rows, at, first)
        self._stale = self._stale or bool(changes)
        if self._stale and (first or last or self._due(at)):
            self._explain(at)
        found = [*self._findings, *self._living(at)]
        known = {f.path for f in self._files.all()}
        return self._ledger.compare(
            found,
            self._survived,
            moment,
            at_start=first,
            at_once=first or last,
            known=known,
            explanation=self._explanations,
        )

    def ended(self) -> str | None:
        """Why the run counts as ended: "finished", "died" or "silent"; None while it goes on."""
        since = self._wrote if self._wrote is not None else self._began
        if since is None:
            return None
        quiet = self.clock() - since
        usual = self._rhythm.limit(live.RUN, self.settings.interval) or 0.0
        idle = self.settings.idle is not None and quiet >= self.settings.idle
        if self._died and (idle or quiet >= max(DIED, min(usual, LAST_WORDS))):
            return "died"
        if self._said_end and (idle or quiet >= ENDED):
            return "finished"
        return "silent" if idle else None

    def _read(self, changes: Changes, at: float, moment: float, first: bool) -> list[pl.DataFrame]:
        """Take in what is new, as many bytes at a time as metrics are read together."""
        rows: list[pl.DataFrame] = []
        pieces: list[Piece] = []
        waiting = 0
        for followed in changes.grown:
            if self.until is not None and self.clock() >= self.until:
                self.cut = True
                break
            before = followed.done
            piece = _piece(followed, self._matcher)
            self.read += max(0, followed.done - before)
            written = at - max(0.0, moment - followed.mtime) if first else at
            if followed.source.kind in _WRITING and followed.size:
                self._alive(followed, written)
            if piece is None:
                continue
            pieces.append(piece)
            self._urgent = self._urgent or self._is_trouble(piece)
            waiting += piece.text.size if piece.text is not None else 0
            if waiting >= BATCH:
                rows.append(self._memory.take(pieces))
                pieces, waiting = [], 0
        if pieces:
            rows.append(self._memory.take(pieces))
        return rows

    def _alive(self, followed: Followed, at: float) -> None:
        self._wrote = at if self._wrote is None else max(self._wrote, at)
        self._rhythm.note(live.RUN, self._wrote)
        rank = self._rank_of.get(followed.path, followed.source.identity.rank)
        if rank is not None:
            self._rhythm.note(rank, at)

    def _stirs(self, at: float) -> None:
        """Something of the run was written, be it a file that is not read, such as a checkpoint."""
        self._wrote = at if self._wrote is None else max(self._wrote, at)
        self._rhythm.note(live.RUN, self._wrote)

    def _is_trouble(self, piece: Piece) -> bool:
        if piece.tracebacks or piece.collectives is not None:
            return True
        kinds = {self.catalogue[o.signature].kind for o in piece.observations if o.signature in self.catalogue}
        return bool(kinds & {"cause", "symptom", "echo"})

    def _note(self, rows: Sequence[pl.DataFrame], at: float, first: bool) -> None:
        """Steps of ranks, and signs of life of ranks that share a file."""
        if first:
            for frame in rows:
                for who, gaps in live.gaps(frame, self._own_ranks()).items():
                    self._rhythm.seed(who, gaps)
        steps: dict[int, tuple[int, int]] = {}
        for frame in rows:
            for rank, (step, records) in live.steps(frame, self._own_ranks()).items():
                known = steps.get(rank, (step, 0))
                steps[rank] = (max(step, known[0]), records + known[1])
        if not steps:
            return
        self._progress.note(steps)
        if not first:
            for rank in steps:
                self._rhythm.note(rank, at)
            self._young(rows)

    def _young(self, rows: Sequence[pl.DataFrame]) -> None:
        """A rank that stops soon has written at a few looks only, but lines enough whose times tell its rhythm.

        Not so of the whole run: no other goes on while it compiles or evaluates for the first time.
        """
        if all(self._rhythm.known(rank) for rank in self._rhythm.ranks()):
            return
        for frame in rows:
            for who, gaps in live.gaps(frame, self._own_ranks()).items():
                if who != live.RUN:
                    self._rhythm.seed(who, gaps, sum(gaps))

    def _due(self, at: float) -> bool:
        return at - self._explained >= self._cost * (URGENT if self._urgent else PATIENT)

    def _explain(self, at: float) -> None:
        self._explained, self._stale, self._urgent = at, False, False
        self._explanations += 1
        sources = [f.source for f in self._files.all()]
        begin = time.perf_counter()
        try:
            analysis = explain_with_data(self._memory.data(" ".join(self.paths), sources), self.catalogue)
        except SignatureError:
            raise
        except Exception as error:  # the next lines may be explained again, and what only watching shows goes on
            if os.environ.get("FORENSICS_DEBUG"):
                raise
            self.fault = f"{type(error).__name__}: {str(error)[:200]}"
            return
        self.diagnosis = analysis.diagnosis
        self._findings, self._survived = signs(self.diagnosis, self.catalogue), survived(self.diagnosis)
        self._rank_of = {c.path: c.rank for c in self.diagnosis.coverage}
        self._slow = self._pace.look(analysis.data.metrics)
        observed = analysis.data.observations
        attempt = max((o.identity.attempt or 0 for o in observed), default=0)
        self._said_end = any(
            o.signature == FINISHED and o.weight > ANYBODYS_END and (o.identity.attempt or 0) == attempt
            for o in observed
        )
        self._died = any(
            f.role is Role.ROOT
            and f.severity in ("fatal", "error")
            and (f.attempt or 0) == attempt
            and self.catalogue[f.name].verdict in _FATAL
            for f in self.diagnosis.findings
            if f.name in self.catalogue
        )
        cost = time.perf_counter() - begin
        self._cost = cost if self._warm else min(cost, LOADING)
        self._warm = self._warm or analysis.data.metrics.height > 0

    def _living(self, at: float) -> list[Sign]:
        """What only watching shows. A run that ended is silent, and its ranks need not end together.

        A silence once told lasts until the one that is silent writes again.
        """
        for who in [w for w, sign in self._silences.items() if self._rhythm.last(w) != sign[1]]:
            del self._silences[who]
        interval = self.settings.interval
        found: list[Sign] = []
        if not (self._said_end or self._died):
            everyone: list[Hashable] = list(self._rhythm.ranks())
            whole = self._rhythm.silent(live.RUN, at, interval)
            silent = (
                live.silent(self._rhythm.alone(everyone, at, interval), self._progress, self.catalogue)
                if whole is None
                else {whole.who: live.stands_still(whole, self._progress.last(), self.catalogue)}
            )
            for who, sign in silent.items():
                self._silences.setdefault(who, (sign, self._rhythm.last(who)))
            found += live.slow(self._slow, len(everyone))
        behind = [b for b in self._progress.behind() if b.rank not in self._silences]
        found += live.behind(behind, self.catalogue) + [sign for sign, _ in self._silences.values()]
        return found + live.filling(self._disk.look(at), self.catalogue)

    def _own_ranks(self) -> dict[str, int | None]:
        """path -> rank, as far as the run was explained, and by the names of files otherwise."""
        named = {f.path: f.source.identity.rank for f in self._files.all()}
        return named | {path: rank for path, rank in self._rank_of.items() if rank is not None}


def _piece(followed: Followed, matcher: Matcher) -> Piece | None:
    """What is new in a file; a file that cannot be read, or whose parser fails, costs its own news only."""
    try:
        read = logs.read if followed.source.kind is Kind.LOG else structured.read
        return read(followed, matcher)
    except OSError:
        return None
    except Exception:
        if os.environ.get("FORENSICS_DEBUG"):
            raise
        followed.done = followed.size  # it would fail again at each look; the analysis at the end says what is wrong
        followed.back = followed.size
        return None
