from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import Options, analyse
from forensics.model import Identity
from forensics.parsers.prefixes import VOTED, clean, segments, vote
from forensics.parsers.stamps import may_be_timed, parse_time

NOV27 = 1_795_824_000.0  # 2026-11-28T00:00:00Z


@pytest.mark.parametrize(
    ("line", "text", "identity"),
    [
        ("[rank3]: ValueError: x", "ValueError: x", Identity(rank=3)),
        ("[80748] [rank3]: ValueError: x", "ValueError: x", Identity(rank=3)),
        ("[default0]:loss 3.1", "loss 3.1", Identity(local_rank=0)),
        ("[default1]:[rank5]: boom", "boom", Identity(rank=5, local_rank=1)),
        ("[1,12]<stderr>:boom", "boom", Identity(rank=12, stream="stderr")),
        ("[1,7][node-1:4242]<stdout>: x", "x", Identity(rank=7, node="node-1", pid=4242, stream="stdout")),
        ("(RayTrainWorker pid=77, ip=10.0.0.5) hello", "hello", Identity(pid=77, node="10.0.0.5")),
        ("[pod/trainer-1/main] hello", "hello", Identity(node="trainer-1")),
        ("2026-06-01T10:00:00.123456789Z stderr F hello", "hello", Identity(stream="stderr")),
        ("[node-7:2]:oops", "oops", Identity(node="node-7", local_rank=2)),
        ("[rank: 0] Seed set to 1", "Seed set to 1", Identity(rank=0)),
        (
            "[rank3]:[E1127 20:49:24.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught",
            "[Rank 3] Watchdog caught",
            Identity(rank=3),
        ),
        ("[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught", "[Rank 7] Watchdog caught", Identity(rank=7)),
        (
            "node-1:10:11 [3] init.cc:9 NCCL WARN Duplicate GPU",
            "init.cc:9 NCCL WARN Duplicate GPU",
            Identity(node="node-1", pid=10, device=3),
        ),
        ("\x1b[31m[rank1]:\x1b[0m red", "red", Identity(rank=1)),
        ('{"ts": 1795817305.8, "rank": 2, "loss": 1}', '{"ts": 1795817305.8, "rank": 2, "loss": 1}', Identity(rank=2)),
        ("nothing special: 3", "nothing special: 3", Identity()),
    ],
)
def test_prefixes_are_taken_off(line: str, text: str, identity: Identity) -> None:
    got = clean(line, reference=NOV27)
    assert (got.text, got.identity) == (text, identity)


def test_ambiguous_prefixes_need_the_files_vote() -> None:
    lines = [f"{task}: line {i}" for i in range(5) for task in (0, 1, 2, 3)]
    assert vote(lines) == {"srun"}
    assert clean("3: boom", vote(lines)).identity.task == 3
    assert clean("3: boom").identity.task is None
    assert vote([f"node-{i % 2}: line {i}" for i in range(20)]) == {"pdsh"}
    assert vote([f"worker-{i % 2}  | line {i}" for i in range(20)]) == {"compose"}


@pytest.mark.parametrize("word", ["stderr", "ERROR", "Traceback", "Epoch", "loss"])
def test_words_that_open_messages_are_no_hosts(word: str) -> None:
    assert vote([f"{word}: {i}" for i in range(40)]) == frozenset()


def test_values_that_never_repeat_are_no_prefix() -> None:
    assert vote([f"{i}: {i}" for i in range(100)]) == frozenset()


@pytest.mark.parametrize(
    ("line", "time", "known"),
    [
        ("2026-11-27 21:48:20,512 INFO x", 1795816100.512, False),
        ("2026-11-27T21:48:20.5Z x", 1795816100.5, True),
        ("2026-11-27T22:48:20+01:00 x", 1795816100.0, True),
        ("[E1127 21:48:20.123456789 File.cpp:1] x", 1795816100.123456789, False),
        ("[E810 03:04:11.063313477 File.cpp:1] x", 1786331051.063313477, False),
        ("W1127 21:48:20.529000 1359 torch/x.py:7] x", 1795816100.529, False),
        ("[Fri Nov 27 21:48:20 2026] NVRM: Xid", 1795816100.0, False),
        ("Nov 27 21:48:20 node-0 kernel: x", 1795816100.0, False),
        ("11/27 21:48:20 - mmengine - INFO", 1795816100.0, False),
        ("no time at all 12:00", None, False),
    ],
)
def test_times(line: str, time: float | None, known: bool) -> None:
    assert parse_time(line, NOV27) == (time, known)


