"""What hosted services know a run by: buckets, accounts, ARNs, repositories, runs, workspaces, channels."""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.patterns import lazy
from forensics.report.redaction.images import PUBLIC_ACCOUNTS
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.shapes import HOST, IS, NAME, TO
from forensics.report.redaction.stand_ins import is_stand_in
from forensics.report.redaction.words import ORDINARY, PUBLIC_OWNERS

_ARN = lazy(r"\barn:aws[\w-]{0,12}:[^\s\"'<>,)\]}]{4,300}", re.ASCII)
_ACCOUNT = (
    lazy(rf"()(?<![\w.])(?!{PUBLIC_ACCOUNTS})(\d{{12}})(?=\.dkr\.ecr\.)", re.ASCII),
    lazy(
        r"(?i)(\b(?:aws_?)?account(?:[ _-]?(?:id|number))?\\?[\"']?\s?[=:#]?\s?\\?[\"']?)(\d{4}-?\d{4}-?\d{4})"
        r"(?![\w.])",
        re.ASCII,
    ),
    lazy(r"(?i)(\baccount(?:[ _-]?name)?=)([a-z][\w-]{1,63})(?![\w.(])", re.ASCII),
    lazy(r"(--account[= ]|\bsbatch [^\n|;]{0,80}?-A )([A-Za-z][\w-]{1,63})", re.ASCII),
    lazy(
        r"(?i)(\b(?:org|organization|team|workspace|entity|tenant)[ _-]?(?:id"
        rf"|name)?{IS})((?:org-)?[a-z][\w-]{{2,63}})(?![\w.(/])",
        re.ASCII,
    ),
    # W&B, the Hub: `not found under entity x`, `under the namespace "x"`
    lazy(
        r"(\bunder (?:the )?(?:entity|namespace|organization|team|workspace) [\"'`]?)([A-Za-z][\w-]{1,63})(?![\w.(/])",
        re.ASCII,
    ),
    # whoami of the Hub
    lazy(
        r"(\\?[\"']orgs\\?[\"']\s?:\s?\[\s?\{[^\]\n]{0,200}?\\?[\"']name\\?[\"']\s?:\s?\\?[\"'])([\w.-]{1,64})",
        re.ASCII,
    ),
    lazy(r"()(?<![\w-])([0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6})(?![\w-])", re.ASCII),  # Google's billing
    lazy(r"()(?<![\w-])(org-[A-Za-z0-9]{20,30}|proj_[A-Za-z0-9]{20,30}|AC[0-9a-f]{32})(?![\w-])", re.ASCII),
    # also cut, where a capital or the place tells them: `in organization org-AbC... on tokens per min`
    lazy(r"()(?<![\w-])((?:org-|proj_)(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{8,30})(?![\w-])", re.ASCII),
    lazy(r"(\bto entity )([A-Za-z][\w-]{1,63})(?![\w.(/])", re.ASCII),  # W&B: `does not have access to entity x`
)
_PROJECT = (
    lazy(r"(\bUser <[^>\n]{1,80}>, Project <)([\w.-]{2,80})(?=>)", re.ASCII),  # LSF
    lazy(
        r"(\b(?:googleapis\.com/[\w/]{0,40}|gcr\.io|pkg\.dev|gserviceaccount)?\bprojects/)([a-z0-9][\w.:-]{3,62})",
        re.ASCII,
    ),
    lazy(
        r"(?i)(\b(?:gcp_|google_cloud_|gcloud_|vertex_|cloud_ml_)?project(?:_id|id)?=)([a-z][a-z0-9-]{4,29}[a-z0-9])"
        r"(?![\w./(])",
        re.ASCII,
    ),
    lazy(r"(?i)(\\?[\"']project(?:_id|Id)?\\?[\"']\s?:\s?\\?[\"'])([a-z][\w-]{2,63})(?=\\?[\"'])", re.ASCII),
    # an argument of trackers, in code: `wandb.init(project="x")`, `CometLogger(project_name="x")`
    lazy(r"((?<![\w.-])project(?:_name)?=\\?[\"'])([A-Za-z0-9][\w-]{1,127})(?=\\?[\"'])", re.ASCII),
    lazy(rf"(--(?:wandb[-_])?project(?:[-_](?:name|id))?{TO})([\w./-]{{2,80}})", re.ASCII),
    lazy(r"(\b(?:\w+-docker\.pkg\.dev|(?:us\.|eu\.|asia\.)?gcr\.io)/)([a-z][a-z0-9-]{3,40})(?=/)", re.ASCII),
    lazy(r"(\bneptune\b[^\n]{0,80}?\bproject\s?=\s?\\?[\"'](?:[\w.-]{1,64}/)?)([\w.-]{1,128})(?=\\?[\"'])", re.ASCII),
    lazy(r"(\bgcloud config set (?:core/)?project )([a-z][a-z0-9-]{4,29})", re.ASCII),
    lazy(r"(\bproject )([\w.-]{2,128})(?= not found under entity )", re.ASCII),  # W&B
    lazy(r"(?i)(\bresourceGroups/)([\w.()-]{1,90})", re.ASCII),
    lazy(r"(?i)(\bresourceGroups/[\w.()-]{1,90}/(?:providers/[\w.]{1,80}/)?workspaces/)([\w.-]{1,90})", re.ASCII),
)
# Where Azure ML keeps the jobs of a workspace on a machine: `.../shared/LS_root/jobs/WORKSPACE/azureml/RUN/`.
_AZUREML_JOBS = lazy(r"(/LS_root/jobs/)([A-Za-z][\w-]{1,63})(?=/)", re.ASCII)
_AZUREML_RUN = lazy(r"(/LS_root/jobs/[\w-]{1,64}/azureml/)([A-Za-z0-9][\w.-]{3,127})(?=/)", re.ASCII)
_LOCATED = lazy(  # Google's names of machines: projects/P/locations/L/nodes/N
    r"(\b(?:locations|zones|regions)/[\w-]{1,40}/(?:nodes|instances|clusters|queuedResources|nodePools|disks)/)"
    r"([a-z][a-z0-9-]{1,62})",
    re.ASCII,
)
_RESOURCE = lazy(
    r"()(?<![\w-])(ocid1\.[a-z0-9]{2,40}\.oc\d{1,3}\.[a-z0-9-]{0,40}\.(?:[a-z0-9-]{0,40}\.)?[a-z0-9]{8,80}|(?:vpc"
    r"|subnet|sg|vol|eni|ami|fs|snap|lt|asg|eks|pg|fsx|r|igw|rtb)-[0-9a-f]{8,17})(?![\w-])",
    re.ASCII,
)

