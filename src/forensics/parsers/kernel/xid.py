"""What the numbers of NVIDIA's kernel driver mean: Xid of a GPU, SXid of an NVSwitch, and NVLink 5's units.

The tables beside this module (`xid.tsv`, `sxid.tsv`, `nvlink5.tsv`) follow nverror.h and ctrl_dev_nvswitch.h of
NVIDIA's open kernel modules (515 to 595), NVIDIA's Xid catalogue of October 2025 and the Fabric Manager guide, in words
of our own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

# NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 13, pid=4242, name=python, <body> caused by previous Xid 31
_XID = re.compile(
    r"\bXid \((?:PCI:)?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)(?: GPU-I:(?P<instance>\d+))?"
    r"(?: GPU-CI:\d+)?\): (?P<xid>\d{1,5})(?:, ?pid=(?P<pid>\d{1,10}|'?<[^>]*>'?))?(?:, ?name=(?P<name>[^,\n]{1,64}))?"
    r",? ?(?P<body>.*?)(?: caused by previous Xid (?P<previous>\d{1,5}))?\s*$",
    re.S,
)
_SXID = re.compile(
    r"(?:nvidia-(?P<switch>nvswitch\d+): )?\bSXid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]{7,16})\): (?P<sxid>\d{5}), "
    r"(?:(?P<printed>Fatal|Non-fatal|Correctable), )?(?:Link (?P<link>\d+) )?(?P<text>.*)$",
    re.S,
)
# RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 ...): interrupt information, then the unit's error status
_NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]{1,30}(?:/[A-Z0-9_]{1,30})?)\s+(?P<printed>Nonfatal|Fatal)\s+XC[01]\s+i\d+\s+"
    r"Link\s+(?P<link>-?\d+)\s+\(0x(?P<info>[0-9a-fA-F]{1,8})(?:\s+0x(?P<status>[0-9a-fA-F]{1,8}))?"
)
# Who is to blame, as sentences for people.
WHOSE = {
    "program": "in most cases a fault of the program and not of the card",
    "hardware": "a fault of the hardware",
    "firmware": "a fault of the card's firmware or hardware",
    "driver": "a fault of driver, firmware or card",
    "follow": "it follows from another error",
    "notice": "no failure",
}
# Xid whose pid is that of the process which owned the work on the GPU; elsewhere it is whoever called the driver.
OF_THE_PROCESS = frozenset((8, 13, 31, 32, 43, 45, 68, 69, 80, 94, 109, 174))
_ACTIONS = {
    "ignore": "nothing needs doing for the one event",
    "reset": "reset the GPU",
    "as-154": "do what the next Xid 154 of that GPU names",
}
_LOOK_AT = {
    "support": "if it repeats, report it to NVIDIA",
    "nothing": "",
    "host": "look at the host",
    "link": "look at the link, its cable and connectors",
    "peer": "look at the device at the other end of the link, where it began",
    "software": "look at what the software or an operator did to the link",
    "follows": "it follows from another error; report it if it stands alone",
}
_EFFECTS = {
    "none": "nothing",
    "loss": "lost packets",
    "memory": "an uncorrectable memory error (Xid 48, 94 or 95)",
    "process": "the end of the process (Xid 45)",
    "fatal": "a fatal fault",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """A row of the Xid table."""

    xid: int
    name: str  # the driver's
    whose: str  # a key of WHOSE
    severity: str  # "fatal" | "error" | "warning" | "info"
    signature: str  # slug
    meaning: str
    action: str


@dataclass(frozen=True, slots=True)
class SwitchMeaning:
    """A row of the SXid table. Where the driver prints Fatal or Non-fatal, that counts and not the row."""

    sxid: int
    name: str
    severity: str  # "fatal" | "always fatal" | "can be fatal" | "not fatal"
    meaning: str
    action: str


@dataclass(frozen=True, slots=True)
class LinkMeaning:
    """A row of the table for Xid 144 to 150."""

    fatal: bool
    action: str  # a key of _ACTIONS
    look_at: str  # a key of _LOOK_AT
    local: str  # keys of _EFFECTS: on this GPU, and at the other end
    remote: str


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid line."""

    number: int
    bus: str  # as printed
    pid: int | None
    process: str | None
    body: str
    previous: int | None  # the Xid that the driver says it follows from
    meaning: Meaning | None  # None for a number that the table lacks


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def meanings() -> Mapping[int, Meaning]:
    """The Xid table."""
    return {
        int(r["xid"]): Meaning(
            int(r["xid"]), r["name"], r["whose"], r["severity"], r["signature"], r["meaning"], r["action"]
        )
        for r in _rows("xid.tsv")
    }