def test_a_date_without_a_year_is_not_put_after_the_files_last_change() -> None:
    time, _ = parse_time("Dec 31 10:00:00 node-0 kernel: x", NOV27)
    assert time is not None
    assert time < NOV27


def test_a_line_into_which_several_ranks_wrote_is_cut() -> None:
    glued = " 10%|#  | 1/10 [00:01<00:09][rank3]: boom[default1]:[rank5]: bang"
    assert segments(glued) == [" 10%|#  | 1/10 [00:01<00:09]", "[rank3]: boom", "[default1]:[rank5]: bang"]
    assert segments("[default1]:[rank5]: x[0]: y") == ["[default1]:[rank5]: x[0]: y"]


@given(st.text())
def test_clean_never_raises_and_adds_nothing(line: str) -> None:
    got = clean(line, frozenset(VOTED), NOV27)
    assert len(got.text) <= len(line)


@pytest.mark.parametrize("host", ["node-1", "ip-10-1-2-3", "10.0.0.5"])
def test_a_host_prefix_is_taken_once(host: str) -> None:
    voted = vote([f"{host[:-1]}{i % 2}: line {i}" for i in range(20)])
    assert voted == {"pdsh"}
    got = clean(f"{host}: KeyError: 'z'", voted, NOV27)
    assert (got.text, got.identity.node) == ("KeyError: 'z'", host)


def test_a_traceback_behind_a_host_is_read(tmp_path: Path) -> None:
    steps = "".join(f"node-{i % 2}: step {i} loss 2.{i}\n" for i in range(20))
    raised = "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in step\n    x[key]\nKeyError: 'z'\n"
    log = tmp_path / "run.log"
    log.write_text(steps + "".join(f"node-1: {line}\n" for line in raised.splitlines()))
    root = analyse([str(log)], Options(threads=1)).findings[0]
    assert (root.name, root.node) == ("python-exception", "node-1") and "/w/train.py:9" in root.notes[0]


@pytest.mark.parametrize(
    ("numbers", "voted"),
    [
        ({"gpu00": (0, 1), "gpu01": (0, 1)}, {"host_local"}),
        ({"gpu00": (0, 1), "gpu01": (2, 3)}, {"host_rank"}),
        ({"gpu01": (4, 5)}, {"host_local"}),
        ({"gpu00": (0, 1), "gpu01": (8, 9)}, {"host_local"}),  # which may be all that print
        ({"epoch0": (0, 1), "epoch1": (0, 1)}, set()),
        ({"cuda": (0, 1)}, set()),
    ],
)
def test_a_host_and_a_number_in_brackets(numbers: dict[str, tuple[int, ...]], voted: set[str]) -> None:
    lines = [f"[{host}:{n}] step {m} loss 2.1" for m in range(4) for host, own in numbers.items() for n in own]
    assert vote(lines) == voted
    if voted == {"host_rank"}:
        assert clean(lines[-1], vote(lines)).identity == Identity(node="gpu01", rank=3)


def test_numbers_on_two_hosts_are_no_size_of_the_world(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [
        f"[gpu0{n}:{k}] INFO step {m} loss {2 - m / 99:.3f}" for m in range(20) for n in range(2) for k in range(4)
    ]
    raised = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 9, in step',
        "    f(x)",
        "KeyError: 'z'",
    ]
    log.write_text("\n".join([*lines, *(f"[gpu01:2] {line}" for line in raised)]) + "\n")
    found = analyse([str(log)], Options(threads=1))
    root = found.findings[0]
    assert (root.ranks, root.local_ranks, root.node) == (None, (2,), "gpu01")
    assert (found.run.nodes, found.run.world_size) == (2, None)


