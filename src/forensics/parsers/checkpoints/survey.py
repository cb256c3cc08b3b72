"""All checkpoint files of a run: whether they are whole, what they hold and, where it is asked for, their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forensics.model import Evidence, Fact, Observation, Source, Status
from forensics.parsers.checkpoints import deep as values
from forensics.parsers.checkpoints.contents import facts, read
from forensics.parsers.checkpoints.damage import BEFORE, CUT, LEFT_OVER, NAME, STATE, observation
from forensics.parsers.checkpoints.folders import check_folders, partitions_missing
from forensics.parsers.checkpoints.integrity import check
from forensics.parsers.checkpoints.opcodes import MAX_BYTES
from forensics.parsers.checkpoints.series import before
from forensics.parsers.checkpoints.states import MODEL
from forensics.parsers.checkpoints.units import FINITE, NONFINITE, Unit, units

NONFINITE_SIGNATURE = "checkpoint-nonfinite"
UNIT = "checkpoint"  # capture: the path of the checkpoint that an observation is about
LISTED = 2 << 20  # bytes of names that are gone through in one run; half a microsecond a byte
SHOWN = 3  # tensors of a checkpoint that are named


@dataclass(slots=True)
class Survey:
    """What the checkpoint files of a run tell, filled file by file."""

    observations: list[Observation] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    rows: dict[str, tuple[Source, Status, str | None]] = field(default_factory=dict)

    def add(self, source: Source, reason: str) -> None:
        """A further reason why a file was not read in full."""
        _, status, before = self.rows[source.path]
        partial = Status.PARTIAL if status is Status.READ else status
        self.rows[source.path] = (source, partial, f"{before}; {reason}" if before else reason)


def survey(
    sources: Sequence[Source],
    checkpoints: Sequence[Source],
    others: Iterable[str],
    *,
    deep: bool = False,
    fault: Callable[[Exception], str] = repr,
) -> Survey:
    """Look at the checkpoint files among the sources of a run.

    others: paths that were found and are no sources. fault: what coverage says of an exception that is no OSError.
    """
    found = Survey()
    left = LISTED
    for source in _first_of_each_folder(checkpoints):
        status, reason = Status.READ, None
        try:
            if damage := check(source.file, source.path.rsplit("/", 1)[-1], source.gap):
                found.observations.append(observation(source, damage))
                status, reason = Status.PARTIAL, damage.text
            else:
                contents = read(source.file, source.path, MAX_BYTES if deep else max(0, left), source.gap)
                left -= contents.walked
                if contents.refused is not None:
                    status, reason = Status.PARTIAL, contents.refused
                found.facts += facts(source, contents)
                if world := int(contents.values.get("dp_world_size", 0)):
                    lost = partitions_missing(source, world, checkpoints) if source.path.endswith(".pt") else None
                    found.observations += [observation(source, lost)] if lost else []
        except OSError as error:
            status, reason = Status.UNREADABLE, error.strerror or str(error)
        except Exception as error:
            status, reason = Status.PARTIAL, fault(error)
        found.rows[source.path] = (source, status, reason)
        if source.gap is not None:
            start, end = source.gap
            found.add(source, f"bytes {start:,} to {end:,} were not fetched")
    found.observations = [_of_newest(o, found) for o in found.observations]
    try:
        found.observations += [observation(source, damage) for source, damage in check_folders(sources, others)]
    except Exception as error:  # costs what folders would have told; each file has its row
        fault(error)
    if deep:
        _look(found, checkpoints, fault)
    return found


def _of_newest(o: Observation, found: Survey) -> Observation:
    """A sign of damage, with the name of the whole file that was saved before where the newest one is not whole."""
    if o.captures.get(STATE) not in (CUT, LEFT_OVER):
        return o
    earlier = before(o.captures[NAME], found.rows)
    if earlier is None or found.rows[earlier][1] is not Status.READ:
        return o
    return replace(o, captures={**o.captures, BEFORE: earlier})


def _first_of_each_folder(sources: Sequence[Source]) -> list[Source]:
    """Files in the order in which their contents are listed while the limit lasts: of each folder one, and so on."""
    count: dict[str, int] = {}
    ordered = []
    for source in sources:
        folder = source.path.rpartition("/")[0]
        count[folder] = count.get(folder, 0) + 1
        ordered.append((count[folder], source))
    return [s for _, s in sorted(ordered, key=lambda pair: pair[0])]


def _look(found: Survey, checkpoints: Sequence[Source], fault: Callable[[Exception], str]) -> None:
    """Look through the values, for the first checkpoint of each series that holds some that are not finite.

    Weights that became NaN stay so: the last checkpoint is looked at first, and the history is halved from there.
    """
    by_path = {s.path: s for s in checkpoints}
    allowance = values.Allowance()
    for series in _series(units(found.facts, by_path)):
        scans: dict[int, _Look] = {}
        low, high, at = -1, len(series), len(series) - 1  # low is finite; high is not, or beyond the end
        while high - low > 1:
            scans[at] = look = _look_at(series[at], found, by_path, allowance, fault)
            if look.bad:
                high = at
            elif not look.whole:
                break
            else:
                low = at
            at = (low + high) // 2
        stopped = high - low > 1
        for n in set(range(len(series))) - set(scans):
            why = (
                "the limit was reached" if stopped else "a later one is finite" if n < high else "an earlier one is not"
            )
            for path in series[n].files:
                found.add(by_path[path], f"its values were not looked at: {why}")
        if high in scans:
            found.observations.append(_sign(series[high], scans[high].bad, series[low] if low >= 0 else None, stopped))


@dataclass(frozen=True, slots=True)
class _Look:
    bad: tuple[tuple[Source, values.NonFinite], ...]
    whole: bool  # everything was looked at


def _series(listed: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Checkpoints of one name but for their numbers, by step; each that has no step by itself."""
    series: dict[str, list[Unit]] = {}
    for unit in listed:
        key = unit.path if unit.step is None else re.sub(r"\d+", "#", unit.path)
        series.setdefault(key, []).append(unit)
    yield from series.values()


