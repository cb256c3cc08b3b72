"""Buckets, containers and storage accounts: in addresses, settings, messages, and where one is mounted."""

from __future__ import annotations

import re
from collections.abc import Callable

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.words import FOLDERS, ORDINARY

_BUCKETS = (
    lazy(
        r"(?i)(\b(?:s3[an]?|gs|gcs|az|abfss?|wasbs?|adl|oss|cos|r2|b2|obs|tos|weka|juicefs)://)([^\s/\"'<>@,;)\]}]+)",
        re.ASCII,
    ),
    lazy(r"(?i)(@|\bhttps?://)([a-z0-9-]+)(?=\.(?:blob|dfs|file|queue|table)\.core\.windows\.net)", re.ASCII),
    lazy(r"(?i)(\bAccountName=|--account-name[= ])([a-z0-9-]+)", re.ASCII),
    lazy(
        r"(\b(?:[Tt]he specified bucket (?!does\b|is\b|was\b|has\b|name\b|must\b)"
        r"|[Bb]ucket does not exist: |BucketName\\?[\"']?[:=>]\s?|[Nn]o such bucket:? |[Bb]ucket [\"'`]))"
        r"([a-z0-9][a-z0-9.-]{2,62})(?![\w(])",
        re.ASCII,
    ),
    lazy(
        r"(?i)(\bhttps?://)([a-z0-9][a-z0-9.-]*?)"
        r"(?=\.s3[.-][a-z0-9.-]*amazonaws\.com|\.storage\.googleapis\.com|\.r2\.cloudflarestorage\.com)",
        re.ASCII,
    ),
    lazy(
        r"(?i)(\bhttps?://(?:s3[.-][a-z0-9.-]*amazonaws\.com|storage\.(?:googleapis|cloud\.google)\.com)/)"
        r"(?!(?:upload/|download/)?storage/v1/|batch/)([^\s/\"'<>?]+)",
        re.ASCII,
    ),
    # Google: `does not have storage.objects.get access to BUCKET/object`, `to the Google Cloud Storage bucket B`
    lazy(
        r"(\bstorage\.[a-zA-Z]{2,40}\.[a-zA-Z]{2,40} access to "
        r"(?:the )?(?:Google Cloud Storage )?(?:(?:bucket|object):? )?[\"'`]?)"
        r"(?!(?:the|this|that|any|it|Google|bucket|object)\b(?![.-]\w))([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])",
        re.ASCII,
    ),
    lazy(r"(\b(?:upload/|download/)?storage/v1/b/)([a-z0-9][\w.-]{2,221})", re.ASCII),  # the JSON API of Google's
    lazy(
        r"(?i)(\b(?:bucket|container)(?:[_ -]?name)?\\?[\"']?\s?[=:]\s?\\?[\"'])([a-z0-9][a-z0-9._-]{2,62})(?="
        r"\\?[\"'])",
        re.ASCII,
    ),
    lazy(r"(\bobjectstorage\.[^\s\"'<>]{1,100}/b/)([\w.-]{1,255})", re.ASCII),  # Oracle
    lazy(r"(/(?:gcs|s3|mnt/(?:s3|gcs))/)([a-z0-9][a-z0-9._-]{2,62})(?=/)", re.ASCII),  # where they are mounted
)
_STORED = ("bucket", "container", "storage")
_BUCKET_SETTINGS = (
    # settings: `data.bucket: x`, `s3_bucket=x`, `bucket_name: x`, `"s3_bucket": "x"`, `'data_bucket': 'x'`
    lazy(
        r"((?<![\w-])(?:[\w-]{1,40}\.){0,6}(?:(?:data(?:sets?)?|s3|gcs|gs|aws|minio|oss|cos|obs|tos|r2|b2|storage|remote|cloud"
        r"|ckpts?|checkpoints?|uploads?|output|artifacts?|source|backup|logs?)[._-](?:bucket|container)(?:[_-]?name)?|bucket[_-]?name|storage[_-]?account(?:[_-]?name)?)"
        r"(?:\\?[\"']\s?:\s?(?=\\?[\"'])|\s?[:=]\s?)\\?[\"']?)(?!(?:true|false|yes|no|on|off|str|none|null)\b)((?=[a-z0-9._-]*[a-z])[a-z0-9][a-z0-9._-]{2,62})(?![\w(\[])",
        re.ASCII,
    ),
    # of a bare `bucket=x` what has a hyphen between words: there are buckets of gradients and of lengths too
    lazy(
        r"((?<![\w.-])bucket\s?[:=]\s?)(?!all-|reduce-|no-|non-|un|per-|in-|of-)([a-z]{2,40}[a-z0-9]*-[a-z0-9-]*[a-z][a-z0-9-]*)(?![\w(\[])",
        re.ASCII,
    ),
)
# Databricks mounts buckets by names of their own or their users' choice; a word is sooner what is in it.
_DATABRICKS = lazy(r"((?:/dbfs|\bdbfs:)/mnt/)([A-Za-z0-9][\w.-]{2,62})(?=/|[\s\"',;:)]|\Z)", re.ASCII)
_CONTAINER_AT = lazy(r"(?i)(\b(?:abfss?|wasbs?|oci)://)([^\s/@\"'<>]+)(?=@)", re.ASCII)
_ORACLE = lazy(r"(\boci://[^\s/@\"'<>]{1,255}@|\bobjectstorage\.[\w.-]{1,80}/n/)([\w-]{1,64})", re.ASCII)

