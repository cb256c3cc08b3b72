"""Launchers' records of several lines: torchelastic's table of failed workers, and what mpirun says of a signal.

    [0]:
      time      : 2026-11-27_21:47:17
      host      : node-0
      rank      : 3 (local_rank: 3)
      exitcode  : -9 (pid: 19582) (SIGKILL)
      error_file: <N/A>
      traceback : Signal 9 (SIGKILL) received by PID 19582

The lines stand one below the other in every torch version since 1.9 (elastic/multiprocessing/errors), with whatever
prefix the launcher's output bears. torch 1.9 pads no name, names no host, and ends with the error in place of the
traceback:

    [0]:
      time: 2021-08-27_21:47:17
      rank: 3 (local_rank: 3)
      exitcode: -9 (pid: 19582)
      error_file: <N/A>
      msg: "Signal 9 (SIGKILL) received by PID 19582"

    prterun noticed that process rank 5 with PID 22019 on node node-2 exited on
    signal 11 (Segmentation fault).

So Open MPI 5 prints what earlier versions print in one line (help-prterun.txt), which signatures know.
Hydra (MPICH, Intel MPI) has a block for each process that ended badly, with its end below its name:

    =   RANK 5 PID 22019 RUNNING AT node-2
    =   KILLED BY SIGNAL: 11 (Segmentation fault)

MPICH's prints its status in place of the signal, which stands below the block; jsrun (LSF) has one line:

    YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
    ERROR:  One or more process (first noticed rank 7) terminated with signal 11 (core dumped)

The process itself prints `[node-2:22019] *** Process received signal ***` before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forensics.model import Evidence, Identity, Observation
from forensics.parsers.prefixes import strip_ansi
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

# The line that every row has; the scan looks for it.
ROW = (
    r"rank      : \d+ \(local_rank: \d+\)|\brank: \d+ \(local_rank: \d+\)"
    r"|noticed that process rank \d+ with PID \d+ on node \S+ exited[ \t]*(?:on)?[ \t\r]*\n"
    r"|=   (?:RANK \d+ )?PID \d+ RUNNING AT \S+"
    r"|\(first noticed rank \d+\) terminated with signal \d+"
)
BEFORE, AFTER = 400, 600  # bytes around it that hold the rest of the row
SIGNATURE = "worker-exit"

_ROW = lazy(r"\brank\s*: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)")
_HOST = lazy(r"\bhost\s+: (?P<host>\S+)")
_TIME = lazy(r"\btime\s*: (?P<time>\S+)")
_EXIT = lazy(r"\bexitcode\s*: (?P<exitcode>-?\d+) +\(pid: (?P<pid>\d+)\)")

_NOTICED = lazy(
    r"noticed that process rank (?P<rank>\d{1,9}) with PID (?P<pid>\d{1,9}) on node (?P<node>\S+) exited\s+on\s+"
    r"signal (?P<signal>\d{1,2})\b"
)
# Signals and the signatures of processes that end by them.
_OF_SIGNALS = {
    "4": "rank-sigill", "6": "rank-sigabrt", "7": "rank-sigbus", "8": "rank-sigfpe", "9": "sigkill-unknown-sender",
    "11": "rank-segfault",
}  # fmt: skip
_HYDRA = lazy(
    r"^=   (?:RANK (?P<rank>\d{1,9}) )?PID (?P<pid>\d{1,9}) RUNNING AT (?P<node>\S+)\s*\n"
    r"=   KILLED BY SIGNAL: (?P<signal>\d{1,2})\b"
)
_MPICH = lazy(
    r"^=   (?:RANK (?P<rank>\d{1,9}) )?PID (?P<pid>\d{1,9}) RUNNING AT (?P<node>\S+)\s*\n=   EXIT CODE: \d{1,5}\s*\n"
    r"(?:=[^\n]*\n){0,6}YOUR APPLICATION TERMINATED WITH THE EXIT STRING: [^\n]{0,80}\(signal (?P<signal>\d{1,2})\)"
)
_JSRUN = lazy(r"\(first noticed rank (?P<rank>\d{1,9})\) terminated with signal (?P<signal>\d{1,2})\b")
# Hydra ends all others once a process has ended, and has the same block for each of those: with SIGTERM first, and with
# SIGKILL what does not go.
_BY_HYDRA, _ASKED = "9", lazy(rb"^=   [^\n]{1,300}\n=   KILLED BY SIGNAL: 15\b")
_IN_HYDRAS = "=   KILLED BY SIGNAL: 9 "
_RECEIVED = lazy(r"\s*\[(?P<node>[A-Za-z][\w.-]*):(?P<pid>\d{1,9})\] \*\*\* Process received signal \*\*\*")

IN_ROW = lazy(r"traceback : Traceback")  # of a worker that was wrapped with @record


def worker_of(before: str) -> Identity:
    """The worker whose row ends in a traceback; nobody where the row's `rank` line is not among the four above it."""
    for text in reversed(strip_ansi(before).split("\n")[-6:]):
        if m := _ROW.search(text):
            return Identity(rank=int(m["rank"]), local_rank=int(m["local_rank"]))
    return Identity()


