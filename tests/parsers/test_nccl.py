"""NCCL's lines, warnings, failed transfers and status service."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.collectives.nccl import from_status_service, told
from forensics.model import Evidence, Identity, Kind, Observation, Source
from forensics.parsers.nccl import ras
from forensics.parsers.nccl.completions import completion
from forensics.parsers.nccl.facts import environment
from forensics.parsers.nccl.lines import init, parse
from forensics.parsers.nccl.warnings import meaning

DATA = Path(__file__).parents[1] / "data"


# Lines


@pytest.mark.parametrize(
    ("text", "host", "pid", "device", "file", "message"),
    [
        ("h:1:2 [3] NCCL INFO Using network IB", "h", 1, 3, None, "Using network IB"),
        ("h:1:2 NCCL CALL ncclAllReduce(7f,1)", "h", 1, None, None, "ncclAllReduce(7f,1)"),
        ("h:1:2 [0] init.cc:904 NCCL WARN Duplicate GPU", "h", 1, 0, "init.cc", "Duplicate GPU"),
        ("[2026-11-28 03:02:35] h-1:7:8 [0] a/b.cc:9 NCCL WARN x y", "h-1", 7, 0, "a/b.cc", "x y"),
        ("h:1:2 [0] a/b.cc:9 (ncclInit) NCCL WARN z", "h", 1, 0, "a/b.cc", "z"),
        ("h:1:2 [-1] ofi_process_cq:196 NCCL WARN NET/OFI q", "h", 1, -1, "ofi_process_cq", "NET/OFI q"),
        ("[default3]:h:1:2 [3] NCCL INFO cudaDriverVersion 13000", "h", 1, 3, None, "cudaDriverVersion 13000"),
    ],
)
def test_lines_of_all_versions(
    text: str, host: str, pid: int, device: int | None, file: str | None, message: str
) -> None:
    line = parse(text)
    assert line is not None
    assert (line.host, line.pid, line.device, line.file, line.message) == (host, pid, device, file, message)


@pytest.mark.parametrize("text", ["", "NCCL version 2.28.9+cuda13.0", "see NCCL INFO lines", "h:x:2 [0] NCCL INFO a"])
def test_other_lines(text: str) -> None:
    assert parse(text) is None


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    parse(f"{text} NCCL INFO {text}")
    init(text)
    completion(f"Got completion {text}")
    meaning(text)
    ras.read(text.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("message", "rank", "size", "id", "complete"),
    [
        ("comm 0x55 rank 3 nranks 8 cudaDev 3 busId 57000 - Init COMPLETE", 3, 8, None, True),
        ("comm 0x7f5e0c rank 11 nranks 16 cudaDev 3 nvmlDev 3 - Init COMPLETE", 11, 16, None, True),  # 2.4
        ("ncclCommInitRank comm 0x5e rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 57000 commId 0xad - Init START",
         0, 2, "0xad", False),
        ("ncclCommSplit comm 0x5e rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 57000 parent 0x4 color 7 key 1- Init START",
         1, 2, None, False),
        ("ncclCommSplit comm 0x5e rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 6 parent 0x4 splitCount 2 color 7 key 1"
         "- Init START", 1, 2, None, False),
        ("[Rank 5] ncclCommInitRankConfig comm 0x5e rank 5 nranks 8 cudaDev 0 nvmlDev 0 busId 60 commId 0xc2 - Init START",
         5, 8, "0xc2", False),
    ],
)  # fmt: skip
def test_births_of_communicators(message: str, rank: int, size: int, id: str | None, complete: bool) -> None:
    birth = init(message)
    assert birth is not None
    assert (birth.rank, birth.size, birth.id, birth.complete) == (rank, size, id, complete)


def test_children_of_one_parent_are_told_apart() -> None:
    text = "ncclCommSplit comm 0x5e rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 6 parent 0x4 splitCount {} color {} key 1- Init START"
    births = {birth.split for n, c in ((1, 0), (1, 1), (2, 0)) if (birth := init(text.format(n, c))) is not None}
    assert len(births) == 3


# Warnings


def filled(template: str) -> str:
    """A message as the template prints it."""
    text = template.replace("\\n", " ").replace('\\"', '"').replace("%p", "0x7f00")
    text = re.sub(r"%-?[\d.*]*(?:ll|l|z|h)?[diu]", "7", text)
    return re.sub(r"%-?[\d.*]*(?:ll|l)?x", "7f", re.sub(r"%[.\d*]*[smc]", "xyz", text))


def test_every_warning_of_nccl_has_a_meaning() -> None:
    rows = [row.split("\t") for row in (DATA / "nccl" / "warnings.tsv").read_text("utf-8").splitlines()]
    assert len(rows) > 900
    without = [(file, text) for files, text in rows for file in files.split(";") if meaning(filled(text), file) is None]
    assert without == []


def test_most_warnings_are_known_by_their_text_alone() -> None:
    rows = [row.split("\t") for row in (DATA / "nccl" / "warnings.tsv").read_text("utf-8").splitlines()]
    assert sum(meaning(filled(text)) is None for _, text in rows) < len(rows) // 20


@pytest.mark.parametrize(
    ("message", "area"),
    [
        ("Cuda failure 'out of memory'", "gpu"),
        ("socketProgress: Connection closed by remote peer node-2<44189>", "peer"),
        ("NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4.", "network"),
        ("P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case", "hardware"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)", "memory"),
        ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'x'.", "hardware"),
        ("AllReduce : invalid root 9 (root should be in the 0..8 range)", "usage"),
        ("Mismatched NCCL version detected : rank 0 version 22703 rank 1 version 22809", "set-up"),
        ("NET/IB : mlx5_2:1 Got async event : port error", "network"),
    ],
)
def test_meanings(message: str, area: str) -> None:
    found = meaning(message)
    assert found is not None and found.area == area


def test_what_nobody_printed_has_no_meaning() -> None:
    assert meaning("hello") is None
    assert meaning("hello", "train.py") is None


def seen(signature: str, text: str, line: int = 1) -> Observation:
    return Observation(signature=signature, weight=0.5, evidence=(Evidence("a.log", line, 0, text),))


def test_a_warning_that_a_signature_knows_is_told_once() -> None:
    text = "h:1:2 [0] graph/xml.cc:9 NCCL WARN XML Mismatch : cpu / gpu"
    (alone,) = told([seen("nccl-warning", text)])
    assert "how the GPUs, adapters and processors" in (alone.note or "")
    both = told([seen("nccl-warning", text), seen("nccl-system-error", text)])
    assert [o.signature for o in both] == ["nccl-system-error"]
    assert len(told([seen("nccl-warning", text), seen("nccl-system-error", text, line=2)])) == 2


# Failed transfers


@pytest.mark.parametrize(
    ("message", "status", "peer", "vendor", "hca", "remote"),
    [
        ("NET/IB : Got completion from peer 10.0.1.9<51022> with error 12, opcode 0, len 0, vendor err 129",
         12, "10.0.1.9", 129, None, None),
        ("NET/IB : Got completion from peer 10.0.1.9<5> with status=12 opcode=129 len=65536 vendor err 129 (Recv)"
         " localGid ::ffff:10.9.0.2 remoteGids::ffff:10.9.0.1 hca mlx5_3", 12, "10.0.1.9", 129, "mlx5_3",
         "::ffff:10.9.0.1"),
        ("NET/IB: Got completion from peer 10.0.1.9<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)"
         " reqSize=4 vendor_err=129 req_type=Send hca mlx5_0", 12, "10.0.1.9", 129, "mlx5_0", None),
        ("NET/IB: Got completion from peer 10.0.1.9<5> with status=transport retry counter exceeded(12)"
         " opcode=SEND(0) vendor_err=129 (Send) hca mlx5_0", 12, "10.0.1.9", 129, "mlx5_0", None),
        ("NET/IB : Got completion with error 5, opcode 1, len 32610, vendor err 249", 5, None, 249, None, None),
    ],
)  # fmt: skip
def test_failed_transfers(
    message: str, status: int, peer: str | None, vendor: int, hca: str | None, remote: str | None
) -> None:
    found = completion(message)
    assert found is not None
    assert (found.status, found.peer, found.vendor, found.adapter, found.remote_gid) == (
        status, peer, vendor, hca, remote,
    )  # fmt: skip
    assert f"Status {status}" in found.text
    for end in (peer, hca):
        assert end is None or end in found.text


def test_the_link_of_a_failed_transfer_is_told() -> None:
    text = (
        "h:1:2 [4] net_ib.cc:8 NCCL WARN NET/IB : Got completion from peer 10.0.1.9<5> with status=12 opcode=129 "
        "len=65536 vendor err 129 (Recv) localGid ::ffff:10.9.0.2 remoteGids::ffff:10.9.0.1 hca mlx5_3"
    )
    (found,) = told([seen("nccl-network-timeout", text)])
    assert found.captures["peer"] == "10.0.1.9"
    assert found.captures["hca"] == "mlx5_3"
    assert found.captures["vendor_err"] == "129"
    assert "in a recv" in (found.note or "") and "from mlx5_3 to 10.0.1.9 (::ffff:10.9.0.1)" in (found.note or "")


EFA = (
    "{host}:303:503 [3] ofi_process_cq:1455 NCCL WARN NET/OFI Request 0x7f2d0 completed with error. RC: 113. Error: 4126 "
    "({what} My EFA addr: fi_addr_efa://[fe80::1]:3:99 My host id: {own} Peer EFA addr: fi_addr_efa://[fe80::2]:4:88 "
    "Peer host id: {peer}). Completed length: 0, Request: {{ dev: 0, size: 0 }}"
)
HANDSHAKE = "Unresponsive receiver (reachable by EFA device but handshake failed)"


def over_efa(host: str, own: str, peer: str, what: str = HANDSHAKE) -> Observation:
    o = seen("nccl-network-timeout", EFA.format(host=host, own=own, peer=peer, what=what))
    return replace(o, identity=Identity(node=host))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (HANDSHAKE, "its process never answered"),
        ("Unresponsive receiver (connection previously established)", "answered before"),
        ("Unresponsive remote (was previously responsive)", "answered before"),
        ("Unreachable remote (never received a response)", "never answered"),
        ("Unknown error", "The transfer was to instance i-0bbb (fi_addr_efa://[fe80::2]:4:88)."),
    ],
)
def test_a_failed_transfer_over_efa_names_its_far_end(what: str, says: str) -> None:
    (found,) = told([over_efa("node-0", "i-0aaa", "i-0bbb", what)])
    assert found.captures["peer"] == "i-0bbb"
    assert says in (found.note or "") and "instance i-0bbb" in (found.note or "")


def test_an_instance_is_the_host_whose_lines_call_it_their_own() -> None:
    lines = [over_efa("node-0", "i-0aaa", "i-0bbb"), over_efa("node-1", "i-0bbb", "i-0aaa")]
    assert [o.note.rpartition(" That is ")[2] for o in told(lines) if o.note] == ["node-1.", "node-0."]
    assert "That is" not in (told(lines[:1])[0].note or "")


def test_an_instance_that_the_provider_does_not_know_is_named_by_its_address() -> None:
    (found,) = told([over_efa("node-0", "N/A", "N/A")])
    assert found.captures["peer"] == "fi_addr_efa://[fe80::2]:4:88"
    plain = seen("nccl-network-timeout", "h:1:2 [4] NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113.")
    assert "peer" not in told([plain])[0].captures


def environment_line(host: str, **captures: str) -> Observation:
    text = f"{host}:1:1 [0] NCCL INFO {' '.join(captures.values())}"
    return Observation(
        signature="nccl-environment", weight=1, evidence=(Evidence(f"{host}.log", 3, 0, text),), captures=captures
    )


def born(host: str, rank: int, size: int) -> Observation:
    return seen(
        "nccl-init", f"{host}:1:1 [0] NCCL INFO comm 0x5 rank {rank} nranks {size} cudaDev 0 busId 6 - Init COMPLETE"
    )


def test_the_host_and_the_ranks_behind_an_address_are_named() -> None:
    text = "h:1:2 [4] net_ib.cc:8 NCCL WARN NET/IB : Got completion from peer 10.0.1.9<5> with status=12 opcode=1 len=4"
    lines = [
        environment_line("node-0", adapters="[0]mlx5_0:1/IB [RO]; OOB eth0:10.0.1.8<0>"),
        environment_line("node-1", bootstrap="eth0:10.0.1.9<0>"),
        *(born("node-1", rank, 8) for rank in (4, 5, 6, 7)),
        *(born("node-1", rank, 2) for rank in (0, 1)),
    ]
    assert "That is node-1 (ranks 4-7)." in (told([*lines, seen("nccl-network-timeout", text)])[-1].note or "")
    closed = replace(seen("nccl-peer-closed", "x"), captures={"peer": "10.0.1.8"})
    assert told([*lines, closed])[-1].note == "The peer is node-0."
    bridge = [environment_line(host, bootstrap="docker0:172.17.0.1<0>") for host in ("node-0", "node-1")]
    assert told([*bridge, replace(closed, captures={"peer": "172.17.0.1"})])[-1].note is None


@pytest.mark.parametrize("name", ["nccl-connect-failed", "nccl-env-mismatch"])
def test_the_peer_of_a_failed_connection_is_named_by_its_address(name: str) -> None:
    lines = [environment_line("node-1", bootstrap="eth0:10.0.1.9<0>"), *(born("node-1", rank, 8) for rank in (4, 5))]
    failed = replace(seen(name, "x"), captures={"peer": "::ffff:10.0.1.9"})
    assert told([*lines, failed])[-1].note == "The peer is node-1 (ranks 4-5)."


def test_some_on_sockets_and_others_not() -> None:
    mixed = [environment_line("node-0", network="IB"), environment_line("node-1", network="Socket")]
    (found,) = [o for o in told(mixed) if o.signature == "nccl-socket-network"]
    assert "node-1.log" in (found.note or "") and "others of this run IB" in (found.note or "")
    alike = [environment_line("node-0", network="Socket"), environment_line("node-1", network="Socket")]
    assert all(o.signature != "nccl-socket-network" for o in told(alike))


# Facts


@pytest.mark.parametrize(
    ("told", "adapters"),
    [
        ("[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB bond0:10.3.0.21<0>", "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE"),
        ("[0]mlx5_0:1/IB ; OOB ib0:10.3.0.21<0>", "[0]mlx5_0:1/IB"),  # NCCL up to 2.11 has no [RO]
        ("[0]mlx5_0:1/IB [RO]", "[0]mlx5_0:1/IB"),
        ("[0]mlx5_0:1/IB [1]mlx5_1:1/IB", "[0]mlx5_0:1/IB [1]mlx5_1:1/IB"),
    ],
)
def test_adapters_are_told_without_what_follows_them(told: str, adapters: str) -> None:
    (fact,) = environment([environment_line("node-0", adapters=told)])
    assert (fact.name, fact.value) == ("nccl.adapters", adapters)


def test_facts() -> None:
    stated = [
        ({"nccl_version": "2.28.9+cuda13.0"}, "a.log"),
        ({"driver_version": "12040"}, "a.log"),
        ({"network": "Socket"}, "a.log"),
        ({"network": "Socket"}, "b.log"),
        ({"network": "Socket"}, "a.log"),
        ({"variable": "NCCL_IB_HCA", "value": "mlx5"}, "a.log"),
    ]
    observations = [
        Observation(signature="nccl-environment", weight=1, evidence=(Evidence(f, 3, 0, ""),), captures=c)
        for c, f in stated
    ]
    assert [(f.name, f.value, f.source) for f in environment(observations)] == [
        ("nccl.version", "2.28.9+cuda13.0", "a.log"),
        ("cuda.driver", "12.4", "a.log"),
        ("nccl.network", "Socket", "a.log"),
        ("nccl.network", "Socket", "b.log"),
        ("nccl.env.NCCL_IB_HCA", "mlx5", "a.log"),
    ]


# Status service

HEAD = """NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  INCOMPLETE
    1         4         1         2         2         8   RUNNING      OK

