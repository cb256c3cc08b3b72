"""What hosted services know a run by: buckets, accounts, ARNs, repositories, runs, workspaces, channels."""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import PUBLIC_OWNERS

_BUCKETS = (
    re.compile(r"(?i)(\b(?:s3[an]?|gs|gcs|az|abfss?|wasbs?|adl|oss|cos|r2|b2|obs|tos|weka|juicefs)://)([^\s/\"'<>@,;)\]}]+)", re.ASCII),
    re.compile(r"(?i)(@|\bhttps?://)([a-z0-9-]+)(?=\.(?:blob|dfs|file|queue|table)\.core\.windows\.net)", re.ASCII),
    re.compile(r"(?i)(\bAccountName=)([a-z0-9-]+)", re.ASCII),
    re.compile(
        r"(?i)(\bhttps?://)([a-z0-9][a-z0-9.-]*?)"
        r"(?=\.s3[.-][a-z0-9.-]*amazonaws\.com|\.storage\.googleapis\.com|\.r2\.cloudflarestorage\.com)", re.ASCII,
    ),
    re.compile(
        r"(?i)(\bhttps?://(?:s3[.-][a-z0-9.-]*amazonaws\.com|storage\.(?:googleapis|cloud\.google)\.com)/)"
        r"([^\s/\"'<>?]+)", re.ASCII,
    ),
    re.compile(r"(?i)(\b(?:bucket|container)(?:[_ -]?name)?\\?[\"']?\s?[=:]\s?\\?[\"'])([a-z0-9][a-z0-9._-]{2,62})(?=\\?[\"'])", re.ASCII),
    re.compile(r"(/(?:gcs|s3|mnt/(?:s3|gcs))/)([a-z0-9][a-z0-9._-]{2,62})(?=/)", re.ASCII),  # where they are mounted
)  # fmt: skip
_AZURE_CONTAINER = re.compile(r"(?i)(\b(?:abfss?|wasbs?)://)([^\s/@\"'<>]+)(?=@)", re.ASCII)

_ARN = re.compile(r"\barn:aws[\w-]{0,12}:[^\s\"'<>,)\]}]{4,300}", re.ASCII)
_ACCOUNT = (
    re.compile(r"()(?<![\w.])(\d{12})(?=\.dkr\.ecr\.)", re.ASCII),
    re.compile(
        r"(?i)(\b(?:aws_?)?account(?:[ _-]?(?:id|number))?\\?[\"']?\s?[=:#]?\s?\\?[\"']?)(\d{4}-?\d{4}-?\d{4})(?![\w.])", re.ASCII
    ),
    re.compile(r"(?i)(\b(?:slurm_job_|sbatch_|salloc_)?account(?:[ _-]?name)?=)([a-z][\w-]{1,63})(?![\w.(])", re.ASCII),
    re.compile(r"(--account[= ]|\bsbatch [^\n|;]{0,80}?-A )([A-Za-z][\w-]{1,63})", re.ASCII),
    re.compile(r"(?i)(\b(?:org|organization|team|workspace|entity|tenant)[ _-]?(?:id|name)?\\?[\"']?\s?[=:]\s?\\?[\"']?)((?:org-)?[a-z][\w-]{2,63})(?![\w.(/])", re.ASCII),
    re.compile(r"()(?<![\w-])(org-[A-Za-z0-9]{20,30}|proj_[A-Za-z0-9]{20,30}|AC[0-9a-f]{32})(?![\w-])", re.ASCII),
)  # fmt: skip
_PROJECT = (
    re.compile(r"(\b(?:googleapis\.com/[\w/]{0,40}|gcr\.io|pkg\.dev|gserviceaccount)?\bprojects/)([a-z0-9][\w.:-]{3,62})", re.ASCII),
    re.compile(r"(?i)(\b(?:gcp_|google_cloud_|gcloud_|vertex_)?project(?:_id|id)?=)([a-z][a-z0-9-]{4,29}[a-z0-9])(?![\w./(])", re.ASCII),
    re.compile(r"(?i)(\\?[\"']project(?:_id|Id)?\\?[\"']\s?:\s?\\?[\"'])([a-z][\w-]{2,63})(?=\\?[\"'])", re.ASCII),
    re.compile(r"(--project(?:[-_](?:name|id))?[= ]|--wandb[-_]project[= ]|\bWANDB_PROJECT=|\bCOMET_PROJECT_NAME=|\bNEPTUNE_PROJECT=)([\w./-]{2,80})", re.ASCII),
    re.compile(r"(\b(?:\w+-docker\.pkg\.dev|(?:us\.|eu\.|asia\.)?gcr\.io)/)([a-z][a-z0-9-]{3,40})(?=/)", re.ASCII),
    re.compile(r"(?i)(\bresourceGroups/)([\w.()-]{1,90})", re.ASCII),
)  # fmt: skip
_RESOURCE = re.compile(
    r"()(?<![\w-])((?:vpc|subnet|sg|vol|eni|ami|fs|snap|lt|asg|eks|pg|fsx|r|igw|rtb)-[0-9a-f]{8,17})(?![\w-])", re.ASCII
)

