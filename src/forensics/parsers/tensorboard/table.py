"""What an event file says, as rows of the run's tables: metrics, facts, and starts of sessions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from forensics.model import METRICS_COLUMNS, Evidence, Fact, Observation, Source, schema
from forensics.parsers.tensorboard.events import HPARAMS, Session
from forensics.parsers.tensorboard.hparams import END
from forensics.parsers.tensorboard.reader import EventFile
from forensics.probe.tags import NONFINITE, SAMPLE_IDS

if TYPE_CHECKING:
    import polars as pl

RESUMED, FAILED = "run-resumed", "process-failed"
FAILED_WEIGHT = 0.6  # as what a supervisor says of a job that failed
_FAILED_SESSION = f"{HPARAMS}{END}"
RESUME_WEIGHT = 0.9  # a writer is told to purge where a program goes on from a checkpoint, and by hand now and then
REPEAT_WEIGHT = 0.75  # steps repeat where two files were put together as well
MAX_REPEATS = 200  # of one file: a series that goes back more often does not count the steps of training
MAX_VALUE = 1_000  # characters of a fact's value
MAX_FACTS = 2_000  # of one file
MAX_BAD_STEPS = 8  # whose sample ids are told
_TEXT_SUFFIX = "/text_summary"  # PyTorch and tensorboardX put it behind the tag


def metrics(file: EventFile, source: Source) -> pl.DataFrame:
    """The scalars as rows of `model.METRICS_COLUMNS`, under canonical names and in canonical units.

    An unknown tag stays its own name. So does the second of two tags that mean the same at one step (the learning rates
    of parameter groups): a series under a canonical name holds one number a step, and nothing is lost. Parts of a loss
    are no series, and keep their common name. `epoch` is the epoch that the file gives for the same step.

    Rows behind the start of another session in the file, or behind a place from which its steps repeat, belong to a
    later attempt: nothing that they supersede is dropped, for what made a run go back stands there.
    """
    import polars as pl

    from forensics.parsers.names import canonical, factor

    tags = file.scalars["tag"].unique().to_list()
    known = {key: found for key in tags if (found := canonical(key)) is not None}
    names = [known.get(key, key) for key in tags]
    factors = {key: scale for key in known if (scale := factor(key)) != 1}
    tag, name, value = pl.col("tag"), pl.col("name"), pl.col("value")
    columns = schema(METRICS_COLUMNS)
    fixed = {"source": source.path, "line": None, "rank": source.identity.rank}
    attempt = _attempts(file, source).alias("attempt")
    return (
        file.scalars.lazy()
        .with_columns(attempt)
        .with_columns(
            tag.replace_strict(known, default=tag, return_dtype=pl.String).alias("name"),
            value * tag.replace_strict(factors, default=1.0, return_dtype=pl.Float64),
        )
        .with_columns(
            pl.when((name == "loss_part") | (tag == tag.first().over("attempt", "step", "name")))
            .then(name)
            .otherwise(tag)
            .alias("name")
            if len(set(names)) < len(names)
            else name,
            value.filter(name == "epoch").first().over("attempt", "step").alias("epoch")
            if "epoch" in names
            else pl.lit(None, pl.Float64).alias("epoch"),
        )
        .with_columns(pl.lit(content, dtype=columns[column]).alias(column) for column, content in fixed.items())
        .select(*columns)
        .collect()
    )


def _attempts(file: EventFile, source: Source) -> pl.Series:
    """The attempt of each row: the source's, or the number of sessions that began anew within the file."""
    import polars as pl

    height = file.scalars.height
    starts = [s.row for s in restarts(file)]
    if source.identity.attempt is not None or not starts:
        return pl.repeat(source.identity.attempt, height, dtype=pl.Int32, eager=True)
    rows = pl.Series(range(height), dtype=pl.Int64)
    return pl.Series(starts, dtype=pl.Int64).search_sorted(rows, side="right").cast(pl.Int32)


def restarts(file: EventFile) -> list[Session]:
    """Where rows begin that supersede earlier ones of the file, in its order.

    The session starts that have rows before and behind them and go back in the steps of those before, and, between
    them, where the steps repeat without one.
    """
    found: list[Session] = []
    steps = file.scalars["step"] if file.sessions else None
    for session in file.sessions:
        if steps is None or not 0 < session.row < len(steps) or (found and found[-1].row == session.row):
            continue
        begin = found[-1].row if found else 0
        highest = steps.slice(begin, session.row - begin).max()
        if isinstance(highest, int) and session.step <= highest:
            found.append(session)
    return sorted([*found, *_repeats(file, {s.row for s in file.sessions})])


