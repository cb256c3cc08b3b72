"""Configurations of DeepSpeed, Accelerate, Lightning, Hydra and Megatron, of programs not known by name; pip's JSON."""

from __future__ import annotations

import re

from forensics.parsers.run_files.base import Family, Reading, base_name, item, reading
from forensics.parsers.run_files.documents import Item, read_json, read_toml, read_yaml
from forensics.parsers.run_files.listings import PACKAGES, normal
from forensics.patterns import lazy

_YAML = (".yaml", ".yml")
# Keys of a DeepSpeed configuration (deepspeed/runtime/constants.py); two of them tell it from anything else.
_DEEPSPEED = (
    '"zero_optimization"',
    '"train_micro_batch_size_per_gpu"',
    '"train_batch_size"',
    '"gradient_accumulation_steps"',
    '"gradient_clipping"',
    '"zero_allow_untested_optimizer"',
    '"steps_per_print"',
    '"wall_clock_breakdown"',
)
# Keys of a program's own arguments, which can bear some of the names above as well.
_OF_A_PROGRAM = lazy(r'"(?:deepspeed|deepspeed_config|local_rank|output_dir|learning_rate|num_train_epochs)"\s*:')
# A mapping's first lines: comments, markers, then a key or an entry of a list. Nothing that a log line begins with.
_KEY = lazy(r"""\s*(?:- )*(?:[A-Za-z_?][\w./-]{0,80}|"[^"\n]{1,80}"|'[^'\n]{1,80}')\s*:(?:\s|$)""")
_ENTRY = lazy(r"\s*- \S")
_CLUSTER = lazy(r"^(?:apiVersion|kind|involvedObject|status)\s*:|^(?:- )?reason:[^\n]*\n\s*message:", re.M)
_ACCELERATE = lazy(r"^(?:compute_environment|distributed_type)\s*:", re.M)
_ANSWER = lazy(r"^(?:root_cause|verdict)\s*:", re.M)
_NAMED = lazy(r"config|args|arguments|params|parameters|settings|options|cfg|flags|(?:^|[_-])opts?(?:[._-])", re.I)
_JSON_IN_TEXT = "commandline_args.txt"  # json.dump(args.__dict__, ...) under a name that many programs share


def looks_like_yaml(head: str) -> bool:
    """Whether the text is a YAML mapping or list of settings: nearly every one of its first lines is an entry.

    What clusters write (`kubectl get -o yaml`) is evidence of events and not of settings.
    """
    lines = [line for line in head.split("\n")[:60] if line.strip() and not line.lstrip().startswith(("#", "---", "%"))]
    if not lines or _CLUSTER.search(head):
        return False
    top = [line for line in lines if not line[0].isspace()]
    known = sum(1 for line in top if _KEY.match(line) or _ENTRY.match(line) or line.strip() in ("{}", "[]", "..."))
    return bool(top) and known >= len(top) * 0.9


def _is_deepspeed(path: str, head: str) -> bool:
    if not path.endswith(".json") or not head.lstrip("\ufeff \r\n\t").startswith("{"):
        return False
    return sum(sign in head for sign in _DEEPSPEED) >= 2 and not _OF_A_PROGRAM.search(head)


def _is_answer(path: str, head: str) -> bool:
    """Whether a file says what the run beside it died of, as `sample_logs/` do: nothing that the run left."""
    return base_name(path) == "expected.yaml" and len(set(_ANSWER.findall(head))) == 2


def _is_accelerate(path: str, head: str) -> bool:
    return path.endswith(_YAML) and len(set(_ACCELERATE.findall(head))) == 2


def _is_hydra(path: str, head: str) -> bool:
    return "/.hydra/" in f"/{path}" and path.endswith(_YAML)


# Of Hydra's own settings: what was run, and as which job of a sweep.
_OF_HYDRA = ("hydra.job.name", "hydra.job.num", "hydra.mode", "hydra.launcher._target_")


