"""Native code that aborted is grouped by what it said; levels of loggers count as trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.triage import codec
from forensics.triage.batch import Options, triage
from forensics.triage.insight.unknown import telling
from forensics.triage.model import Batch, Unexplained
from forensics.triage.pool import Limits
from forensics.triage.redacted import redacted
from tests.triage.rows import row
from tests.triage.test_batch import here

STEPS = "step 10 loss 2.1\nstep 20 loss 2.0\n"


def batch_of(tmp_path: Path, *ends: str) -> Batch:
    for n, end in enumerate(ends):
        (tmp_path / "jobs" / f"{n}").mkdir(parents=True)
        (tmp_path / "jobs" / f"{n}" / "train.log").write_text(STEPS + end)
    return triage([str(tmp_path / "jobs")], Options(store=tmp_path / "s", engine=here, limits=Limits()))


def thrown(what: str, shell: int = 1) -> str:
    return (
        f"terminate called after throwing an instance of 'std::out_of_range'\n  what():  {what}\n"
        f"run.sh: line {shell}: {shell}77 Aborted                 (core dumped) ./trainer --cfg x.json\n"
    )


def test_what_was_thrown_makes_the_group(tmp_path: Path) -> None:
    found = batch_of(
        tmp_path,
        thrown("token 17 of shard 3 is beyond the table", 1),
        thrown("token 4711 of shard 12 is beyond the table", 2),
        thrown("the mixture has no weights", 3),
    )
    assert {r.root for r in found.results} == {"rank-sigabrt"}
    assert sorted((g.template, len(g.jobs)) for g in found.insights.unknown) == [
        ("what(): the mixture has no weights", 1),
        ("what(): token <n> of shard <n> is beyond the table", 2),
    ]


def test_glogs_check_makes_the_group(tmp_path: Path) -> None:
    glog = (
        "F1119 08:03:01.120334 41223 sampler.cc:88] Check failed: n_tokens <= cap ({} vs. 8192) \n"
        "*** Check failure stack trace: ***\n    @     0x7f0c6c2fa1c3  google::LogMessage::Fail()\n"
    )
    (found,) = batch_of(tmp_path, glog.format(8193), glog.format(9001)).insights.unknown
    assert len(found.jobs) == 2 and found.template.startswith("Check failed: n_tokens")


def test_an_abort_without_a_word_is_in_no_group(tmp_path: Path) -> None:
    found = batch_of(tmp_path, "run.sh: line 3: 4177 Aborted                 (core dumped) ./trainer\n")
    assert found.results[0].root == "rank-sigabrt" and found.insights.unknown == ()


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("2026-11-19 08:03:01,120 CRITICAL train.py:310 reward model checksum differs from the manifest", True),
        ("CRITICAL:root:reward model checksum differs", True),
        ("2026-11-19 08:03:01,120 FATAL train.py:310 checksum differs", True),
        ("the critical batch size is 512", False),
        ("2026-11-19 08:03:01,120 INFO train.py:310 what comes next", False),
    ],
)
def test_levels_of_loggers(line: str, trouble: bool) -> None:
    assert (telling(Unexplained(last_lines=(line,))) is not None) == trouble


def test_what_other_languages_say_makes_the_group(tmp_path: Path) -> None:
    rust = (
        "thread 'main' panicked at src/loader.rs:88:14:\n"
        "called `Result::unwrap()` on an `Err` value: Corrupt {{ offset: {} }}\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
    )
    older = "thread 'main' panicked at 'no lease for bucket {}', src/main.rs:4:9\n"
    julia = "ERROR: LoadError: DimensionMismatch: A has dimensions ({},3)\nStacktrace:\n [1] matmul(A::Matrix)\n"
    java = 'Exception in thread "main" java.lang.IllegalStateException: block {} is gone\n\tat a.B.c(B.java:{})\n'
    kinds = (rust, older, julia, java)
    found = batch_of(tmp_path, *(kind.format(n, n) for kind in kinds for n in (7, 8)))
    assert {r.root for r in found.results} == {"other-program-error"}
    assert sorted((g.template, len(g.jobs)) for g in found.insights.unknown) == [
        ("DimensionMismatch: A has dimensions (<n>)", 2),
        ("called <text> on an <text> value: Corrupt { offset: <n> }", 2),
        ("java.lang.IllegalStateException: block <n> is gone", 2),
        ("no lease for bucket <n>", 2),
    ]


def test_an_error_by_its_level_before_a_last_word_makes_the_group(tmp_path: Path) -> None:
    zap = (
        '{{"level":"error","ts":1795745551.12,"caller":"ckpt/writer.go:88","msg":"lease for shard {} was revoked"}}\n'
        '{{"level":"info","ts":1795745552.3,"caller":"main.go:10","msg":"exiting"}}\n'
    )
    tracing = (
        "2026-11-27T02:12:31.012Z ERROR trainer::dist: peer lost peer_id={}\n"
        "2026-11-27T02:12:31.900Z  INFO trainer: shutting down\n"
    )
    ends = [kind.format(n) for kind in (zap, tracing) for n in (1, 2)]
    found = batch_of(tmp_path, *ends, STEPS + zap.format(3).splitlines()[1])
    assert sorted((g.template, len(g.jobs)) for g in found.insights.unknown) == [
        ("<time> ERROR trainer::dist: peer lost peer_id=<n>", 2),
        ("lease for shard <n> was revoked", 2),
    ]


def test_the_error_by_its_level_is_redacted_and_kept() -> None:
    told = row(1, verdict="unknown", unexplained=Unexplained(last_error="no seat for alice@example.com"))
    batch = Batch(paths=("runs",), results=(told,), causes=(), made=0.0)
    shown = redacted(batch).results[0].unexplained
    assert shown is not None and shown.last_error is not None and "alice" not in shown.last_error
    assert codec.loads(codec.dumps(told)) == told


def in_a_worker(frame: str, error: str, worker: int = 0) -> str:
    kind = error.partition(":")[0].rpartition(".")[2]
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/job/train.py", line 30, in <module>\n'
        "    for batch in loader:\n"
        '  File "/opt/venv/lib/python3.11/site-packages/torch/_utils.py", line 705, in reraise\n'
        "    raise exception\n"
        f"{error.partition(':')[0]}: Caught {kind} in DataLoader worker process {worker}.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 308, in _worker_loop\n'
        "    data = fetcher.fetch(index)\n"
        f"  File {frame}\n"
        f"{error}\n"
    )


def test_what_the_users_code_raised_in_a_loaders_worker_makes_the_group(tmp_path: Path) -> None:
    encode, decode = '"/opt/job/tok.py", line 19, in encode', '"/opt/job/img.py", line 7, in decode'
    found = batch_of(
        tmp_path,
        in_a_worker(encode, "proj.tok.VocabGap: token id 50002 has no row", 2),
        in_a_worker(encode, "proj.tok.VocabGap: token id 7 has no row", 0),
        in_a_worker(decode, "proj.img.BadImage: no planes in 4.jpg", 1),
    )
    assert {r.root for r in found.results} == {"dataloader-worker-exception"}
    assert sorted((g.exception, g.frames[0], len(g.jobs)) for g in found.insights.unknown) == [
        ("proj.img.BadImage", "img.py decode", 1),
        ("proj.tok.VocabGap", "tok.py encode", 2),
    ]


def test_what_a_library_raised_in_a_loaders_worker_is_in_no_group(tmp_path: Path) -> None:
    library = '"/opt/venv/lib/python3.11/site-packages/cutter/shard.py", line 98, in cut'
    found = batch_of(tmp_path, in_a_worker(library, "cutter.ShardError: nothing is left of cut 4"))
    assert found.results[0].root == "dataloader-worker-exception" and found.insights.unknown == ()
