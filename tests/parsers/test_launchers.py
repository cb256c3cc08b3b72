"""Launchers' records of several lines: what Open MPI says of a process that a signal ended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import Identity, Observation, Role
from forensics.parsers import launchers

STEPS = "".join(f"step: {n} loss: {3 - n / 100:.3f}\n" for n in range(30))
BLOCK = """\
[node-2:22019] *** Process received signal ***
[node-2:22019] Signal: Segmentation fault (11)
[node-2:22019] Signal code: Address not mapped (1)
[node-2:22019] Failing at address: 0x10
[node-2:22019] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f1e]
[node-2:22019] *** End of error message ***
"""
LINE = "-" * 74 + "\n"
NOTICED = "{} noticed that process rank 5 with PID {} on node node-2 exited on\nsignal {}.\n"


def row(text: str) -> object:
    return launchers.read_row(b"", text.encode(), path="out.log", offset=9, line=3, reference=0.0)


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "prterun", "orterun"])
def test_rank_and_node_of_a_crash(tmp_path: Path, launcher: str) -> None:
    told = NOTICED.format(launcher, 22019, "11 (Segmentation fault)")
    (tmp_path / "out.log").write_text(STEPS + BLOCK + LINE + told + LINE)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.node) == ("rank-segfault", (5,), "node-2")
    assert {e.line for e in root.evidence} == {31, 38}


@pytest.mark.parametrize(
    ("signal", "name"),
    [("7 (Bus error)", "rank-sigbus"), ("6 (Aborted)", "rank-sigabrt"), ("9 (Killed)", "sigkill-unknown-sender")],
)
def test_signals_and_a_pid_that_is_not_known(signal: str, name: str) -> None:
    found = row(NOTICED.format("mpirun", 0, signal))
    assert (found.signature, found.identity, found.culprits) == (name, Identity(rank=5, node="node-2"), (5,))  # type: ignore[attr-defined]
    assert "pid" not in found.captures  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        NOTICED.format("mpirun", 1, "15 (Terminated)"),  # by whom, other lines say
        "mpirun noticed that process rank 5 with PID 1 on node n exited on\n",
        "mpirun noticed that process rank 5 with PID 1 on node n exited on\nits own accord\n",
    ],
)
def test_other_ends_are_no_crash(text: str) -> None:
    assert row(text) is None


def test_who_crashed_without_a_word_of_the_launcher(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text(STEPS + BLOCK)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.node) == ("rank-segfault", None, "node-2")
    assert launchers.crashed("[node-2:22019] [ 0] /lib/libc.so.6") == Identity()


TABLE_OF_1_9 = """\
[0]:
  time: 2026-03-02_10:00:41
  {}: 5 (local_rank: 1)
  exitcode: {} (pid: 40111)
  error_file: <N/A>
  msg: "Signal 9 (SIGKILL) received by PID 40111"
