"""Records of log collectors: which systems write them, and where each keeps the line that a program printed.

Every function takes one object of JSON, and gives the lines that it holds; none where it is no record of that system.
What an application writes as JSON itself (structlog, python-json-logger, ECS) is no such record: `parsers.json_logs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from forensics.patterns import lazy

Object = Mapping[str, Any]


class Said(NamedTuple):
    """A line that a record holds, or several with line ends between them."""

    text: str
    mark: str  # stands in the record where the text does, or just before it
    time: str = ""  # ISO 8601 with its zone
    stream: str = ""  # "stdout" or "stderr"
    whose: str = ""  # "<pod>/<container>", where records of several may be mixed
    front: str | None = None  # all that is to stand before each line, in place of what the fields above give
    piece: bool = False  # of a line, whose end follows in a later record of the stream
    known: bool = True  # the text stands in a field that is known for it; else it is the record's own JSON


_STAMP = lazy(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)?$", re.ASCII)
_TIMES = ("time", "@timestamp", "timestamp", "date")
_STREAMS = ("stdout", "stderr")
_TEXTS = ("message", "msg", "log", "text", "event", "MESSAGE")
_HEADER = "Traceback (most recent call last):"
_SECOND = 1e8, 1e11  # between these a number is seconds since the epoch; times 1e3, 1e6, 1e9 for finer units
DEPTH = 6


def docker(record: Object) -> list[Said]:
    """Docker's json-file driver (moby: daemon/logger/jsonfilelog, daemon/logger/copier.go).

    {"log":"step 1 loss 2.0\\n","stream":"stdout","time":"2026-03-01T10:00:00.123456789Z"}

    A record holds one line, or a piece of 16 KiB of a longer one, which then has no line end. Collectors that follow
    such files add keys of their own, and may name the time otherwise.
    """
    said, stream = record.get("log"), record.get("stream")
    if not isinstance(said, str) or stream not in _STREAMS:
        return []
    time = next((t for key in _TIMES if (t := stamp(record.get(key)))), "")
    # fluentd's and fluent-bit's filters have put lines together, and cut their ends off.
    collected = isinstance(record.get("kubernetes"), dict) or "logtag" in record or "docker" in record
    piece = record.get("logtag") == "P" or (not said.endswith("\n") and not collected)
    return [Said(said, '"log"', time, stream, _pod(record.get("kubernetes")), piece=piece)]


def fluent(record: Object) -> list[Said]:
    """fluentd, fluent-bit and AWS FireLens, whose text is "log" where no parser has taken it apart."""
    said = record.get("log")
    about = ("kubernetes", "container_name", "container_id", "date", "@timestamp", "timestamp", "time")
    if not isinstance(said, str) or not any(key in record for key in about):
        return []
    if not (isinstance(record.get("kubernetes"), dict) or len(record.keys() - _FLUENT) == 0):
        return []
    time = next((t for key in _TIMES if (t := stamp(record.get(key)))), "")
    stream = record.get("source")
    return [Said(said, '"log"', time, stream if stream in _STREAMS else "", _pod(record.get("kubernetes")))]


_FLUENT = {
    "log", "date", "time", "timestamp", "@timestamp", "tag", "source", "container_name", "container_id", "ecs_cluster",
    "ecs_task_arn", "ecs_task_definition", "ec2_instance_id", "hostname", "host", "filepath", "filename", "file",
    "offset", "partial_message", "partial_id", "partial_ordinal", "partial_last",
}  # fmt: skip


def journal(record: Object) -> list[Said]:
    """`journalctl -o json`, `json-pretty`, `json-seq` and `json-sse` (systemd: src/shared/logs-show.c)."""
    if "MESSAGE" not in record or not any(key in record for key in _JOURNAL):
        return []
    from forensics.parsers.kernel.records import front_of, text_of

    said = text_of(record["MESSAGE"])
    if said is None:
        return []
    front = front_of(record)
    # What a program says of a line by sd-daemon's prefixes or syslog; journalctl shows it by colours alone.
    if record.get("PRIORITY") in _SEVERE and front.endswith("]: "):
        front += f"<{record['PRIORITY']}>"
    return [Said(said, '"MESSAGE"', stamp(record.get("__REALTIME_TIMESTAMP")), front=front)]


_SEVERE = ("0", "1", "2", "3")  # of RFC 5424, section 6.2.1: error and above
_JOURNAL = ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "__CURSOR", "_BOOT_ID")


def is_kernels(record: Object) -> bool:
    """Whether a record of a journal is the kernel's own; `parsers.kernel` reads journals of these alone."""
    return record.get("_TRANSPORT") == "kernel" or record.get("SYSLOG_IDENTIFIER") == "kernel"


