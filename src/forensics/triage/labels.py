"""What a job ran with and on, from the facts of its files: labels whose names are alike for all launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from forensics.model import Fact
from forensics.parsers.run_files.commands import options

MOST = 200  # labels of a job
LONGEST = 200  # characters of a value
_OVERRIDES = "hydra.overrides."
_ARGUMENTS = "wandb.args."
# Where hyper-parameters are stated, the most telling place first; the rest of the name is the parameter's.
_PARAMETERS = (
    _OVERRIDES,
    "wandb.config.",
    "hydra.config.",
    "hparams.",
    "megatron.",
    "config.",
    "training_args.",
    "deepspeed.",
    "trainer.",
    "args.",
    "command.",
    "arguments.",
)
# What a Trainer's state file repeats of its settings; the rest of it is how far the run came.
_PLANNED = frozenset("max_steps num_train_epochs train_batch_size eval_steps logging_steps save_steps".split())
# Settings that say where a job lies or what it is called; every job has others.
_OWN = re.compile(
    r"(?:^|[._])(?:path|dir|directory|folder|file|name|id|uuid|host\w*|time\w*|date|user|url|port|cwd|class|_target_)$",
    re.I,
)
# What names an image, the most telling first.
_IMAGES = (
    re.compile(r"container\.image|wandb\.docker"),
    re.compile(r"env\.(?:(?:APPTAINER|SINGULARITY)_CONTAINER|\w*(?:CONTAINER|DOCKER|ENROOT|PYXIS)_?IMAGE(?:_NAME)?)"),
    re.compile(r"env\.(?:NVIDIA_PYTORCH_VERSION|PYTORCH_BUILD_VERSION)|container\.release"),
)
_IMAGE_FILE = re.compile(r"\.(?:sif|simg|sqsh|squashfs|img)$")


def labels_of(facts: Sequence[Fact], places: Mapping[str, str] = {}) -> dict[str, str]:
    """Labels by name, sorted: `hparam.<name>`, `version.<package>`, `image`, `gpu`, `driver`, `cuda`, `env.<NAME>`.

    places: labels that a job's place states; they win. A name that files state differently is left out.
    """
    found: dict[str, set[str]] = {}
    ranked: dict[str, int] = {}
    for fact in (*facts, *_from_command_lines(facts)):
        named = _named(fact)
        if named is None:
            continue
        name, order = named
        value = _value(name, fact).strip()[:LONGEST]
        if not value:
            continue
        if order > ranked.get(name, order):
            continue
        if order < ranked.get(name, order):
            found[name] = set()
        ranked[name] = order
        found.setdefault(name, set()).add(value)
    labels = {name: values.pop() for name, values in sorted(found.items()) if len(values) == 1}
    kept = dict(list(labels.items())[:MOST])
    return dict(sorted((kept | dict(places)).items()))


def _value(name: str, fact: Fact) -> str:
    if fact.name.startswith(_OVERRIDES):
        return fact.value.partition("=")[2]
    # An image's file is the same one in whichever folder it was put.
    return fact.value.rpartition("/")[2] if name == "image" and _IMAGE_FILE.search(fact.value) else fact.value


def _from_command_lines(facts: Sequence[Fact]) -> Iterator[Fact]:
    """`--lr 0.3` and `--lr=0.3` of the command line that W&B notes, as `args.lr`."""
    words: dict[str, dict[int, str]] = {}
    for fact in facts:
        number = fact.name.removeprefix(_ARGUMENTS)
        if fact.name.startswith(_ARGUMENTS) and number.isdecimal() and len(number) < 6:
            words.setdefault(fact.source, {})[int(number)] = fact.value
    for source, line in words.items():
        yield from (Fact(f"args.{name}", value, source) for name, value in options(line))


def _named(fact: Fact) -> tuple[str, int] | None:
    name = fact.name
    if name.startswith(_OVERRIDES):  # "+model.lr=0.1" under a number
        name = _OVERRIDES + fact.value.partition("=")[0].strip().lstrip("+~")
    if name.endswith(".version") and name.count(".") == 1:
        what = name.removesuffix(".version")
        return ("driver" if what == "driver" else "cuda" if what == "cuda" else f"version.{what}"), 0
    if name == "wandb.python":
        return "version.python", 1
    if name == "gpu.name" or name == "wandb.gpu":
        return "gpu", 0 if name == "gpu.name" else 1
    if name in ("torch.cuda", "driver.cuda"):
        return "cuda", 1
    for order, pattern in enumerate(_IMAGES):
        if pattern.fullmatch(name):
            return "image", order
    for order, prefix in enumerate(_PARAMETERS):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if prefix == "trainer." and rest not in _PLANNED:
                return None
            if rest.startswith("version") or _OWN.search(rest) or rest.count(".") > 4:
                return None
            return f"hparam.{rest}", order
    return None