# https://wandb.ai/ENTITY/PROJECT/runs/ID, and Comet, Neptune, MLflow, ClearML, HF, GitHub in their own ways.
_WANDB_URL = re.compile(
    r"(?i)(\b(?:wandb\.ai|[\w.-]{1,80}\.wandb\.io)/)(?!site\b|quickstart\b|authorize\b|guides\b|docs\b|healthz\b|graphql\b|api\b|files\b)([\w.-]{1,128})(?:/([\w.-]{1,128}))?"
    r"(/(?:runs|sweeps|groups|reports|artifacts|workspace)/)?([\w.%-]{1,128})?",
    re.ASCII,
)
_COMET_URL = re.compile(r"(?i)(\bcomet\.(?:com|ml)/)(?!docs\b|site\b|api\b)([\w.-]{1,128})/([\w.-]{1,128})(?:(/)([\w-]{1,64}))?", re.ASCII)
_NEPTUNE_URL = re.compile(
    r"(?i)(\bapp\.neptune\.ai/(?:o/)?)([\w.-]{1,128})/(?:(?:-|org)/)?([\w.-]{1,128})(?:(/(?:e|runs?|m)/)([\w.?=-]{1,128}))?", re.ASCII
)
_MLFLOW = re.compile(r"(\b(?:mlruns/\w{1,40}/|experiments/\d{1,20}/runs/|/runs/|run_id[=:]\s?[\"']?|MLFLOW_RUN_ID=))([0-9a-f]{32})\b", re.ASCII)
_WANDB_RUN = (
    re.compile(r"(\b(?:offline-)?run-\d{8}_\d{6}-)([a-z0-9]{6,12})(?![\w])", re.ASCII),
    re.compile(r"(\brun-)((?=[a-z]*\d)[a-z0-9]{8})(?=\.wandb\b)", re.ASCII),
    re.compile(r"(\bwandb: [^\n]{0,40}?(?:Syncing run|View run|Resuming run|Run) )([\w.-]{2,128})(?= at:|\s*$|\s+\()", re.ASCII | re.M),
    re.compile(r"(?i)(\b(?:wandb[-_])?run[-_]?(?:id|name)\\?[\"']?\s?[=:]\s?\\?[\"']?)((?![-+]?\d+\b)[\w.-]{3,128})(?![\w(])", re.ASCII),
    re.compile(r"(--(?:wandb[-_])?(?:run[-_]?(?:id|name)|name|job[-_]name|experiment[-_]name|exp[-_]name)[= ])([\w.-]{3,128})", re.ASCII),
    re.compile(r"(\b(?:SLURM_JOB_NAME|JobName|WANDB_NAME|WANDB_RUN_ID|WANDB_RUN_GROUP|job_name)=)([\w.-]{2,128})", re.ASCII),
)  # fmt: skip
_WANDB_LOGIN = re.compile(r"(\blogged in as:? )([\w.-]{1,64})( \()([\w.-]{1,64})(?=\))", re.ASCII)
_ENTITY = re.compile(r"(--(?:wandb[-_])?entity[= ]|--team[= ]|--org[= ]|\bWANDB_ENTITY=|\bCOMET_WORKSPACE=)([\w.-]{2,64})", re.ASCII)

_HUB_URL = re.compile(
    r"(?i)(\b(?:huggingface\.co|hf\.co)/(?:api/)?(?:(?:datasets|spaces|models)/)?|\bhf://(?:(?:datasets|spaces|models)/)?)"
    r"([\w.-]{1,96})/([\w.-]{1,96})",
    re.ASCII,
)
_HUB_CACHE = re.compile(r"(\b(?:models|datasets|spaces)--)([A-Za-z0-9][\w.]*(?:-[\w.]+)*)--([A-Za-z0-9][\w.]*(?:-[\w.]+)*)", re.ASCII)
_HUB_OPTION = re.compile(
    r"((?:--)?hub[-_](?:model|dataset|repo)[-_]id\\?[\"']?[= :]\s?\\?[\"']?|push_to_hub\(\s?[\"'])([\w.-]{1,96})/([\w.-]{1,96})", re.ASCII
)
_GIT_URL = re.compile(
    r"(?i)(\b(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|raw\.githubusercontent\.com|ghcr\.io)[/:]|\bgit@[\w.-]{1,253}:|"
    r"\bssh://git@[\w.-]{1,253}(?::\d+)?/)([\w.-]{1,100})/([\w.-]{1,100}?)(?=\.git\b|[^\w.-]|\.?\Z|\.\s)",
    re.ASCII,
)
_GIT_HOST = re.compile(r"((?:\bgit@|\bssh://git@))([\w.-]{1,253})(?=[:/])", re.ASCII)
_GIT_REMOTE = re.compile(r"(?i)(\bhttps?://[\w.-]{1,253}/)([\w.-]{1,100})/((?:[\w.-]{1,100}/){0,4}[\w.-]{1,100})(?=\.git\b)", re.ASCII)
_SLACK = (
    re.compile(r"(?i)(\bhttps?://)((?!hooks\b|api\b|app\b|files\b|www\b)[a-z0-9-]{2,60})(?=\.(?:enterprise\.)?slack\.com\b)", re.ASCII),
    re.compile(r"(?i)(\bslack\.com/(?:archives|team|client/T\w{6,12}|app_redirect\?channel=)/?)([A-Z0-9]{8,14}(?:/p\d{10,20})?)", re.ASCII),
    re.compile(r"(?i)(\bslack[^\n]{0,60}?\bchannel\\?[\"']?\s?[=:]?\s?\\?[\"']?)(#[\w-]{2,80}|[CGDU][A-Z0-9]{8,12}\b)", re.ASCII),
    re.compile(r"(\bslack[^\n]{0,60}?)(<@[UW][A-Z0-9]{6,12}>)", re.ASCII | re.I),
)  # fmt: skip


