"""Xid, SXid and NVLink 5: tables without gaps, each number under one signature, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.matcher import Matcher
from forensics.parsers.kernel import xid
from forensics.signatures.check import observe_text
from forensics.signatures.schema import KINDS, load_catalogue

CATALOGUE = load_catalogue()
XID_SIGNATURES = {m.signature for m in xid.meanings().values()}
NVLINK5 = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 ("


def test_tables_are_whole() -> None:
    assert len(xid.meanings()) == 177 and set(range(1, 177)) <= set(xid.meanings())
    assert len(xid.switch_meanings()) == 262
    for row in xid.meanings().values():
        assert row.whose in xid.WHOSE and row.severity in ("fatal", "error", "warning", "info")
        assert row.meaning and row.action and row.signature in CATALOGUE
        assert CATALOGUE[row.signature].kind in KINDS
    for switch in xid.switch_meanings().values():
        assert switch.severity in ("fatal", "always fatal", "can be fatal", "not fatal")
        assert switch.meaning and switch.action


def test_who_is_to_blame_and_what_kind_the_signature_is_agree() -> None:
    for row in xid.meanings().values():
        kind = CATALOGUE[row.signature].kind
        assert (row.whose == "notice") == (kind == "benign") or row.xid == 108
        assert (row.whose == "follow") <= (kind in ("echo", "benign"))
        assert (row.whose in ("hardware", "firmware")) <= (kind in ("cause", "symptom"))


def test_each_number_is_recognised_as_the_table_says() -> None:
    catalogue = {name: CATALOGUE[name] for name in XID_SIGNATURES}
    matcher = Matcher(catalogue, use_cache=False)
    body = NVLINK5 + "0x021425c6 0x00000000)"
    text = "\n".join(
        f"NVRM: Xid (PCI:0000:3b:00): {n}, pid=4242, name=python, {body if 144 <= n <= 150 else 'text'}"
        for n in [*xid.meanings(), 999]
    )
    seen: dict[int, set[str]] = {}
    for o in (o for o in observe_text(text + "\n", matcher) if "xid" in o.captures):
        seen.setdefault(int(o.captures["xid"]), set()).add(o.signature)
    assert seen.pop(999) == {"gpu-xid-other"}
    assert seen == {n: {row.signature} for n, row in xid.meanings().items()}


@pytest.mark.parametrize(
    ("line", "number", "bus", "pid", "process", "previous"),
    [
        ("NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d", 13, "0000:01:00", None, None, None),
        ("NVRM: Xid (PCI:0000:01:00): 31, Ch 00000009, engmask 00000101", 31, "0000:01:00", None, None, None),
        ("NVRM: Xid (PCI:0000:DB:00): 31, pid=13641, Ch 00000008, intr 0", 31, "0000:db:00", 13641, None, None),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has",
            79,
            "0000:05:00",
            None,
            None,
            None,
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 109, pid=7, name=KMS thread, Ch 8", 109, "0000:3b:00", 7, "KMS thread", None),
        ("NVRM: Xid (PCI:0000:dc:00): 45, Ch 00000001 caused by previous Xid 149", 45, "0000:dc:00", None, None, 149),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained", 94, "0000:01:00", 7194, None, None),
        ("Xid (PCI:0018:01:00): 119, pid=0, name=x, Timeout", 119, "0018:01:00", None, "x", None),
    ],
)
def test_lines_of_all_drivers(
    line: str, number: int, bus: str, pid: int | None, process: str | None, previous: int | None
) -> None:
    found = xid.read_xid(line)
    assert found is not None
    assert (found.number, found.bus, found.pid, found.process, found.previous) == (number, bus, pid, process, previous)
    said = xid.describe(found)
    assert f"Xid {number}" in said and bus in said and found.meaning is not None and found.meaning.meaning in said


def test_a_number_that_is_not_known() -> None:
    found = xid.read_xid("NVRM: Xid (PCI:0000:3b:00): 999, something new")
    assert found is not None and found.meaning is None
    assert "999" in xid.describe(found)


@pytest.mark.parametrize(
    ("words", "fatal", "action", "look_at"),
    [
        ("0x021425c6 0x00000000", True, "reset", "peer"),  # sub-code 33: the other end began
        ("0x000425c6 0x00000000", True, "reset", "follows"),  # sub-code 0
        ("0x026425c6 0x00000000", True, "ignore", "software"),  # sub-code 38
    ],
)
def test_nvlink5(words: str, fatal: bool, action: str, look_at: str) -> None:
    found = xid.decode_link(149, NVLINK5 + words + " 0x0)")
    assert found is not None
    link, row = found
    assert link == "01"
    assert (row.fatal, row.action, row.look_at) == (fatal, action, look_at)


def test_nvlink5_of_several_bits_takes_the_gravest_and_admits_what_it_does_not_know() -> None:
    both = xid.decode_link(144, "SAW_MVB Fatal XC0 i0 Link 08 (0x000505c6 0x00000006 0x0)")
    assert both is not None and both[1].fatal and both[1].action == "reset"
    assert xid.decode_link(144, "SAW_MVB Fatal XC0 i0 Link 08 (0x3f0505c6 0x00000006 0x0)") is None
    assert xid.decode_link(144, "NEW_UNIT Fatal XC0 i0 Link 08 (0x000505c6 0x00000006 0x0)") is None


def test_switch() -> None:
    said = xid.describe_switch(
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
    )
    assert said is not None and "12028" in said and "link 32" in said and "non-fatal" in said
    assert said.endswith("nothing needs doing unless it is frequent")
    assert xid.describe_switch("SXid (PCI:0000:05:00.0): 99999, x") is None


def test_what_a_switch_itself_calls_fatal_is_not_left_alone() -> None:
    line = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Fatal, Link 41 egress non-posted PRIV error (First)"
    said = xid.describe_switch(line)
    assert said is not None and "(fatal)" in said and "reset all GPUs" in said and "nothing needs doing" not in said
    table = xid.describe_switch("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 10006, Fatal, thermal shutdown")
    assert table is not None and table.endswith("see to the cooling of that host")


@given(st.text(max_size=120))
def test_no_text_raises(text: str) -> None:
    for line in (
        text,
        f"NVRM: Xid (PCI:0000:3b:00): {text}",
        f"NVRM: Xid (PCI:0000:3b:00): 149, {text}",
        NVLINK5 + text,
    ):
        if (found := xid.read_xid(line)) is not None:
            xid.describe(found)
        xid.describe_switch(line)
        xid.decode_link(149, line)
