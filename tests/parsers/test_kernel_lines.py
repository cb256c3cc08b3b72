"""Prefixes of kernel logs: every form gives its message and its time, other text gives none, nothing makes it raise."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.kinds import Kind
from forensics.model import Source
from forensics.parsers.kernel.lines import parse_stamp, read_line, recognise, wall_time
from forensics.parsers.logs import latest_date

REFERENCE = datetime(2026, 9, 1, tzinfo=UTC).timestamp()
MOMENT = datetime(2026, 8, 10, 15, 36, 5, tzinfo=UTC).timestamp()
XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."

# (line, form, seconds since boot, wall time, zone known)
FORMS = [
    (f"[  130.456250] {XID}", "dmesg", 130.45625, None, False),
    (f"[  130.456250] [ T1946] {XID}", "dmesg", 130.45625, None, False),
    (f"[ 1630.142789][T14021] {XID}", "dmesg", 1630.142789, None, False),
    (f"[  130.456250 <    0.000012>] {XID}", "dmesg", 130.45625, None, False),
    (f"<4>[  130.456250] {XID}", "dmesg", 130.45625, None, False),
    (f"kern  :warn  : [  130.456250] {XID}", "dmesg", 130.45625, None, False),
    (f"[Mon Aug 10 15:36:05 2026] {XID}", "dmesg -T", None, MOMENT, False),
    (f"[一 8月 10 15:36:05 2026] {XID}", "dmesg -T", None, MOMENT, False),
    (f"kern  :warn  : [Mon Aug 10 15:36:05 2026] {XID}", "dmesg -T", None, MOMENT, False),
    (f"2026-08-10T17:36:05,500000+02:00 {XID}", "dmesg iso", None, MOMENT + 0.5, True),
    (f"[Aug10 15:36] {XID}", "dmesg -e", None, MOMENT - 5, False),
    (f"[  +0.000388] {XID}", "dmesg -e", None, None, False),
    (f"4,1209,6781741548779,-,caller=T1946;{XID}", "kmsg", 6781741.548779, None, False),
    (f"Aug 10 15:36:05 node-a kernel: {XID}", "syslog", None, MOMENT, False),
    (f"Aug 10 15:36:05 node-a kernel: [680111.646286] {XID}", "syslog", 680111.646286, MOMENT, False),
    (f"Aug 10 15:36:05.250000 node-a kernel: {XID}", "syslog", None, MOMENT + 0.25, False),
    (f"Aug 10 2026 15:36:05 node-a kernel: {XID}", "syslog", None, MOMENT, False),
    (f"Aug 10 15:36:05 kernel: {XID}", "syslog", None, MOMENT, False),
    (f"2026-08-10T15:36:05+0000 node-a kernel: {XID}", "syslog iso", None, MOMENT, True),
    (f"2026-08-10T15:36:05.500000+00:00 node-a kernel: [  1.000000] {XID}", "syslog iso", 1.0, MOMENT + 0.5, True),
    (f"2026-08-10 15:36:05 node-a kernel: {XID}", "syslog iso", None, MOMENT, False),
    (f"Mon 2026-08-10 15:36:05 UTC node-a kernel: {XID}", "journal full", None, MOMENT, True),
    (f"{MOMENT:.6f} node-a kernel: {XID}", "journal unix", None, MOMENT, True),
]


@pytest.mark.parametrize(("line", "form", "seconds", "time", "zone_known"), FORMS)
def test_forms(line: str, form: str, seconds: float | None, time: float | None, zone_known: bool) -> None:
    found = read_line(line)
    assert found is not None
    assert (found.form, found.message, found.seconds) == (form, XID, seconds)
    assert found.by_kernel
    wall, known = wall_time(found, REFERENCE)
    assert wall == pytest.approx(time) and known == zone_known


@pytest.mark.parametrize(
    "line",
    [
        "[rank0]: step 7 loss 2.3",
        "[2023-04-07 13:09:33,220] [INFO] [launch.py:1] x",
        "Epoch 3: 100%|####| 10/10 [00:01<00:00, 9.1it/s]",
        "[12.5] step 3",
        "",
    ],
)
def test_other_text_is_none(line: str) -> None:
    assert read_line(line) is None


def test_levels() -> None:
    lines = [read_line(x) for x in ("<4>[    1.000000] x", "kern  :err   : [    1.000000] x", "6,1,1,-;x")]
    assert [line.level for line in lines if line is not None] == [4, 3, 6]
    assert read_line("note  :well  : [    1.000000] x") is None


def test_a_year_that_is_not_printed_is_the_latest_that_fits() -> None:
    january = datetime(2027, 1, 2, tzinfo=UTC).timestamp()
    assert parse_stamp("Dec 31 23:59:59", january)[0] == datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("head", "end"),
    [
        ("-- Journal begins at Mon 2026-11-02 10:00:00 UTC, ends at Fri 2026-11-27 15:00:00 UTC. --", 27),
        ("-- Logs begin at Mon 2026-11-02 10:00:00 UTC, end at Fri 2026-11-27 15:00:00 UTC. --", 27),
        ("-- Boot begins at Mon 2026-11-02 10:00:00 UTC, ends at Fri 2026-11-27 15:00:00 UTC. --", 2),
    ],
)
def test_a_journal_is_dated_by_its_end(tmp_path: Path, head: str, end: int) -> None:
    file = tmp_path / "journal.txt"
    file.write_text(head + "\nNov 27 14:02:00 node-7 kernel: x\n")
    found = latest_date([Source("journal.txt", file, Kind.LOG, file.stat().st_size)])
    assert found is not None
    assert datetime.fromtimestamp(found, UTC).day == end


def test_recognised_by_content() -> None:
    assert recognise([line for line, form, *_ in FORMS if form == "dmesg"]) == "dmesg"
    assert (
        recognise(["Aug 10 15:36:05 node-a kernel: x"] * 3 + ["Aug 10 15:36:05 node-a systemd[1]: y"] * 2) == "syslog"
    )
    assert recognise(["2026-08-10 15:36:05 node-a trainer: step 5"] * 9) is None
    assert recognise(["step 1 loss 2", f"[  130.456250] {XID}", "step 2 loss 1", "step 3 loss 1"]) is None
    assert recognise([]) is None


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    line = read_line(text)
    if line is not None:
        wall_time(line, REFERENCE)
    parse_stamp(text, REFERENCE)


@given(
    st.sampled_from([line for line, *_ in FORMS]),
    st.integers(0, 80),
    st.text(alphabet="0123456789:.,-+[]<> ;T月年Zx", max_size=12),
)
def test_no_damage_raises(line: str, at: int, damage: str) -> None:
    for text in (line[:at] + damage + line[at:], line[:at], line[at:], line.replace("2026", damage)):
        found = read_line(text)
        if found is not None:
            wall_time(found, REFERENCE)


@given(st.lists(st.integers(0, 10**13), min_size=2, max_size=20))
def test_times_keep_the_order_of_the_stamps(micros: list[int]) -> None:
    stamps = sorted(micros)
    lines = [read_line(f"6,1,{m},-;x") for m in stamps] + [read_line(f"[{m / 1e6:12.6f}] x") for m in stamps]
    seconds = [line.seconds for line in lines if line is not None and line.seconds is not None]
    assert len(seconds) == 2 * len(stamps)
    half = len(stamps)
    assert seconds[:half] == sorted(seconds[:half]) and seconds[half:] == sorted(seconds[half:])