# Buckets that a program mounts as a file system: `gcsfuse [options] BUCKET /mnt`, `BUCKET on /mnt type fuse.s3fs`,
# rows of /proc/mounts, and of df, where a name with a hyphen is that of no device.
_FUSE = "gcsfuse|s3fs|goofys|mount-s3|mountpoint-s3|geesefs|ossfs2?|obsfs|cosfs|tosfs|blobfuse2?|rclone|juicefs"
_MOUNTING = ("fuse", "s3", "goofys", "fs ", "rclone", "%", "--container-name")
_NAME = r"(?!-|mount\b)[a-z0-9][a-z0-9._-]{2,62}"
_MOUNTS = (
    lazy(
        rf"(\b(?!rclone)(?:{_FUSE})(?: mount)?(?:\s+-{{1,2}}[\w-]+(?:[= ](?!/)[^\s-]\S{{0,80}})?){{0,12}}?\s+)"
        rf"({_NAME})(?=(?::\S{{0,200}})?\s+/)",
        re.ASCII,
    ),
    lazy(rf"(\brclone mount\s(?:[^\n]{{0,200}}?\s)?[\w-]{{1,40}}:)({_NAME})(?=[/\s])", re.ASCII),
    lazy(
        rf"((?:^|(?<=[\s\"'])))(?!(?:{_FUSE})\b)({_NAME})(?= on /\S{{1,200}} type fuse\.?(?:{_FUSE})?\b)",
        re.ASCII | re.M,
    ),
    lazy(rf"((?:^|(?<=[\s\"'])))(?!(?:{_FUSE})\b)({_NAME})(?=\s/\S{{0,200}}\sfuse\.(?:{_FUSE})\b)", re.ASCII | re.M),
    lazy(
        rf"(^)(?=[\w.]{{1,62}}-)({_NAME})(?=(?:\s+\d[\d.]{{0,16}}[KMGTPE]?i?){{3}}\s+\d{{1,3}}%\s+/)", re.ASCII | re.M
    ),
    lazy(r"(--container-name[= ])([a-z0-9][a-z0-9-]{2,62})", re.ASCII),
)


def _mounted(text: str, make: Callable[[str], str]) -> str:
    if "/" in text and any(word in text for word in _MOUNTING):
        for pattern in _MOUNTS:
            text = second(pattern, make, text)
    return text


def buckets(text: str, memory: Memory) -> str:
    """`text` without names of buckets, containers and storage accounts."""

    def make(name: str) -> str:
        return memory.of("bucket", name)

    text = second(_CONTAINER_AT, make, text)
    if "oci://" in text or "objectstorage." in text:
        text = second(_ORACLE, lambda name: memory.of("namespace", name), text)
    if "dbfs" in text:
        text = second(_DATABRICKS, lambda name: name if name in ORDINARY or name in FOLDERS else make(name), text)
    for pattern in (*_BUCKETS, *(_BUCKET_SETTINGS if any(word in text for word in _STORED) else ())):
        text = second(pattern, make, text)
    return _mounted(text, make)