# https://wandb.ai/ENTITY/PROJECT/runs/ID, and Comet, Neptune, MLflow, ClearML, HF, GitHub in their own ways.
_WANDB_URL = lazy(
    r"(?i)(\b(?:wandb\.ai|[\w.-]{1,80}\.wandb\.io)/)(?!site\b|quickstart\b|authorize\b|guides\b|docs\b"
    rf"|healthz\b|graphql\b|api\b|files\b){NAME}(?:/{NAME})?"
    r"(/(?:runs|sweeps|groups|reports|artifacts|workspace)/)?([\w.%-]{1,128})?",
    re.ASCII,
)
_COMET_URL = lazy(rf"(?i)(\bcomet\.(?:com|ml)/)(?!docs\b|site\b|api\b){NAME}/{NAME}(?:(/)([\w-]{{1,64}}))?", re.ASCII)
_NEPTUNE_URL = lazy(
    rf"(?i)(\b(?:[a-z][\w-]*\.)?neptune\.ai/(?!docs\b|blog\b|api\b)(?:o/)?){NAME}/(?:(?:-|org)/)?{NAME}(?:(/(?:e|runs?"
    r"|m)/)([\w.?=-]{1,128}))?",
    re.ASCII,
)
_NEPTUNE_PROJECT = lazy(
    r"(\bneptune\b[^\n]{0,80}?\bproject\s?=\s?\\?[\"'])([\w.-]{1,64})(?=/[\w.-]{1,128}\\?[\"'])", re.ASCII
)
# https://modal.com/apps/USER/main/ap-ID
_MODAL_URL = lazy(r"(\bmodal\.com/(?:apps|logs|storage|secrets)/)([\w.-]{1,64})(?=/|\s|\Z)", re.ASCII)
_MODAL_APP = lazy(r"(\bmodal\.com/[\w./-]{1,160}/)(ap-[A-Za-z0-9]{6,40})", re.ASCII)
# https://swanlab.cn/@USER/PROJECT/runs/ID
_SWANLAB_URL = lazy(rf"(?i)(\bswanlab\.(?:cn|com|dev)/@){NAME}(?:/{NAME})?(?:(/runs/)([\w-]{{1,64}}))?", re.ASCII)
_MLFLOW = lazy(
    r"(\b(?:mlruns/\w{1,40}/|experiments/(?:\d{1,20}/runs/)?|/runs/|run_id[=:]\s?[\"']?|MLFLOW_RUN_ID=))"
    r"([0-9a-f]{32})\b",
    re.ASCII,
)
_WANDB_RUN = (
    lazy(r"(\b(?:offline-)?run-\d{8}_\d{6}-)([a-z0-9]{6,12})(?![\w])", re.ASCII),
    lazy(r"(\brun-)((?=[a-z]*\d)[a-z0-9]{8})(?=\.wandb\b)", re.ASCII),
    lazy(
        r"(\bwandb: [^\n]{0,40}?(?:Syncing run|View run|Resuming run|Run) )([\w.-]{2,128})(?= at:|\s*$|\s+\()",
        re.ASCII | re.M,
    ),
    lazy(
        rf"(?i)(\b(?:wandb[-_])?run[-_]?(?:id|name){IS})((?![-+]?\d+\b)[\w.-]{{3,128}})(?![\w(])",
        re.ASCII,
    ),
    lazy(
        rf"(--(?:wandb[-_])?(?:run[-_]?(?:id|name)|name|job[-_]name|experiment[-_]name|exp[-_]name){TO})"
        rf"([\w.-]{{3,128}})",
        re.ASCII,
    ),
    lazy(r"(\b(?:SLURM_JOB_NAME|JobName|WANDB_NAME|WANDB_RUN_ID|WANDB_RUN_GROUP|job_name)=)([\w.-]{2,128})", re.ASCII),
)
# What the client of W&B does not find: `project o/n not found`, `Could not find run <Run o/n/id (not found)>`.
_WANDB_SAID = (
    lazy(rf"(\b[Pp]roject ){NAME}(/){NAME}(?= not found\b)", re.ASCII),
    lazy(rf"(\b(?:find|load|access) (?:project|sweep|report)s? <?(?:Project |Sweep )?){NAME}(/){NAME}", re.ASCII),
)
_WANDB_RUN_SAID = lazy(rf"(<Run ){NAME}/{NAME}/{NAME}(?= \()", re.ASCII)
_WANDB_LOGIN = lazy(rf"(\blogged in as:? ){NAME}( \(){NAME}(?=\))", re.ASCII)
_ENTITY = lazy(rf"(--(?:wandb[-_])?(?:entity|team|org){TO})([\w.-]{{2,64}})", re.ASCII)

