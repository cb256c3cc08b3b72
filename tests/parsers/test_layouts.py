"""What names of files, prefixes and tables say about the process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Identity, Kind, Source
from forensics.parsers.launchers import worker_of
from forensics.parsers.prefixes import clean, from_ray, from_syslog
from forensics.parsers.tracebacks import read_traceback
from forensics.path_identity import hosts_before_ranks, identity_of, local_names, number_tasks


@pytest.mark.parametrize(
    ("path", "identity"),
    [
        ("pods/ml_train-worker-2_0c1d/pytorch/0.log", Identity(node="train-worker-2")),
        (f"containers/train-worker-2_ml_pytorch-{'0a' * 32}.log", Identity(node="train-worker-2")),
        (f"logs/worker-{'ab' * 14}-01000000-3101.err", Identity(pid=3101, stream="stderr")),
        ("dmesg-node-1.txt", Identity(node="node-1")),
        ("fr_gpu-node2_rank5.json", Identity(node="gpu-node2", rank=5)),
        ("dumps/gpu-a-node-12_rank_5", Identity(node="gpu-a-node-12", rank=5)),
        ("run-node2_rank5.log", Identity(node="node2", rank=5)),
        ("traces/nccl_trace_rank_container-node03_13", Identity(node="container-node03", rank=13)),
        ("comm_lib_trace_rank_alder_2.pkl", Identity(node="alder", rank=2)),
        ("nccl_trace_rank_3", Identity(rank=3)),
        ("nccl_trace_rank_3_1", Identity(rank=3)),
        ("metrics_rank_loss_3.csv", Identity()),
        ("fr_train-node2.log", Identity(node="node2")),
        ("exp_node2_lr1e-4/train.log", Identity()),
        ("dataloader_worker_3.log", Identity()),
    ],
)
def test_names(path: str, identity: Identity) -> None:
    assert identity_of(path) == identity


def sources(*paths: str) -> list[Source]:
    return local_names(number_tasks([Source(p, Path(p), Kind.LOG, 1, identity_of(p)) for p in paths]))


def test_one_number_on_two_hosts_is_a_local_rank() -> None:
    found = sources("node-0/rank0.log", "node-0/rank1.log", "node-1/rank0.log", "node-1/rank1.log")
    assert [(s.identity.rank, s.identity.local_rank) for s in found] == [(None, 0), (None, 1)] * 2
    apart = sources("node-0/rank0.log", "node-0/rank1.log", "node-1/rank2.log", "node-1/rank3.log")
    assert [s.identity.rank for s in apart] == [0, 1, 2, 3]


def test_a_rank_that_moved_to_another_host_stays_a_rank() -> None:
    found = sources("attempt_0/node-0/rank0.log", "attempt_1/node-1/rank0.log")
    assert [s.identity.rank for s in found] == [0, 0]


def test_numbers_of_workers_are_hosts_and_no_tasks() -> None:
    found = sources("job-worker-0.log", "job-worker-1.log", "job-master-0.log")
    assert [(s.identity.node, s.identity.task) for s in found] == [("worker-0", None), ("worker-1", None), (None, None)]


def test_streams_with_a_number_are_numbered() -> None:
    assert [s.identity.task for s in sources("stderr0.txt", "stderr1.txt", "layout3.txt")] == [0, 1, None]


def test_tasks_behind_the_number_of_a_job_and_a_dot_are_numbered() -> None:
    assert [s.identity.task for s in sources("slurm-123.0.out", "slurm-123.1.out")] == [0, 1]
    assert [s.identity.task for s in sources("4711.0.err", "4711.1.err", "4712.9.err")] == [0, 1, None]
    assert [s.identity.task for s in sources("model-v1.0.log", "model-v1.1.log")] == [None, None]
    assert [s.identity.task for s in sources("train-123.1.log", "train-123.2.log")] == [None, None]  # rotated


def test_hosts_before_ranks_behind_a_hyphen() -> None:
    names = ["n01-rank0.log", "n01-rank1.log", "n02-rank2.log", "n02-rank3.log"]
    found = hosts_before_ranks(sources(*names))
    assert [(s.identity.node, s.identity.rank) for s in found] == [("n01", 0), ("n01", 1), ("n02", 2), ("n02", 3)]
    assert [s.identity.node for s in hosts_before_ranks(sources("v1-rank0.log", "v1-rank1.log"))] == [None, None]


def test_hosts_of_system_logs() -> None:
    text = "Mar 14 10:11:00 node-1 kernel: [18001.2] NVRM: Xid (PCI:0000:52:00): 79, pid=51, name=python"
    line = clean(text)
    assert (line.identity.node, line.text[:10]) == ("node-1", "[18001.2] ")
    assert line.time is not None
    iso = "2026-03-14T10:11:00+0000 node-1 systemd[1]: user.slice: A process has been killed"
    assert clean(iso).identity.node == "node-1"
    assert from_syslog(text)
    assert from_syslog(iso)
    assert not from_syslog("Mar 14 10:11:00 starting training: now")


def test_ray_is_known_by_its_prefix() -> None:
    assert from_ray("(RayTrainWorker pid=3100, ip=10.0.0.1) hello")
    assert not from_ray("killed (pid=3100)")


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("2026-03-14 10:00:00 | ERROR | rank=3 | unhandled exception", 3),
        ('ts=2026-03-14T10:00:00Z level=error rank=5 msg="failed"', 5),
        ("waiting for rank=3 to join", None),
    ],
)
def test_fields_of_loggers(text: str, rank: int | None) -> None:
    assert clean(text).identity.rank == rank


def test_the_row_above_a_traceback_names_its_worker() -> None:
    above = "  rank      : 11 (local_rank: 3)\n  exitcode  : 1 (pid: 41)\n  error_file: <N/A>\n"
    assert worker_of(above) == Identity(rank=11, local_rank=3)
    assert worker_of("no row at all\n") == Identity()


def test_a_traceback_in_a_row_ends_at_its_exception() -> None:
    text = b"""  traceback : Traceback (most recent call last):
    File "train.py", line 10, in main
      raise ValueError("x")
  ValueError: x
