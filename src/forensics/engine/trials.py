"""Trials of Ray Tune that failed and were started again: what became of them stands in their results.

Tune appends each failure of a trial to its `error.txt` and never takes one out (ray/tune/experiment/trial.py,
`handle_error`: "Failure # 1 (occurred at 2026-01-05_08-08-07)"). A trial that is tried again appends to the same
`result.json`, whose rows say whether the trial is over (`done`, ray/air/constants.py). Only the last of them says so,
and a trial whose last failure was its end has none. A trial that was paused and then stopped (HyperBand), or whose
experiment came to its limit of time or was ended by hand, has none either (ray/tune/execution/tune_controller.py,
`_process_trial_result` and `stop_trial`): then it came back where it has results of after its last failure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forensics.engine.finishes import FINISHED
from forensics.engine.survival import TRIAL_FINISHED
from forensics.files import beginning
from forensics.model import Evidence, Identity, Observation, Source
from forensics.parsers.run_files.documents import TRUE, read_json
from forensics.parsers.run_files.whereabouts import last_lines

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

ERRORS, RESULTS = "error.txt", "result.json"
WEIGHT = 0.95
TRIALS = 256  # of a run that are looked at
_ERRORS_BYTES = 1 << 20
_FAILURE = re.compile(rb"^Failure # \d{1,6} \(occurred at (\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)\)\r?$", re.M)


@dataclass(frozen=True, slots=True)
class Trial:
    """One that failed and came to its end later, or went on at least."""

    folder: str  # of its files, with "/" at its end; "" for the run's own
    end: Observation
    failures: tuple[tuple[int, str], ...]  # (line of error.txt, date) of each
    rows: tuple[tuple[str, int], ...]  # (date, iteration) of the last results

    def reached(self, line: int) -> int | None:
        """The last iteration before a failure that stands at or above a line of error.txt, where dates tell."""
        at = bisect_right(self.failures, (line, "~"))
        if not at or not self.rows:
            return None
        done = bisect_right(self.rows, (self.failures[at - 1][1], 1 << 62))
        return self.rows[done - 1][1] if done else None


def came_back(sources: Sequence[Source]) -> tuple[Trial, ...]:
    """The trials among a run's files that failed and were tried again.

    Their last result says that they are done, or is of a later time than their last failure.
    """
    errors = [s for s in sources if s.path.rpartition("/")[2] == ERRORS]
    if not errors:
        return ()
    results = {s.path: s for s in sources if s.path.rpartition("/")[2] == RESULTS}
    pairs = ((s, results.get(s.path.removesuffix(ERRORS) + RESULTS)) for s in errors[:TRIALS])
    return tuple(trial for s, told in pairs if told is not None and (trial := _trial(s, told)) is not None)


def told(found: Sequence[Observation], trials: Sequence[Trial]) -> list[Observation]:
    """The observations with the ends of these trials, and what each failure tells of the step that it came after."""
    if not trials:
        return list(found)
    of_file: Mapping[str, Trial] = {trial.folder + ERRORS: trial for trial in trials}
    placed = []
    for o in found:
        key = o.evidence[0]
        trial = of_file.get(key.file)
        step = trial.reached(key.line) if trial is not None and key.line is not None and o.step is None else None
        placed.append(o if step is None else replace(o, step=step, step_is="last_seen"))
    return [*placed, *(trial.end for trial in trials)]


def overcome(found: Sequence[Candidate], live: Sequence[Candidate]) -> None:
    """Mark as recovered what failed trials alone that came to their end: a sign in `error.txt`, and what goes with it.

    Of what failed others too, the signs of these trials are outlived.
    """
    ends = (o.evidence[0].file for c in found if c.signature.name == FINISHED for o in c.observations if o.rule is None)
    folders = {file.removesuffix(RESULTS) for file in ends if file.rpartition("/")[2] == RESULTS}
    for c in live if folders else ():
        # Without a clock an error in another file of a trial may be of after its end, unless Tune tells of it too.
        told = {_folder(o) for o in c.observations if o.evidence[0].file.rpartition("/")[2] == ERRORS} & folders
        signs = tuple(o for o in c.observations if _folder(o) in told)
        if c.context is not None or not signs:
            continue
        if len(signs) == len(c.observations):
            c.recovered = True
        else:
            c.outlived = (*c.outlived, *(o for o in signs if all(o is not other for other in c.outlived)))


def finished_trials(found: Sequence[Candidate]) -> frozenset[str]:
    """The numbers of the trials of which a study says that they finished or were pruned."""
    told = (o for c in found if c.signature.name == TRIAL_FINISHED for o in c.observations)
    return frozenset(o.captures["trial"] for o in told if "trial" in o.captures)


def _folder(o: Observation) -> str:
    head, slash, _ = o.evidence[0].file.rpartition("/")
    return head + slash


def _trial(errors: Source, results: Source) -> Trial | None:
    try:
        text = beginning(errors.file, _ERRORS_BYTES)
        rows = [(read_json(line), line) for line in last_lines(results)]
    except OSError:
        return None
    failures = [(text.count(b"\n", 0, m.start()) + 1, m[1].decode()) for m in _FAILURE.finditer(text)]
    if not failures or not rows:
        return None
    last, said = rows[-1]
    date = last.get("date") or ""
    # Both are the local time of machines of one cluster.
    done, failed = last.get("done") == TRUE, failures[-1][1]
    if last.get("training_iteration") is None or not (date > failed or (done and date in ("", failed))):
        return None
    dated = [(row.get("date"), row.get("training_iteration")) for row, _ in rows]
    counted = tuple(sorted((d, int(n)) for d, n in dated if d and n and n.isdecimal()))
    note = f"its last result says that the trial {'is done' if done else 'went on after its last failure'}"
    end = Observation(
        signature=FINISHED,
        weight=WEIGHT,
        evidence=(Evidence(results.path, None, None, said[:300]),),
        identity=Identity(),
        culprits=(),
        note=note,
    )
    return Trial(errors.path.removesuffix(ERRORS), end, tuple(failures), counted)