def _look_at(
    unit: Unit,
    found: Survey,
    by_path: Mapping[str, Source],
    allowance: values.Allowance,
    fault: Callable[[Exception], str],
) -> _Look:
    """The tensors of one checkpoint that are not finite, the model's before those of other states."""
    bad: list[tuple[Source, values.NonFinite]] = []
    whole = True
    holds = {f.source: f.value for f in found.facts if f.name == "checkpoint.holds"}
    shards = {p.rpartition("/")[2]: by_path[p].file for p in unit.files if p.endswith(".distcp")}
    for path in sorted(unit.files, key=lambda p: (not holds.get(p, "").startswith(MODEL), p)):
        source, name = by_path[path], path.rpartition("/")[2]
        if name.endswith(".distcp"):
            continue
        try:
            if name == ".metadata":
                scan = values.scan_shards(source.file, shards, allowance)
            else:
                scan = values.scan(source.file, name, allowance, source.gap)
        except OSError as error:
            found.add(source, error.strerror or str(error))
            whole = False
            continue
        except Exception as error:
            found.add(source, fault(error))
            whole = False
            continue
        bad += [(source, one) for one in scan.bad]
        if scan.step is not None:
            found.facts.append(Fact("checkpoint.optimizer_step", f"{scan.step:g}", path))
        if scan.bad:
            found.facts.append(Fact(NONFINITE, f"{scan.bad[0].name}: {values.index_text(scan.bad[0])}", path))
        elif scan.problem is None and scan.tensors:
            found.facts.append(Fact(FINITE, str(scan.tensors), path))
        if scan.problem:
            found.add(source, scan.problem)
            whole = False
    return _Look(tuple(bad), whole)


def _sign(
    unit: Unit, bad: Sequence[tuple[Source, values.NonFinite]], before: Unit | None, stopped: bool
) -> Observation:
    told = []
    for source, one in bad[:SHOWN]:
        of = f" (of {one.of[:200]})" if one.of else ""
        text = f"{one.name[:300]}{of} holds {values.index_text(one)}"
        told.append(Evidence(source.path, None, None, text))
    note = f"{unit.path} is not finite: {told[0].text}"
    if len(bad) > 1:
        note += f"; {len(bad):,} of its tensors are not"
    if before is not None:
        note += f"; {before.path}, {'an earlier one' if stopped else 'the one before it'}, is finite"
    return Observation(
        signature=NONFINITE_SIGNATURE,
        weight=0.9,
        evidence=tuple(told),
        step=unit.step,
        step_is="first_logged" if unit.step is not None else None,
        culprits=(),
        captures={UNIT: unit.path, "tensor": bad[0][1].of or bad[0][1].name},
        note=note,
    )