_HUB_URL = lazy(
    r"(?i)(\b(?:huggingface\.co|hf\.co)/(?:api/)?(?:(?:datasets|spaces|models)/)?|\bhf://(?:(?:datasets"
    r"|spaces|models)/)?)"
    rf"{NAME}/{NAME}",
    re.ASCII,
)
_KAGGLE_URL = lazy(
    r"(\bkaggle\.com/(?:(?:datasets|code|models)/)?)(?!(?:datasets|code|models|competitions|c|docs|api|learn|static|settings"
    rf"|discussions?|general|product-feedback)/){NAME}/{NAME}",
    re.ASCII,
)
_HUB_CACHE = lazy(
    r"(\b(?:models|datasets|spaces)--)([A-Za-z0-9][\w.]*(?:-[\w.]+)*)--([A-Za-z0-9][\w.]*(?:-[\w.]+)*)", re.ASCII
)
_HUB_OPTION = lazy(
    rf"((?:--)?(?:hub[-_](?:model|dataset|repo)[-_]id|repo(?:_id|_name)?|(?:dataset|adapter|reward_model|teacher_model)_name"
    rf"|(?:base_|draft_|ref_)?(?:model|tokenizer|adapter)(?:_name|_id)?(?:_or_path)?|pretrained_model_name_or_path"
    rf"|model_id)"
    rf"(?:{TO}\\?[\"']?|\\?[\"']?\s?[=:]\s?\\?[\"']?)"
    rf"|\b(?:push_to_hub|from_pretrained|load_dataset|snapshot_download|create_repo)\(\s?[\"']){NAME}/{NAME}(?![\w/])",
    re.ASCII,
)
# What transformers, datasets and huggingface_hub say of a repository that they do not find.
_HUB_SAID = (
    lazy(
        rf"((?<![\w./-])){NAME}/{NAME}(?= is not a local folder| does not appear to have a file"
        rf"| is not the path to a dir"
        r"| is a private| is gated|' is not a valid model| is awaiting a review)",
        re.ASCII,
    ),
    lazy(
        rf"(\b(?:Dataset|dataset|model|Model|tokenizer for|config(?:uration)? for|Repository|repo"
        rf"(?:sitory)?) ['\"`]){NAME}/{NAME}(?=['\"`])",
        re.ASCII,
    ),
    lazy(rf"(\bUploading the following files to ){NAME}/{NAME}(?=: )", re.ASCII),
    lazy(rf"(\brequest to access (?:model|dataset) ){NAME}/{NAME}", re.ASCII),
    lazy(rf"(\b[Cc]ouldn't find '){NAME}/{NAME}(?=' on the H)", re.ASCII),  # datasets
)
# Of git's hosts: `Repository o/n not found`.
_GIT_SAID = lazy(
    rf"(\b[Rr]epository [\"'`]?){NAME}/{NAME}(?=[\"'`]? (?:not found|does not exist|is empty|already exists"
    rf"|is archived))",
    re.ASCII,
)
# Owners in what may as well be a path: folders of a run.
_FOLDERS = frozenset(
    "outputs results ckpts pretrained saves saved_models workspace mnt tmp opt srv custom ours".split()
)
_FILE = lazy(r"\.(?:pt|pth|bin|json|jsonl|yaml|yml|txt|csv|parquet|safetensors|gguf|py|tar|npy|h5|model)\Z", re.ASCII)
_GIT_URL = lazy(
    r"(?i)(\b(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|raw\.githubusercontent\.com"
    rf"|ghcr\.io)[/:]|\bgit@{HOST}:|"
    rf"\bssh://git@{HOST}(?::\d+)?/)(?!v3/){NAME}/([\w.-]{{1,128}}?)(?=\.git\b|[^\w.-]|\.?\Z|\.\s)",
    re.ASCII,
)
_GIT_HOST = lazy(rf"((?:\bgit@|\bssh://git@))({HOST})(?=[:/])", re.ASCII)
_GIT_REMOTE = lazy(rf"(?i)(\bhttps?://{HOST}/){NAME}/((?:[\w.-]{{1,128}}/){{0,4}}[\w.-]{{1,128}})(?=\.git\b)", re.ASCII)
# `https://dev.azure.com/ORG/PROJECT/_git/REPO`, `git@ssh.dev.azure.com:v3/ORG/PROJECT/REPO`
_DEVOPS = lazy(
    rf"(?i)(\b(?:dev\.azure\.com/|(?:ssh\.dev\.azure|vs-ssh\.visualstudio)\.com(?::|/)v3/)){NAME}"
    r"(?:/([\w.%-]{1,128})(?:(/_git/|/)([\w.%-]{1,128}))?)?",
    re.ASCII,
)
# `https://HOST/openai/deployments/NAME/chat/completions`: a deployment may be called as the model that it serves is.
_MODEL = (
    r"(?:gpt-?\d[\d.]*[a-z]?|gpt-oss|text-embedding|dall-?e|whisper|tts|o\d)"
    r"(?:-(?:mini|nano|turbo|instruct|preview|audio|realtime|transcribe|tts|chat|large|small|ada|hd|pro|\d{1,4}[kb]?))*"
)
_DEPLOYMENT = lazy(rf"(?i)(/openai/deployments/)(?!{_MODEL}(?![\w.-]))([\w.-]{{2,64}})", re.ASCII)
# Azure ML: `.../onlineEndpoints/NAME/deployments/NAME`, and the header that chooses a deployment.
_ENDPOINT = lazy(r"(?i)(/(?:online|batch)Endpoints/)([\w-]{2,64})", re.ASCII)
_OF_ENDPOINT = lazy(
    r"(?i)(/(?:online|batch)Endpoints/[\w-]{2,64}/deployments/"
    r"|\bazureml-model-deployment\\?[\"']?: ?\\?[\"']?)([\w-]{2,64})",
    re.ASCII,
)
_CODECOMMIT = lazy(
    r"(\bgit-codecommit\.[a-z0-9-]{1,40}\.amazonaws\.com/v1/repos/|\bcodecommit(?:::[a-z0-9-]{1,40})?://(?:[\w-]{1,64}@)?)"
    r"([\w.-]{1,100})",
    re.ASCII,
)
_SLACK = (
    lazy(
        r"(?i)(\bhttps?://)((?!hooks\b|api\b|app\b|files\b|www\b)[a-z0-9-]{2,60})(?=\.(?:enterprise\.)?slack\.com\b)",
        re.ASCII,
    ),
    lazy(
        r"(?i)(\bslack\.com/(?:archives|team|client/T\w{6,12}"
        r"|app_redirect\?channel=)/?)([A-Z0-9]{8,14}(?:/p\d{10,20})?)",
        re.ASCII,
    ),
    lazy(
        r"(?i)(\bslack[^\n]{0,60}?\bchannel\\?[\"']?\s?[=:]?\s?\\?[\"']?)(#[\w-]{2,80}|[CGDU][A-Z0-9]{8,12}\b)",
        re.ASCII,
    ),
    lazy(r"(\bslack[^\n]{0,60}?)(<@[UW][A-Z0-9]{6,12}>)", re.ASCII | re.I),
)