@cache
def switch_meanings() -> Mapping[int, SwitchMeaning]:
    """The SXid table."""
    return {
        int(r["sxid"]): SwitchMeaning(int(r["sxid"]), r["name"], r["severity"], r["meaning"], r["action"])
        for r in _rows("sxid.tsv")
    }


@cache
def _link_meanings() -> Mapping[tuple[int, str, int], tuple[tuple[int, LinkMeaning], ...]]:
    """(Xid, unit, sub-code) -> (error status, meaning)."""
    table: dict[tuple[int, str, int], list[tuple[int, LinkMeaning]]] = {}
    for r in _rows("nvlink5.tsv"):
        row = LinkMeaning(r["severity"] == "fatal", r["action"], r["look_at"], r["local"], r["remote"])
        for unit in r["unit"].split("/"):
            table.setdefault((int(r["xid"]), unit, int(r["subcode"])), []).append((int(r["error_status"], 16), row))
    return {key: tuple(rows) for key, rows in table.items()}


def read_xid(text: str) -> Xid | None:
    """The Xid in a line; None where there is none."""
    m = _XID.search(text[:4000])
    if m is None:
        return None
    pid = int(m["pid"]) if m["pid"] and m["pid"].isdigit() else None
    name = m["name"]
    return Xid(
        number=int(m["xid"]),
        bus=m["bus"].lower(),
        pid=pid or None,
        process=name.strip() if name and not name.startswith("<") else None,
        body=m["body"],
        previous=int(m["previous"]) if m["previous"] else None,
        meaning=meanings().get(int(m["xid"])),
    )


def decode_link(number: int, body: str) -> tuple[str, LinkMeaning] | None:
    """(link as printed, meaning) of the body of an Xid 144 to 150; None where table or body do not say.

    The sub-code is bits 20 to 25 of the first word. Of several bits in the error status the gravest counts.
    """
    m = _NVLINK5.search(body)
    if m is None:
        return None
    sub_code = int(m["info"], 16) >> 20 & 0x3F
    status = int(m["status"] or "0", 16)
    rows: list[tuple[int, LinkMeaning]] = []
    for unit in m["unit"].split("/"):
        rows += _link_meanings().get((number, unit, sub_code), ())
    exact = [row for value, row in rows if value == status]
    chosen = exact or [row for value, row in rows if value & status]
    if not chosen:
        return None
    return m["link"], max(chosen, key=lambda row: (row.fatal, row.action != "ignore"))


def describe_link(link: str, row: LinkMeaning) -> str:
    """A sentence on a decoded NVLink 5 error."""
    where = "all links of the unit" if link.startswith("-") else f"link {link}"
    effects = f"it brings about {_EFFECTS[row.local]} here and {_EFFECTS[row.remote]} at the other end"
    parts = [f"{where}: {'fatal' if row.fatal else 'not fatal'}", effects, _ACTIONS[row.action], _LOOK_AT[row.look_at]]
    return "; ".join(part for part in parts if part)


def describe(xid: Xid) -> str:
    """What an Xid line says, whose fault it is and what to do, in one paragraph for people."""
    who = f"process {xid.process} (pid {xid.pid})" if xid.process else f"pid {xid.pid}"
    by = f", {who}" if xid.pid is not None else ""
    front = f"Xid {xid.number} on GPU {xid.bus}{by}"
    if xid.meaning is None:
        return f"{front}: a number that the table of this version lacks"
    text = f"{front}: {xid.meaning.meaning}; {WHOSE[xid.meaning.whose]}"
    if xid.previous is not None:
        text += f"; the driver says that it follows from Xid {xid.previous}"
    if (decoded := decode_link(xid.number, xid.body)) is not None:
        return f"{text}. {describe_link(*decoded)}"
    if xid.number == 154 and (m := re.search(r" to 0x[0-9a-f]+ \(([^)]{1,60})\)", xid.body)):
        text += f"; it needs: {m[1]}"
    return f"{text}. What to do: {xid.meaning.action}"


# Where a switch calls fatal what the table does not.
_FATAL = (
    "reset all GPUs and switches of that host together (or reboot it) and restart the fabric manager; "
    "have the hardware checked if it repeats"
)


def describe_switch(text: str) -> str | None:
    """What an SXid line says and what to do; None where there is none or the table lacks its number."""
    m = _SXID.search(text[:4000])
    row = switch_meanings().get(int(m["sxid"])) if m else None
    if m is None or row is None:
        return None
    link = f", link {m['link']}" if m["link"] else ""
    severity = m["printed"].lower() if m["printed"] else row.severity
    return (
        f"SXid {row.sxid} of NVSwitch {m['switch'] or ''} ({m['bus']}{link}): {row.meaning} ({severity}). "
        f"What to do: {_FATAL if severity == 'fatal' and row.severity == 'not fatal' else row.action}"
    ).replace("  ", " ")