@pytest.mark.parametrize(
    ("label", "identity"),
    [("r6 | ", Identity(rank=6)), ("rank6   | ", Identity(rank=6)), ("db6 | ", Identity(node="db6"))],
)
def test_labels_of_ranks_before_a_bar(label: str, identity: Identity) -> None:
    lines = [f"{label.replace('6', str(n % 8))}step {n} loss 2.1" for n in range(80)]
    assert clean(f"{label}KeyError: 'x'", vote(lines)).identity == identity


def test_a_service_of_swarm_names_its_node() -> None:
    lines = [f"ml_train.{i % 2}.x7k2l{i % 2}@node{i % 2}    | [RANK {i % 2}] step={i} loss=3.1" for i in range(20)]
    got = clean(lines[1], vote(lines), NOV27)
    assert (got.text, got.identity) == ("[RANK 1] step=1 loss=3.1", Identity(node="node1", rank=1))


def test_stern_names_pod_and_container() -> None:
    lines = [f"sft-worker-{i % 2} pytorch step {i} loss 2.{i}" for i in range(20)]
    assert vote(["+ sft-worker-0 › pytorch", "+ sft-worker-1 › pytorch", *lines]) == {"stern"}
    got = clean("train-7d9fb6c5f4-x2x5k pytorch KeyError: 'z'", vote(lines), NOV27)
    assert (got.text, got.identity) == ("KeyError: 'z'", Identity(node="train-7d9fb6c5f4-x2x5k"))


@pytest.mark.parametrize("line", ["worker-{n} step {i} loss 2.{i}", "worker-{n} w{i} took 3 s", "worker {n} reads {i}"])
def test_sentences_about_workers_are_no_pods(line: str) -> None:
    assert vote([line.format(n=i % 2, i=i) for i in range(20)]) == frozenset()


@pytest.mark.parametrize("stamp", ["Nov 27 21:48:20", "Nov 27 21:48:20.512345", "2026-11-27T21:48:20+0000"])
def test_a_units_journal_names_host_and_time(stamp: str) -> None:
    lines = [f"{stamp} gpu3 train.sh[4410]: step {i}" for i in range(20)]
    assert vote(lines) == {"journal"}
    got = clean(f"{stamp} gpu3 train.sh[4410]: KeyError: 'z'", vote(lines), NOV27)
    assert (got.text, got.identity, got.time) == (
        "KeyError: 'z'",
        Identity(node="gpu3"),
        pytest.approx(1795816100, abs=1),
    )
    assert vote([*lines[:5], *(f"step {i} of the run" for i in range(20))]) == frozenset()


def test_a_traceback_in_a_units_journal_is_of_its_host(tmp_path: Path) -> None:
    steps = [f"step {i} loss 2.{i}" for i in range(20)]
    raised = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 9, in step',
        "    x[key]",
        "KeyError: 'z'",
    ]
    log = tmp_path / "unit.log"
    log.write_text("".join(f"Nov 27 21:48:20 gpu3 train.sh[4410]: {line}\n" for line in (*steps, *raised)))
    root = analyse([str(log)], Options(threads=1)).findings[0]
    assert (root.name, root.node, root.step) == ("python-exception", "gpu3", 19)


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("libfabric:4242:1753871244::core:core:fi_getinfo_():1385<info> provider efa returned -61", 1753871244.0),
        ("libfabric:4242:1753871244:ofi_rxm:core:core:ofi_layering_ok():1275<info> Skipping util;efa", 1753871244.0),
        ("libfabric:4242:efa:core:efa_check_hints():176<warn> Unsupported capabilities", None),  # before 1.11
    ],
)
def test_libfabrics_own_lines_name_process_and_time(line: str, time: float | None) -> None:
    found = clean(f"[1,3]<stderr>:{line}")
    assert (found.identity.pid, found.identity.rank, found.time) == (4242, 3, time)
    assert found.zone_known is (time is not None)
    assert found.text.endswith(line.split("<", 1)[1]) and "libfabric:" not in found.text
    assert may_be_timed(line.encode()) or time is None


