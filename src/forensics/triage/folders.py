"""What the name of a folder says: a run of its own, a part of one, a place for several runs, or nothing of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

# Folders that hold programs or caches: run.py skips them within a job too.
_NO_JOBS = frozenset({".git", "__pycache__", "site-packages", "node_modules", ".venv", "venv", ".mypy_cache", ".cache"})
# Folders that file servers, desktops and package managers make beside whatever lies there.
_OF_A_SYSTEM = re.compile(
    r"@eaDir|__MACOSX|lost\+found|[#@]Recycle|\$RECYCLE\.BIN|System Volume Information|[#@]snapshot"
    r"|(?:(?:mini|ana)(?:conda|forge)|mambaforge|micromamba)\d?\Z|.*\.(?:egg-info|dist-info)\Z",
    re.I,
)
# Folders that are parts of one run, and never a job each.
_PART = re.compile(
    r"(?:(?:global|local)?[_-]?rank|node|host|worker|trainer|pod|server|machine|proc(?:ess)?|gpu|(?:run[-_])?attempt|"
    r"restart|retry|try|checkpoint|ckpt|step|epoch|global_step|iter|version)s?[-_.=]?\d+\Z"
    r"|(?:logs?|std(?:out|err)|checkpoints?|ckpts?|models?|weights|tensorboard|tb(?:_logs?)?|events|wandb|mlruns|"
    r"lightning_logs|runs?|configs?|conf|code|src|source|data|artifacts?|plots?|figures|images|samples|cores?|dumps?|"
    r"nccl|nccl_logs?|flight_recorder|fr|fr_traces?|traces?|profil(?:e|er|es|ing)|metrics|csv|results?|outputs?|eval|"
    r"files|media|hf|final|best|last|latest|kernel|dmesg|slurm|ray|torchelastic|system|meta)\Z",
    re.I,
)
# Parts that ran, each with logs of its own: ranks, machines, attempts, and (below a job's folder) roles and stages.
_PROCESS = re.compile(
    r"(?:(?:global|local)?[_-]?rank|node|host|worker|trainer|pod|server|machine|proc(?:ess)?|gpu|(?:run[-_])?attempt|"
    r"restart|retry|try)s?[-_.=]?\d+\Z|(?!.*lora)(?:.*[-_.])(?:rank|node)[-_.=]?\d+\Z",
    re.I,
)
_RANK = re.compile(r"rank[-_.=]?(\d{1,4})\Z", re.I)
_MACHINE = re.compile(
    r"(?:node|host|worker|trainer|pod|server|machine|gpu)s?[-_.=]?\d+\Z|.*[-_.]node[-_.=]?\d+\Z", re.I
)
_ID = re.compile(r"(?:(?:jobs?|slurm)[-_.]?)?[1-9]\d{3,11}\Z", re.I)  # of a job, as schedulers count them
_ROLE = re.compile(
    r"(?:fold|stage|phase|part|algo|master|launcher|replica|ps|chief|head|evaluator|actor|learner|client|shard)s?"
    r"[-_.=]?\d+\Z"
    r"|(?:node|host|worker|server|machine)[-_][a-z]\Z"
    r"|(?:head|master|workers?|drivers?|nodes?|hosts?|ranks?|client|server|trainer|actor|learner|rollout|critic|reward|"
    r"policy|launcher|scheduler|controller|train(?:ing)?|eval(?:uation)?|val(?:id(?:ation)?)?|test(?:ing)?|"
    r"finetune|pretrain|preprocess(?:ing)?|setup|user|system|app|main|pytorch|istio[\w-]*|sidecar[\w-]*|init[\w-]*)\Z",
    re.I,
)
# Folders that a project keeps its runs in, and those that say nothing of how many runs there were.
_CONTAINER = re.compile(r"(?:outputs?|runs?|results?|wandb|mlruns|lightning_logs|tb_logs?)\Z", re.I)
_CURVES = re.compile(r"(?:tensor_?board|tb|events?|metrics|csv|curves)\Z", re.I)
_STATES = re.compile(r"(?:checkpoints?|ckpts?)\Z", re.I)
_STATE = re.compile(r"(?:checkpoint|ckpt|step|epoch|global_step|iter)s?[-_.=]?\d+\Z", re.I)
_INERT = re.compile(
    r"(?:configs?|conf|code|src|source|data(?:sets?)?|checkpoints?|ckpts?|models?|weights|plots?|figures|images|"
    r"artifacts?|tests?|notebooks?|docs?|scripts?|tools?|utils?|libs?|assets|docker|requirements|wandb|tokenizers?|"
    r"pretrained|downloads|corpus|corpora|build|dist|_.*)\Z",
    re.I,
)
_LOGS = re.compile(r"(?:[\w-]*[-_])?logs?\Z|slurm\Z|sbatch\Z", re.I)
_STREAM = re.compile(r"(?:std)?(?:out|err)(?:puts?|ors?)?\Z", re.I)
# What people name the jobs of a sweep by: a kind of thing and a number, or a setting and its value.
_VARIANT = re.compile(
    r"(?:trials?|seeds?|exp|experiment|runs?|jobs?|cfg|config|variant|sweep|hparams?|lr|bs|wd|batch(?:_size)?|dropout|"
    r"layers?|dim|width|depth|beta|gamma|alpha|temp)[-_.]?\d[\w.+-]*\Z|[\w.-]+=[^=]+(?:,[\w.-]+=[^=]+)*\Z",
    re.I,
)
# Of these, names that only the jobs of a sweep have, and those of one run.
_TRIAL = re.compile(r"(?:trials?|seeds?)[-_.]?\d[\w.+-]*\Z|[\w.-]+=[^=]+(?:,[\w.-]+=[^=]+)*\Z", re.I)
_RUN = re.compile(r"(?:trials?|seeds?|runs?|jobs?)[-_.]?\d[\w.+-]*\Z|[1-9]\d{3,11}\Z", re.I)
_SETTINGS = re.compile(r"\+?[A-Za-z][\w.-]{0,60}=[^=,]{1,60}(?:,\+?[A-Za-z][\w.-]{0,60}=[^=,]{1,60}){0,20}\Z")
_WRITTEN_SETTING = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<key>lr|wd|dropout|momentum|beta[12]?|gamma|alpha|temp|weight_?decay)"
    r"[-_]?(?P<value>\d+(?:\.\d+(?:e-?\d+)?|e-?\d+))|(?P<count>bs|batch_?size)[-_]?(?P<number>[1-9]\d*))(?![A-Za-z0-9.])",
    re.I,
)
_FOLD = re.compile(r"folds?[-_.=]?\d+\Z", re.I)
_TRAINING = re.compile(r"(?:pre|fine[-_]?)?(?:train(?:ing|er)?|tun(?:e|ing))\Z", re.I)
_EVALUATIONS = re.compile(r"(?:evals?|evaluations?|benchmarks?|validations?)\Z", re.I)
_VERSION = re.compile(r"version_\d+\Z")
_CALENDAR = re.compile(r"(?:\A|/)(?:19|20)\d\d(?:/(?P<month>0[1-9]|1[0-2])(?:/(?P<day>0[1-9]|[12]\d|3[01]))?)?\Z")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}(?:[T_-].*)?\Z|\d{2}-\d{2}-\d{2}\Z")
_DAY = re.compile(r"\d{4}-?\d{2}-?\d{2}\Z")
# A date with a time behind a word: "sky-2026-11-27-02-00-00-123456", "run_20261127_020000".
_DATED = re.compile(r"[A-Za-z]\w{0,30}[-_]20\d\d-?[01]\d-?[0-3]\d[T_-][0-2]\d\W?[0-5]\d", re.A)
_COUNT = re.compile(r"(?:tasks?[-_.]?)?\d{1,6}\Z", re.I)
# Machines as sites name them: gpu-0113, dgx17, cn1234, r1i2n3, ip-10-0-0-1, name.domain.example.
_HOST = re.compile(
    r"(?:gpu|dgx|hgx|cn|nid|nd|compute|h100|a100|srv|node|host)[-_]?[a-z]{0,4}-?\d{1,6}(?:[-.][\w.-]+)?\Z|n0\d{1,4}\Z"
    r"|ip(?:-\d{1,3}){4}(?:\..+)?\Z|r\d+i\d+n\d+\Z|[a-z][\w-]*\d(?:\.[a-z][\w-]*){2,}\Z",
    re.I,
)
# A pod's folder below /var/log/pods: <namespace>_<pod>_<uid>; its sub-folders are containers.
_POD = re.compile(r"[^_/]+_[^_/]+_[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\Z")


def may_hold_jobs(name: str) -> bool:
    """Whether a folder is looked at: it is not hidden, and holds no programs or caches of a tool."""
    return not name.startswith(".") and name not in _NO_JOBS and not _OF_A_SYSTEM.match(name)


def is_part(name: str) -> bool:
    """Whether a folder's name is that of a part of a run, or hidden."""
    return name.startswith(".") or _PART.match(name) is not None