def read_row(before: bytes, row: bytes, *, path: str, offset: int, line: int, reference: float) -> Observation | None:
    """One failed worker as an observation; None where the row is cut off.

    before: the bytes that end where the `rank` line begins. row: the bytes from that line on.
    """
    if b"noticed that process" in row.split(b"\n", 1)[0]:
        return _noticed(_NOTICED, row, path=path, offset=offset, line=line)
    if b" RUNNING AT " in row.split(b"\n", 1)[0]:
        intels = _noticed(_HYDRA, row, path=path, offset=offset, line=line)
        return intels or _noticed(_MPICH, row, path=path, offset=offset, line=line, lines=10)
    if b"(first noticed rank" in row.split(b"\n", 1)[0]:
        return _noticed(_JSRUN, row, path=path, offset=offset, line=line, lines=1)
    head = strip_ansi(before.decode("utf-8", "replace")).split("\n")[-4:]
    tail = strip_ansi(row.decode("utf-8", "replace")).split("\n")[:4]
    rank = _ROW.search(tail[0])
    end = next((m for text in tail[1:] if (m := _EXIT.search(text))), None)
    if rank is None or end is None:
        return None
    host = next((m for text in reversed(head) if (m := _HOST.search(text))), None)
    time = next((m for text in reversed(head) if (m := _TIME.search(text))), None)
    when, zone_known = parse_time(time["time"], reference) if time else (None, False)
    return Observation(
        signature=SIGNATURE,
        weight=0.9,
        evidence=(Evidence(path, line, offset, tail[0].strip()),),
        identity=Identity(
            rank=int(rank["rank"]),
            local_rank=int(rank["local_rank"]),
            node=host["host"] if host else None,
            pid=int(end["pid"]),
        ),
        culprits=(),
        time=when,
        zone_known=zone_known,
        captures={**rank.groupdict(), **end.groupdict()},
    )


def _noticed(
    form: re.Pattern[str], row: bytes, *, path: str, offset: int, line: int, lines: int = 2
) -> Observation | None:
    """A process that an MPI launcher saw end by a signal. PID 0 stands for one that it does not know.

    lines: in which the form stands, from the first one on.
    """
    told = strip_ansi(row.decode("utf-8", "replace")).split("\n")[:lines]
    m = form.search("\n".join(told))
    if m is None or m["signal"] not in _OF_SIGNALS:
        return None
    groups = m.groupdict()
    pid = int(groups.get("pid") or 0) or None
    rank = None if m["rank"] is None else int(m["rank"])
    said = {name: text for name, text in groups.items() if text is not None and (name != "pid" or pid)}
    return Observation(
        signature=_OF_SIGNALS[m["signal"]],
        weight=0.85,
        evidence=(Evidence(path, line, offset, " ".join(text.strip() for text in told[:2])),),
        identity=Identity(rank=rank, node=groups.get("node"), pid=pid),
        culprits=None if rank is None else (rank,),
        captures=said,
    )


def is_ended_by_hydra(row: bytes) -> bool:
    """Whether a row is a block of Hydra's for a process that it asked to end when another one had ended."""
    return _ASKED.match(row) is not None


def without_cleanup(rows: Sequence[Observation], blocks: int) -> list[Observation]:
    """The rows of a file without kills that can be Hydra's own.

    blocks: of Hydra's, how many are of processes that it did not ask to end. A process that SIGKILL ended is the one
    that all others were stopped for where it is alone in that.
    """
    return [r for r in rows if blocks == 1 or _IN_HYDRAS not in r.evidence[0].text]


def crashed(text: str) -> Identity:
    """The process that Open MPI's handler speaks for when it begins to tell of a signal; nobody for any other line."""
    m = _RECEIVED.match(text)
    return Identity() if m is None else Identity(node=m["node"], pid=int(m["pid"]))
