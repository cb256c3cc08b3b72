"""`forensics explain` and `forensics signatures`, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main

OWN = """
name = "scratch-not-mounted"
title = "The scratch file system is not mounted"
kind = "cause"
severity = "fatal"
why = "The job's first act is to look for it."
fix = ["Ask for a node of the right partition."]

[[evidence]]
source = "log"
pattern = 'our-launcher: scratch is not mounted on (?P<node>[a-z0-9-]{1,60})'
weight = 0.97

[[example]]
log = "our-launcher: scratch is not mounted on node-3"
captures = { node = "node-3" }

[[example]]
log = "our-launcher: scratch is mounted"
is_not = true
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "scratch-not-mounted.toml").write_text(OWN)
    return folder


def test_a_code_shows_all_its_entries_the_most_usual_first() -> None:
    text = run("explain", "DP15").output
    assert text.startswith("shm-exhausted (DP15)\n")
    assert text.index("fd-exhausted (DP15)\n") > 0
    for part in ("WHAT TO DO", "HOW IT IS RECOGNISED", "WHAT LOOKS LIKE IT", "HOW IT LOOKS", "AND WHAT IS NOT IT"):
        assert part in text


def test_knowledge_says_how_to_make_it_visible() -> None:
    text = run("explain", "accumulated-loss-not-divided").output
    assert "HOW TO MAKE IT VISIBLE" in text and "WHAT TO DO" in text and "HOW IT IS RECOGNISED" not in text


def test_several_entries_in_one_call_and_none_twice() -> None:
    found = json.loads(run("explain", "DP15", "shm-exhausted", "cuda-oom", "--format", "json").output)
    assert [entry["name"] for entry in found].count("shm-exhausted") == 1
    assert found[-1]["name"] == "cuda-oom"


def test_json_has_what_the_terminal_has() -> None:
    (entry,) = json.loads(run("explain", "fd-exhausted", "--format", "json").output)
    assert entry["codes"] == ["DP15"] and entry["fix"] and entry["recognised_by"] and entry["examples"]
    assert {"title", "area", "severity", "kind", "status", "why", "confirm", "lookalikes", "causes", "see_also"} <= set(
        entry
    )


def test_markdown_keeps_patterns_as_they_are() -> None:
    text = run("explain", "shm-exhausted", "--format", "markdown").output
    assert text.startswith("# shm-exhausted (DP15)\n")
    assert r"`failed to extend /dev/shm/nccl-\S+ to \d+ bytes`" in text


def test_unknown_names_get_suggestions_and_status_2() -> None:
    result = run("explain", "shm-exhasted")
    assert result.exit_code == 2
    assert "did you mean shm-exhausted" in result.output
    nothing = run("explain", "qqqqqqqq")
    assert nothing.exit_code == 2 and "signatures list" in nothing.output


def test_words_show_the_best_entry_and_name_others() -> None:
    result = run("explain", "shared memory full")
    assert result.exit_code == 0 and "the nearest is shm-exhausted" in result.stderr
    assert result.stdout.startswith("shm-exhausted (DP15)\n")
    assert run("explain", "gpu", "fell", "off").stdout == run("explain", "gpu-fell-off-bus").stdout
    assert run("explain", "cuda", "oom").output == run("explain", "cuda-oom").output


def test_words_that_mean_several_entries_list_them() -> None:
    result = run("explain", "learning rate")
    assert result.exit_code == 2 and "did you mean one of these?\n  learning-rate-too-" in result.output


def test_an_area_is_known_in_any_case() -> None:
    assert run("signatures", "list", "--area", "RL").output == run("signatures", "list", "--area", "rl").output


def test_names_from_the_command_line_are_printed_inert() -> None:
    assert "\x1b" not in run("explain", "\x1b[31mred").output


def test_the_list_covers_areas_and_json() -> None:
    found = json.loads(run("signatures", "list", "--format", "json").output)
    assert {entry["area"] for entry in found} > {"memory", "numerics", "knowledge"}
    assert run("signatures", "list", "--area", "rl").output.count("\n") == sum(e["area"] == "rl" for e in found)
    assert run("signatures", "list", "--area", "nowhere").exit_code == 2


def test_own_signatures_are_explained_and_listed(own: Path) -> None:
    assert "scratch file system" in run("explain", "scratch-not-mounted", "--signatures", str(own)).output
    assert "scratch-not-mounted" in run("signatures", "list", "--signatures", str(own)).output


