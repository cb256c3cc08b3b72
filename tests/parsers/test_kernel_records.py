"""Kernel logs as JSON: journalctl -o json and json-pretty, dmesg --json, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.scan import Database, Pattern, Scan, scan_span
from forensics.parsers.kernel import records

DATA = Path(__file__).parent.parent / "data" / "kernel"
DATABASE = Database([Pattern(20, "Xid", literal=True), Pattern(21, "segfault at", literal=True)], cache=False)


def unfold(file: Path) -> Scan:
    size = file.stat().st_size
    head = file.read_bytes()[:4096]
    return records.unfold(file, head, scan_span(DATABASE, file, 0, size), DATABASE.scan)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("dmesg.json", "dmesg"),
        ("journal.json", "journal"),
        ("journal_pretty.json", "journal pretty"),
        ("oom_global.txt", None),
    ],
)
def test_form(name: str, form: str | None) -> None:
    assert records.form_of((DATA / name).read_bytes()[:4096]) == form


def test_json_of_others_is_none() -> None:
    assert records.form_of(b'{"step": 1, "loss": 2.0}\n') is None
    assert records.form_of(b'{"MESSAGE": "hello"}\n') is None


@pytest.mark.parametrize("name", ["journal.json", "journal_pretty.json"])
def test_journal(name: str) -> None:
    hits = {h.pattern: h for h in unfold(DATA / name).hits}
    xid = hits[20].data.decode()
    assert xid.startswith(
        "2026-08-10T15:36:06.123456+00:00 node-a kernel: [130.456250] NVRM: Xid (PCI:0000:2b:00): 48, "
    )
    # The message of the third record is a list of bytes, with colour codes.
    assert (
        hits[21]
        .data.decode()
        .startswith("2026-08-10T15:36:07.123456+00:00 node-a kernel: [131.456250] \x1b[31mpt_main")
    )
    lines = (DATA / name).read_text().splitlines()
    assert "MESSAGE" in lines[hits[20].line - 1] and "Xid (PCI" in lines[hits[20].line - 1]
    assert "MESSAGE" in lines[hits[21].line - 1]


@pytest.mark.parametrize("colon", [":", ": ", " : "])
def test_a_message_as_bytes_however_it_is_spaced(tmp_path: Path, colon: str) -> None:
    file = tmp_path / "journal.json"
    record = {"_TRANSPORT": "kernel", "__REALTIME_TIMESTAMP": "1786376165123456", "MESSAGE": [*b"x segfault at 0 ip 1"]}
    file.write_text(json.dumps(record, separators=(", ", colon)).replace("[", "[ ").replace("]", " ]") + "\n")
    scan = unfold(file)
    assert [(h.pattern, h.line) for h in scan.hits] == [(21, 1)]
    assert scan.problem is None


@pytest.mark.parametrize("name", ["dmesg.json", "journal.json", "journal_pretty.json"])
def test_a_cut_file_says_so(tmp_path: Path, name: str) -> None:
    data = (DATA / name).read_bytes()
    file = tmp_path / name
    file.write_bytes(data)
    assert unfold(file).problem is None
    file.write_bytes(data.rstrip()[:-3])
    assert unfold(file).problem == records.CUT
    if name != "dmesg.json":
        return
    file.write_bytes(data[: data.rindex(b"}", 0, data.rindex(b"}")) + 1])  # behind a record
    assert unfold(file).problem == records.CUT


def test_a_long_journal_that_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    line = (DATA / "journal.json").read_bytes().split(b"\n")[0] + b"\n"
    file.write_bytes(line * (records.RECORD // len(line) + 2) + line[:60])
    assert unfold(file).problem == records.CUT


def test_dmesg() -> None:
    hit = next(h for h in unfold(DATA / "dmesg.json").hits if h.pattern == 20)
    assert hit.data.decode().startswith("[   130.456250] NVRM: Xid (PCI:0000:2b:00): 79")
    data = (DATA / "dmesg.json").read_bytes()
    assert data[hit.offset :].startswith(b'"msg": "NVRM: Xid')
    assert data.count(b"\n", 0, hit.offset) + 1 == hit.line


def test_dmesg_on_one_line_and_cut(tmp_path: Path) -> None:
    whole = json.dumps(json.loads((DATA / "dmesg.json").read_text()))
    file = tmp_path / "x.json"
    file.write_text(whole[: whole.index("INFO: task") + 4])
    assert [h.data.decode()[:28] for h in unfold(file).hits if h.pattern == 20] == ["[   130.456250] NVRM: Xid (P"]


def test_a_line_that_is_no_record_stays(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_bytes((DATA / "journal.json").read_bytes() + b"Xid (cut off\n")
    assert any(h.data == b"Xid (cut off" for h in unfold(file).hits)


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    records.form_of(data)
    records.decode(data)
    list(records.dmesg_records(data))
    list(records.pretty_records(data))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["MESSAGE", "__REALTIME_TIMESTAMP", "_HOSTNAME", "SYSLOG_IDENTIFIER", "_PID", "_SOURCE_MONOTONIC_TIMESTAMP"]
        ),
        _VALUES,
    )
)
def test_no_record_raises(record: dict[str, object]) -> None:
    for line in records.decode(json.dumps(record).encode()):
        assert "\n" not in line
