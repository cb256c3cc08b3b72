"""What the names in a folder say of the jobs in it: one function a launcher, on names alone.

Sources of the forms:
- Hydra (hydra/core/utils.py, basic_sweeper.py): `.hydra/` in each job's folder, `multirun.yaml` in a sweep's; its
  submitit launcher writes to `.submitit/<job id>/`.
- Ray Tune (ray/tune/execution/tune_controller.py, experiment/trial.py): `experiment_state-<date>.json` and `tuner.pkl`
  in the experiment's folder, `params.json` with `result.json` or `progress.csv` in each trial's.
- W&B (wandb_settings.py): `run-<date>_<time>-<id>` and `offline-run-<date>_<time>-<id>`.
- torchrun (torch/distributed/elastic/multiprocessing/api.py, agent/server/api.py): `<rdzv id>_<eight characters of
  mkdtemp>/attempt_<n>/<local rank>/std{out,err}.log`; the rendezvous id is "none" where none is given.
- sbatch: `slurm-%j.out`, `slurm-%A_%a.out` for arrays; whatever else users give to --output. submitit
  (submitit/core/utils.py): `<job id>_<task>_log.{out,err}`, where an array's job id is `<array>_<index>`.
- MLflow (mlflow/store/tracking/file_store.py): `<experiment>/<run>/` with `meta.yaml`, `metrics/`, `params/`, `tags/`.
- Nextflow: `work/<xx>/<hash>/` with `.command.sh`, `.command.log`, `.exitcode`.
- Snakemake: `.snakemake/` beside `logs/`.
- GNU parallel `--results`: `stdout`, `stderr` and `seq` in a folder for each job.
- NNI (nni/tools/nnictl, trial_keeper): `trials/<id>/` with `parameter.cfg`, `trial.log` and `.nni/`.
- Sacred (sacred/observers/file_storage.py): `<n>/` with `run.json`, `config.json`, `cout.txt`.
- Jenkins: `builds/<n>/` with `build.xml` and `log`.
- Guild AI (guild/run.py): `runs/<id>/.guild/` with `opref`, `output` and `attrs/`.
- Azure ML: a run's download has `user_logs/` and `system_logs/`, earlier `azureml-logs/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forensics.triage.folders import is_host, is_trial

NODES = "nodes"  # the label for the machines that the files of a job are named by, separated by spaces

_WANDB_RUN = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-[\w.-]{1,128}\Z")
_TORCHRUN = re.compile(r"(?P<id>.+)_[a-z0-9_]{8}\Z")
_ATTEMPT = re.compile(r"attempt_\d+\Z")
_TUNE_STATE = re.compile(r"experiment_state-.*\.json\Z|tuner\.pkl\Z|searcher-state-.*\.pkl\Z")
_END = r"(?:\.(?:log|txt))?(?:\.(?:out|err|o|e|log|txt))(?:\.(?:gz|xz|bz2|zst))?\Z"
# slurm-123_4.out, train-123_4.err, 123_4.log; submitit's 123_4_0_log.out. No id begins with a zero, as numbers of
# machines do: srun's %N_%t is n001_4.log.
_ARRAY = re.compile(
    rf"(?P<stem>|.*?[^0-9A-Za-z]|.*[A-Za-z])(?P<job>[1-9]\d{{2,11}})_(?P<task>\d{{1,7}})(?P<rank>_\d{{1,6}})?(?P<own>_log)?{_END}"
)
# slurm-123_4-gpu-07.out, slurm-123-gpu-07.out: Slurm's %N behind the ids, one file a machine
_ON_HOST = re.compile(
    r"(?:.*[^0-9A-Za-z])?(?!20\d{6}[-_.])(?P<job>[1-9]\d{3,11})(?:_(?P<task>\d{1,7}))?"
    r"[-_.](?P<host>[A-Za-z][\w-]*?\d)(?:[-_]\d{1,5})?\.(?:out|err)(?:\.(?:gz|xz|bz2|zst))?\Z"
)
# train.4821.7.out, train-4821-7.log: the same with other marks between, which dates and counters have too
_ARRAY_OTHER = re.compile(rf"(?:.*[^0-9A-Za-z])?(?!20\d{{6}}[.-])(?P<job>[1-9]\d{{3,11}})[.-](?P<task>\d{{1,7}}){_END}")
# train_4821330.log: a job id as Slurm's %j gives it, in files of any ending
_SINGLE_LOG = re.compile(
    r"(?:.*[^0-9A-Za-z])?(?!20\d{6}\.)(?P<id>[1-9]\d{4,11})\.(?:log|txt)(?:\.(?:gz|xz|bz2|zst))?\Z"
)
# Numbers behind these count something else, or are of processes.
_COUNTED = re.compile(
    r"(?:step|epoch|iter|iteration|checkpoint|ckpt|batch|pid|port|nccl|core|worker)s?[-_.=]?(?:\d|.*\.\d)", re.I
)
# slurm-123.out, train-123.err, 123.out, and 123+1.out of a component of a heterogeneous job; no dates, and no numbers
# with a zero before them, which count ranks or steps
_SINGLE = re.compile(
    r"(?:slurm-(?P<job>[1-9]\d{0,11})|(?:.*[^0-9A-Za-z])?(?!20\d{6}\.)(?P<id>[1-9]\d{3,11}))(?:\+\d{1,3})?\.(?:out|err|o|e)(?:\.(?:gz|xz|bz2|zst))?\Z"
)
# Slurm's own name for arrays, and submitit's names: what else they say lets a job id be short.
_OWN_ARRAY = re.compile(rf"slurm-(?P<job>\d{{1,12}})_(?P<task>\d{{1,7}}){_END}")
_SUBMITIT = re.compile(r"(?P<job>\d{1,12})_(?P<task>\d{1,7})(?:_\d{1,6})?_log\.(?:out|err)\Z")
# train-901.out: a job id of three digits, taken for one only beside files with Slurm's own names
_SHORT = re.compile(r"(?P<stem>.*[^0-9A-Za-z])(?P<id>[1-9]\d{2})\.(?:out|err|o|e)\Z")
# SGE's and PBS's: train.o123, train.e123.4
_PBS = re.compile(r"(?P<stem>.+)\.(?:o|e|po|pe)(?P<job>\d{3,12})(?:[.-](?P<task>\d{1,7}))?\Z")
# PBS Professional's, where they are still in its spool: 8812.server.OU, 8812[3].server.ER
_PBS_SPOOLED = re.compile(
    r"(?P<job>\d{3,12})(?:\[(?P<task>\d{1,7})\])?(?:\.[A-Za-z][\w-]*){1,6}\.(?:OU|ER)(?:\.(?:gz|xz|bz2|zst))?\Z"
)
_JOB_FOLDER = re.compile(r"[1-9]\d{3,11}\Z")
_TASK_FILE = re.compile(rf"(?:task[-_.]?)?(?P<task>\d{{1,7}}){_END}")
_DOCUMENT = re.compile(
    r"(?:README|LICENSE|MANIFEST|INDEX|SHA256SUMS|MD5SUMS)\b.*|.*\.(?:md|rst|csv|tsv|json|ya?ml|html|pdf|sha256|md5|sh|py)\Z",
    re.I,
)
_LOG_FILE = re.compile(r"\.(?:log|out|err)(?:\.(?:gz|xz|bz2|zst))?\Z", re.I)
_LOG_TEXT = re.compile(
    r"(?:.*[-_.])?(?:logs?|stdout|stderr|output|c?out|err|train|console)(?:[-_.].*)?\.txt(?:\.(?:gz|xz|bz2|zst))?\Z"
    r"|(?:stdout|stderr|std_?log|logs?|output)\Z|.+\.(?:stdout|stderr)(?:\.\d{1,4})?\Z"
    r"|.+\.log(?:\.\d{1,4}|[.-]20\d\d-?\d\d-?\d\d)(?:\.(?:gz|xz|bz2|zst))?\Z",
    re.I,
)
# What starts or follows several runs, and is none.
_STUDY_LOG = re.compile(
    r"(?:.*[-_.])?(?:optuna|study|sweep|launch(?:er)?|hpo|tune|tuner|search|agent|submit|submission|dispatch(?:er)?|"
    r"scheduler|queue|runner|orchestrator|nohup|joblib)(?:[-_.].*)?\.(?:log|out|err|txt)\Z",
    re.I,
)
# What people write the output of one command to, under a name of its own: `nohup_bert.out`.
_OWN_NOHUP = re.compile(r"nohup[-_.](?P<own>.*[A-Za-z].*)\Z")
# What the logs of one run are called, by what wrote them or what they hold.
_KIND_OF_LOG = re.compile(
    r"(?:(?:train|training|trainer|eval|evaluation|test|val|valid|validation|infer|inference|predict|pre-?process|prepare|"
    r"data|dataset|download|tokeni[sz]e|pip|install|setup|env|environment|build|compile|gpu|cuda|nccl|nvidia-smi|smi|dcgm|"
    r"dmesg|kern|kernel|journal|syslog|messages|debug|info|warn|warnings?|errors?|main|master|head|driver|server|client|"
    r"run|job|script|output|out|err|stdout|stderr|console|terminal|screen|tmux|nohup|logs?|metrics?|monitor|profile|profiler|"
    r"mem|memory|cpu|disk|net|network|resources?|slurm|sbatch|srun|ray|raylet|gcs_server|dashboard|all|combined|merged|"
    r"latest|last|prev|previous|old|backup|best|final|full|clean|raw|gunicorn|access|tensorboard|wandb|mlflow|vllm|reward|"
    r"actor|critic|ref|rollout|policy|learner|checkpoint|ckpt|save|resume|restart)[-_.]?)+\d{0,3}\Z",
    re.I,
)
_DATA = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|pdf|mp4|wav|flac|npy|npz|parquet|arrow|h5|hdf5|bin|idx|pt|pth|ckpt|safetensors|distcp|"
    r"onnx|gguf|py|ipynb|sh)\Z",
    re.I,
)
# Settings that a program writes beside what one run of it leaves.
_SETTINGS = re.compile(
    r"(?:(?:train(?:ing)?|run|exp(?:eriment)?|trial|model|resolved|full|hydra)[-_])?"
    r"(?:conf(?:ig)?|cfg|args?|arguments|(?:hyper|h)?param(?:eter)?s|settings|opt(?:ion)?s?|flags|debug|run|trial)"
    r"\.(?:json|ya?ml|toml|cfg|ini)\Z|training_args\.bin\Z",
    re.I,
)
# supervisord's (supervisor/options.py): <program>-stdout---supervisor-<random>.log. Ray's dashboard (job_manager.py):
# job-driver-<submission id>.log.
_LAUNCHED = (
    ("supervisor", re.compile(r"(?P<job>.+)-(?:stdout|stderr)---[\w-]+-\w{6,12}\.log(?:\.\d{1,4})?\Z")),
    ("ray-job", re.compile(r"job-driver-(?P<job>[\w.-]{1,128})\.log\Z")),
)
# One of the two streams of a job, by the end of a name: `bert_stdout.log`, pm2's `bert-out.log` and `bert-error.log`.
_STREAM_OF = re.compile(r"(?P<job>.+)[-_.](?:std)?(?P<stream>out|err)(?:put|ors?)?\Z", re.I)
_PREVIOUS = re.compile(r"[-_.]prev(?:ious)?\Z", re.I)
_ARCHIVE = re.compile(r"\.(?:tar(?:\.(?:gz|xz|bz2|zst))?|t(?:gz|xz|bz2|zst)|zip|7z|rar)\Z", re.I)
_MLFLOW = frozenset({"metrics", "params", "tags", "artifacts"})
_TRACES = re.compile(r"hparams\.ya?ml\Z|metrics\.csv\Z|events\.out\.tfevents\.")
_LOG_END = re.compile(
    r"\.(?:log|out|err|OU|ER|txt|jsonl?|ipynb|std(?:out|err))(?:\.\d{1,4}|[.-]20\d\d-?\d\d-?\d\d)?"
    r"(?:\.(?:gz|xz|bz2|zst))?\Z",
    re.I,
)
_ENDINGS = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,4})+\Z")
_RANKED = re.compile(
    r"(?:rank|node|host|worker|trainer|pod|server|machine|proc|process|gpu|std(?:out|err)|attempt|restart|retry"
    r"|(?<![a-z])try)s?[-_.=]?\d",
    re.I,
)
# Of these, what the jobs are called that somebody starts by hand, one a GPU or a slot.
_OF_A_SLOT = re.compile(r"(?<![a-z])(?:worker|trainer|pod|server|machine|proc|process|gpu)s?[-_.]?\d", re.I)
_OF_A_RANK = re.compile(r"(?:rank|node|host|std(?:out|err)|attempt|restart|retry|(?<![a-z])try)s?[-_.=]?\d", re.I)
_NUMBER = re.compile(r"\d+(?![0-9a-f]*[-_.a-z])|(?<![0-9A-Za-z])(?=[a-f]*\d)[0-9a-f]{5,16}(?![0-9A-Za-z])|\d+")


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in one folder, without those that were excluded; hidden ones included."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    links: int = 0  # to folders, which are not followed


@dataclass(frozen=True, slots=True)
class Cut:
    """A job within a folder: which of its entries belong to it."""

    name: str
    entries: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key by which task 9 comes before task 10."""
    return [
        (1, int(part), "") if part.isdecimal() and part.isascii() and len(part) < 19 else (2, 0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    ]


def is_hydra_job(listing: Listing) -> bool:
    return ".hydra" in listing.folders


def is_hydra_sweep(listing: Listing) -> bool:
    return "multirun.yaml" in listing.files


def is_tune_trial(listing: Listing) -> bool:
    files = set(listing.files)
    return "params.json" in files and not files.isdisjoint({"result.json", "progress.csv", "error.txt", "params.pkl"})


def is_tune_experiment(listing: Listing) -> bool:
    return any(map(_TUNE_STATE.match, listing.files))


def is_mlflow_run(listing: Listing) -> bool:
    return "meta.yaml" in listing.files and len(_MLFLOW.intersection(listing.folders)) > 2


def is_nextflow_task(listing: Listing) -> bool:
    files = set(listing.files)
    return ".command.sh" in files and not files.isdisjoint({".exitcode", ".command.log", ".command.out"})


def is_parallel_job(listing: Listing) -> bool:
    return {"stdout", "stderr", "seq"} <= set(listing.files)


def is_nni_trial(listing: Listing) -> bool:
    return "parameter.cfg" in listing.files and (".nni" in listing.folders or "trial.log" in listing.files)


def is_sacred_run(listing: Listing) -> bool:
    return "run.json" in listing.files and not {"cout.txt", "config.json"}.isdisjoint(listing.files)


def is_jenkins_build(listing: Listing) -> bool:
    return {"build.xml", "log"} <= set(listing.files)


def may_be_guild_run(listing: Listing) -> bool:
    return ".guild" in listing.folders


def is_guild_state(listing: Listing) -> bool:
    """Whether a folder `.guild` is the one in a run's folder."""
    return "attrs" in listing.folders and not {"opref", "output"}.isdisjoint(listing.files)


def is_azureml_run(listing: Listing) -> bool:
    """Whether a folder is what Azure ML keeps of one run."""
    return {"user_logs", "system_logs"} <= set(listing.folders) or "azureml-logs" in listing.folders


def is_snakemake(listing: Listing) -> bool:
    """Whether a folder is one that Snakemake ran in, and its rules wrote to `logs/`."""
    return "logs" in listing.folders and (".snakemake" in listing.folders or "Snakefile" in listing.files)


def is_wandb_run(name: str) -> bool:
    return _WANDB_RUN.match(name) is not None


def is_torchrun(listing: Listing) -> bool:
    """Whether a folder holds the attempts of one torchrun agent."""
    return any(map(_ATTEMPT.match, listing.folders))


def is_document(name: str) -> bool:
    """Whether a file's name is that of a text on what lies beside it, or of a program."""
    return _DOCUMENT.match(name) is not None


def is_data(name: str) -> bool:
    """Whether a file's name is that of what a program reads or makes: pictures, arrays, weights, code."""
    return _DATA.search(name) is not None and not may_be_log(name)


def is_unread(name: str) -> bool:
    """Whether a file beside archives is a text about them, by its ending, or an archive that nothing here unpacks."""
    return is_document(name) or name.lower().endswith((".txt", ".7z", ".rar"))


def is_script(name: str) -> bool:
    """Whether a file's name is that of what people submit, or of a text about it."""
    return name.endswith((".sh", ".sbatch", ".slurm", ".job", ".md"))


def tasks_of(folder: str, files: Sequence[str]) -> tuple[Cut, ...]:
    """The tasks of an array whose id is a folder's name: `4821/7.out`; () where its files do not show two."""
    if not _JOB_FOLDER.match(folder):
        return ()
    found: dict[str, list[str]] = {}
    for file in files:
        if m := _TASK_FILE.match(file):
            found.setdefault(m["task"], []).append(file)
    if len(found) < 2:
        return ()
    return tuple(
        Cut(task, tuple(members), {"job_id": folder, "array_task": task}) for task, members in sorted(found.items())
    )


def launched_jobs(files: Sequence[str]) -> tuple[str, tuple[Cut, ...]]:
    """(layout, jobs) of what one daemon started and wrote a log each of; ("", ()) where these are not two."""
    for layout, shape in _LAUNCHED:
        found: dict[str, list[str]] = {}
        for file in files:
            if m := shape.match(file):
                found.setdefault(m["job"], []).append(file)
        if len(found) > 1:
            return layout, tuple(Cut(job, tuple(members)) for job, members in sorted(found.items(), key=_by_job))
    return "", ()


def _by_job(item: tuple[str, list[str]]) -> list[tuple[int, int, str]]:
    return natural(item[0])


def by_stem(files: Sequence[str]) -> tuple[Cut, ...]:
    """One cut a name without its ending: the streams of a job lie side by side, and what `--previous` showed of it.

    Also where the names say which stream it is; that of errors, which may be empty, comes behind the other.
    """
    stems = set(map(stem, files))
    streams: dict[str, set[str]] = {}
    for told in filter(None, map(_STREAM_OF.match, stems)):
        streams.setdefault(told["job"], set()).add(told["stream"].lower())
    found: dict[str, list[str]] = {}
    for file in files:
        name = stem(file)
        before = _PREVIOUS.sub("", name)
        m = _STREAM_OF.match(name)
        if m and len(streams[m["job"]]) > 1:
            members = found.setdefault(m["job"], [])
            members.insert(0 if m["stream"].lower() == "out" else len(members), file)
        else:
            found.setdefault(before if before in stems else name, []).append(file)
    return tuple(Cut(name, tuple(members)) for name, members in found.items())


def stem(file: str) -> str:
    """A log's name without its ending."""
    return _LOG_END.sub("", file)


def is_log(name: str) -> bool:
    """Whether a file's name is that of a log."""
    return _LOG_FILE.search(name) is not None


def may_be_log(name: str) -> bool:
    """Whether a file's name is that of a log, `log.txt` and the like among them."""
    return is_log(name) or any(shape.match(name) for shape in (_LOG_TEXT, _PBS, _PBS_SPOOLED))


def may_hold_log(name: str) -> bool:
    """Whether a file may be a log though its name is not that of one: no document, data, settings or archive.

    Notebooks are among them, which programs run as jobs, and files without an ending.
    """
    if name.startswith(".") or may_be_log(name):
        return False
    if name.endswith(".ipynb"):
        return True
    other = _DOCUMENT.match(name) or _DATA.search(name) or _SETTINGS.match(name) or _TRACES.match(name)
    return not other and not _ARCHIVE.search(name)


def is_study_log(name: str) -> bool:
    """Whether a log's name is that of what starts or follows several runs: `optuna.log`, `launcher.log`."""
    if own := _OWN_NOHUP.match(stem(name)):
        return _STUDY_LOG.match(f"{own['own']}.log") is not None or is_kind_of_log(own["own"])
    return _STUDY_LOG.match(name) is not None


def has_settings(files: Sequence[str]) -> bool:
    """Whether a program wrote down what one run of it was set to."""
    return any(map(_SETTINGS.match, files))


def has_traces(files: Sequence[str]) -> bool:
    """Whether a run of Lightning's left what it measured or was set to, if no log."""
    return any(map(_TRACES.match, files))


def alike(names: Sequence[str]) -> bool:
    """Whether names differ in numbers alone, and these do not count ranks or the like."""
    stems = {_NUMBER.sub("0", _ENDINGS.sub("", name)) for name in names}
    return len(stems) == 1 and not any(map(_RANKED.search, names))


def are_of_a_sweep(logs: Sequence[str]) -> bool:
    """Whether logs are named as the trials of a sweep, or are copies of one notebook, each of which a kernel ran."""
    if all(name.endswith(".ipynb") for name in logs):
        return alike(logs)
    stems = [stem(name) for name in logs]
    return all(map(is_trial, stems)) and not any(map(is_kind_of_log, stems))


def is_kind_of_log(stem: str) -> bool:
    """Whether a log's name without its ending is that of one kind of log of a run, or of one of its processes."""
    return _KIND_OF_LOG.match(stem) is not None or _RANKED.search(stem) is not None


def numbered_logs(logs: Sequence[str], *, processes: bool = False) -> tuple[str, ...]:
    """Logs whose names differ in numbers alone; () where there are not two.

    processes: also where the numbers count processes or machines (`gpu0.log`), as they do of the ranks of one run;
    whoever asks must know from elsewhere that they are none.
    """
    groups: dict[str, list[str]] = {}
    for name in logs:
        if processes or not _RANKED.search(name):
            groups.setdefault(_NUMBER.sub("0", name), []).append(name)
    most = max(groups.values(), key=lambda members: len(members), default=[])
    return tuple(most) if len(most) > 1 else ()


def is_of_a_slot(name: str) -> bool:
    """Whether a log is named by the GPU, process or worker that wrote it: a rank of one run, or a run of its own."""
    return _OF_A_SLOT.search(name) is not None and _OF_A_RANK.search(name) is None


def wandb_id(name: str) -> str:
    """The id of a W&B run's folder; a run that was resumed has several folders with one id."""
    return name.rpartition("run-")[2].split("-", 1)[-1]


def is_agent(name: str) -> bool:
    """Whether a folder can be that of a torchrun agent, by its name."""
    return _TORCHRUN.match(name) is not None


def torchrun_jobs(names: Iterable[str]) -> tuple[Cut, ...]:
    """Log folders of torchrun agents by job: those with one rendezvous id belong together, unless it is "none"."""
    groups: dict[str, list[str]] = {}
    for name in names:
        m = _TORCHRUN.match(name)
        groups.setdefault(m["id"] if m and m["id"] != "none" else name, []).append(name)
    return tuple(Cut(members[0] if len(members) == 1 else job, tuple(members)) for job, members in groups.items())


def scheduler_jobs(files: Sequence[str], *, arrays_only: bool = False) -> tuple[tuple[Cut, ...], tuple[str, ...]]:
    """(jobs of which a scheduler wrote one file each or a few, files that are of none of them).

    No jobs where the files do not show two of them. Tasks of one job (`<job>_<rank>`) look like an array's; whoever
    can read the files tells them apart (`heads.writers`). arrays_only: several job ids are one job that was
    submitted again.
    """
    found: dict[tuple[str, str | None], list[str]] = {}
    hosts: dict[tuple[str, str | None], dict[str, None]] = {}
    rest: list[str] = []
    slurm = any(file.startswith("slurm-") for file in files)
    for file in files:
        m = _OWN_ARRAY.match(file) or _SUBMITIT.match(file) or _ARRAY.match(file) or _PBS.match(file)
        m = m or _PBS_SPOOLED.match(file) or _SINGLE.match(file) or _on_host(file)
        if m is None and not _RANKED.search(file) and not _COUNTED.search(file):
            m = _ARRAY_OTHER.match(file) or _SINGLE_LOG.match(file) or (_SHORT.match(file) if slurm else None)
        if m is None:
            rest.append(file)
            continue
        parts = m.groupdict()
        key = (parts.get("job") or parts["id"], parts.get("task"))
        found.setdefault(key, []).append(file)
        if host := parts.get("host"):
            hosts.setdefault(key, {})[host] = None
    if arrays_only:
        rest += [file for (_, task), members in found.items() if task is None for file in members]
        found = {key: members for key, members in found.items() if key[1] is not None}
    if len(found) < 2:
        return (), tuple(files)
    cuts = tuple(
        Cut(
            job if task is None else f"{job}_{task}",
            tuple(sorted(members, key=natural)),
            {"job_id": job}
            | ({} if task is None else {"array_task": task})
            | ({NODES: " ".join(hosts[job, task])} if (job, task) in hosts else {}),
        )
        for (job, task), members in found.items()
    )
    return tuple(sorted(cuts, key=lambda cut: natural(cut.name))), tuple(rest)


def _on_host(file: str) -> re.Match[str] | None:
    """A name with a job id and the machine's name behind it: Slurm's own, or any where the machine is named as such."""
    m = _ON_HOST.match(file)
    return m if m and (file.startswith("slurm-") or (is_host(m["host"]) and not _COUNTED.search(file))) else None


def may_be_ranks(cuts: Sequence[Cut]) -> dict[str, list[Cut]]:
    """Job id -> its cuts, where they can be the ranks of one job: numbered from 0 without a gap."""
    groups: dict[str, list[Cut]] = {}
    for cut in cuts:
        if "array_task" in cut.labels:
            groups.setdefault(cut.labels["job_id"], []).append(cut)
    return {
        job: members
        for job, members in groups.items()
        if len(members) > 1 and {int(cut.labels["array_task"]) for cut in members} == set(range(len(members)))
    }


def is_named_as_array(cuts: Sequence[Cut]) -> bool:
    """Whether Slurm's own name for arrays is among the names of files."""
    return any(entry.startswith("slurm-") for cut in cuts for entry in cut.entries)