def test_what_only_begins_like_libfabrics_lines_is_left_as_it_is() -> None:
    for line in ("libfabric: 1.22.0", "libfabric:4242: loaded", "libfabric:4242:1753871244:no function here"):
        found = clean(line)
        assert (found.text, found.identity.pid) == (line, None)


def test_torchs_own_head_tells_the_global_rank_behind_any_prefix() -> None:
    said = "[rank3]:[E321 02:07:08.465224069 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 0] Exception detected by watchdog"
    assert clean(f"trainer> {said}").identity.rank == 3
    assert clean(said[said.index("[PG") :]).identity.rank is None


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("2026-10-06T09:10:10Z INFO rank=2 step=60 loss=2.9", 2),
        ("2026-10-06 09:10:10,123 INFO trainer: Rank: 2, epoch 3 loss 2.9", 2),
        ("2026-10-06 09:10:10 INFO local rank 2 step 60", None),
        ("2026-10-06 09:10:10 INFO tp rank=2 step=60", None),
        ("2026-10-06 09:10:10 INFO dp_rank=2 step=60", None),
        ("2026-10-06 09:10:10 INFO rank 3 joined the group", None),
    ],
)
def test_what_a_record_of_training_begins_with(line: str, rank: int | None) -> None:
    assert clean(line).identity.rank == rank


def test_a_containers_stamp_before_nccls_own_head() -> None:
    line = "2025-10-11T08:21:30.100000000Z gpu-1:91:291 [1] transport/net_ib.cc:2290 NCCL WARN NET/IB: Got async fatal event"
    found = clean(line)
    assert (found.identity.node, found.identity.pid, found.identity.device) == ("gpu-1", 91, 1)


@pytest.mark.parametrize(
    ("line", "rank", "node"),
    [
        ("2026-11-28 10:00:02,123 [ERROR] [trainer] Rank=11 Node=hgx02 CUDA error", 11, "hgx02"),
        ("2026-11-28 10:00:02.123 | ERROR    | [Rank 9 | gpu-node-2] CUDA out of memory", 9, "gpu-node-2"),
        ("[gpu-06] rank=48 step=3 loss=2.1", 48, "gpu-06"),
        ("2026-11-28 10:00:02 [gpu-06] rank=48 ready", 48, "gpu-06"),
        ("[Rank 9 | cuda0] loss 2.1", 9, None),
        ("[Rank 9 | epoch3] loss 2.1", 9, None),
        ("[Rank 2 | bf16] out of memory", 2, None),
        ("[exp12] rank=16 alpha=32: out of memory", None, None),
        ("[node-7] rank=16 lora_alpha=32", None, None),
        ("[Llama2-7b] rank=8", None, None),
        ("[stage-2] rank=1 ready", None, None),
        ("[layers.0.q_proj] rank=8", None, None),
        ("[block3] rank=8", None, None),
        ("lost the connection to Rank=11 Node=hgx02", None, None),
        ("2026-11-28 10:00:02,123 rank 5@gpu02 INFO step 3", 5, "gpu02"),
        ("rank5@gpu02.lab: KeyError", 5, "gpu02.lab"),
        ("gpu02|rank5 2026-11-28 10:00:02,123 INFO step 3", 5, "gpu02"),
        ("2026-11-28 10:00:02,123 | gpu02 | rank 5 | step 3", 5, "gpu02"),
        ("layer3|rank8", None, None),
        ("recall@rank 5@10: 0.31", None, None),
        ("no answer of rank 5@gpu02", None, None),
    ],
)
def test_the_host_that_a_logger_names_beside_the_rank(line: str, rank: int | None, node: str | None) -> None:
    assert (clean(line).identity.rank, clean(line).identity.node) == (rank, node)


