"""Drafted signatures: valid whatever the text, green in their own test, and the root of what they were made from."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forensics.cli import main
from forensics.engine.pipeline import Options as PipelineOptions
from forensics.engine.pipeline import analyse
from forensics.model import Role
from forensics.report.redaction import Redactor
from forensics.signatures.schema import load_catalogue, parse
from forensics.triage.batch import Options, triage
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.insight import toml
from forensics.triage.insight.drafts import DraftError, draft, problems
from forensics.triage.insight.unknown import group
from forensics.triage.model import JobResult, Unexplained
from forensics.triage.pool import Limits
from tests.triage.rows import raised, row

LOG = """step 10 loss 2.0
Traceback (most recent call last):
  File "/home/bob/proj/train.py", line 88, in <module>
    main()
  File "/home/bob/proj/data.py", line 12, in load_shard
    raise {exception}(name)
{exception}: {message}
"""


def drafted(*rows: JobResult, redact: bool = False, name: str | None = None) -> str:
    (found,) = group(rows)
    return draft(found, rows, name=name, redact=Redactor().redact if redact else None).text


def sweep(root: Path, exception: str, *messages: str) -> Path:
    for n, message in enumerate(messages):
        (root / f"job-{n}").mkdir(parents=True)
        (root / f"job-{n}" / "train.log").write_text(LOG.format(exception=exception, message=message), "utf-8")
    return root


@given(st.text(max_size=80), st.text("'\"\\`\n\r\t\x00\x1b#[]{}<>=é日\u202e\ud800", max_size=40))
@settings(max_examples=200, deadline=None)
def test_toml_holds_any_text(one: str, other: str) -> None:
    for text in (one, other, one + other):
        back = text.encode("utf-8", "replace").decode()
        assert tomllib.loads(f"a = {toml.string(text)}\nb = {toml.literal(text)}\n{toml.comment(text)}\n") == {
            "a": back,
            "b": back,
        }


MESSAGES = st.text("'\"\\`\n\t\x1b[](){}*+?.^$|#-:/0129aexé日\u202e ", min_size=1, max_size=60) | st.text(max_size=40)
FUNCTIONS = st.text("ab/\\'\"\n.<>é ", min_size=1, max_size=12)


def passes(message: str, function: str, *, redact: bool) -> None:
    text = drafted(raised(0, "ValueError", message, (f"/home/bob/{function}.py", 3, function)), redact=redact)
    table = tomllib.loads(text)
    assert problems(text, table["name"]) == []
    assert any(e.get("is_not") for e in table["example"])


@given(MESSAGES, FUNCTIONS, st.booleans())
@example("'''", "a", True)
@example("0", '"\\', False)
@example("x" * 5000, "f", False)
@example("(?P<rank>\\d+) user bob@example.com at gpu17.corp.internal ''' \x1b[31mred\x1b[0m", 'x"\n', True)
@settings(max_examples=3, deadline=None)
def test_a_draft_passes_its_own_test_whatever_the_text(message: str, function: str, redact: bool) -> None:
    passes(message, function, redact=redact)


@pytest.mark.slow
@given(MESSAGES, FUNCTIONS, st.booleans())
@settings(max_examples=400, deadline=None)
def test_many_drafts_pass(message: str, function: str, redact: bool) -> None:
    passes(message, function, redact=redact)


def test_what_differs_is_a_capture_and_what_is_shared_stays() -> None:
    rows = [raised(n, "ValueError", f"column 'label' of /data/{n}.bin has {n} rows, not [1, {n}]") for n in range(3)]
    table = tomllib.loads(drafted(*rows))
    (rule,) = table["evidence"]
    assert "column 'label' of (?P<path_1>" in rule["pattern"] and "(?P<number_2>" in rule["pattern"]
    assert "near" not in rule
    assert len(table["example"]) == 4


def test_few_words_need_the_frame_beside_them() -> None:
    table = tomllib.loads(drafted(raised(0, "KeyError", "'shard-7'"), raised(1, "KeyError", "'shard-8'")))
    assert table["evidence"][0]["near"] == '["/\\\\]data\\.py", line \\d+, in load'
    assert table["parent"] == "python-exception"


def test_a_rule_for_each_shape_of_a_group() -> None:
    rows = [
        raised(0, "ValueError", "rate alpha is far too high: 1"),
        raised(1, "ValueError", "rate beta is far too high: 2"),
    ]
    assert len(tomllib.loads(drafted(*rows))["evidence"]) == 2


def test_secrets_do_not_pass_and_the_pattern_still_matches() -> None:
    token = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    message = f"user bob@example.com has no quota on gpu17.corp.internal, token={token}"
    text = drafted(raised(0, "RuntimeError", message), redact=True)
    assert not any(word in text for word in ("bob", "corp", token))
    import regex

    assert regex.search(tomllib.loads(text)["evidence"][0]["pattern"], f"RuntimeError: {message}")
    assert "bob@example.com" in drafted(raised(0, "RuntimeError", message))


def test_a_line_that_says_too_little_is_refused() -> None:
    quiet = row(0, "insufficient-evidence", unexplained=Unexplained(last_lines=("10 0.5 x",)))
    with pytest.raises(DraftError, match="too little"):
        drafted(quiet)
    loud = row(
        0, "insufficient-evidence", unexplained=Unexplained(last_lines=("fatal: volume 7 could not be mounted",))
    )
    assert "parent" not in tomllib.loads(drafted(loud))
    with pytest.raises(DraftError, match="name"):
        drafted(loud, name="../x")


def here(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine without processes."""
    tools = Tools(setup)
    return (examine(task, tools, time.time()) for task in tasks)


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        (
            "2026-11-20 10:00:00,000 - train - ERROR - 数据集 7 损坏: 校验和 12 不符",
            False,
        ),  # a pattern holds no word of it
        ("2026-11-20 10:00:00,000 - train - ERROR - データ 7 が壊れています", False),
        ("2026-11-20 10:00:00,000 - trainer.loop - ERROR - shard 7", False),
        ("2026-11-20 10:00:00,000 - train - ERROR - 数据集 7 is damaged: checksum 12 differs", True),
    ],
)
def test_letters_count_that_a_pattern_holds(line: str, tells: bool) -> None:
    rest = Unexplained(last_lines=(line,), last_error=line)
    rows = [row(n, None, verdict="failed", unexplained=rest) for n in range(2)]
    if tells:
        assert "is damaged: checksum" in drafted(*rows)
    else:
        with pytest.raises(DraftError, match="says too little"):
            drafted(*rows)


