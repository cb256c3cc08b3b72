"""Container images: whose registry, account or project it is, and how its repositories are called.

An image is `REGISTRY/PATH:TAG` or `REGISTRY/PATH@sha256:DIGEST`; the tag stays, for it tells which version ran.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.words import PUBLIC_OWNERS

_PART = r"[a-z0-9][a-z0-9._-]{0,127}"
_PATH = rf"(?P<path>{_PART}(?:/{_PART}){{0,6}})"
# Whose images everybody runs: AWS, of its Deep Learning Containers and EKS.
PUBLIC_ACCOUNTS = "763104351884|602401143452|727897471807"  # of a regular expression
# Amazon's, by the account that owns it, and its public gallery; Google's, by the project, also one below a domain.
_ECR = lazy(
    rf"(?<![\w.-])(?!{PUBLIC_ACCOUNTS})(?P<account>\d{{12}}|account-\d{{1,9}})(?P<at>\.dkr\.ecr(?:-fips)?\.[a-z0-9-]{{4,30}}\.amazonaws\.com(?:\.cn)?/){_PATH}",
    re.ASCII,
)
_GALLERY = lazy(rf"(?<![\w.-])(?P<at>public\.ecr\.aws/){_PATH}", re.ASCII)
_GOOGLE = lazy(
    rf"(?<![\w.-])(?P<at>(?:(?:us|eu|asia)\.)?gcr\.io/|[a-z0-9-]{{2,30}}-docker\.pkg\.dev/)"
    rf"(?P<domain>{_PART}\.[a-z]{{2,10}}[/:])?(?P<project>{_PART})/{_PATH}",
    re.ASCII,
)
_GOOGLE_REPOSITORY = lazy(
    r"(?P<at>\bprojects/[\w.:-]{4,62}/locations/[\w-]{1,40}/repositories/)(?P<path>[a-z][a-z0-9-]{1,62})", re.ASCII
)
# Others, in which the first part is an owner; those that anyone may call a registry are told by the tag.
_OWNED = lazy(
    rf"(?<![\w.-])(?P<at>(?:nvcr\.io|docker\.io|index\.docker\.io|quay\.io|ghcr\.io|registry\.gitlab\.com)/){_PATH}",
    re.ASCII,
)
_TAGGED = lazy(
    rf"(?<![\w./-])(?P<at>(?:[a-z0-9-]{{2,60}}\.azurecr\.io|(?:[a-z0-9-]{{1,40}}\.)?(?:registry|docker|harbor|artifactory|cr|images)"
    rf"(?:-[a-z0-9-]{{1,40}})?(?:\.[a-z0-9-]{{1,63}}){{1,5}}|[a-z0-9-]{{2,60}}\.jfrog\.io)(?::\d{{2,5}})?/){_PATH}(?=:[\w.-]|@sha256)",
    re.ASCII,
)
# Without a registry, where a field or an option says what it is.
_FIELD = lazy(
    rf"(?P<at>(?<![A-Za-z])(?:[Cc]ontainer[_ -]?)?[Ii]mage\\?[\"']?\s?[:=][ \t]{{0,20}}\\?[\"']?"
    rf"|\bdocker-pullable://|\bdocker://|\bdocker (?:pull|run [^\n]{{0,200}}?) )"
    rf"(?P<path>{_PART}/{_PART})(?=:[\w.-]|@sha256)",
    re.ASCII,
)
# `pull access denied for o/n`, `manifest for h:5000/o/n:v1 not found`, and a registry with a port in whatever list.
_ANY_PATH = r"(?P<path>[\w.-]{1,128}/[\w.-]{1,128})"
_SAID = (
    lazy(
        rf"(?P<at>\b(?:pull access denied for|manifest for|[Ff]ailed to pull (?:and unpack )?image|[Pp]ulling image"
        rf"|[Pp]ull image|Back-off pulling image|failed to resolve reference|Unable to find image) \\?[\"'`]?"
        rf"(?:[\w.-]{{1,200}}(?::\d{{2,5}})?/)?){_ANY_PATH}",
        re.ASCII,
    ),
    lazy(
        rf"(?P<at>\bdocker://|\bregistry-1\.docker\.io/v2/)(?P<path>(?![\w-]{{1,60}}\.){_PART}/{_PART})(?=[\s:@\"',/)]|\Z)",
        re.ASCII,
    ),
    lazy(rf"(?P<at>(?<![\w./-])[A-Za-z][\w.-]{{1,200}}:\d{{2,5}}/){_ANY_PATH}(?=:[\w.-]|@sha256)", re.ASCII),
)
_DENIED = lazy(r"(?P<at>\bpull access denied for )(?P<path>[a-z0-9][\w.-]{1,127})(?=[,:\s]|\Z)", re.ASCII)
_NOT_FOUND = lazy(
    rf"(?P<at>\b[Rr]epository with name ['\"]){_PATH}(?=['\"] does not exist in the registry)", re.ASCII
)  # Amazon's
_REGISTRY_ID = lazy(r"(\bregistry with id ['\"])(\d{12})(?=['\"])", re.ASCII)
# The same of Google's projects, and owners in any registry.
_PUBLIC_PROJECTS = frozenset(
    "google-containers google-samples deeplearning-platform-release cloud-tpu-images vertex-ai kubeflow-images-public "
    "ml-pipeline distroless kaniko-project cloud-builders cloudsql-docker gke-release tpu-pytorch".split()
)
_PUBLIC = frozenset(
    "library docker bitnami nvidia lambda eks karpenter deep-learning-containers coreos jupyter".split()
)


def _is_public(owner: str) -> bool:
    return owner in _PUBLIC or owner.lower() in PUBLIC_OWNERS


def _named(path: str, memory: Memory, *, owned: bool = True) -> str:
    """The path of an image with stand-ins; `owned`: its first part, if there are several, is an owner."""
    first, *rest = path.split("/")
    if _is_public(first):
        return path
    head = memory.account(first) if owned and rest else memory.of("repo", first)
    return "/".join([head, *(memory.of("repo", part) for part in rest)])


def images(text: str, memory: Memory) -> str:
    """`text` without accounts, projects, owners and repositories of container images; public ones stay."""

    def amazon(match: re.Match[str]) -> str:
        return memory.account(match["account"]) + match["at"] + _named(match["path"], memory)

    def google(match: re.Match[str]) -> str:
        if match["project"] in _PUBLIC_PROJECTS:
            return match[0]
        domain = match["domain"] or ""
        domain = memory.host(domain[:-1]) + domain[-1] if domain else ""
        project = memory.of("project", match["project"])
        return f"{match['at']}{domain}{project}/{_named(match['path'], memory, owned=False)}"

    def owned(match: re.Match[str]) -> str:
        return match["at"] + _named(match["path"], memory)

    if ".amazonaws.com" in text:
        text = _ECR.sub(amazon, text)
    if "public.ecr" in text:
        text = _GALLERY.sub(owned, text)
    if "gcr.io/" in text or "pkg.dev/" in text:
        text = _GOOGLE.sub(google, text)
    if "/repositories/" in text:
        text = _GOOGLE_REPOSITORY.sub(lambda match: match["at"] + memory.of("repo", match["path"]), text)
    if ".io/" in text or "registry.gitlab" in text:
        text = _OWNED.sub(owned, text)
    if "/" in text and ":" in text:
        text = _FIELD.sub(owned, _TAGGED.sub(owned, text))
    if "/" in text:
        for pattern in _SAID:
            text = pattern.sub(owned, text)
    if "pull access denied" in text:
        text = _DENIED.sub(owned, text)
    if "the registry" in text:
        text = _NOT_FOUND.sub(owned, text)
        text = _REGISTRY_ID.sub(lambda match: match[1] + memory.account(match[2]), text)
    return text