def test_own_signatures_are_tested(own: Path) -> None:
    result = run("signatures", "test", str(own))
    assert (result.exit_code, result.output) == (0, "1 signature, 0 problems\n")


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (('kind = "cause"', 'kind = "reason"'), 4, "kind must be one of"),
        (("weight = 0.97", "weight = 7"), 12, "weight must lie in"),
        (("weight = 0.97", 'weight = "much"'), 12, "weight must be a number"),
        (("weight = 0.97", "colour = 'red'"), 12, "knows no colour"),
        (("is_not = true", "is_not = 1"), 20, "is_not must be true or false"),
        (('fix = ["Ask', 'fix = [1, "Ask'), 7, "fix must be a list of strings"),
        (('why = "The', 'why "The'), 6, "at line 6"),
        (("scratch is not mounted on (", "scratch (is not mounted on ("), 11, "no regular expression"),
        (("our-launcher: scratch is not mounted on (?P<node>[a-z0-9-]{1,60})", "(?:a|aa)+$"), 11, "too slow"),
        (("our-launcher: scratch is not mounted on (?P<node>[a-z0-9-]{1,60})", ".*"), 11, "every line"),
        (('node = "node-3"', 'node = "node-4"'), 16, "node should be 'node-4'"),
        (('"our-launcher: scratch is mounted"', '"our-launcher: scratch is not mounted on n"'), 18, "must not match"),
        (('severity = "fatal"', 'severity = "fatal"\nparent = "nobody"'), 6, "parent names 'nobody'"),
        (('severity = "fatal"', 'severity = "fatal"\nstatus = "stable"'), 6, "stable needs"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(own: Path, change: tuple[str, str], line: int, message: str) -> None:
    file = own / "scratch-not-mounted.toml"
    text = OWN.replace(*change)
    assert text != OWN
    file.write_text(text)
    result = run("signatures", "test", str(file))
    assert result.exit_code == 1
    assert message in result.output
    assert f"{file}:{line}: " in result.output or f"at line {line}" in result.output


def test_the_name_of_the_file_is_checked(own: Path) -> None:
    (own / "scratch-not-mounted.toml").rename(own / "other.toml")
    result = run("signatures", "test", str(own))
    assert result.exit_code == 1 and "must be named scratch-not-mounted.toml" in result.output


def test_files_that_are_no_text_are_named(own: Path) -> None:
    (own / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (own / "deep.toml").write_text("a = " + "[" * 20_000)
    result = run("signatures", "test", str(own))
    assert result.exit_code == 1
    assert "binary.toml" in result.output and "deep.toml" in result.output and "Traceback" not in result.output


def test_healthy_runs_speak_against_a_signature(own: Path, tmp_path: Path) -> None:
    for name, text in (("fine", "step 1\n"), ("scratchless", "our-launcher: scratch is not mounted on node-3\n")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "out.log").write_text(text)
    result = run("signatures", "test", str(own), "--healthy", str(tmp_path / "runs"))
    assert result.exit_code == 1
    assert "scratch-not-mounted: calls the healthy run scratchless broken (root): out.log:1" in result.output


def test_docs_are_written_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    assert run("signatures", "docs", str(folder), "--check").exit_code == 1
    assert run("signatures", "docs", str(folder)).exit_code == 0
    assert run("signatures", "docs", str(folder), "--check").exit_code == 0
    assert (folder / "index.md").read_text().count("| DP15 | [shm-exhausted]") == 1


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("no space left on device", "disk-full"),
        ("oom killer", "host-oom"),
        ("mode collapse", "policy-collapse"),
        ("loss goes nan", "nan-loss"),
        ("why does my loss become nan", "nan-loss"),
        ("nccl timeout", "collective-timeout"),
        ("NCCL network timeout", "nccl-network-timeout"),
        ("-9", "sigkill-unknown-sender"),
        ("exitcode -9", "sigkill-unknown-sender"),
        ("exit code 152", "cpu-time-limit"),
        ("-25", "file-size-limit"),
        ("SIGALRM", "alarm-signal"),
        ("exit code 139", "rank-segfault"),
        ("RuntimeError: CUDA out of memory", "cuda-oom"),
        ("torch.OutOfMemoryError", "cuda-oom"),
        ("Unable to find hostfile", "hostfile-missing"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda-illegal-memory-access"),
    ],
)
def test_what_people_type_and_paste(wanted: str, first: str) -> None:
    result = run("explain", "--format", "json", wanted)
    assert result.exit_code == 0
    assert [e["name"] for e in json.loads(result.stdout)] == [first]


def test_words_for_two_things_show_both() -> None:
    found = json.loads(run("explain", "--format", "json", "index", "out", "of", "range").stdout)
    assert [e["name"] for e in found] == ["token-id-out-of-range", "device-side-assert"]


def test_unknown_options_are_still_refused() -> None:
    result = run("explain", "cuda-oom", "--frmat")
    assert result.exit_code == 2 and "No such option" in result.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('kind = "cause"\n', 'kind = "cause"\ncauses = ["scratch-not-mounted"]\n'),
            "causes names the signature itself",
        ),
        (('kind = "cause"\n', 'kind = "cause"\nparent = "scratch-not-mounted"\n'), "parent names the signature itself"),
        (('\nname = "', '\ufeffname = "'), "begins with a byte order mark"),
        ((OWN[OWN.index("[[evidence]]") :], ""), "a cause needs [[evidence]]"),
        (("[a-z0-9-]{1,60})", "[a-z0-9-]*)[a-z0-9, -]* twice"), "is too slow"),
    ],
)
def test_what_no_signature_may_be(own: Path, change: tuple[str, str], message: str) -> None:
    file = own / "scratch-not-mounted.toml"
    file.write_text(OWN.replace(*change), "utf-8")
    result = run("signatures", "test", str(own))
    assert result.exit_code == 1 and message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("question", "entry"),
    [
        ("why is my loss nan", "nan-loss"),
        ("my training is stuck", "collective-timeout"),
        ("the loss does not go down", "loss-at-chance"),
        ("checkpoint will not load", "checkpoint-corrupt"),
        ("my weights do not update", "weights-not-updated"),
    ],
)
def test_questions_lead_to_entries(question: str, entry: str) -> None:
    assert entry in run("explain", question).output


def test_words_that_no_entry_bears_lead_nowhere() -> None:
    assert "forensics signatures list" in run("explain", "zebra quilt marmalade").output