def buckets(text: str, memory: Memory) -> str:
    """`text` without names of buckets, containers and storage accounts."""

    def make(name: str) -> str:
        return memory.of("bucket", name)

    text = second(_AZURE_CONTAINER, make, text)
    for pattern in _BUCKETS:
        text = second(pattern, make, text)
    return text


def accounts(text: str, memory: Memory) -> str:
    """`text` without account numbers, ARNs, organisations, cloud projects and ids of cloud resources."""
    if "arn:" in text:
        text = _ARN.sub(lambda match: memory.of("arn", match[0]), text)
    lowered = text.lower()
    if any(word in lowered for word in ("account", "ecr", "-a ", "org", "team", "workspace", "entity", "tenant", "proj", "ac")):
        for pattern in _ACCOUNT:
            text = second(pattern, memory.account, text)
    if "roject" in text or "PROJECT" in text or "resourceGroups" in text or "gcr.io" in text or "pkg.dev" in text:
        for pattern in _PROJECT:
            text = second(pattern, lambda name: memory.of("project", name), text)
    return second(_RESOURCE, lambda name: memory.of("resource", name), text) if "-" in text else text


def _owned(kind: str, memory: Memory) -> Callable[[re.Match[str]], str]:
    """Replaces groups 2 and 3, an owner and a thing of theirs; a public owner's things stay."""

    def replace(match: re.Match[str]) -> str:
        if match[2].lower() in PUBLIC_OWNERS:
            return match[0]
        thing = match[3] if is_stand_in(match[3]) else memory.of(kind, match[3])
        separator = match.string[match.end(2) : match.start(3)]
        return match[1] + memory.account(match[2]) + separator + thing + match.string[match.end(3) : match.end()]

    return replace


def _tracked(match: re.Match[str], memory: Memory) -> str:
    """A tracker's URL: entity, then project, then what it is about."""
    text = match[1] + memory.account(match[2])
    if match[3]:
        text += match.string[match.end(2) : match.start(3)] + memory.of("project", match[3])
    if match[4]:
        text += match[4]
    if match[5]:
        text += memory.of("run", match[5])
    return text


def trackers(text: str, memory: Memory) -> str:
    """`text` without what experiment trackers know a run by: entity, project, run and their ids."""
    lowered = text.lower()
    if "wandb" in lowered or "logged in" in lowered:
        text = _WANDB_URL.sub(lambda match: _tracked(match, memory), text)
        text = _WANDB_LOGIN.sub(lambda m: m[1] + memory.user(m[2]) + m[3] + memory.account(m[4]), text)
    if "comet." in lowered:
        text = _COMET_URL.sub(lambda match: _tracked(match, memory), text)
    if "neptune" in lowered:
        text = _NEPTUNE_URL.sub(lambda match: _tracked(match, memory), text)
    text = second(_ENTITY, memory.account, text)
    for pattern in (_MLFLOW, *_WANDB_RUN):
        text = second(pattern, lambda name: memory.of("run", name), text)
    return text


def repositories(text: str, memory: Memory) -> str:
    """`text` without repositories of code and models; those of well-known publishers stay."""
    if "/" in text:
        for pattern in (_HUB_URL, _HUB_OPTION, _GIT_URL, _GIT_REMOTE):
            text = pattern.sub(_owned("repo", memory), text)
    if "git@" in text:
        public = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "huggingface.co", "hf.co")
        text = second(_GIT_HOST, lambda name: name if name.lower() in public else memory.host(name), text)
    return _HUB_CACHE.sub(_owned("repo", memory), text) if "--" in text else text


def chats(text: str, memory: Memory) -> str:
    """`text` without workspaces, channels and members of Slack."""
    if "slack" in text.lower():
        for pattern in _SLACK:
            text = second(pattern, lambda name: memory.of("channel", name), text)
    return text
