"""Launchers' records of several lines: torchelastic's table of failed workers.

    [0]:
      time      : 2026-11-27_21:47:17
      host      : node-0
      rank      : 3 (local_rank: 3)
      exitcode  : -9 (pid: 19582) (SIGKILL)
      error_file: <N/A>
      traceback : Signal 9 (SIGKILL) received by PID 19582

The lines stand one below the other in every torch version since 1.9 (elastic/multiprocessing/errors), with whatever
prefix the launcher's output bears.
"""

from __future__ import annotations

from forensics.model import Evidence, Identity, Observation
from forensics.parsers.prefixes import parse_time, strip_ansi
from forensics.patterns import lazy

# The line that every row has; the scan looks for it.
ROW = r"rank      : \d+ \(local_rank: \d+\)"
BEFORE, AFTER = 400, 600  # bytes around it that hold the rest of the row
SIGNATURE = "worker-exit"

_ROW = lazy(r"rank\s+: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)")
_HOST = lazy(r"host\s+: (?P<host>\S+)")
_TIME = lazy(r"time\s+: (?P<time>\S+)")
_EXIT = lazy(r"exitcode\s+: (?P<exitcode>-?\d+) +\(pid: (?P<pid>\d+)\)")

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