def accounts(text: str, memory: Memory) -> str:
    """`text` without account numbers, ARNs, organisations, cloud projects and ids of cloud resources."""
    if "arn:" in text:
        text = _ARN.sub(lambda match: memory.of("arn", match[0]), text)
    lowered = text.lower()
    if any(
        word in lowered
        for word in ("account", "ecr", "-a ", "org", "team", "workspace", "entity", "tenant", "namespace", "proj", "ac")
    ):
        for pattern in _ACCOUNT:
            text = second(pattern, memory.account, text)
    if (
        any(
            word in lowered for word in ("project", "resourcegroup", "_workspace", "_team", "_org", "_tenant", "_subsc")
        )
        or "gcr.io" in text
        or "pkg.dev" in text
    ):
        text = second(_NEPTUNE_PROJECT, memory.account, text)
        for pattern in _PROJECT:
            text = second(pattern, lambda name: memory.of("project", name), text)
    if "LS_root/" in text:
        text = second(_AZUREML_RUN, lambda name: memory.of("run", name), text)
        text = second(_AZUREML_JOBS, lambda name: memory.of("project", name), text)
    text = second(_LOCATED, lambda name: memory.of("resource", name), text)
    dashed = "-" in text or "ocid1." in text
    return second(_RESOURCE, lambda name: memory.of("resource", name), text) if dashed else text


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
    if "project" in lowered or "find " in lowered or "access " in lowered:
        for pattern in _WANDB_SAID:
            text = pattern.sub(lambda m: m[1] + memory.account(m[2]) + m[3] + memory.of("project", m[4]), text)
    text = _WANDB_RUN_SAID.sub(
        lambda m: f"{m[1]}{memory.account(m[2])}/{memory.of('project', m[3])}/{memory.of('run', m[4])}", text
    )
    if "comet." in lowered:
        text = _COMET_URL.sub(lambda match: _tracked(match, memory), text)
    if "neptune" in lowered:
        text = _NEPTUNE_URL.sub(lambda match: _tracked(match, memory), text)
    if "swanlab" in lowered:
        text = _SWANLAB_URL.sub(lambda match: _tracked(match, memory), text)
    if "modal.com/" in text:
        text = second(_MODAL_URL, memory.account, text)
        text = second(_MODAL_APP, lambda name: memory.of("run", name), text)
    text = second(_ENTITY, memory.account, text)
    for pattern in (_MLFLOW, *_WANDB_RUN):
        text = second(pattern, lambda name: memory.of("run", name), text)
    return text


