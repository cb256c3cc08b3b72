"""A short name for a failure, so that duplicates are found: the same on every host, rank, step, path and day."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from forensics.model import Diagnosis, Finding, Role, Traceback
from forensics.patterns import lazy

VERSION = 3  # what is hashed, and how; a change of either gives every failure another name

# Captures that say where or when, and not what.
_PLACES = frozenset(
    "rank ranks rank_a rank_b from_rank to_rank other_rank peer_rank local_rank device devices gpu pid pids tid "
    "node nodes host hosts hostname nodename peer peer_host master_addr task tasks step epoch line time date when "
    "port address addr ip job jobid job_id user path file dir folder directory url uri bus_id bdf pci uuid serial "
    "attempt world_size interface function exception message store shard worker seq group pg id process "
    "node_ranks node_devices owner_pid comm comm_rank bus batch_host network interfaces hca server own_rank "
    "bootstrap volume disk segment pod container limit".split()
)
# What is told by a number alone.
_NUMBERS = frozenset({"signal", "exitcode", "xid", "errno", "sxid", "code"})
# Slugs that say that nothing better is known: what follows in their run tells them apart.
_VAGUE = frozenset({"insufficient-evidence"})

_PATH = lazy(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*:/|[A-Za-z]:[\\/]|~|\.{1,2})?(?:[\\/][\w.@%+=~-]+){1,60}[\\/]?"
    r"|\b[\w.-]+(?:/[\w.@%+=~-]+){1,60}"
)
_SUFFIX = lazy(r"\.[A-Za-z]{1,12}\Z")
_DTYPE = lazy(r"\b(?:b?float|u?q?int|complex|fp|bf|int|e\dm\d\w*)\d+(?:_\w+)?\b")
_UUID = lazy(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_HEX = lazy(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b")
_IPV6 = lazy(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
_NUMBER = lazy(r"[-+]?\d(?:[\d.,:_]*\d)?(?:e[-+]?\d+)?(?:\s?(?:[KMGT]i?B|bytes|kB)\b)?", re.I)
_LIST = lazy(r"#(?:\s*[,x]\s*#)+")


# What fails wherever the program happens to be: memory, devices (whose errors come late), other processes, disks.
_ANYWHERE = lazy(
    r"(?i)out of memory|allocat|cuda|cudnn|cublas|cusparse|nccl|\bhip\b|rocm|gloo|\bmpi\b|\bucx\b|connect|socket"
    r"|broken pipe"
    r"|timed? ?out|shared memory|DataLoader worker|no space left|quota|signal|i/o error|stale file|too many open"
)
_ANYWHERE_TYPES = frozenset(
    "OutOfMemoryError MemoryError AcceleratorError DistBackendError DistNetworkError DistStoreError TimeoutError "
    "ConnectionError ConnectionResetError ConnectionRefusedError BrokenPipeError KeyboardInterrupt SystemExit OSError "
    "IOError PermissionError SignalException ChildFailedError".split()
)


def template(text: str) -> str:
    """`text` without what differs between two runs of one failure: numbers, paths, addresses, ids.

    Names of number formats (`float16`) stay, as do words in quotes: `KeyError: 'text'` and `KeyError: 'label'` are two
    failures.
    """
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\x00{chr(0xE000 + len(kept))}"  # a private character, which no later rule takes

    def path(match: re.Match[str]) -> str:
        suffix = _SUFFIX.search(match[0])
        return "<path>" + (suffix[0] if suffix else "")

    text = " ".join(text[:2000].split())
    text = _UUID.sub("#", text)
    text = _DTYPE.sub(keep, text)
    text = _PATH.sub(path, text)
    for pattern in (_IPV6, _HEX, _NUMBER):
        text = pattern.sub("#", text)
    text = _LIST.sub("#", text)
    for number, word in enumerate(kept, 1):
        text = text.replace(f"\x00{chr(0xE000 + number)}", word)
    return text


def _what(root: Finding) -> list[str]:
    """What the signature took from the key line, without places."""
    parts = []
    for key, value in sorted(root.captures.items()):
        if key in _NUMBERS:
            parts.append(f"{key}={value}")
        elif key == "op":  # a watchdog says ALLREDUCE, and a recorder of the same call all_reduce
            parts.append(f"{key}={value.lower().replace('_', '')}")
        elif key not in _PLACES and re.search(r"[A-Za-z]{2}", shape := template(value)):
            parts.append(f"{key}={shape}")
    return parts


def _raised_in(root: Finding, tracebacks: Iterable[Traceback]) -> list[str]:
    """Function and file name of the user's own innermost frame, where the root is the last line of a traceback.

    Nothing of an error that may meet any line of a program (`_ANYWHERE`).
    """
    own = {(evidence.file, evidence.line) for evidence in root.evidence}
    for traceback in tracebacks:
        if (traceback.final.file, traceback.final.line) not in own or (frame := traceback.own_frame) is None:
            continue
        if traceback.exception.rpartition(".")[2] in _ANYWHERE_TYPES or _ANYWHERE.search(traceback.message[:400]):
            return []
        return [frame[2], re.split(r"[\\/]", frame[0])[-1]]
    return []


def fingerprint(diagnosis: Diagnosis, tracebacks: Iterable[Traceback] = ()) -> str | None:
    """16 hex digits that name the first root; None for a run that has none. Not of a redacted diagnosis.

    tracebacks: those of the run. Hashed are (docs/reports.md): the signature; of an exception its type, the template of
    its message, and function and file name of the user's own innermost frame; else the templates of what the signature
    captured, and that frame, if the root is an exception that only this place raises.
    """
    roots = diagnosis.of_role(Role.ROOT)
    if not roots:
        return None
    root = roots[0]
    captures = root.captures
    message = captures.get("message", "")
    if root.node:
        message = re.sub(rf"(?<![\w.-]){re.escape(root.node)}(?![\w-])", "<host>", message)
    parts = [
        root.name,
        captures.get("exception", ""),
        template(message),
        captures.get("function", ""),
        re.split(r"[\\/]", captures.get("file", ""))[-1] if "function" in captures else "",
        *_what(root),
    ]
    if "function" not in captures:
        parts += _raised_in(root, tracebacks)
    if root.name in _VAGUE:
        parts += sorted({finding.name for finding in diagnosis.of_role(Role.CASCADE)})
    text = json.dumps([VERSION, *parts], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
