"""A W&B run folder: `wandb/run-*/files/{config.yaml, wandb-metadata.json, wandb-summary.json, requirements.txt}`.

`files/output.log` is the program's console and is read as a log. W&B's logs of its own work (`logs/debug*.log`) hold
retries and tracebacks that are none of the run's: of them the settings are taken, and nothing else.
"""

from __future__ import annotations

import re

from forensics.parsers.run_files.base import Family, Reading, base_name, is_private, item, under
from forensics.parsers.run_files.documents import Item, read_json, read_yaml, thinned
from forensics.parsers.run_files.listings import frozen
from forensics.patterns import lazy

_METADATA = lazy(
    r"(?:os|python|cpu_count|cpu_count_logical|gpu|gpu_count|cudaVersion|cuda_version|cuda|startedAt|program|docker|codePath"
    r"|state|args\.\d+|gpu_nvidia\.\d+\.(?:name|memoryTotal)|gpu_devices\.\d+\.(?:name|memory_total)|memory\.total|slurm\.\w+)$"
)
_OWN_LOG = lazy(r"\[(?:wandb_(?:setup|init|run)|internal|handler|sender)\.py:")  # until 0.17, and debug.log since
_CORE_LOG = lazy(r'"level":"[A-Z]+","msg":"')  # debug-internal.log and debug-core.log since 0.17


def _is_config(path: str, head: str) -> bool:
    return base_name(path) == "config.yaml" and re.search(r"^(?:wandb_version|_wandb)\s*:", head, re.M) is not None


def _config(text: str, path: str) -> Reading:
    """Each setting stands under `<name>.value`; W&B's own under `_wandb`."""
    document = read_yaml(text)
    kept = []
    for i in thinned(document.items):
        first, _, rest = i.path.partition(".")
        if first == "_wandb":
            versions = re.fullmatch(r"value\.(cli_version|python_version|framework)|(cli_version|python_version)", rest)
            if versions:
                kept.append(Item(f"wandb.{rest.rpartition('.')[2]}", i.value, i.line))
        elif rest == "value" or rest.startswith("value."):
            kept += under("wandb.config", [Item(f"{first}{rest.removeprefix('value')}", i.value, i.line)])
    return Reading(tuple(kept), document.problem)


def _metadata(text: str, path: str) -> Reading:
    document = read_json(text)
    kept = [
        i
        for before, i in zip((None, *document.items), document.items, strict=False)
        # The argument after --hub_token is one.
        if _METADATA.match(i.path) and not (i.path.startswith("args.") and before and is_private(before.value))
    ]
    return Reading(tuple(under("wandb", kept)), document.problem)


def _summary(text: str, path: str) -> Reading:
    document = read_json(text)
    kept = [i for i in document.items if re.fullmatch(r"-?[\d.eE+-]+|NaN|-?Infinity|true|false", i.value)]
    return Reading(tuple(under("wandb.summary", kept[:100])), document.problem)


def _requirements(text: str, path: str) -> Reading:
    """What was installed, where W&B wrote it; a file of that name elsewhere says what was asked for."""
    return Reading(tuple(frozen(text)) if "/files/" in f"/{path}" and "run-" in path else ())


def _is_own_log(path: str, head: str) -> bool:
    name = base_name(path)
    if name not in ("debug.log", "debug-internal.log", "debug-core.log"):
        return False
    return _OWN_LOG.search(head) is not None or (name != "debug.log" and _CORE_LOG.search(head) is not None)


def _own_log(text: str, path: str) -> Reading:
    found = re.search(r"Current SDK version is (\d[\w.]*)", text[: 64 << 10])
    line = text.count("\n", 0, found.start()) + 1 if found else None
    return Reading((item("wandb.version", found[1], line),) if found else ())


FAMILIES = (
    Family("W&B configuration", _is_config, _config),
    Family("W&B metadata", lambda path, head: base_name(path) == "wandb-metadata.json", _metadata),
    Family("W&B summary", lambda path, head: base_name(path) == "wandb-summary.json", _summary),
    Family(
        "W&B list of packages",
        lambda path, head: base_name(path) == "requirements.txt" and "==" in head,
        _requirements,
    ),
    Family("W&B log of its own work", _is_own_log, _own_log),
)