def is_process(name: str) -> bool:
    """Whether a folder is named as that of a rank, a machine or an attempt."""
    return _PROCESS.match(name) is not None


def are_adapter_ranks(folders: Sequence[str]) -> bool:
    """Whether folders named by ranks are the jobs of a sweep over those of low-rank adapters: `rank_8`, `rank_16`, ...

    These are three or more, with gaps between them and without a 0: a run that lost the folders of some ranks has that
    of rank 0 left, or ranks that follow each other.
    """
    numbers = sorted(int(m[1]) for name in folders if (m := _RANK.match(name)))
    gaps = [b - a for a, b in pairwise(numbers) if b > 3]  # 1 and 2 are such ranks as well
    return len(numbers) > 2 and numbers[0] > 0 and min(gaps, default=1) > 1


def is_machine(name: str) -> bool:
    """Whether a folder of a process is that of a machine or a GPU, where jobs can have run one after another."""
    return _MACHINE.match(name) is not None


def is_id(name: str) -> bool:
    """Whether a folder is named by the id that a scheduler gave to a job."""
    return _ID.match(name) is not None


def is_role(name: str) -> bool:
    """Whether a folder within a job's is named as a part of it that ran: a fold, a stage, a role, a container."""
    return _ROLE.match(name) is not None


def is_fold(name: str) -> bool:
    """Whether a folder is named as one of the models of a cross-validation."""
    return _FOLD.match(name) is not None


