"""What a job ran with and on, from the facts of its files: labels whose names are alike for all launchers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from forensics.model import Fact

MOST = 200  # labels of a job
LONGEST = 200  # characters of a value
# Where hyper-parameters are stated, the most telling place first; the rest of the name is the parameter's.
_PARAMETERS = (
    "hydra.overrides.",
    "wandb.config.",
    "hydra.config.",
    "hparams.",
    "megatron.",
    "config.",
    "training_args.",
    "trainer.",
)
# Settings that say where a job lies or what it is called; every job has others.
_OWN = re.compile(
    r"(?:^|[._])(?:path|dir|directory|folder|file|name|id|uuid|host\w*|time\w*|date|user|url|port|cwd|class|_target_)$",
    re.I,
)
_IMAGE = re.compile(
    r"^env\.(?:\w*(?:CONTAINER|DOCKER|SINGULARITY|APPTAINER|ENROOT|PYXIS)_?(?:IMAGE|NAME)?\w*|NVIDIA_PYTORCH_VERSION"
    r"|PYTORCH_BUILD_VERSION)$|^container\.release$"
)


def labels_of(facts: Sequence[Fact], places: Mapping[str, str] = {}) -> dict[str, str]:
    """Labels by name, sorted: `hparam.<name>`, `version.<package>`, `image`, `gpu`, `driver`, `cuda`, `env.<NAME>`.

    places: labels that a job's place states; they win. A name that files state differently is left out.
    """
    found: dict[str, set[str]] = {}
    ranked: dict[str, int] = {}
    for fact in facts:
        named = _named(fact)
        if named is None:
            continue
        name, order = named
        value = fact.value.strip()[:LONGEST]
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


def _named(fact: Fact) -> tuple[str, int] | None:
    name = fact.name
    if name.endswith(".version") and name.count(".") == 1:
        what = name.removesuffix(".version")
        return ("driver" if what == "driver" else "cuda" if what == "cuda" else f"version.{what}"), 0
    if name == "gpu.name" or name == "wandb.gpu":
        return "gpu", 0 if name == "gpu.name" else 1
    if name in ("torch.cuda", "driver.cuda"):
        return "cuda", 1
    if _IMAGE.match(name):
        return "image", 0
    for order, prefix in enumerate(_PARAMETERS):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if rest.startswith("version") or _OWN.search(rest) or rest.count(".") > 4:
                return None
            return f"hparam.{rest}", order
    return None