"""
    found = read_traceback(text, path="a", offset=0, line=1)
    assert found is not None
    assert (found.exception, found.message, len(found.frames)) == ("ValueError", "x", 1)


def test_the_inside_of_an_attempt_of_torchrun_names_local_ranks():
    assert identity_of("3/stderr.log") == Identity(local_rank=3, stream="stderr")
    assert identity_of("3/error.json") == Identity(local_rank=3)
    assert identity_of("jobs/3/stderr.log").local_rank is None  # any folder of numbered folders
    assert identity_of("3/train.log").local_rank is None


def test_an_equals_sign_before_the_number_of_a_rank():
    assert identity_of("rank=3.log") == Identity(rank=3)
    assert identity_of("local_rank=1.log") == Identity(local_rank=1)
    assert identity_of("lorank=3.log").rank is None


PARTS = st.one_of(
    st.text(st.characters(blacklist_characters="/", blacklist_categories=("Cs",)), max_size=12),
    st.sampled_from(
        ["attempt_0", "rank", "node-1", "worker-2_ml_x", "0.log", ".err", "fr_", "job_9.out", "pods", "9" * 30]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(PARTS, min_size=1, max_size=3).map("".join), min_size=1, max_size=4).map("/".join))
def test_any_path_names_a_process_or_none(path: str) -> None:
    found = identity_of(path)
    for number in (found.rank, found.local_rank, found.attempt, found.task, found.pid):
        assert number is None or (0 <= number < 2**31 and str(number) in path)
    assert found.node is None or found.node in path


@given(st.integers(0, 4095), st.sampled_from(["logs/rank{}.log", "x/y/rank_{}.err", "out-rank-{}.txt"]))
def test_a_rank_in_a_name_is_found(rank: int, form: str) -> None:
    assert identity_of(form.format(rank)).rank == rank