def test_a_message_without_latin_letters_needs_the_frame_beside_it() -> None:
    assert "\nnear = " in drafted(raised(0, "ValueError", "数据集已经损坏，校验和与清单不符"))


def test_the_list_of_groups_is_redacted_as_the_draft_is(tmp_path: Path) -> None:
    said = "no access for ann.example@corp.example with token hf_abcdefghijklmnopqrstuvwxyzabcdefgh"
    jobs = sweep(tmp_path / "jobs", "acme.data.ShardError", said, said)
    store = tmp_path / "s.sqlite"
    triage([str(jobs)], Options(store=store, engine=here, limits=Limits()))
    run = CliRunner().invoke
    hidden = run(main, ["signatures", "draft", "--store", str(store)]).output
    assert "no access" in hidden and "ann.example" not in hidden and "hf_abc" not in hidden
    assert "ann.example" in run(main, ["signatures", "draft", "--store", str(store), "--no-redact"]).output


def test_from_the_store_to_the_root(tmp_path: Path) -> None:
    jobs = sweep(tmp_path / "jobs", "acme.data.ShardError", "'shard-01' is cut off", "'shard-02' is cut off")
    store, own = tmp_path / "s.sqlite", tmp_path / "own" / "data"
    (found,) = triage([str(jobs)], Options(store=store, engine=here, limits=Limits())).insights.unknown
    run = CliRunner().invoke
    listed = run(main, ["signatures", "draft", "--store", str(store)])
    name, count = listed.output.split()[:2]
    assert (name, count) == (found.name, "2")
    made = run(main, ["signatures", "draft", "sharderror", "--store", str(store), "-o", str(own)])
    assert made.exit_code == 0, made.output
    again = run(main, ["signatures", "draft", name, "--store", str(store), "-o", str(own)])
    assert again.exit_code == 2 and "exists" in again.output  # it may have been edited by now
    assert run(main, ["signatures", "test", str(own)]).exit_code == 0
    catalogue = load_catalogue()
    mine = parse((own / f"{name}.toml").read_text("utf-8"), "data")
    known = {"python-exception": catalogue["python-exception"], name: mine}
    (root,) = analyse([str(jobs / "job-1")], PipelineOptions(cache=False), known).of_role(Role.ROOT)
    assert root.name == name
    assert root.captures["text_1"] == "shard-02"


def test_from_a_run(tmp_path: Path) -> None:
    run = CliRunner().invoke
    job = sweep(tmp_path, "acme.ShardError", "shard 17 is cut off") / "job-0"
    made = run(main, ["signatures", "draft", "--from", str(job), "--name", "shard-cut-off"])
    assert made.exit_code == 0 and tomllib.loads(made.output)["name"] == "shard-cut-off"
    assert "bob" not in made.output
    taken = run(main, ["signatures", "draft", "--from", str(job), "--name", "cuda-oom"])
    assert taken.exit_code == 2 and "already" in taken.output
    within = run(main, ["signatures", "draft", "--from", str(job), "-o", str(job / "own")])
    assert within.exit_code == 2 and not (job / "own").exists()
    (job / "train.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    known = run(main, ["signatures", "draft", "--from", str(job)])
    assert known.exit_code == 2 and "cuda-oom" in known.output


def test_no_store_and_no_such_group(tmp_path: Path) -> None:
    run = CliRunner().invoke
    none = run(main, ["signatures", "draft", "x", "--store", str(tmp_path / "none.sqlite")])
    assert none.exit_code == 2 and "no store yet" in none.output
    assert not (tmp_path / "none.sqlite").exists()