def cloudwatch(record: Object) -> list[Said]:
    """`aws logs get-log-events`, `filter-log-events`, subscriptions, and results of CloudWatch Logs Insights."""
    rows = record.get("results")
    if isinstance(rows, list) and "status" in record:
        return [said for row in rows if (said := _insight(row)) is not None]
    if isinstance(record.get("@message"), str):
        return [Said(record["@message"], '"@message"', stamp(record.get("@timestamp"), utc=True))]
    text, time = record.get("message"), record.get("timestamp")
    of_aws = "ingestionTime" in record or "eventId" in record or record.keys() == {"id", "timestamp", "message"}
    if not isinstance(text, str) or not of_aws or type(time) is not int:
        return []
    name = record.get("logStreamName")
    return [Said(text, '"message"', stamp(time), whose=f"{name}/log" if isinstance(name, str) else "")]


def _insight(row: Any) -> Said | None:
    if not isinstance(row, list) or not all(isinstance(cell, dict) for cell in row):
        return None
    cells = {cell.get("field"): cell.get("value") for cell in row}
    text, time = cells.get("@message"), cells.get("@timestamp")
    if not isinstance(text, str):
        return None
    return Said(text, f'"{time}"' if isinstance(time, str) else '"@message"', stamp(time, utc=True))


def google(record: Object) -> list[Said]:
    """Entries of Google Cloud Logging (LogEntry): `gcloud logging read --format json`, exports, Vertex AI jobs.

    The entry's severity is no level: what a container prints on stderr is ERROR to the collector. A projection
    (`--format="json(timestamp,severity,textPayload)"`, or by jq) holds some of an entry's fields and no others.
    """
    whole = "logName" in record and ("insertId" in record or "receiveTimestamp" in record)
    if not whole and not _is_part_of_entry(record):
        return []
    labels = at(record, "resource", "labels")
    said = [v for key in ("pod_name", "task_name", "container_name") if isinstance(v := at(labels, key), str)]
    names = [name for name in said if name != "service"]  # what Vertex AI itself says of the tasks
    names = names or _instance(record)
    whose = "/".join(names[:2]) if len(names) > 1 else f"{names[0]}/log" if names else ""
    time = stamp(record.get("timestamp"))
    if isinstance(text := record.get("textPayload"), str):
        return [Said(text, '"textPayload"', time, whose=whose)]
    payload = record.get("jsonPayload", record.get("protoPayload"))
    if not isinstance(payload, dict):
        return []
    return [_payload(payload, "Payload", time, whose)]


def _instance(record: Object) -> list[str]:
    """The name of the machine that an entry is of: its serial console, or what an agent on it has sent."""
    name = at(record, "labels", "compute.googleapis.com/resource_name")
    if at(record, "resource", "type") != "gce_instance" or not isinstance(name, str):
        return []
    return [name] if re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name) else []


# Of LogEntry (googleapis: google/logging/v2/log_entry.proto), as JSON names them.
_ENTRY = {
    "logName", "resource", "timestamp", "receiveTimestamp", "severity", "insertId", "httpRequest", "labels", "metadata",
    "operation", "trace", "spanId", "traceSampled", "sourceLocation", "split", "errorGroups", "apphub",
    "apphubDestination", "apphubSource", "otel", "textPayload", "jsonPayload", "protoPayload",
}  # fmt: skip