def _is_path(match: re.Match[str]) -> bool:
    """Whether what looks like owner and name is a path of two parts."""
    owner = match[2].lower()
    return owner.startswith(".") or owner in ORDINARY or owner in _FOLDERS or _FILE.search(match[3]) is not None


def _devops(match: re.Match[str], memory: Memory) -> str:
    text = match[1] + memory.account(match[2])
    if match[3] and not match[3].startswith("_"):
        text += "/" + memory.of("project", match[3])
    elif match[3]:
        return text + match.string[match.end(2) : match.end()]
    return text + (match[4] + memory.of("repo", match[5]) if match[5] else "")


def repositories(text: str, memory: Memory) -> str:
    """`text` without repositories of code and models; those of well-known publishers stay."""
    if "/" in text:
        owned = _owned("repo", memory)
        if "azure.com" in text or "visualstudio.com" in text:
            text = _DEVOPS.sub(lambda match: _devops(match, memory), text)
        for pattern in (_HUB_URL, _KAGGLE_URL, _GIT_URL, _GIT_REMOTE):
            text = pattern.sub(owned, text)
        for pattern in (_HUB_OPTION, *_HUB_SAID):
            text = pattern.sub(lambda match: match[0] if _is_path(match) else owned(match), text)
        text = _GIT_SAID.sub(owned, text)
        if "/openai/" in text:
            text = second(_DEPLOYMENT, lambda name: memory.of("resource", name), text)
        if "codecommit" in text:
            text = second(_CODECOMMIT, lambda name: memory.of("repo", name), text)
    lowered = text.lower()
    if "endpoints/" in lowered or "azureml-model-deployment" in lowered:
        for pattern in (_OF_ENDPOINT, _ENDPOINT):
            text = second(pattern, lambda name: memory.of("resource", name), text)
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