def is_training(name: str) -> bool:
    """Whether a folder is named as the training of a model, beside what else was done with it."""
    return _TRAINING.match(name) is not None


def is_evaluations(name: str) -> bool:
    """Whether a folder is named as one of evaluations, a folder each, of the model that lies beside."""
    return _EVALUATIONS.match(name) is not None


def is_state(name: str) -> bool:
    """Whether a folder's name is that of checkpoints, or of one."""
    return _STATES.match(name) is not None or is_numbered_state(name)


def is_numbered_state(name: str) -> bool:
    """Whether a folder's name is that of one checkpoint: `checkpoint-500`, `step_100`."""
    return _STATE.match(name) is not None


def is_inert(name: str) -> bool:
    """Whether a folder's name says nothing of how many runs there were: code, configuration, data, checkpoints."""
    return name.startswith(".") or _INERT.match(name) is not None


def is_container(name: str) -> bool:
    """Whether a folder's name is one that projects keep several runs in, or a part of one run."""
    return _CONTAINER.match(name) is not None


def is_of_runs(name: str) -> bool:
    """Whether a folder's name is that of one for checkpoints or curves, in which several runs go by their names."""
    return is_state(name) or is_container(name) or _CURVES.match(name) is not None


def is_logs(name: str) -> bool:
    """Whether a scheduler is often told to write there."""
    return _LOGS.match(name) is not None and _CONTAINER.match(name) is None