def _is_part_of_entry(record: Object) -> bool:
    """Whether an object holds fields of an entry alone, the line that a program printed among them."""
    if not record.keys() <= _ENTRY:
        return False
    if isinstance(record.get("textPayload"), str):
        return True
    payload = record.get("jsonPayload")
    return isinstance(payload, dict) and any(isinstance(payload.get(key), str) for key in _TEXTS)


def loki(record: Object) -> list[Said]:
    """`logcli query -o jsonl`, Grafana's download, and answers of Loki's API."""
    stream, values = record.get("stream"), record.get("values")
    if isinstance(stream, dict) and isinstance(values, list):
        rows = [v for v in values if isinstance(v, list) and len(v) >= 2 and all(isinstance(x, str) for x in v[:2])]
        return [Said(v[1], f'"{v[0]}"', stamp(v[0]), whose=_pod(stream)) for v in rows]
    text, time = record.get("line"), record.get("timestamp")
    labels = record.get("labels", record.get("fields"))
    if not isinstance(text, str) or not isinstance(time, (str, int)) or not isinstance(labels, dict):
        return []
    return [Said(text, '"line"', stamp(time), whose=_pod(labels))]


def elastic(record: Object) -> list[Said]:
    """Documents of Elasticsearch and OpenSearch (`_source`), of Beats, and of Vector."""
    source = record.get("_source")
    if isinstance(source, dict) and ("_index" in record or "_id" in record):
        for system in (journal, docker, fluent, elastic):
            if found := system(source):
                return found
        return [_payload(source, "_source", stamp(source.get("@timestamp")), _pod(source.get("kubernetes")))]
    text, time = record.get("message"), next((t for key in _TIMES if (t := stamp(record.get(key)))), "")
    of_beats = "@timestamp" in record and any(isinstance(record.get(key), dict) for key in ("agent", "input", "beat"))
    if not isinstance(text, str) or not (of_beats or isinstance(record.get("source_type"), str)):
        return []
    return [Said(text, '"message"', time, _stream(record.get("stream")), _pod(record.get("kubernetes")))]


def azure(record: Object) -> list[Said]:
    """Rows of Azure Monitor's ContainerLogV2 and ContainerLog."""
    text = record.get("LogMessage", record.get("LogEntry"))
    if "TimeGenerated" not in record or text is None:
        return []
    stream, pod = _stream(record.get("LogSource", record.get("LogEntrySource"))), record.get("PodName")
    container = record.get("ContainerName")
    whose = f"{pod}/{container or 'log'}" if isinstance(pod, str) and pod else ""
    shown = text if isinstance(text, str) else json.dumps(text)
    mark = '"LogMessage"' if "LogMessage" in record else '"LogEntry"'
    return [Said(shown, mark, stamp(record["TimeGenerated"]), stream, whose)]


def datadog(record: Object) -> list[Said]:
    """Logs that Datadog's API gives."""
    held = record.get("attributes")
    if record.get("type") != "log" or not isinstance(held, dict) or not isinstance(held.get("message"), str):
        return []
    return [Said(held["message"], '"message"', stamp(held.get("timestamp")))]


def splunk(record: Object) -> list[Said]:
    """Splunk's export: the raw event of each result."""
    held = record.get("result", record)
    if not isinstance(held, dict) or not isinstance(held.get("_raw"), str):
        return []
    return [Said(held["_raw"], '"_raw"', stamp(held.get("_time")))]


def stern(record: Object) -> list[Said]:
    """`stern -o json`."""
    text, pod, container = (record.get(key) for key in ("message", "podName", "containerName"))
    if not all(isinstance(value, str) for value in (text, pod, container)):
        return []
    return [Said(str(text), '"message"', whose=f"{pod}/{container}")]


def otlp(record: Object) -> list[Said]:
    """Log records of OpenTelemetry, as its collector writes them to files."""
    body, time = record.get("body"), record.get("timeUnixNano", record.get("observedTimeUnixNano"))
    if not isinstance(body, dict) or time is None or not isinstance(body.get("stringValue"), str):
        return []
    return [Said(body["stringValue"], '"stringValue"', stamp(time))]


