"""Logs that collectors keep as records of JSON: the text they hold, on its own lines, whichever system wrote them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.archives import records
from forensics.archives.formats import format_of
from forensics.archives.limits import Stop
from forensics.engine.pipeline import analyse
from forensics.engine.reading import sniffers
from forensics.model import Role, Status, Verdict
from forensics.run import discover

START = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
STEPS = [f"step: {n} loss: {6 - n / 20:.4f}" for n in range(60)]
STACK = [
    "Traceback (most recent call last):",
    '  File "/srv/app/train.py", line 88, in <module>',
    "    main()",
    '  File "/srv/app/data/sampler.py", line 41, in __getitem__',
    "    return self.index[key]",
    "KeyError: 'shard-00412'",
]
FAILED = [*STEPS, *STACK]
FINISHED = [*STEPS, "Training finished"]


def iso(n: int) -> str:
    return (START + timedelta(seconds=n)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def since(n: int, unit: float) -> int:
    return int((START.timestamp() + n) * unit)


def rows(made: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in made)


def journal(n: int, line: Any, **more: str) -> dict[str, Any]:
    base = {
        "__REALTIME_TIMESTAMP": str(since(n, 1e6)),
        "_HOSTNAME": "gpu-1",
        "_PID": "5511",
        "SYSLOG_IDENTIFIER": "python",
    }
    return {**base, "_TRANSPORT": "stdout", **more, "MESSAGE": line}


def google(n: int, **payload: Any) -> dict[str, Any]:
    about = {"insertId": f"a{n}", "logName": "projects/p/logs/stderr", "timestamp": iso(n), "severity": "ERROR"}
    return {**about, "resource": {"type": "k8s_container", "labels": {"pod_name": "w-0"}}, **payload}


def insight(n: int, line: str) -> list[dict[str, str]]:
    cells = {"@timestamp": iso(n)[:23].replace("T", " "), "@message": line, "@ptr": f"Cw{n}"}
    return [{"field": key, "value": value} for key, value in cells.items()]


def cloudwatch(n: int, line: str, **more: str) -> dict[str, Any]:
    return {"timestamp": since(n, 1e3), "message": line, "ingestionTime": since(n, 1e3) + 500, **more}


def loki_answer(lines: list[str], *, newest_first: bool = True) -> dict[str, Any]:
    values = [[str(since(n, 1e9)), line] for n, line in enumerate(lines)]
    stream = {"stream": {"pod": "w-0"}, "values": values[::-1] if newest_first else values}
    return {"status": "success", "data": {"resultType": "streams", "result": [stream]}}


FORMS: dict[str, Callable[[list[str]], str]] = {
    "journal": lambda lines: rows([journal(n, x) for n, x in enumerate(lines)]),
    "journal-pretty": lambda lines: "".join(
        json.dumps(journal(n, x), indent="\t") + "\n" for n, x in enumerate(lines)
    ),
    "journal-seq": lambda lines: "".join("\x1e" + json.dumps(journal(n, x)) + "\n" for n, x in enumerate(lines)),
    "journal-sse": lambda lines: "".join("data: " + json.dumps(journal(n, x)) + "\n\n" for n, x in enumerate(lines)),
    "journal-bytes": lambda lines: rows([journal(n, list(x.encode())) for n, x in enumerate(lines)]),
    "docker": lambda lines: rows([{"log": f"{x}\n", "stream": "stderr", "time": iso(n)} for n, x in enumerate(lines)]),
    "fluent-bit": lambda lines: rows([{"date": since(n, 1) + 0.5, "log": x} for n, x in enumerate(lines)]),
    "fluent-bit-kubernetes": lambda lines: rows(
        [
            {"log": x, "stream": "stderr", "time": iso(n), "kubernetes": {"pod_name": "w-0", "container_name": "pt"}}
            for n, x in enumerate(lines)
        ]
    ),
    "fluentd": lambda lines: "".join(
        f"{iso(n)}\tkube.train\t" + json.dumps({"log": f"{x}\n", "stream": "stderr"}) + "\n"
        for n, x in enumerate(lines)
    ),
    "firelens": lambda lines: rows(
        [
            {"container_name": "pt", "container_id": "0f", "source": "stdout", "log": x, "ecs_cluster": "c"}
            for x in lines
        ]
    ),
    "google-text": lambda lines: json.dumps([google(n, textPayload=x) for n, x in enumerate(lines)], indent=2),
    "google-newest-first": lambda lines: json.dumps(
        [google(n, textPayload=x) for n, x in enumerate(lines)][::-1], indent=2
    ),
    "vertex": lambda lines: json.dumps(
        [google(n, jsonPayload={"levelname": "ERROR", "message": f"{x}\n"}) for n, x in enumerate(lines)], indent=2
    ),
    "google-projection": lambda lines: json.dumps(
        [{"severity": "ERROR", "textPayload": x, "timestamp": iso(n)} for n, x in enumerate(lines)], indent=2
    ),
    "google-projection-lines": lambda lines: rows(
        [{"insertId": f"a{n}", "severity": "DEFAULT", "textPayload": x, "timestamp": iso(n)} for n, x in enumerate(lines)]
    ),
    "vertex-projection-lines": lambda lines: rows(
        [{"jsonPayload": {"message": x, "levelname": "INFO"}, "timestamp": iso(n)} for n, x in enumerate(lines)]
    ),
    "vertex-projection-newest-first": lambda lines: rows(
        [{"jsonPayload": {"message": x}, "severity": "ERROR", "timestamp": iso(n)} for n, x in enumerate(lines)][::-1]
    ),
    "cloudwatch": lambda lines: json.dumps({"events": [cloudwatch(n, x) for n, x in enumerate(lines)]}, indent=4),
    "cloudwatch-compact": lambda lines: json.dumps({"events": [cloudwatch(n, x) for n, x in enumerate(lines)]}),
    "cloudwatch-filter": lambda lines: json.dumps(
        {"events": [cloudwatch(n, x, logStreamName="job/algo-1", eventId=str(n)) for n, x in enumerate(lines)]},
        indent=4,
    ),
    "insights": lambda lines: json.dumps(
        {"results": [insight(n, x) for n, x in enumerate(lines)][::-1], "status": "Complete"}, indent=4
    ),
    "loki-jsonl": lambda lines: rows(
        [{"labels": {"pod": "w-0"}, "line": x, "timestamp": iso(n)} for n, x in enumerate(lines)]
    ),
    "loki-answer": lambda lines: json.dumps(loki_answer(lines)),
    "elasticsearch": lambda lines: json.dumps(
        {"hits": {"hits": [{"_id": str(n), "_source": {"@timestamp": iso(n), "message": x}} for n, x in enumerate(lines)]}},
        indent=1,
    ),
    "filebeat": lambda lines: rows(
        [{"@timestamp": iso(n), "message": x, "agent": {"type": "filebeat"}} for n, x in enumerate(lines)]
    ),
    "azure": lambda lines: json.dumps(
        [{"LogMessage": x, "LogSource": "stderr", "PodName": "w-0", "TimeGenerated": iso(n)} for n, x in enumerate(lines)],
        indent=2,
    ),
    "datadog": lambda lines: json.dumps(
        {"data": [{"type": "log", "attributes": {"message": x, "timestamp": iso(n)}} for n, x in enumerate(lines)]}
    ),
    "splunk": lambda lines: rows([{"result": {"_raw": x, "_time": iso(n)}} for n, x in enumerate(lines)]),
    "stern": lambda lines: rows([{"message": x, "podName": "w-0", "containerName": "pt"} for x in lines]),
    "kaggle": lambda lines: "[" + "\n,".join(
        json.dumps({"stream_name": "stderr", "time": 4.5 + n, "data": f"{x}\n"}) for n, x in enumerate(lines)
    ) + "\n]",
    "opentelemetry": lambda lines: rows(
        [
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [
                {"timeUnixNano": str(since(n, 1e9)), "body": {"stringValue": x}}]}]}]}
            for n, x in enumerate(lines)
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_traceback_of_one_record_a_line_is_the_cause(tmp_path: Path, form: str) -> None:
    (tmp_path / "log.json").write_text(FORMS[form](FAILED))
    found = analyse([str(tmp_path)])
    (root, *_) = found.findings
    assert (found.verdict, root.name, root.step) == (Verdict.FAILED, "python-exception", 59)
    assert root.captures["exception"] == "KeyError" and root.captures["line"] == "41"


@pytest.mark.parametrize("form", FORMS)
def test_a_healthy_run_stays_healthy(tmp_path: Path, form: str) -> None:
    (tmp_path / "log.json").write_text(FORMS[form](FINISHED))
    found = analyse([str(tmp_path)])
    assert (found.verdict, found.findings) == (Verdict.HEALTHY, ())


KEEPS = sorted(
    name
    for name in set(FORMS) - {"cloudwatch-compact", "insights", "loki-answer", "datadog"}
    if not name.endswith("newest-first")
)


@pytest.mark.parametrize("form", KEEPS)
def test_lines_of_the_text_are_those_of_the_file(form: str) -> None:
    data = FORMS[form](FAILED).encode()
    made = records.form_of(data[: records.HEAD])
    assert made is not None and made.numbered
    of_file = data.decode().split("\n")
    for number, line in enumerate(b"".join(records.text(io.BytesIO(data), made)).decode().split("\n")):
        if line.strip() and form != "journal-bytes":
            assert json.dumps(line)[1:-1][-6:] in of_file[number]


def test_what_is_one_line_or_begins_with_its_end_has_lines_of_its_own(tmp_path: Path) -> None:
    for form in ("cloudwatch-compact", "google-newest-first"):
        (tmp_path / f"{form}.json").write_text(FORMS[form](FAILED))
    run = discover([str(tmp_path)], sniffers())
    assert {s.path for s in run.sources} == {
        f"{f}.json!/{f}.txt" for f in ("cloudwatch-compact", "google-newest-first")
    }
    for source in run.sources:
        text = source.file.read_text().splitlines()
        assert len(text) == len(FAILED) and text[0].endswith(FAILED[0]) and text[-1].endswith(FAILED[-1])


def test_a_record_with_several_lines_stays_on_its_line(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(FORMS["loki-jsonl"]([*STEPS, "\n".join(STACK)]))
    (root, *_) = analyse([str(tmp_path)]).findings
    assert (root.captures["exception"], root.evidence[0].file, root.evidence[0].line) == (
        "KeyError", "log.jsonl!/log.jsonl", 61,
    )  # fmt: skip


def test_pods_that_are_mixed_are_told_apart(tmp_path: Path) -> None:
    made = []
    for n, line in enumerate(FAILED):
        for pod in ("w-0", "w-1"):
            said = line if pod == "w-1" or n < len(STEPS) else f"step: {n} loss: 2.9"
            made.append({"labels": {"pod": pod}, "line": said, "timestamp": iso(n)})
    (tmp_path / "log.jsonl").write_text(rows(made))
    (root, *_) = analyse([str(tmp_path)]).findings
    assert (root.captures["exception"], root.node) == ("KeyError", "w-1")


def test_the_priority_of_a_journals_record_is_kept(tmp_path: Path) -> None:
    """Journald keeps the level beside the text; an error at the end that nobody knows leaves the run unknown."""
    for name, priority, verdict in (("error", "3", Verdict.UNKNOWN), ("notice", "5", Verdict.HEALTHY)):
        made = [journal(n, line) for n, line in enumerate(STEPS)]
        made.append(journal(60, "the flux gate has jammed", PRIORITY=priority, _TRANSPORT="journal"))
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.json").write_text(rows(made))
        assert analyse([str(tmp_path / name)]).verdict == verdict


def test_records_of_the_kernel_alone_are_left_to_the_reader_of_kernel_logs() -> None:
    kernel = [journal(n, "x", _TRANSPORT="kernel", SYSLOG_IDENTIFIER="kernel") for n in range(3)]
    assert records.form_of(rows(kernel).encode()) is None
    assert records.form_of(rows([*kernel, journal(3, "x")]).encode()) is not None


def test_records_without_a_known_text_are_read_as_json_and_told_of(tmp_path: Path) -> None:
    made = [google(n, jsonPayload={"phase": "train", "n": n}) for n in range(9)]
    made += [google(9, textPayload="a line")]
    (tmp_path / "log.json").write_text(json.dumps(made, indent=2))
    run = discover([str(tmp_path)], sniffers())
    (row,) = run.skipped
    assert row.status is Status.PARTIAL and (row.reason or "").startswith("9 of 10 records hold no text in a field")
    assert '{"phase": "train", "n": 3}' in run.sources[0].file.read_text()


@pytest.mark.parametrize(
    "document",
    [
        {"name": "cfg", "log": "info", "line": "x", "values": [[1, 2]], "timestamp": 5},
        [{"message": "trained", "timestamp": 1795168800, "step": 3}],
        {"entries": [{"frames": [{"name": "f", "filename": "a.py", "line": 7}], "timestamp": 5}]},
        {"textPayload": "step 3", "loss": 0.5, "timestamp": "2026-11-20T10:00:00Z"},
        {"jsonPayload": {"loss": 0.5, "step": 3}, "timestamp": "2026-11-20T10:00:00Z"},
        {"events": [{"message": "FailedMount", "reason": "x", "lastTimestamp": "2026-11-20T10:00:00Z"}]},
        {"event": "a", "level": "info", "timestamp": "2026-11-20T10:00:00Z", "message": "m", "log": {"level": "info"}},
    ],
)
def test_other_json_is_no_log_of_a_collector(document: Any) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=2), rows([document] * 3)):
        assert format_of(text.encode(), "x.json") is None


def test_an_entry_without_a_payload_comes_before_those_with_one(tmp_path: Path) -> None:
    """A projection leaves out what an entry lacks."""
    made = [{"severity": "INFO", "timestamp": iso(0)}]
    made += [{"severity": "ERROR", "textPayload": line, "timestamp": iso(n)} for n, line in enumerate(FAILED)]
    (tmp_path / "log.jsonl").write_text(rows(made))
    found = analyse([str(tmp_path)])
    assert (found.verdict, found.findings[0].captures["exception"]) == (Verdict.FAILED, "KeyError")


def test_a_document_that_is_cut_off_gives_what_it_holds(tmp_path: Path) -> None:
    whole = FORMS["cloudwatch"]([*FAILED, "bye"])
    (tmp_path / "log.json").write_text(whole[: whole.index('"bye"')])
    found = analyse([str(tmp_path)])
    assert found.findings[0].captures["exception"] == "KeyError"
    (row,) = (c for c in found.coverage if c.path == "log.json")
    assert row.status is Status.PARTIAL and (row.reason or "").startswith("cut off within its last record")


def test_a_log_of_records_that_was_emptied_under_its_writer(tmp_path: Path) -> None:
    (tmp_path / "0f11-json.log").write_bytes(bytes(64 << 10) + b"\n" + FORMS["docker"](FAILED).encode())
    found = analyse([str(tmp_path)])
    assert found.findings[0].captures["exception"] == "KeyError"


def test_objects_within_objects_cost_no_more_than_their_length() -> None:
    head = json.dumps(cloudwatch(0, "x")) + "\n" + '{"a":' * 30_000
    form = records.Form("CloudWatch Logs", False, False)
    with pytest.raises(Stop):
        list(records.text(io.BytesIO(head.encode()), form))


@given(st.binary(max_size=300), st.integers(0, 4000), st.sampled_from(sorted(FORMS)))
def test_damage_never_raises(noise: bytes, at: int, form: str) -> None:
    data = FORMS[form](FAILED).encode()
    at %= len(data)
    data = data[:at] + noise + data[at + len(noise) :]
    made = records.form_of(data[: records.HEAD])
    if made is not None:
        try:
            for _ in records.text(io.BytesIO(data), made):
                pass
        except Stop as stop:
            assert str(stop)


def test_what_vertex_says_itself_is_of_no_task(tmp_path: Path) -> None:
    def entry(n: int, task: str, text: str) -> str:
        labels = {"type": "ml_job", "labels": {"task_name": task}}
        return json.dumps({"insertId": f"a{n}", "timestamp": iso(n), "resource": labels, "textPayload": text})

    lines = [entry(n, "workerpool0-0", text) for n, text in enumerate(STEPS)]
    lines.append(
        entry(99, "service", "The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137")
    )
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert root.name == "host-oom-cgroup" and root.node != "service"


@pytest.mark.parametrize(
    ("resource", "name", "node"),
    [("gce_instance", "a3-node-7", "a3-node-7"), ("gce_instance", "a b", None), ("gcs_bucket", "a3-node-7", None)],
)
def test_entries_of_a_machine_bear_its_name(tmp_path: Path, resource: str, name: str, node: str | None) -> None:
    lost = "[12345.678901] NVRM: Xid (PCI:0000:04:00): 79, pid=1, name=python, GPU has fallen off the bus."
    entry = {
        **google(0, textPayload=lost),
        "resource": {"type": resource, "labels": {"instance_id": "12"}},
        "labels": {"compute.googleapis.com/resource_name": name},
    }
    (tmp_path / "serial.json").write_text(json.dumps([entry], indent=2))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.node) == ("gpu-fell-off-bus", node)