Errors
======

"""
DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4242 on node 192.0.2.9 managing GPU 3

#0-0 (c2ff9a187cb1da8c) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 1 managed by process 4242 on node 192.0.2.9

"""
MISMATCH = """Warnings
========

#{}-0 (c2ff9a187cb1da8c) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 6650
  Rank 2 has launched up to operation 6649 -- GPU 2 managed by process 17 on node 192.0.2.8
"""
LISTED = """Warnings
========

#0-0 (c2ff9a187cb1da8c) MISMATCH
  Communicator ranks have different collective operation counts
  6 ranks have launched up to operation 6650
  2 ranks have not launched any operations
  Rank 0 -- GPU 0 managed by process 11 on node 192.0.2.8
  Rank 3 -- GPU 3 managed by process 14 on node 192.0.2.8
"""


def test_dead_processes_and_missing_ranks() -> None:
    answer = ras.read((HEAD + DEAD).encode())
    assert answer.version == "2.28.9"
    assert answer.dead == (ras.Peer(5, 4242, "192.0.2.9"),)  # listed twice, as a process and as a rank
    assert answer.missing == ()


SILENT = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 4242 on node 192.0.2.9 managing GPU 3

#0-0 (c2ff9a187cb1da8c) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 5

"""


def test_the_host_of_a_missing_rank_is_that_of_its_process() -> None:
    assert ras.read((HEAD + SILENT).encode()).missing == (ras.Peer(5, 4242, "192.0.2.9"),)
    process = "  Process 4242 on node 192.0.2.9 managing GPU 3\n"
    many = SILENT.replace(process, process + process.replace("4242", "4243")).replace(
        "  The", "  Rank 4 -- GPU 2\n  The"
    )
    two = ras.read((HEAD + many).encode()).missing
    assert [(p.rank, p.pid, p.node) for p in two if p.rank is not None] == [
        (4, None, "192.0.2.9"),
        (5, None, "192.0.2.9"),
    ]
    apart = ras.read((HEAD + many.replace("4243 on node 192.0.2.9", "4243 on node 192.0.2.8")).encode()).missing
    assert all(p.node is None for p in apart if p.rank is not None)


def test_the_summary_leaves_out_a_process_that_is_gone() -> None:
    head = (
        "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n      4        7-8            1         31       31\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        "    0         1         4       7-8        32        31   RUNNING  INCOMPLETE\n\nErrors\n======\n\n"
        "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\n"
    )
    assert [(peer.rank, peer.whole_job) for peer in ras.read(head.encode()).missing] == [(21, True)]
    part = head.replace(
        "         1         4       7-8        32        31", "         8         1         4         4        31"
    )
    assert [peer.whole_job for peer in ras.read(part.encode()).missing] == [False]


def test_ranks_that_are_behind() -> None:
    (late,) = ras.read((HEAD + MISMATCH.format(0)).encode()).behind
    assert (late.rank, late.op, late.count, late.others, late.whole_job) == (2, "AllReduce", 6649, 6650, True)
    assert [(b.rank, b.op, b.count) for b in ras.read((HEAD + LISTED).encode()).behind] == [(0, None, 0), (3, None, 0)]
    (other,) = ras.read((HEAD + MISMATCH.format(1)).encode()).behind
    assert not other.whole_job  # one of several small communicators: its ranks are not the job's


def comm(size: int, counts: dict[int, int], missing: tuple[int, ...] = ()) -> dict[str, object]:
    ranks = [
        {"rank": r, "status": {"async_error": 0}, "collective_counts": {"AllReduce": n}} for r, n in counts.items()
    ]
    gone = [{"rank": r, "host": "192.0.2.9", "pid": 7, "status": {"considered_dead": True}} for r in missing]
    return {"hash": "0x1", "size": size, "ranks": ranks, "missing_ranks": gone}


def test_json_answers() -> None:
    counts = {0: 90, 1: 90, 2: 88, 3: 90}
    answer = ras.read(json.dumps({"nccl_version": "2.28.9", "communicators": [comm(5, counts, (4,))]}).encode())
    assert [(p.rank, p.pid, p.node) for p in answer.dead] == [(4, 7, "192.0.2.9")]
    assert [(b.rank, b.count, b.others) for b in answer.behind] == [(2, 88, 90)]
    half = ras.read(json.dumps({"communicators": [comm(4, {0: 1, 1: 1, 2: 2, 3: 2})]}).encode())
    assert half.behind == ()  # no majority


def test_real_answers_of_a_healthy_job_say_nothing() -> None:
    folder = DATA / "gpu" / "fr-on-request" / "ras"
    for name in ("ras.txt", "ras.json"):
        answer = ras.read((folder / name).read_bytes())
        assert answer == ras.Answer(version="2.28.9")


@pytest.mark.parametrize(
    "data", [b"{", b"{}", b"[]", b'{"communicators": 3}', b'{"communicators": [{"ranks": [1, {}]}]}']
)
def test_damaged_answers(data: bytes) -> None:
    answer = ras.read(data)
    assert (answer.dead, answer.behind) == ((), ())


def test_answers_become_observations(tmp_path: Path) -> None:
    file = tmp_path / "ras.txt"
    file.write_text(HEAD + DEAD + MISMATCH.format(0))
    source = Source("ras.txt", file, Kind.LOG, file.stat().st_size)
    found = from_status_service([source], ["ras.txt"])
    assert [(o.signature, o.culprits) for o in found] == [
        ("nccl-rank-unreachable", (5,)),
        ("straggler-rank", (2,)),
    ]
    assert found[0].identity == Identity(rank=5, pid=4242, node="192.0.2.9")
    assert from_status_service([source], []) == []
    # Who came to the end was behind for no longer than a moment.
    assert all(o.signature != "straggler-rank" for o in from_status_service([source], ["ras.txt"], ended=True))


def test_communicators_that_are_parts_of_the_job_have_no_global_ranks() -> None:
    parts = [comm(4, {0: 9, 1: 9, 2: 8, 3: 9}), comm(4, {0: 9, 1: 9, 2: 9, 3: 9})]
    for n, part in enumerate(parts):
        for r in part["ranks"]:  # type: ignore[attr-defined]
            r["pid"] = 100 * n + r["rank"]
    (late,) = ras.read(json.dumps({"communicators": parts}).encode()).behind
    assert not late.whole_job
    summary = (
        "(total)   per node  per process    (total)  (total)\n      2          8            1         16       16\n"
    )
    (late,) = ras.read((summary + HEAD + MISMATCH.format(0)).encode()).behind
    assert not late.whole_job


def ras_rank(rank: int, pid: int, count: int, async_error: int = 0) -> dict[str, object]:
    return {
        "rank": rank, "host": "gpu-0", "pid": pid, "cuda_dev": pid % 10, "status": {"async_error": async_error},
        "collective_counts": {"AllReduce": count},
    }  # fmt: skip


def answered(tmp_path: Path, *comms: list[dict[str, object]]) -> list[Observation]:
    file = tmp_path / "ras.json"
    file.write_text(json.dumps({"communicators": [{"hash": "0x1", "size": len(c), "ranks": c} for c in comms]}))
    return from_status_service([Source("ras.json", file, Kind.LOG, file.stat().st_size)], ["ras.json"])


def test_a_rank_that_is_behind_in_a_part_of_the_job_has_the_rank_of_its_process(tmp_path: Path) -> None:
    job = [ras_rank(r, 4000 + r, 3) for r in range(8)]
    half = [ras_rank(r, 4004 + r, 699 if r == 1 else 700) for r in range(4)]
    (late,) = answered(tmp_path, job, half)
    assert (late.signature, late.culprits, late.identity) == (
        "straggler-rank", (5,), Identity(rank=5, pid=4005, node="gpu-0"),
    )  # fmt: skip
    # Two communicators of one size, and none of all ranks: the process is known, and its rank is not.
    (late,) = answered(tmp_path, [ras_rank(r, 4000 + r, 700) for r in range(4)], half)
    assert (late.culprits, late.identity) == (None, Identity(pid=4005, node="gpu-0"))
    # One process that drives several devices of the same number says nothing of a rank.
    same = [{**ras_rank(r, 4000, 3), "cuda_dev": 0} for r in range(8)]
    (late,) = answered(tmp_path, same, [{**ras_rank(r, 4000, 700 - (r == 1)), "cuda_dev": 0} for r in range(4)])
    assert late.culprits is None


def test_asynchronous_errors_are_told_with_rank_and_host(tmp_path: Path) -> None:
    job = [ras_rank(r, 4000 + r, 3, {2: 6, 3: 7, 5: 2}.get(r, 0)) for r in range(8)]
    lost, failed = answered(tmp_path, job)
    assert (lost.signature, lost.culprits, lost.identity) == (
        "nccl-remote-error", (), Identity(rank=2, pid=4002, node="gpu-0"),
    )  # fmt: skip
    assert (
        lost.note
        == "NCCL's status service: rank 2 (process 4002 on gpu-0) reports asynchronous error 6 (ncclRemoteError)."
    )
    assert (failed.signature, failed.culprits) == ("nccl-system-error", (5,))


def test_processes_of_a_text_answer() -> None:
    (late,) = ras.read((HEAD + MISMATCH.format(1)).encode()).behind
    assert (late.pid, late.node, late.whole_job) == (17, "192.0.2.8", False)
    assert [(b.pid, b.node) for b in ras.read((HEAD + LISTED).encode()).behind] == [
        (11, "192.0.2.8"),
        (14, "192.0.2.8"),
    ]