def test_labels_behind_the_time_of_a_collector() -> None:
    """`docker logs -t` and `kubectl logs --timestamps` of a launcher's pod."""
    lines = [f"2026-11-28T10:00:0{i}.123456789Z worker-{i % 2}: step {i} loss 2.1" for i in range(8)]
    voted = vote(lines)
    assert "pdsh" in voted
    line = clean(lines[3], voted)
    assert (line.identity.node, line.text, line.zone_known) == ("worker-1", "step 3 loss 2.1", True)
    plain = [f"2026-11-28T10:00:0{i}.123456789Z step {i} loss 2.1" for i in range(8)]
    assert clean(plain[3], vote(plain)).identity == Identity()


CUT = [
    "step 200 loss 2.21",
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 50, in <module>',
    '    state = torch.load("ckpt.pt")',
    '  File "/usr/lib/python3.11/site-packages/torch/serialization.py", line 1260, in _legacy_load',
    "    magic_number = pickle_module.load(f, **pickle_load_args)",
    "EOFError: Ran out of input",
]


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "2026-11-28T10:00:03.123456789Z ",
        "2026-11-28T10:00:03.1234567+00:00 ",
        "[2026-11-28 10:00:03] ",
        "Nov 28 10:00:03 ",
    ],
)
def test_rules_for_the_beginning_of_a_line_see_past_a_time(tmp_path: Path, stamp: str) -> None:
    (tmp_path / "train.log").write_text("\n".join(stamp + line for line in CUT) + "\n")
    roots = [f.name for f in analyse([str(tmp_path)], Options()).findings if f.role.value == "root"]
    assert roots == ["checkpoint-corrupt"]


@pytest.mark.parametrize("before", ["2026-11-28T10:00:03.1Z stderr F ", "[pod/launcher-0/pytorch] "])
def test_labels_behind_what_a_collector_put_before_them(before: str) -> None:
    lines = [f"{before}worker-{i % 2}: step {i} loss 2.1" for i in range(8)]
    assert "pdsh" in vote(lines)
    assert clean(lines[3], vote(lines)).text == "step 3 loss 2.1"


@pytest.mark.parametrize("word", ["slurmstepd", "srun", "mpirun", "bash"])
def test_a_launchers_own_line_among_those_of_hosts(word: str) -> None:
    voted = vote([f"node-{i % 2}: line {i}" for i in range(20)])
    assert clean(f"{word}: error: it ends", voted).identity.node is None
    assert clean("node-1: it ends", voted).identity.node == "node-1"


@pytest.mark.parametrize("head", ["[3]<stderr>:", "Fri Nov 27 10:00:11 2026[3]<stderr>:", "[3]<stderr>: "])
def test_horovodruns_own_label(head: str) -> None:
    got = clean(f"{head}ValueError: x", reference=NOV27)
    assert (got.text, got.identity) == ("ValueError: x", Identity(rank=3, stream="stderr"))
    assert (got.time is not None) is head.startswith("Fri")


def test_the_label_of_gnu_parallel_before_a_tab() -> None:
    voted = vote([f"gpu0{i % 2}\tline {i}" for i in range(20)])
    assert clean("gpu01\tValueError: x", voted).identity.node == "gpu01"
    assert vote([f"step{i}\tloss {i}" for i in range(20)]) == frozenset()


@pytest.mark.parametrize(
    ("members", "node"),
    [
        ('"hostname": "gpu07", "rank": 3', "gpu07"),
        ('"rank": 3, "node_name": "ip-10-0-0-7.ec2.internal"', "ip-10-0-0-7.ec2.internal"),
        ('"rank": 3, "hostname": "a1b2c3d4e5f6"', None),
        ('"rank": 3, "hostname": "gpu0"', None),
        ('"rank": 3, "host": "store07"', None),  # as often the one that does not answer
    ],
)
def test_the_host_that_a_record_names_beside_the_rank(members: str, node: str | None) -> None:
    who = clean(f'{{"event": "it ends", {members}, "level": "error"}}').identity
    assert (who.rank, who.node) == (3, node)