def _repeats(file: EventFile, starts: Collection[int]) -> list[Session]:
    """Where training goes on from an earlier step than it had come to, and no session start says so.

    A program that loads a checkpoint and keeps its writer does that, and whoever puts two files together. The series
    with the most rows goes back, to a later step than 1 (what begins there anew is a run of its own, such as the next
    fold), and most of what is logged on both sides goes back with it. starts: rows at which a session starts.
    """
    import polars as pl

    scalars = file.scalars
    if scalars.height < 2 or not (scalars["step"].diff() < 0).any():
        return []
    rows = scalars.select("step", "time", "tag").with_row_index("row")
    counts = rows.group_by("tag").len().sort("len", "tag", descending=[True, False])
    main = rows.filter(pl.col("tag") == counts["tag"][0])
    back = main.filter(pl.col("step").diff() < 0)
    if back.height > MAX_REPEATS:
        return []
    steps = scalars["step"]
    found: list[Session] = []
    begin = 0
    for row, step, time in back.select("row", "step", "time").iter_rows():
        while row > begin and steps[row - 1] == step:  # what was logged at this step before the series was
            row -= 1
        if any(begin < start <= row for start in starts):
            begin = max(start for start in starts if start <= row)
        before = rows.slice(begin, row - begin).group_by("tag").agg(pl.col("step").last().alias("reached"))
        after = rows.slice(row).group_by("tag").agg(pl.col("step").first(), pl.len())
        both = after.join(before, on="tag")
        gone_back = both.filter(pl.col("step") <= pl.col("reached"))["len"].sum()
        if step > 1 and row not in starts and 2 * gone_back > both["len"].sum():
            found.append(Session(row, step, time))
            begin = row
    return found


def resumes(file: EventFile, source: Source) -> tuple[Observation, ...]:
    """One `run-resumed` observation for the last start of the file at a later step than 1.

    There the writer was told that it goes on (`SummaryWriter(purge_step=...)`, a Supervisor of TensorFlow 1), and from
    which step, or the steps repeat without a word; a session at step 0 or 1 is a new run.
    """
    told = set(file.sessions)
    starts = [s for s in sorted(told | set(restarts(file))) if s.step > 1]
    if not starts:
        return ()
    last = starts[-1]
    said = "a session starts (SessionLog START)" if last in told else "the steps repeat from here on"
    text = f"step {last.step}: {said}"
    before = file.scalars["step"].slice(0, last.row)
    lost = int((before >= last.step).sum())
    return (
        Observation(
            signature=RESUMED,
            weight=RESUME_WEIGHT if last in told else REPEAT_WEIGHT,
            evidence=(Evidence(source.path, None, None, text),),
            identity=source.identity,
            culprits=(),
            time=last.time,
            zone_known=True,
            timed=True,
            step=last.step,
            step_is="exact",
            captures={"step": str(last.step)},
            note=f"{text}; it supersedes {lost} values up to step {max(before)}" if lost else text,
        ),
    )


def ends(file: EventFile, source: Source) -> tuple[Observation, ...]:
    """One `process-failed` observation where the hparams plugin's session ended as a failure (its status says so)."""
    if not any(tag == _FAILED_SESSION for tag, _, _ in file.text):
        return ()
    return (
        Observation(
            signature=FAILED,
            weight=FAILED_WEIGHT,
            evidence=(Evidence(source.path, None, None, "hparams: the session ended with STATUS_FAILURE"),),
            identity=source.identity,
            culprits=(),
        ),
    )


def facts(file: EventFile, source: Source) -> tuple[Fact, ...]:
    """Hyperparameters and texts: `hparam.<name>`, and `<tag>` (`<tag>.<key>` where the text is a JSON object).

    HF Trainer writes its arguments as such a text, `args`. A tag that was written several times gives its last text.
    Sample ids of the probe are told with their step, those of steps in which something was not finite first.
    """
    last = {tag: text for tag, _, text in file.text if tag != _FAILED_SESSION}
    samples = [last.pop(tag) for tag in list(last) if tag.removesuffix(_TEXT_SUFFIX) == SAMPLE_IDS]
    found: dict[str, str] = {}
    for tag, text in last.items():
        if tag.startswith(HPARAMS):
            found[f"hparam.{tag[len(HPARAMS) :]}"] = text
        else:
            found.update(_of_text(tag.removesuffix(_TEXT_SUFFIX), text))
    rows = [*(_sample_ids(file) if samples else ()), *found.items()][:MAX_FACTS]
    return tuple(Fact(name[:200], value[:MAX_VALUE], source.path) for name, value in rows)


def _sample_ids(file: EventFile) -> list[tuple[str, str]]:
    """(SAMPLE_IDS, "step 7: a, b") of the first steps in which something was not finite, and of the last step."""
    import polars as pl

    texts = {step: text for tag, step, text in file.text if tag.removesuffix(_TEXT_SUFFIX) == SAMPLE_IDS}
    marked = pl.col("tag").cast(pl.String).str.starts_with(NONFINITE) | ~pl.col("value").is_finite()
    bad = set(file.scalars.filter(marked & pl.col("step").is_in(list(texts)))["step"].to_list())
    chosen = dict.fromkeys([*sorted(step for step in texts if step in bad)[:MAX_BAD_STEPS], max(texts)])
    return [(SAMPLE_IDS, f"step {step}: {texts[step]}") for step in chosen]


def _of_text(tag: str, text: str) -> Iterator[tuple[str, str]]:
    if text.lstrip().startswith("{"):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            table = None
        if isinstance(table, dict):
            for key, value in table.items():
                yield f"{tag}.{key}", value if isinstance(value, str) else json.dumps(value)
            return
    yield tag, text
