"""Run files: configurations, listings and state files beside the logs, as facts.

A fact is a name, a value, and where it stands (`model.Fact`). Names begin with whose they are: `model.`, `tokenizer.`,
`adapter.`, `noise_schedule.`, `trainer.`, `training_args.`, `deepspeed.`, `accelerate.`, `hparams.`, `hydra.config.`,
`wandb.`, `megatron.`, `config.` (a program that is not known), `env.`, and `<package>.version` for what is installed.
docs/parsers/run_files.md lists the files.

Nothing is imported, called or built from a file; what is read of one file, and of all together, is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from forensics.files import beginning
from forensics.model import Fact, Kind, Source
from forensics.parsers.run_files.base import FACTS, Family, Reading
from forensics.parsers.run_files.documents import Item
from forensics.patterns import lazy

HEAD = 32 << 10  # bytes of a log in which banners and listings are looked for
LOGS = 256  # logs of a run whose heads are read
FILES = 1_000  # run files of a run that are read
FILE_BYTES = 4 << 20
TOTAL_BYTES = 12 << 20  # some two megabytes a second are read
TOTAL_FACTS = 20_000
TRAINING_ARGS = "training_args.bin"
_PICKLES = 64  # training_args.bin: one a checkpoint, all alike

_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
_NAMES = frozenset(
    "latest latest_checkpointed_iteration.txt requirements.txt debug.log debug-internal.log debug-core.log"
    " commandline_args.txt".split()
)
_PREFIX = lazy(r"^(?:\[[a-z]*\d+\]:|\d+: )[ \t]?", re.M)  # torchrun's and srun's marks of local ranks and tasks
_ANSI = lazy(r"\x1b\[[0-9;]{0,20}[A-Za-z]")


class Collected(NamedTuple):
    """The facts of a run, and of each run file that was opened what is wrong with it (None: nothing)."""

    facts: tuple[Fact, ...]
    problems: dict[str, str | None]


@cache
def families() -> tuple[Family, ...]:
    """Every family, the particular ones first. They are imported when the first file asks for them."""
    from forensics.parsers.run_files import frameworks, huggingface, wandb

    return (*huggingface.FAMILIES, *wandb.FAMILIES, *frameworks.KNOWN, *frameworks.OTHER)


def looks_like_run_file(head: bytes, name: str) -> bool:
    """Whether a file is one of those that are read as settings and not as a log, from its head and its name."""
    lower = name.lower()
    if not lower.endswith(_SUFFIXES) and lower not in _NAMES:
        return False
    return _family(lower, head.decode("utf-8", "replace").removeprefix("\ufeff")) is not None


def _family(path: str, head: str) -> Family | None:
    return next((family for family in families() if family.matches(path, head)), None)


def read_text(text: str, path: str) -> Reading:
    """What a run file of that path (with "/") states. Never raises for what the text holds."""
    text = text.removeprefix("\ufeff")
    family = _family(path.lower(), text[: 16 << 10])
    return family.read(text, path) if family is not None else Reading()


def read_head(text: str) -> tuple[Item, ...]:
    """What the head of a log states of machine, packages, environment and settings. Never raises."""
    from forensics.parsers.run_files.listings import LISTINGS, worth_reading

    if not worth_reading(text):
        return ()
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _PREFIX.sub("", text.replace("\r\n", "\n"))
    found: dict[str, Item] = {}
    for listing in LISTINGS:
        for item in listing(text):
            found.setdefault(item.path, item)
    return tuple(found.values())


def collect(sources: Sequence[Source], failed: Callable[[Exception], str]) -> Collected:
    """Read every run file, and the heads of logs.

    failed: makes the reason for a coverage row of an exception that is a reader's fault.
    """
    facts: list[Fact] = []
    problems: dict[str, str | None] = {}
    opened: Counter[str] = Counter()
    total = 0
    for source in sources:
        what = _what(source)
        if what is None:
            continue
        limit = {"log": LOGS, "pickle": _PICKLES}.get(what, FILES)
        own = source.kind is Kind.CONFIG
        if opened[what] >= limit or total > TOTAL_BYTES or len(facts) >= TOTAL_FACTS:
            if own:
                problems[source.path] = "not read: enough files of its kind were"
            continue
        opened[what] += 1
        try:
            reading = _reading(source, what)
        except OSError as error:
            reading = Reading((), error.strerror or str(error))
        except Exception as error:
            reading = Reading((), failed(error))
        total += min(source.size, HEAD if what == "log" else FILE_BYTES)
        kept = [Fact(i.path, i.value, source.path, i.line) for i in reading.items[:FACTS]]
        facts += kept[: TOTAL_FACTS - len(facts)]
        if own:
            problems[source.path] = reading.problem
    return Collected(tuple(facts), problems)


def _what(source: Source) -> str | None:
    name = source.path.rpartition("/")[2].lower()
    if source.kind is Kind.CONFIG:
        return "config"
    if source.kind is Kind.LOG:
        return "log"
    if source.kind is Kind.METRICS and (name in ("trainer_state.json", "wandb-summary.json") or _named_settings(name)):
        return "state"
    if source.kind is Kind.CHECKPOINT and name == TRAINING_ARGS:
        return "pickle"
    return None


def _named_settings(name: str) -> bool:
    """Settings on one line can have the names of metrics: {"lr": 0.1, "reward": 1}. Records of a run have several."""
    if not name.endswith(_SUFFIXES[0]):
        return False
    from forensics.parsers.run_files import frameworks

    return frameworks.named_settings(name)


def _reading(source: Source, what: str) -> Reading:
    if what == "pickle":
        from forensics.parsers.run_files import training_args

        return training_args.read_file(source.file)
    data = beginning(source.file, HEAD if what == "log" else FILE_BYTES)
    text = data.decode("utf-8", "replace")
    if what == "log":
        return Reading(read_head(text))
    if what == "state" and source.path.endswith("trainer_state.json"):
        from forensics.parsers.run_files import huggingface

        return huggingface.TRAINER_STATE.read(text, source.path)
    return read_text(text, source.path)
