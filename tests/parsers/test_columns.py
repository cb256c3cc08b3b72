"""Columns of a logger's head that name a host and a rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Identity
from forensics.parsers.prefixes import clean, vote

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TIME = "2026-11-27 10:00:01,123"


@pytest.mark.parametrize(
    "head",
    [
        f"{TIME} gpua013 rank3 ERROR",
        f"{TIME} gpua013 rank=3 ERROR",
        f"{TIME} gpua013 RANK=3 ERROR",
        f"{TIME} gpua013 [rank3] ERROR",
        f"{TIME} rank3 gpua013 ERROR",
        f"{TIME} gpua013 4242 rank3 ERROR",
        f"{TIME} host=gpua013 rank=3 ERROR",
        f"{TIME} - gpua013 - rank3 - ERROR -",
        f"{TIME} | gpua013 | rank3 | ERROR    |",
        f"{TIME} [gpua013] [rank3] [ERROR]",
        f"[{TIME}][gpua013][rank3][ERROR]",
        f"{TIME} [ERROR] [gpua013] [rank3]",
        f"{TIME} gpua013:rank3 ERROR",
        "2026-11-27T10:00:01.123Z gpua013 rank3 ERROR",
        "10:00:01 gpua013 rank3 ERROR",
        "gpua013 rank3 ERROR",
    ],
)
def test_columns_before_a_level_name_host_and_rank(head: str) -> None:
    who = clean(f"{head} {OOM}").identity
    assert (who.node, who.rank) == ("gpua013", 3)


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (f"{TIME} rank3 INFO step", 3),
        (f"{TIME} train rank3 INFO step", 3),
        (f"{TIME} train_v2 rank3 INFO step", 3),
        (f"{TIME} train2.py:14 rank3 INFO step", 3),
        (f"{TIME} local rank3 INFO step", None),
        (f"{TIME} tp rank3 INFO step", None),
        (f"{TIME} INFO node7 rank 3 is late", None),
        (f"{TIME} ERROR rank3 is gone", None),
        (f"{TIME} INFO layer3 rank 16 alpha 32", None),
    ],
)
def test_the_names_of_loggers_and_sentences_are_no_hosts(line: str, rank: int | None) -> None:
    who = clean(line).identity
    assert (who.node, who.rank) == (None, rank)


@pytest.mark.parametrize(
    "form", ["{t} INFO gpu0{n} rank{r} {m}", "{t} [INFO] rank{r} gpu0{n}: {m}", "{t} gpu0{n} INFO rank{r}: {m}"]
)
def test_columns_behind_a_level_need_the_files_vote(form: str) -> None:
    lines = [
        form.format(t=f"2026-11-27 10:00:0{i},123", n=1 + r // 2, r=r, m=f"step {i}")
        for i in range(6)
        for r in range(4)
    ]
    got = clean(form.format(t=TIME, n=2, r=3, m=OOM), vote(lines))
    assert (got.identity.node, got.identity.rank, got.text) == ("gpu02", 3, OOM)
    assert got.time is not None
    assert clean(lines[-1]).identity.rank is None
    assert vote([f"{TIME} INFO step {i}" for i in range(20)] + lines[:4]) == frozenset()


def test_an_error_behind_such_columns_has_rank_and_node(tmp_path: Path) -> None:
    lines = [
        f"2026-11-27 10:00:0{i},123 gpua0{12 + r // 2} rank{r} INFO step {i} loss 2.{9 - i}"
        for i in range(6)
        for r in range(4)
    ]
    (tmp_path / "train.log").write_text(
        "\n".join([*lines, f"2026-11-27 10:00:07,001 gpua013 rank3 ERROR {OOM}"]) + "\n"
    )
    report = analyse([str(tmp_path)], Options(cache=False))
    root = report.findings[0]
    assert (root.name, root.ranks, root.node) == ("cuda-oom", (3,), "gpua013")


@pytest.mark.parametrize(
    "form",
    [
        "I1127 10:00:{i:02}.000000 {r}39 train.cc:88] Rank {r}: {m}",
        "[NeMo I 2026-11-27 10:00:{i:02} nemo_logging:349] rank {r}: {m}",
        "2026-11-27 10:00:{i:02} | INFO | fairseq_cli.train | rank {r}: {m}",
        "2026-11-27 10:00:{i:02},123 - INFO - rank:{r} - {m}",
        "2026-11-27 10:00:{i:02} [INFO] global_rank={r} {m}",
    ],
)
def test_a_rank_behind_the_head_of_all_records(form: str) -> None:
    voted = vote([form.format(i=i, r=r, m=f"step {i}") for i in range(6) for r in range(4)])
    got = clean(form.format(i=11, r=3, m=OOM), voted, 1_795_824_000.0)
    assert (got.identity.rank, got.text, got.time is not None) == (3, OOM, True)


def test_a_rank_behind_the_head_of_all_records_and_a_host_before_it() -> None:
    voted = vote([f"gpu0{1 + r // 2}: {TIME} [INFO] rank={r} step {i}" for i in range(6) for r in range(4)])
    got = clean(f"gpu02: {TIME} [ERROR] rank=3 {OOM}", voted)
    assert (got.identity.node, got.identity.rank, got.text) == ("gpu02", 3, OOM)


def test_what_is_bound_to_a_logger_stands_behind_the_message() -> None:
    form = "2026-11-27T10:00:{i:02}Z [{l:<8}] {m} [train] rank={r} hostname=gpu0{n} step={i}"
    lines = [form.format(i=i, r=r, n=1 + r // 2, l="info", m="going on") for i in range(6) for r in range(4)]
    got = clean(form.format(i=11, r=3, n=2, l="error", m=OOM), vote(lines))
    assert (got.identity.rank, got.identity.node) == (3, "gpu02")


@pytest.mark.parametrize(
    "lines",
    [
        [f"{TIME} INFO layer {n} rank {n} alpha 32" for n in range(20)],
        [f"{TIME} INFO step {n} loss 2.0" for n in range(30)] + [f"{TIME} INFO rank 3: out of data"] * 4,
    ],
)
def test_ranks_in_few_lines_or_of_other_things_are_no_writers(lines: list[str]) -> None:
    assert vote(lines) == frozenset()


@pytest.mark.parametrize(
    "form",
    [
        "2026-11-27 10:00:{i:02},123 {l} gpu0{n} rank{r} {m}",
        "{l[0]}1127 10:00:{i:02}.000000 {r}39 train.cc:88] Rank {r}: {m}",
        "gpu0{n}: 2026-11-27 10:00:{i:02} [{l}] rank={r} {m}",
    ],
)
def test_a_traceback_below_a_record_with_such_a_head_is_its_ranks(tmp_path: Path, form: str) -> None:
    lines = [
        form.format(i=i, r=r, n=1 + r // 2, l="INFO", m=f"step {i} loss 2.{9 - i}") for i in range(8) for r in range(4)
    ]
    lines.append(form.format(i=30, r=3, n=2, l="ERROR", m="training failed"))
    raised = [
        "Traceback (most recent call last):",
        '  File "/srv/job/train.py", line 14, in <module>',
        "    x = b['y']",
    ]
    (tmp_path / "train.log").write_text("\n".join([*lines, *raised, "KeyError: 'y'"]) + "\n")
    root = analyse([str(tmp_path)], Options(cache=False)).findings[0]
    assert (root.name, root.ranks) == ("python-exception", (3,))


def test_a_launchers_traceback_below_the_error_of_a_rank_is_not_that_ranks(tmp_path: Path) -> None:
    """What stands above it ends an exception of a rank, and is the head of no record."""
    raised = 'Traceback (most recent call last):\n  File "/srv/job/{file}.py", line 14, in <module>\n    main()\n'
    own = "".join(f"[rank3]: {line}\n" for line in raised.format(file="train").splitlines())
    log = own + "[rank3]: EOFError: Ran out of input\n" + raised.format(file="launch") + "SystemError: it failed\n"
    (tmp_path / "train.log").write_text("".join(f"[rank{r}]: step {i}\n" for i in range(9) for r in range(4)) + log)
    found = analyse([str(tmp_path)], Options(cache=False)).findings
    assert [f.ranks for f in found if any("SystemError" in e.text for e in f.evidence)] == [None]


def test_a_logger_with_a_number_behind_a_dot_is_no_host() -> None:
    """Modules are called so as well: models.resnet50, gpt.stage1_train."""
    said = "2026-04-01 08:00:00,123 models.resnet50 rank 3 INFO started"
    assert clean(said).identity == Identity(rank=3)
    assert clean(said.replace("models.resnet50", "gpu07.site")).identity == Identity(rank=3, node="gpu07.site")


BESIDE = [
    "{t} {h} rank{r} {m}",
    "{t} [{h}] [rank {r}] {m}",
    "{t} - {h} - rank{r} - INFO - {m}",
    "{t} | INFO     | {h} | rank={r} | {m}",
    "03/03 10:00:01 - {h} - rank {r} - mmengine - INFO - {m}",
    "{t} (rank {r} @ {h}) {m}",
    "INFO:{h}:rank{r}:{m}",
    "{h}:rank{r}: {m}",
    "[rank{r}@{h}] {m}",
    "rank {r} ({h}): {m}",
]


@pytest.mark.parametrize("hosts", [("alder", "birch", "cedar", "dogwood"), ("cn01", "cn02", "cn03", "cn04")])
@pytest.mark.parametrize("form", BESIDE)
def test_a_word_that_goes_with_the_rank_is_its_host(form: str, hosts: tuple[str, ...]) -> None:
    lines = [form.format(t=TIME, h=hosts[r], r=r, m=f"step {i}") for i in range(6) for r in range(4)]
    got = clean(form.format(t=TIME, h=hosts[2], r=2, m=OOM), vote(lines))
    assert (got.identity.node, got.identity.rank) == (hosts[2], 2)
    assert got.text.endswith(OOM)
    assert (got.time is not None) == ("10:00" in lines[0].format(t=TIME))


@pytest.mark.parametrize("form", [form for form in BESIDE if "{h}" in form.partition("{r}")[0]])
@pytest.mark.parametrize(
    "words",
    [
        ("alder",) * 4,  # one host for all, or a logger
        ("actor", "critic", "reward", "rollout"),  # what processes do
        ("train", "main"),  # loggers, in whatever rank
    ],
)
def test_any_other_word_before_the_rank_is_none(form: str, words: tuple[str, ...]) -> None:
    said = [(i, r, words[(i + r if len(words) == 2 else r) % len(words)]) for i in range(6) for r in range(4)]
    lines = [form.format(t=TIME, h=word, r=r, m=f"step {i}") for i, r, word in said]
    got = clean(form.format(t=TIME, h=words[0], r=2, m=OOM), vote(lines))
    assert (got.identity.node, got.identity.rank) == (None, 2)


@pytest.mark.parametrize(
    "form",
    [
        "{t} tp rank{r} step {i}",
        "{t} local rank {r} step {i}",
        "{t} layer3 rank {r} step {i}",
        "rank {r} (replica): step {i}",
        "[rank{r}]:[E1127 10:00:01.123456789 ProcessGroupNCCL.cpp:667] step {i}",
    ],
)
def test_ranks_of_groups_and_heads_of_records_are_no_such_columns(form: str) -> None:
    assert vote([form.format(t=TIME, r=r, i=i) for i in range(6) for r in range(4)]) == frozenset()


def test_a_host_behind_the_label_of_a_task_goes_with_it() -> None:
    hosts = ("alder", "birch", "cedar", "dogwood")
    voted = vote([f"{task}: {hosts[task]}: step {i}" for i in range(6) for task in range(4)])
    assert clean(f"3: dogwood: {OOM}", voted).identity.node == "dogwood"
    voted = vote([f"{task}: trainer: step {i}" for i in range(6) for task in range(4)])
    assert clean(f"3: trainer: {OOM}", voted).identity.node is None
    assert clean(f"3: trainer: {OOM}", voted).identity.task == 3


@pytest.mark.parametrize(
    ("words", "node"),
    [(("alder", "birch", "cedar"), "birch"), (("trainer",) * 3, None), (("learner", "actor", "actor"), None)],
)
def test_a_word_that_goes_with_the_rank_of_each_file_is_its_host(
    tmp_path: Path, words: tuple[str, ...], node: str | None
) -> None:
    for r, word in enumerate(words):
        lines = [f"2026-11-27 10:00:{i:02}.000 {word} rank{r} step {i} loss 2.{90 - i}" for i in range(20)]
        lines += [f"2026-11-27 10:00:21.000 {word} rank{r} {OOM}"] * (r == 1)
        (tmp_path / f"rank{r}.log").write_text("\n".join(lines) + "\n")
    root = analyse([str(tmp_path)], Options(cache=False)).findings[0]
    assert (root.name, root.ranks, root.node) == ("cuda-oom", (1,), node)


@pytest.mark.parametrize("form", ["{t} INFO [rank {r}] {m}", "{t} rank{r} {m}", "[rank {r}] {m}"])
def test_what_each_rank_says_first_is_no_host(form: str) -> None:
    said = ("step {i}", "waiting {i}", "loss: {i}")
    lines = [form.format(t=TIME, r=r, m=said[r].format(i=i)) for i in range(8) for r in range(3)]
    assert {clean(line, vote(lines)).identity.node for line in lines} == {None}
