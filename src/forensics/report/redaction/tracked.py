"""What W&B and its like know a run by, in settings, command lines and in what their clients say."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.shapes import DOTS, IS, NAME
from forensics.report.redaction.words import ORDINARY

_TRACKERS = ("wandb", "weave", "comet", "neptune", "swanlab", "mlflow", "clearml", "trackio")
_TRACKER = rf"(?<![A-Za-z0-9])(?:{'|'.join(_TRACKERS)})"
# `wandb_entity='x'`, `wandb.entity: x`, `"wandb_entity": "x"`; Megatron lists its arguments behind
# dots. Variables of an environment are read elsewhere.
_SETTING = rf"(?:{DOTS}|{IS})(?!b\\?[\"'])"
_ENTITY = lazy(
    rf"({_TRACKER}[_.-](?:entity|team|org(?:anization)?|workspace)(?:_name)?{_SETTING}){NAME}(?![\w(/])", re.ASCII
)
_PROJECT = lazy(rf"({_TRACKER}[_.-]project(?:[_-]name)?{_SETTING}){NAME}(?![\w(/])", re.ASCII)
_RUN = lazy(
    rf"({_TRACKER}[_.-](?:(?:exp(?:eriment)?|run|sweep|task)[_-]?(?:name|id|group)|name|id|group){_SETTING})"
    r"((?![-+]?\d+\b)[\w.-]{3,128})(?![\w(/])",
    re.ASCII,
)
# Of the client: `entity x not found during upsertBucket`, and names of its requests.
_ENTITY_SAID = (
    lazy(
        rf"(\b[Ee]ntity [\"'`]?)(?!(?:is|was|has|does|and|or|not|of|the|in)\b){NAME}"
        r"(?=[\"'`]? (?:not found|does not exist|doesn't exist|could not be found))",
        re.ASCII,
    ),
    lazy(r"(\bentityName\\?[\"']?[:= ]{1,3}\\?[\"']?)([A-Za-z][\w.-]{1,127})", re.ASCII),
)
_PROJECT_SAID = lazy(r"(\bprojectName\\?[\"']?[:= ]{1,3}\\?[\"']?)([A-Za-z][\w.-]{1,127})", re.ASCII)
_RUN_SAID = (
    # SageMaker and others: `"job_name": "x-2025-01-01"`; a bare word is a role
    lazy(
        r"(\\?[\"'](?:training_)?job_?[nN]ame\\?[\"']\s?:\s?\\?[\"'])((?=[\w.]*-|[\w.]*\d)[\w.-]{3,128})(?=\\?[\"'])",
        re.ASCII,
    ),
    # `wandb: Agent Starting Run: ID with config:`, `wandb: Created sweep with ID: ID`
    lazy(r"(\b(?:Agent Starting Run|[Ss]weep with ID|[Ss]weep ID): ?)([a-z0-9]{6,12})(?!\w)", re.ASCII),
    lazy(
        r"(\bwandb: [^\n]{0,40}?(?:(?:Syncing|Resuming|Resumed|Forking|Rewinding) run|Synced) )([\w.-]{2,128})"
        r"(?=:|\.?(?:\s*$|[)\]\"'`,;|]))",
        re.ASCII | re.M,
    ),
    # W&B: offline with `resume`; a run that is used after its end; one whose id was used and deleted
    lazy(r"(\b[Ss]tarting a new run with run id:? )((?!\d+\b)[\w.-]{2,128}?)(?=\.?(?:[\s\"'`,;)]|\Z))", re.ASCII),
    # Azure ML
    lazy(r"(\bAttempting to start run: )([\w.-]{2,128})(?=\s*$)", re.ASCII | re.M),
    # LSF names a job after its command where nobody did
    lazy(r"(\bJob Name <)([\w.-]{2,128})(?=>)", re.ASCII),
    lazy(r"(\bJob <)((?!\d+>)[\w.-]{2,128})(?=> was submitted from host )", re.ASCII),
    lazy(r"(^Subject: Job \d{1,12}(?:\[\d+\])?: <)([\w.-]{2,128})(?=> in cluster )", re.ASCII | re.M),
    lazy(r"(\bRun \()([\w.-]{2,128})(?=\) is finished)", re.ASCII),
    lazy(rf"(\brun ){NAME}(?= was previously created and deleted)", re.ASCII),
    # MLflow: `View run NAME at: URL`, where a name may be several words; runs that are not found
    lazy(r"(\bView run )((?!run-\d+ at: )[^\s\"'<>][^\n\"'<>]{0,127}?)(?= at: [a-z]+://)", re.ASCII),
    lazy(r"((?i:\bclearml\b)[^\n]{0,60}?\b[Tt]ask(?: id)?[:= ]{1,3})([0-9a-f]{32})\b", re.ASCII),
    lazy(r"(\b[Rr]un (?:with (?:id|ID|run_id|uuid)[= :]\s?|id )?[\"'`]?)([0-9a-f]{32})\b", re.ASCII),
)
# MLflow's experiments and models: `Experiment with name 'x' does not exist`, `Created version '3' of model 'x'`.
_EXPERIMENT_SAID = lazy(
    r"(\b(?:[Ee]xperiment with name|[Ee]xperiment) ')([^'\n]{1,200})(?=' (?:does not exist|already exists|exists))",
    re.ASCII,
)
# Ids of an account at Databricks: elsewhere MLflow counts its experiments from 0, or takes 18 digits at random.
_EXPERIMENT_ID = lazy(
    r"((?:\bexperiments/|/\?o=|\d\?o=|\b(?i:mlflow[_.]|mlflow\.active_)?(?i:experiment_?id)\\?[\"']?\s?[:=]\s?\\?[\"']?))(\d{10,20})\b",
    re.ASCII,
)
_MODEL_SAID = lazy(
    r"(\b(?:[Rr]egistered (?:[Mm]odel|[Mm]odel with name)|[Vv]ersion '?\d+'? of model)[ =]')([^'\n]{1,200})(?=')",
    re.ASCII,
)
_OPTIONS = r"(?: --?[\w-]{1,40}(?:[= ][\w.]{1,40})?){0,6}"
# ENTITY/PROJECT/RUN, and ENTITY/PROJECT alone.
_PATHS = (
    lazy(rf"(\b[Pp]ermission denied to access [\"'`]?){NAME}/{NAME}(?:/{NAME})?(?![\w/])", re.ASCII),
    lazy(
        rf"(\bwandb (?:agent|launch-agent|launch|pull|restore|verify|sweep){_OPTIONS} [\"']?)"
        rf"{NAME}/{NAME}(?:/{NAME})?(?![\w/])",
        re.ASCII,
    ),
    lazy(rf"(\b[Aa]pi(?:\(\))?\.(?:runs?|sweep|project|report)\(\s?[\"']){NAME}/{NAME}(?:/{NAME})?(?![\w/])", re.ASCII),
    lazy(rf"(\b[Ss]weep [\"'`]?){NAME}/{NAME}/{NAME}(?![\w/])", re.ASCII),
    lazy(rf"(\brun ){NAME}/{NAME}/{NAME}(?= was previously created and deleted)", re.ASCII),
    lazy(rf"(\b[Pp]roject [\"'`]){NAME}/{NAME}(?=[\"'`])", re.ASCII),
    lazy(
        r"(\b(?:[Aa]rtifact|[Cc]ollection|[Mm]embership|[Rr]egistry|[Ss]weep|[Rr]un)\b[^\n]{1,160}?"
        r" not found in [\"'`])"
        rf"{NAME}/{NAME}(?=[\"'`])",
        re.ASCII,
    ),
)
_AGENT = lazy(rf"(\bwandb agent{_OPTIONS} )((?=[a-z]*\d)[a-z0-9]{{8}})(?![\w/:])", re.ASCII)
# `artifact 'ENTITY/PROJECT/NAME:v3' not found`, `use_artifact('PROJECT/NAME:latest')`
_ARTIFACT = lazy(
    r"(\b(?:[Aa]rtifact(?: (?:with name|membership|named|name|path))?:? [\"'`]?"
    r"|\w*artifact\([\"']|wandb artifact \w+ [\"']?))"
    r"(?:([\w.-]{1,128})/)?([\w.-]{1,128})/([\w.-]{1,128})(?=:[\w-]{1,128})",
    re.ASCII,
)
_FILE = lazy(r"\.(?:pt|pth|bin|json|jsonl|yaml|yml|txt|csv|py|sh|log|out|tar|npy|h5|ckpt|safetensors)\Z", re.ASCII)


def _is_path(owner: str, last: str) -> bool:
    return owner.startswith(".") or owner.lower() in ORDINARY or _FILE.search(last) is not None


def _path(match: re.Match[str], memory: Memory) -> str:
    run = match[4] if match.re.groups > 3 else None
    if _is_path(match[2], run or match[3]):
        return match[0]
    named = f"{match[1]}{memory.account(match[2])}/{memory.of('project', match[3])}"
    return f"{named}/{memory.of('run', run)}" if run else named


def _artifact(match: re.Match[str], memory: Memory) -> str:
    entity, project, name = match.group(2, 3, 4)
    if _is_path(entity or project, name):
        return match[0]
    owner = f"{memory.account(entity)}/" if entity else ""
    return f"{match[1]}{owner}{memory.of('project', project)}/{memory.of('repo', name)}"


def tracked(text: str, memory: Memory) -> str:
    """`text` without entities, projects, runs, sweeps and artifacts of trackers outside of addresses."""

    def project(name: str) -> str:
        return memory.of("project", name)

    def run(name: str) -> str:
        return memory.of("run", name)

    if any(name in text for name in _TRACKERS):
        text = second(_RUN, run, second(_PROJECT, project, second(_ENTITY, memory.account, text)))
    if "ntity" in text:
        for pattern in _ENTITY_SAID:
            text = second(pattern, memory.account, text)
    if "projectName" in text:
        text = second(_PROJECT_SAID, project, text)
    for pattern in _RUN_SAID:
        text = second(pattern, run, text)
    if "xperiment" in text or "EXPERIMENT" in text:
        text = second(_EXPERIMENT_ID, project, second(_EXPERIMENT_SAID, project, text))
    if "model" in text.lower():
        text = second(_MODEL_SAID, lambda name: memory.of("repo", name), text)
    if "/" in text:
        for pattern in _PATHS:
            text = pattern.sub(lambda match: _path(match, memory), text)
        if "rtifact" in text:
            text = _ARTIFACT.sub(lambda match: _artifact(match, memory), text)
    return second(_AGENT, run, text) if "wandb agent" in text else text