def _hydra(text: str, path: str) -> Reading:
    name = base_name(path).rpartition(".")[0]
    document = read_yaml(text)
    if name != "hydra":
        return reading(f"hydra.{name}", document)
    return Reading(tuple(i for i in document.items if i.path in _OF_HYDRA), document.problem)


def _is_pointer(name: str, pattern: str) -> Family:
    def matches(path: str, head: str) -> bool:
        return base_name(path) == name and re.fullmatch(pattern, head.strip()) is not None

    def read(text: str, path: str) -> Reading:
        return Reading((item(f"checkpoint.{name.removesuffix('.txt')}", text.strip()[:120], 1),))

    return Family(f"checkpoint pointer {name}", matches, read)


def _is_settings(path: str, head: str) -> bool:
    """Settings of a program that is not known: YAML and TOML by their content, JSON by name and content."""
    if path.endswith(_YAML):
        return looks_like_yaml(head)
    if path.endswith(".toml"):
        return re.search(r"^\s*\[?[\w.\"-]+\]?\s*(?:=|$)", head, re.M) is not None
    text = head.lstrip("\ufeff \r\n\t")
    several = re.search(r"\}\s*\n\s*\{", text) is not None  # JSON lines are a log
    return named_settings(path) and text.startswith("{") and not several


def named_settings(path: str) -> bool:
    """Whether a JSON file's name speaks of settings."""
    name = base_name(path.lower())
    return name == _JSON_IN_TEXT or (name.endswith(".json") and _NAMED.search(name) is not None)


# `pip list --format=json`, `uv pip list --format=json` and `conda list --json`: a list of objects, each of one package.
_PACKAGE = lazy(r'\s*\[\s*\{[^{}\[\]]{0,400}?"name"\s*:\s*"[^"]+"\s*,[^{}\[\]]{0,200}?"version"\s*:\s*"[^"\s]+"\s*[,}]')


def _is_package_list(path: str, head: str) -> bool:
    return path.endswith(".json") and _PACKAGE.match(head.removeprefix("\ufeff")) is not None


def _package_list(text: str, path: str) -> Reading:
    """The versions that such a list holds, of the packages that matter to training (`listings.PACKAGES`)."""
    document = read_json(text)
    rows: dict[str, dict[str, Item]] = {}
    for found in document.items:
        number, _, key = found.path.partition(".")
        rows.setdefault(number, {})[key] = found
    kept = [
        item(f"{normal(row['name'].value)}.version", row["version"].value, row["name"].line)
        for row in rows.values()
        if "name" in row and "version" in row and normal(row["name"].value) in PACKAGES
    ]
    return Reading(tuple(kept), document.problem)


def _settings(text: str, path: str) -> Reading:
    if path.lower().endswith(".toml"):
        return reading("config", read_toml(text))
    return reading("config", read_yaml(text) if path.lower().endswith(_YAML) else read_json(text))


DEEPSPEED = Family("DeepSpeed configuration", _is_deepspeed, lambda text, _: reading("deepspeed", read_json(text)))
KNOWN = (
    Family("what a sample of this project is to be diagnosed as", _is_answer, lambda *_: Reading()),
    DEEPSPEED,
    Family("Accelerate configuration", _is_accelerate, lambda text, _: reading("accelerate", read_yaml(text))),
    Family("Hydra configuration", _is_hydra, _hydra),
    Family(
        "Lightning hyperparameters",
        lambda path, head: base_name(path) == "hparams.yaml" and looks_like_yaml(head),
        lambda text, _: reading("hparams", read_yaml(text)),
    ),
    Family("list of packages", _is_package_list, _package_list),
    _is_pointer("latest", r"[\w.+=-]{1,120}"),
    _is_pointer("latest_checkpointed_iteration.txt", r"\d{1,12}|release"),
)
OTHER = (Family("settings", _is_settings, _settings),)
