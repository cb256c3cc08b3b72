"""Variables of an environment whose names say what they hold: hosts, accounts, buckets, runs.

An environment is printed in many ways: `export`, Python's repr of `os.environ`, JSON, YAML, lists of arguments. Name
and value are read alike in all of them; what a variable holds is told from how the programs that set it call it, and of
most from how the name ends (`*_HOST`, `*_BUCKET`, `*_NAMESPACE`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME as HOST
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import PROGRAMS, PUBLIC_OWNERS, TURNS

_NAME = r"(?P<name>[A-Z][A-Z0-9_]{2,60})"
_QUOTED = r"b?(?P<quote>\\?[\"'])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,1000})(?=(?P=quote)|\Z)"
# A comma ends a value only before another variable: hosts are listed so.
_WORD = r"[^\s\0\"'`,;&|<>(){}\[\]\\]"
_PLAIN = rf"(?P<plain>{_WORD}{{1,400}}(?:,(?![A-Za-z_][\w.-]{{0,60}}=){_WORD}{{1,400}}){{0,200}})"
# `N=v`, `export N="v"`, `N: v`, `"N": "v"`, `'N': 'v'`, `b'N': b'v'`, `os.environ['N'] = 'v'`.
_ASSIGNED = lazy(
    rf"(?<![A-Za-z0-9_%$]){_NAME}(?P<is>\\?[\"']?\]?[ \t]{{0,40}}[=:](?!=)[ \t]{{0,40}})(?:{_QUOTED}|{_PLAIN})",
    re.ASCII,
)
# `setenv N v`, `ENV N v`, `%env N v`, `set -gx N v`, `setx N v`.
_SET = lazy(
    r"(?:\b(?:setenv|ENV|ARG|setx(?:[ \t]+/[A-Za-z])*|set[ \t]+-[A-Za-z]{1,6}|set[ \t]+--export)|(?<=%)env)[ \t]+"
    rf"{_NAME}(?P<is>[ \t]+)(?:{_QUOTED}|{_PLAIN})",
    re.ASCII,
)
# `('N', 'v')`: an item of a dictionary, `setdefault` and the like.
_ITEM = lazy(rf"\(b?(?P<mark>\\?[\"']){_NAME}(?P<is>(?P=mark),\s?){_QUOTED}", re.ASCII)
# `N:` with the value alone on the next line, further in.
_BELOW = lazy(
    rf"(?<![A-Za-z0-9_%$]){_NAME}(?P<is>\\?[\"']?[ \t]?:[ \t\r]*\n[ \t]+(?:-[ \t]+)?)(?:{_QUOTED}|{_PLAIN})"
    r"(?=[\"']?,?[ \t\r]*(?:\n|\Z))",
    re.ASCII,
)
_BARS = "|\u2502\u2503\u2506\u250a\u2551"
# `| N | v |`: two cells of a table.
_CELLS = lazy(
    rf"[{_BARS}][ \t]{{0,80}}[`*]{{0,2}}{_NAME}[`*]{{0,2}}(?P<is>[ \t]{{0,80}}[{_BARS}][ \t]{{0,80}}`?)"
    rf"(?P<plain>[^\s{_BARS}`'\"][^\n{_BARS}`'\"]{{0,400}}?)(?=`?[ \t]{{0,400}}[{_BARS}])"
)
# What stands for no name of anything, in code and prose as well.
_NOTHING = frozenset(
    "true false yes no on off none null nil unset not set default enabled disabled auto missing required unknown "
    "undefined empty str int float bool bytes optional final any list dict tuple path string number is was must and or "
    "for local localhost self".split()
)
_SIGNS = lazy(r"[./-]+")
_PROSE_AFTER = lazy(r" [a-z]{2,}\b(?![=:.])", re.ASCII)
_CODE_AFTER = lazy(r"[(\[]|\.[A-Za-z_]", re.ASCII)
_TRIPLE = lazy(r"(?:x86|i\d86|amd64|aarch64|arm\w*|ppc\w*|s390x|riscv\w*)[\w.-]*-(?:linux|gnu|darwin|apple)", re.ASCII)

_HOST = lazy(rf"{HOST}\Z", re.ASCII)
_HOST_PORT = lazy(rf"({HOST})((?::\d{{1,5}}(?:\.(?:log|out|err|txt))?)?)\Z", re.ASCII)  # also as a file is called
_LISTED = lazy(rf"(?:(?<=\A)|(?<=[,;\s]))({HOST})(?=[,;:\s]|\Z)", re.ASCII)
_LIST = lazy(rf"{HOST}(?::\d{{1,5}})?(?:[,;\s]{{1,4}}(?:{HOST}(?::\d{{1,5}})?|\d{{1,4}}))*\Z", re.ASCII)
# `CLUSTER:HOST:PORT:VERSION:PLUGIN` (srun's --clusters)
_CLUSTER = lazy(rf"([A-Za-z][\w.-]{{0,62}}?)(?:(:)({HOST})((?::\d{{1,6}}){{1,4}}))?\Z", re.ASCII)
_WORD_ONLY = lazy(r"[A-Za-z](?=[\w.-]*[A-Za-z])[\w.-]{1,127}\Z", re.ASCII)
_ID = lazy(r"(?=[\w.:-]*[A-Za-z])[\w.:-]{2,128}\Z", re.ASCII)
_BUCKET = lazy(r"(?=[a-z0-9._-]*[a-z])[a-z0-9][a-z0-9._-]{2,62}\Z", re.ASCII)
_REPOSITORY = lazy(r"([\w.-]{1,128})/([\w.-]{1,128})\Z", re.ASCII)
_AWS_NUMBER = lazy(r"\d{12}\Z", re.ASCII)
_PROJECT_NUMBER = lazy(r"\d{8,14}\Z", re.ASCII)  # Google's
_HEX = lazy(r"(?:0x)?[0-9a-fA-F]+\Z", re.ASCII)

_LONG_WORD = 5  # letters of a word that is a host's name wherever it stands
_Reader = Callable[[str, Memory], str]


def _host(value: str, memory: Memory) -> str:
    if not _HOST.match(value) or _TRIPLE.match(value):
        return value
    return memory.host(value, everywhere=telling(value))


def _address(value: str, memory: Memory) -> str:
    """A host and mostly a port. Not every address is one: without a port the name itself must look so."""
    match = _HOST_PORT.match(value)
    if match is None or not (match[2] or telling(match[1])) or _HEX.match(match[1]):
        return value
    return memory.host(match[1], everywhere=telling(match[1])) + match[2]


def _hosts(value: str, memory: Memory) -> str:
    if not _LIST.match(value):
        return value
    return _LISTED.sub(lambda match: memory.host(match[1], everywhere=telling(match[1])), value)


def _telling_hosts(value: str, memory: Memory) -> str:
    names = _LISTED.findall(value)
    return _hosts(value, memory) if names and all(map(telling, names)) else value


def _cluster(value: str, memory: Memory) -> str:
    match = _CLUSTER.match(value)
    if match is None:
        return value
    name = memory.host(match[1], everywhere=telling(match[1]))
    return name + (match[2] + memory.host(match[3], everywhere=telling(match[3])) + match[4] if match[2] else "")


def _account(value: str, memory: Memory) -> str:
    return memory.account(value) if _WORD_ONLY.match(value) else value


def _user(value: str, memory: Memory) -> str:
    return memory.user(value) if _WORD_ONLY.match(value) and value.lower() not in TURNS else value


def _person(value: str, memory: Memory) -> str:
    return memory.user(value) if any(char.isalpha() for char in value) and "$" not in value else value


def _thing(kind: str, shape: re.Pattern[str]) -> _Reader:
    return lambda value, memory: memory.of(kind, value) if shape.match(value) else value


def _namespace(value: str, memory: Memory) -> str:
    plain = value in ("kube-system", "kube-public", "kubeflow")
    return value if plain or not _BUCKET.match(value) else memory.of("namespace", value)


def _project(value: str, memory: Memory) -> str:
    """A project, of Neptune behind its workspace; `MY_PROJECT=/x/y` is a folder."""
    owner, slash, name = value.rpartition("/")
    if not (_ID.match(name) or _PROJECT_NUMBER.match(name)) or (slash and not _WORD_ONLY.match(owner)):
        return value
    return (memory.account(owner) if owner else "") + slash + memory.of("project", name)


def _repository(value: str, memory: Memory) -> str:
    match = _REPOSITORY.match(value)
    if match is None or match[1].lower() in PUBLIC_OWNERS:
        return value
    return f"{memory.account(match[1])}/{memory.of('repo', match[2])}"


_ANY = r"(?:[A-Z0-9]+_){0,6}"
_OF = r"(?:[A-Z0-9]+_){1,6}"  # a bare `CLUSTER` or `TEAM` is a word
# What variables hold, by their names; the first that fits counts.
_KINDS: tuple[tuple[re.Pattern[str], _Reader], ...] = tuple(
    (lazy(rf"(?:{names})\Z", re.ASCII), reader)
    for names, reader in (
        # storage: AZURE_STORAGE_ACCOUNT, S3_BUCKET, GCS_BUCKET_NAME
        (
            rf"(?!(?:DDP|GRAD|PARAM|REDUCE|ALLREDUCE|LENGTH|SEQ)_){_OF}BUCKET|{_ANY}(?:BUCKET_NAME|STORAGE_ACCOUNT(?:_NAME)?|(?:STORAGE|BLOB|AZURE)_CONTAINER(?:_NAME)?)",
            _thing("bucket", _BUCKET),
        ),
        # schedulers call the account, and most also the group, that pays
        (rf"{_ANY}ACCOUNT(?:_NAME)?|(?:WANDB|WEAVE)_ENTITY|COMET_WORKSPACE|WANDB_TEAM|SLURM_JOB_GROUP", _account),
        (r"AWS_ACCOUNT_ID", _thing("account", _AWS_NUMBER)),
        (
            rf"{_OF}(?:PROJECT|WORKSPACE|RESOURCE_?GROUP|TENANT|SUBSCRIPTION|ORGANI[SZ]ATION|ORG|TEAM)(?:_ID|_NAME|_SLUG)?",
            _project,
        ),
        (r"(?:SLURM_(?:JOB_)?|SBATCH_)RESERVATION", _account),
        (r"RAY_(?:NODE|WORKER|ACTOR)_ID", _thing("uuid", _HEX)),
        (r"GITHUB_REPOSITORY", _repository),
        (r"GITHUB_REPOSITORY_OWNER|CI_PROJECT_ROOT_NAMESPACE", _account),
        (
            rf"{_ANY}(?:USER|USERNAME|USER_NAME|LOGNAME)|LSFUSER|GITHUB(?:_TRIGGERING)?_ACTOR|GITLAB_USER_LOGIN|BUILD_USER_ID",
            _user,
        ),
        (r"GIT_(?:AUTHOR|COMMITTER)_NAME|DEBFULLNAME", _person),
        (rf"{_ANY}NAMESPACE", _namespace),
        (
            r"WANDB_(?:RUN_(?:ID|NAME|GROUP)|NAME|SWEEP_ID|RUN_NAME)|MLFLOW_RUN_(?:ID|NAME)|(?:CLEARML|TRAINS)_TASK_ID"
            r"|CLEARML_PROC_MASTER_ID|NEPTUNE_(?:CUSTOM_RUN|RUN|WITH)_ID|COMET_EXPERIMENT_NAME|SWANLAB_(?:RUN_ID|EXP_NAME)"
            r"|AIM_RUN_HASH|SLURM_JOB_NAME|(?:JOBSET|[A-Z]{2,12}JOB|RAY_?CLUSTER)_NAME|PBS_JOBNAME|LSB_JOBNAME|(?:SM|SAGEMAKER|TRAINING)_(?:TRAINING_)?JOB_NAME"
            r"|AZUREML_(?:RUN_ID|EXPERIMENT_NAME)|CLOUD_ML_JOB_ID|SKYPILOT_TASK_ID",
            _thing("run", _ID),
        ),
        (rf"{_ANY}POD_NAME", _host),
        (rf"{_ANY}(?:HOST_?LIST|HOSTS)", _hosts),
        (rf"{_OF}(?:NODE_?LIST|NODES|WORKERS)", _telling_hosts),
        (
            rf"{_ANY}(?:HOST|HOST_?NAME|NODE_?NAME|SUBMIT_HOST|MASTER_ADDR|MAIN_PROCESS_IP|HEAD_NODE|CHIEF_NODE)|PGHOST"
            r"|COMPUTERNAME|USERDOMAIN|PBS_SERVER|NCCL_HOSTID",
            _host,
        ),
        (rf"{_OF}(?:ADDR|ADDRESS|ENDPOINT|SERVER|SERVERS|HEAD_IP|HOST_PORT|HOSTPORT|COMM_ID)", _address),
        (rf"{_OF}CLUSTERS?(?:_NAME)?|CLUSTER_NAME", _cluster),
    )
)


@lru_cache(maxsize=4096)
def _reader(name: str) -> _Reader | None:
    return next((reader for names, reader in _KINDS if names.match(name)), None)


def _said(match: re.Match[str]) -> bool:
    """Whether what follows the name is its value, and not a line of code or prose."""
    plain, between = match["plain"], match["is"]
    if _CODE_AFTER.match(match.string, match.end()) or "]" in between:
        return False  # HOST = get_host(), os.environ["MASTER_ADDR"] = addr
    spaced = between[:1].isspace() and "=" in between  # of a file of settings, or code: BUCKET_NAME = name
    if spaced:
        return telling(plain.replace(".", ""))
    return ":" not in between or telling(plain) or not _PROSE_AFTER.match(match.string, match.end())


def _replaced(match: re.Match[str], memory: Memory) -> str:
    reader = _reader(match["name"])
    if reader is None:
        return match[0]
    groups = match.groupdict()
    group = "quoted" if groups.get("quoted") is not None else "plain"
    whole = groups[group]
    value = whole.rstrip(".,:") if group == "plain" else whole
    if not _names(value) or (group == "plain" and not _said(match)):
        return match[0]
    at = match.start(group) - match.start()
    return match[0][:at] + reader(value, memory) + match[0][at + len(value) :]


def _names(value: str) -> bool:
    """Whether a value may be the name of anything, and not yet a stand-in."""
    return (
        bool(value)
        and value.lower() not in _NOTHING
        and not (value.isupper() and "_" in value)
        and not is_stand_in(value)
    )


def held(name: str, value: str, memory: Memory) -> str:
    """`value` without whom or what it names, as the value of a variable of that name; `mlflow.user` is one too.

    The name and its value must be sure: a host is replaced wherever it stands, also if its name is a word.
    """
    parts = _SIGNS.sub("_", name).upper()
    plain = name.islower() and "_" not in parts and parts not in ("USER", "USERNAME", "HOSTNAME")
    reader = _reader(parts) if not plain else None  # `key: nodes` is sooner a word
    if reader is None or not _names(value):
        return value
    if reader is _host and value.isalpha() and len(value) >= _LONG_WORD and value.lower() not in PROGRAMS:
        return memory.host(value)
    return reader(value, memory)


def values_below(text: str, memory: Memory) -> str:
    """`text` without what variables hold that stands on the line below their names."""
    return _BELOW.sub(lambda match: _replaced(match, memory), text) if "\n" in text else text


def variables(text: str, memory: Memory) -> str:
    """`text` without what variables of an environment hold by whose names they say so."""

    def replace(match: re.Match[str]) -> str:
        return _replaced(match, memory)

    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(replace, text)
    if "env " in text or "ENV " in text or "ARG " in text or "set" in text:
        text = _SET.sub(replace, text)
    if "('" in text or '("' in text or "(b" in text or '(\\"' in text:
        text = _ITEM.sub(replace, text)
    if "|" in text or "\u2502" in text or "\u2503" in text:
        text = _CELLS.sub(replace, text)
    return values_below(text, memory)
