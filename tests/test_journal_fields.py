"""`journalctl -o export` and `-o verbose` as the lines that the programs of a unit printed."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from forensics.archives.journal import looks_like_journal, text
from forensics.engine.pipeline import Options, analyse

LINES = [
    *(f"step {n} loss {2 / (n + 1):.4f}" for n in range(20)),
    "Traceback (most recent call last):",
    '  File "/srv/job/train.py", line 14, in <module>',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
]
SINCE = 1_795_158_000  # 2026-11-20T07:00:00Z


def exported(lines: list[str], *, framed: bool = False) -> bytes:
    records = []
    for n, line in enumerate(lines):
        said = line.encode()
        message = b"MESSAGE\n" + len(said).to_bytes(8, "little") + said if framed else b"MESSAGE=" + said
        records.append(
            b"__CURSOR=s=ab;i=%d\n__REALTIME_TIMESTAMP=%d\n_HOSTNAME=gpu-07\n_PID=42\nSYSLOG_IDENTIFIER=python\n%s\n\n"
            % (n, (SINCE + n) * 1_000_000, message)
        )
    return b"".join(records)


def verbose(lines: list[str], zone: str = "UTC") -> bytes:
    return "".join(
        f"Fri 2026-11-20 07:00:{n:02}.000000 {zone} [s=ab;i={n};b=cd;m=1;t=2;x=3]\n"
        f"    _HOSTNAME=gpu-07\n    _PID=42\n    SYSLOG_IDENTIFIER=python\n    MESSAGE={line}\n"
        for n, line in enumerate(lines)
    ).encode()


@pytest.mark.parametrize(
    ("data", "line", "zone"),
    [
        (exported(LINES), 167, "Z"),
        (exported(LINES, framed=True), 190, "Z"),
        (verbose(LINES), 120, "Z"),
        (verbose(LINES, "CET"), 120, ""),
    ],
)
def test_a_failure_has_host_time_and_line(tmp_path: Path, data: bytes, line: int, zone: str) -> None:
    (tmp_path / "journal.txt").write_bytes(data)
    root = analyse([str(tmp_path)], Options(cache=False)).findings[0]
    assert (root.name, root.node) == ("cuda-oom", "gpu-07")
    assert root.evidence[0].line == line
    assert root.time is not None and root.time.endswith("Z") is (zone == "Z")


@pytest.mark.parametrize("data", [exported(["a", "b\nc"], framed=True), verbose(["a", "b\n            c"])])
def test_lines_keep_their_numbers(data: bytes) -> None:
    shown = b"".join(text(BytesIO(data)))
    assert shown.count(b"\n") == data.count(b"\n")
    assert [part.rpartition(b": ")[2] for part in shown.replace(b"\r", b"\n").split(b"\n") if part] == [
        b"a",
        b"b",
        b"c",
    ]


@pytest.mark.parametrize(
    "data", [b"", b"__CURSOR=s=ab", b"__CURSOR=a\nMESSAGE\n\xff\xff", exported(["a"], framed=True)[:-9]]
)
def test_what_is_cut_off_is_read_so_far(data: bytes) -> None:
    assert isinstance(b"".join(text(BytesIO(data))), bytes)


@pytest.mark.parametrize(
    "head",
    [
        b"CURSOR=1\nA=2\nB=3\n",
        b"Fri 2026-11-20 07:00:00.000000 UTC [s] step 1\n",
        b"-- Journal begins at Fri 2026-11-20 07:00:00 UTC. --\nNov 20 07:00:00 gpu-07 python[42]: step 1\n",
    ],
)
def test_other_texts_are_none(head: bytes) -> None:
    assert not looks_like_journal(head)