def is_stream(name: str) -> bool:
    """Whether a folder's name is that of one of the two output streams: jobs often write them apart."""
    return _STREAM.match(name) is not None


def is_variant(name: str) -> bool:
    """Whether a folder is named as the jobs of a sweep are: `seed_3`, `trial-07`, `lr=0.1,bs=32`."""
    return _VARIANT.match(name) is not None


def settings(name: str) -> dict[str, str]:
    """The settings that a folder is named by: "lr=0.1,bs=8" and "vit_lr0.1_bs8" give lr and bs; {} where none.

    Without a sign between, only what is usually written so counts: fractions (`lr3` may be the third), batch sizes.
    """
    if not _SETTINGS.match(name):
        found = _WRITTEN_SETTING.finditer(name)
        return {(m["key"] or m["count"]).lower(): m["value"] or m["number"] for m in found}
    pairs = (part.partition("=") for part in name.split(","))
    return {key.strip("+~"): value for key, _, value in pairs}


def is_trial(name: str) -> bool:
    """Whether a folder is named as nothing but the job of a sweep is: `seed_3`, `trial-07`, `lr=0.1`."""
    return _TRIAL.match(name) is not None


def is_run(name: str) -> bool:
    """Whether a folder is named as one run is: `run_7`, `seed-0`, a scheduler's job id."""
    return _RUN.match(name) is not None


def is_version(name: str) -> bool:
    """Whether a folder has the name that Lightning's loggers give to a run's (lightning/pytorch/loggers)."""
    return _VERSION.match(name) is not None


def is_date(name: str) -> bool:
    return _DATE.match(name) is not None


def is_day(name: str) -> bool:
    """Whether a folder's name is a date without a time: what began on one day lies in it."""
    return is_date(name) and _DAY.match(name) is not None


def is_dated(name: str) -> bool:
    """Whether a folder's name holds the time at which something began."""
    return is_date(name) or _DATED.match(name) is not None


def is_calendar(path: str, folders: Sequence[str]) -> bool:
    """Whether a path ends in a year, a year and a month or a day, one folder each, and its sub-folders go on so."""
    m = _CALENDAR.search(path)
    if m is None or not folders:
        return False
    return m["day"] is not None or all(
        re.fullmatch(r"0[1-9]|1[0-2]" if m["month"] is None else r"0[1-9]|[12]\d|3[01]", name) for name in folders
    )


def is_count(name: str) -> bool:
    """Whether a folder's name is a number: of a task, a rank, a setting."""
    return _COUNT.match(name) is not None


def counted(folders: Sequence[str]) -> bool:
    """Whether folders are named by numbers from 0 or 1 without a gap, as ranks are; seeds are not."""
    if not folders or not all(map(is_count, folders)):
        return False
    numbers = sorted(int(re.sub(r"\D", "", name)) for name in folders)
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def counted_within(stems: Sequence[str]) -> bool:
    """Whether names that differ in numbers alone differ in one that runs from 0 or 1 without a gap."""
    numbers = [[int(n) for n in re.findall(r"\d+", stem)] for stem in stems]
    if len({len(each) for each in numbers}) != 1:
        return False
    columns = [sorted(set(column)) for column in zip(*numbers, strict=True)]
    varied = [column for column in columns if len(column) > 1]
    return len(varied) == 1 and varied[0][0] in (0, 1) and varied[0] == list(range(varied[0][0], varied[0][-1] + 1))


def is_host(name: str) -> bool:
    """Whether a folder is named as a machine is."""
    return _HOST.match(name) is not None


def is_pod(name: str) -> bool:
    """Whether a folder is the kubelet's of one pod."""
    return _POD.match(name) is not None