def kaggle(record: Object) -> list[Said]:
    """The log of a Kaggle kernel, as its page and `kaggle kernels output` give it: one list of records.

    {"stream_name":"stderr","time":12.1,"data":"KeyError: 'text_b'\\n"}

    The time is in seconds since the kernel began. A record without a line end holds a piece of a line.
    """
    said, stream = record.get("data"), record.get("stream_name")
    if not isinstance(said, str) or stream not in _STREAMS or not isinstance(record.get("time"), (int, float)):
        return []
    return [Said(said, '"data"', stream=stream, piece=not said.endswith("\n"))]


SYSTEMS: Mapping[str, Callable[[Object], list[Said]]] = {
    "Docker": docker,
    "fluentd or fluent-bit": fluent,
    "journald": journal,
    "Google Cloud Logging": google,
    "CloudWatch Logs": cloudwatch,
    "Loki": loki,
    "Elasticsearch": elastic,
    "Azure Monitor": azure,
    "Datadog": datadog,
    "Splunk": splunk,
    "stern": stern,
    "OpenTelemetry": otlp,
    "Kaggle": kaggle,
}
# One of these is in every record of one of the systems.
MARKS = (
    b'"log"', b'"MESSAGE"', b'"textPayload"', b'"jsonPayload"', b'"protoPayload"', b'"logName"', b'"@message"',
    b'"ingestionTime"', b'"eventId"', b'"logEvents"', b'"line"', b'"values"', b'"_source"', b'"source_type"',
    b'"agent"', b'"input"', b'"beat"', b'"LogMessage"', b'"LogEntry"', b'"attributes"', b'"_raw"', b'"podName"',
    b'"stringValue"', b'"stream_name"',
)  # fmt: skip


def _payload(payload: Object, place: str, time: str, whose: str) -> Said:
    """The text of a structured payload, and tracebacks that stand beside it; its JSON where no text is known in it."""
    key = next((key for key in _TEXTS if isinstance(payload.get(key), str)), None)
    stacks = [text for text in strings(payload) if _HEADER in text]
    if key is None and not stacks:
        return Said(json.dumps(payload), f'{place}"', time, whose=whose, known=False)
    text = str(payload[key]) if key is not None else ""
    more = [stack for stack in stacks if stack != text]
    return Said("\n".join(filter(None, (text, *more))), f'"{key}"' if key else f'{place}"', time, whose=whose)


def strings(value: Any, depth: int = DEPTH) -> Iterator[str]:
    """The strings in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)) and depth:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner, depth - 1)


def stamp(value: Any, *, utc: bool = False) -> str:
    """A time as ISO 8601 with its zone: a string that is one, or seconds since the epoch or a finer unit; "" else.

    utc: a string without a zone is in UTC, and not left out.
    """
    if isinstance(value, str):
        if m := _STAMP.match(value):
            return value.replace(" ", "T", 1) + ("" if m[1] else "Z") if m[1] or utc else ""
        if not re.fullmatch(r"\d{9,19}(?:\.\d{1,9})?", value, re.ASCII):
            return ""
        value = float(value) if "." in value else int(value)
    if type(value) not in (int, float) or not _SECOND[0] < value < _SECOND[1] * 1e9:
        return ""
    unit = next(u for u in (1.0, 1e3, 1e6, 1e9) if value < _SECOND[1] * u)
    try:
        return datetime.fromtimestamp(value / unit, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _pod(labels: Any) -> str:
    """ "<pod>/<container>" of labels that name them."""
    if not isinstance(labels, dict):
        return ""
    pod = next((v for key in ("pod_name", "pod") if isinstance(v := labels.get(key), str) and v), None)
    pod = pod or at(labels, "pod", "name")
    names: Sequence[str] = ("container_name", "container")
    container = next((v for key in names if isinstance(v := labels.get(key), str) and v), None)
    container = container or at(labels, "container", "name")
    return f"{pod}/{container if isinstance(container, str) else 'log'}" if isinstance(pod, str) else ""


def _stream(value: Any) -> str:
    return value if value in _STREAMS else ""


def at(value: Any, *keys: str) -> Any:
    """What lies in a value of JSON under some keys, one within another; None where it does not."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
