"""Facts that two runs state differently: settings, versions, devices, environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from forensics.compare.model import Change
from forensics.model import Fact

# What a run is called, where it writes, when it ran and on which machine differs between any two.
_EXPECTED = re.compile(
    r"(?i)(?:^|[._-])(?:run_?(?:id|name|dir)|output_?(?:dir|path)|log(?:ging)?_?(?:dir|path|file)|save_?(?:dir|path)|work_?dir"
    r"|(?:tensorboard|checkpoint)_?(?:dir|path)|default_root_dir|resume_from_checkpoint|exp(?:eriment)?_?name|job_?id|job_?name"
    r"|timestamp|created(?:_at)?|start(?:ed|_?time)?(?:_at)?|end_?time|_?runtime|duration|pid|ppid|master_?(?:addr|port)"
    r"|(?:rdzv|main_process)_\w*(?:endpoint|id|port|ip)|hostname|interfaces|host|hosts|nodelist|uuid|serial|commit|git_\w+|cwd|argv?)$"
    r"|^wandb\.(?:run|summary|program|executable|code|startedAt|heartbeatAt)|^slurm\.(?:job|node)|^env\.(?:SLURM_|HOSTNAME|PWD|MASTER_)"
)
# States of a run at its end, and what files say of themselves: the metrics tell these better.
_NO_SETTING = re.compile(
    r"^(?:kernel_log|checkpoint\.|trainer\.(?:global_step|epoch|best|log|total_flos|state)|wandb\.summary)"
)
# Where a run writes, if the value is a path: a switch of such a name is a setting.
_WRITES = re.compile(
    r"(?i)(?:^|[._-])(?:out|output|outputs|save|save_?to|results?|ckpt|checkpoints?|logs?|exp|runs?|work|wandb)"
    r"(?:[_-]?(?:dir|path|folder|root|directory))?$"
)
# A user's own folder, in which the same data lie under another name.
_HOME = re.compile(
    r"^(?:~|/home\d?(?:/users)?/[^/]+|/Users/[^/]+|/root|/scratch/[^/]+|[A-Za-z]:[\\/]+Users[\\/]+[^\\/]+|\$\{?HOME\}?)(?=[\\/])"
)
MOST = 2_000  # changes kept


def changes(goods: Sequence[Sequence[Fact]], bad: Sequence[Fact]) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """(settings that differ, those that differ between any two runs).

    A fact counts as different where the bad run's values are none of a good run's. A fact that only one side states
    counts where the other side states anything of the same family (the first part of its name): a file that is there
    for one run only says nothing about the other's settings.
    """
    mine, theirs = _stated(bad), [_stated(g) for g in goods]
    families = {_family(name) for name in mine} & {_family(name) for run in theirs for name in run}
    found: list[Change] = []
    expected: list[Change] = []
    names = list(dict.fromkeys([*(name for run in theirs for name in run), *mine]))
    for name in names:
        if _NO_SETTING.match(name):
            continue
        own = mine.get(name, {})
        others = [run.get(name, {}) for run in theirs]
        if any(set(own) == set(other) for other in others):
            continue
        if (not own or not any(others)) and _family(name) not in families:
            continue
        good = next((o for o in others if o), {})
        change = Change(name, _values(good), _values(own), _place(good), _place(own))
        (expected if _EXPECTED.search(name) or _same_folder(name, good, own) else found).append(change)
    return tuple(found[:MOST]), tuple(expected[:MOST])


def _same_folder(name: str, good: Mapping[str, Fact], bad: Mapping[str, Fact]) -> bool:
    """Whether values are only where a run writes, or the same folder of another user."""
    if not good or not bad or not all("/" in value or "\\" in value for value in (*good, *bad)):
        return False
    return _WRITES.search(name) is not None or {_HOME.sub("~", v) for v in good} == {_HOME.sub("~", v) for v in bad}


def _family(name: str) -> str:
    # Versions are stated by lists of packages, whichever these are.
    return "version" if name.endswith(".version") else name.partition(".")[0]


def _stated(facts: Sequence[Fact]) -> dict[str, dict[str, Fact]]:
    """name -> value -> where it is stated first; values that mean the same number count as one."""
    found: dict[str, dict[str, Fact]] = {}
    for fact in facts:
        found.setdefault(fact.name, {}).setdefault(_normal(fact.value), fact)
    return found


def _normal(value: str) -> str:
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        return text.lower() if text.lower() in ("true", "false", "null", "none") else text
    return repr(number)


def _values(stated: dict[str, Fact]) -> str | None:
    return " | ".join(fact.value for fact in list(stated.values())[:4]) or None


def _place(stated: dict[str, Fact]) -> str | None:
    fact = next(iter(stated.values()), None)
    return None if fact is None else fact.source if fact.line is None else f"{fact.source}:{fact.line}"