"""


def test_the_failure_table_of_torch_1_9(tmp_path: Path) -> None:
    error = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 1 (pid: 40111) of binary: /usr/bin/python3\n"
    (tmp_path / "run.log").write_text(STEPS + error + TABLE_OF_1_9.format("rank", -9))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("sigkill-unknown-sender", (5,))


def test_a_row_without_padding_has_no_host_and_keeps_its_time() -> None:
    before, _, after = TABLE_OF_1_9.format("rank", -11).partition("  rank")
    found = launchers.read_row(before.encode(), ("  rank" + after).encode(), path="a", offset=0, line=3, reference=0.0)
    assert found is not None
    assert found.identity == Identity(rank=5, local_rank=1, pid=40111)
    assert found.time is not None


def test_a_line_that_only_looks_like_a_row_is_none() -> None:
    assert row("rank: 5 (local_rank: 1)\nstep: 3\n") is None
    assert row(TABLE_OF_1_9.format("global_rank", -9).split("\n", 2)[2]) is None


HYDRA = "=   RANK {} PID 441120 RUNNING AT cn0412\n=   KILLED BY SIGNAL: {}\n"


@pytest.mark.parametrize(
    ("signal", "name"), [("11 (Segmentation fault)", "rank-segfault"), ("8 (Floating point exception)", "rank-sigfpe")]
)
def test_hydras_block_names_the_rank_of_the_signal(tmp_path: Path, signal: str, name: str) -> None:
    (tmp_path / "out.log").write_text(STEPS + LINE + HYDRA.format(5, signal) + HYDRA.format(6, "9 (Killed)"))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.node) == (name, (5,), "cn0412")


def test_a_block_of_hydras_without_a_signal_is_no_crash() -> None:
    assert row("=   RANK 6 PID 9 RUNNING AT n1\n=   EXIT STATUS: 1\n") is None


def test_a_process_that_hydra_may_have_stopped_is_not_blamed() -> None:
    told = row(HYDRA.format(6, "9 (Killed)"))
    assert isinstance(told, Observation)
    assert launchers.without_cleanup([told], blocks=2) == []
    assert launchers.without_cleanup([told], blocks=1) == [told]


KNOWN = [  # a record, and the process that it is about
    (TABLE_OF_1_9.format("rank", -9), Identity(rank=5, local_rank=1, pid=40111)),
    (NOTICED.format("prterun", 22019, "11 (Segmentation fault)"), Identity(rank=5, node="node-2", pid=22019)),
    (HYDRA.format(5, "11 (Segmentation fault)"), Identity(rank=5, node="cn0412", pid=441120)),
]
# Anything, and what records are made of with numbers of any size.
PIECES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda form, n: form.format(n).encode(),
        st.sampled_from(
            ["  rank      : {0} (local_rank: {0})", "  exitcode  : -{0} (pid: {0})", "  time      : {0}", "  host: {0}",
             "x noticed that process rank {0} with PID {0} on node n exited on", "signal {0}.",
             "=   RANK {0} PID {0} RUNNING AT n", "=   KILLED BY SIGNAL: {0} (x)"]
        ),
        st.integers(0, 10**12),
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=8), st.sampled_from(KNOWN), st.lists(PIECES, max_size=8))
def test_a_record_is_found_among_any_lines(above: list[bytes], known: tuple[str, Identity], below: list[bytes]) -> None:
    before = b"".join(line + b"\n" for line in above)
    data = before + known[0].encode() + b"\n".join(below)
    found = []
    for m in re.finditer(launchers.ROW.encode(), data):
        one = launchers.read_row(
            data[max(0, m.start() - launchers.BEFORE) : m.start()], data[m.start() : m.start() + launchers.AFTER],
            path="out.log", offset=m.start(), line=data.count(b"\n", 0, m.start()) + 1, reference=0.0,
        )  # fmt: skip
        if one is not None:
            found.append(one)
            assert one.evidence[0].text.split("\n")[0][:4] in data[m.start() :].decode("utf-8", "replace")
    rows = [o for o in found if len(before) <= o.evidence[0].offset < len(before) + len(known[0].encode())]
    assert known[1] in [o.identity for o in rows]


@pytest.mark.parametrize(
    ("signal", "name"), [("9 (core dumped)", "sigkill-unknown-sender"), ("11", "rank-segfault"), ("6", "rank-sigabrt")]
)
def test_jsrun_names_the_rank_that_it_noticed_first(tmp_path: Path, signal: str, name: str) -> None:
    told = f"ERROR:  One or more process (first noticed rank 7) terminated with signal {signal}\n"
    (tmp_path / "out.log").write_text(STEPS + told)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == (name, (7,))


def test_jsruns_words_of_a_stop_or_of_a_status_name_no_signal() -> None:
    for end in ("terminated with signal 15", "terminated with a status of 1"):
        assert row(f"ERROR:  One or more process (first noticed rank 7) {end}\n") is None


RULE = "=" * 83 + "\n"
BAD = f"\n{RULE}=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"


def hydra(rank: int, node: str, end: str) -> str:
    return f"{BAD}=   RANK {rank} PID {1230 + rank} RUNNING AT {node}\n=   {end}\n{RULE}"


KILLED, ASKED = "KILLED BY SIGNAL: 9 (Killed)", "KILLED BY SIGNAL: 15 (Terminated)"


@pytest.mark.parametrize(
    ("blocks", "ranks", "node"),
    [
        ([(5, "node-2", KILLED), (4, "node-2", ASKED)], (5,), "node-2"),
        ([(4, "node-1", ASKED), (5, "node-2", KILLED)], (5,), "node-2"),
        ([(5, "node-2", KILLED), (4, "node-1", KILLED)], None, None),
        ([(5, "node-2", "EXIT STATUS: 1"), (4, "node-1", KILLED)], None, None),
    ],
)
def test_the_one_that_hydra_did_not_end_itself(
    tmp_path: Path, blocks: list[tuple[int, str, str]], ranks: tuple[int, ...] | None, node: str | None
) -> None:
    (tmp_path / "out.log").write_text(STEPS + "".join(hydra(*block) for block in blocks))
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks, root.node) == ("sigkill-unknown-sender", ranks, node)


@pytest.mark.parametrize("who", ["PID 1234", "RANK 5 PID 1234"])
@pytest.mark.parametrize(
    ("code", "end", "name"),
    [("9", "Killed (signal 9)", "sigkill-unknown-sender"), ("139", "Segmentation fault (signal 11)", "rank-segfault")],
)
def test_mpichs_block_names_the_host_and_its_last_words_the_signal(
    tmp_path: Path, who: str, code: str, end: str, name: str
) -> None:
    told = (
        f"{BAD}=   {who} RUNNING AT node-2\n=   EXIT CODE: {code}\n=   CLEANING UP REMAINING PROCESSES\n"
        f"=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES\n{RULE}"
        f"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {end}\n"
    )
    (tmp_path / "out.log").write_text(STEPS + told)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.node, root.ranks) == (name, "node-2", (5,) if "RANK" in who else None)
