"""Signatures of one's own: settings of a project, installed packages, and patterns that are refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics import settings as project
from forensics.cli import main
from forensics.signatures import plugins, schema
from forensics.signatures.places import line_of
from forensics.signatures.safety import LONG, unsafe, unscannable
from forensics.signatures.schema import SignatureError, load_catalogue, parse

OWN = """
name = "{name}"
title = "The scratch file system is not mounted"
kind = "cause"
severity = "fatal"
why = "The job's first act is to look for it."
fix = ["Ask for a node of the right partition."]

[[evidence]]
source = "log"
pattern = '{pattern}'
"""
LINE = "our-launcher: scratch is not mounted on node-3\n"


def write(
    folder: Path, name: str = "scratch-not-mounted", pattern: str = "our-launcher: scratch is not mounted"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(OWN.format(name=name, pattern=pattern))
    return folder


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "run"
    folder.mkdir(parents=True)
    (folder / "job.log").write_text(LINE)
    return folder


def analyze(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["analyze", *arguments])
    return result.exit_code, result.output


def test_a_project_states_signatures_and_files_to_leave_out(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    write(home / "ours")
    (home / "pyproject.toml").write_text('[tool.forensics]\nsignatures = ["ours"]\n')
    (home / "deeper").mkdir()
    monkeypatch.chdir(home / "deeper")
    assert "scratch file system is not mounted" in analyze(str(run_dir))[1].lower()
    (home / "pyproject.toml").write_text('[tool.forensics]\nsignatures = ["ours"]\nexclude = ["*.log"]\n')
    assert analyze(str(run_dir))[0] == 2


def test_a_project_states_redaction(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "pyproject.toml").write_text("[tool.forensics]\nredact = true\n")
    assert project.load(tmp_path / "home", [str(run_dir)]).redact is True


@pytest.mark.parametrize("given_path", [".", "absolute", "../run"])
def test_a_run_has_no_say(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_path: str) -> None:
    """A pyproject.toml among what is analysed is evidence, even where the analysis is started there."""
    write(run_dir / "ours")
    (run_dir / "pyproject.toml").write_text('[tool.forensics]\nsignatures = ["ours"]\nexclude = ["*"]\n')
    monkeypatch.chdir(run_dir)
    path = str(run_dir) if given_path == "absolute" else given_path
    assert project.load(Path(), [path]) == project.Settings()
    assert "scratch" not in analyze(path, "--format", "json")[1].split('"coverage"')[0].replace("job.log", "")


@pytest.mark.parametrize(
    "text",
    [
        "[tool.forensics]\nsignature = []\n",
        "[tool.forensics]\nsignatures = 'ours'\n",
        "[tool.forensics]\nexclude = [1]\n",
        "[tool.forensics]\nredact = 'yes'\n",
        "[tool.forensics]\nsignatures = ['missing']\n",
        "[tool]\nforensics = 1\n",
        "tool = 1  # forensics\n",
        "[tool.forensics\n",
        "forensics = " + "[" * 5000,
    ],
)
def test_wrong_settings_end_in_one_line(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "home" / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path / "home")
    status, output = analyze(str(run_dir))
    assert status == 2 and "fault of forensics" not in output
    assert re.search(r"pyproject\.toml:\d+: ", output.replace("\n", ""))


def test_a_project_file_that_does_not_speak_of_us_is_not_even_parsed(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "pyproject.toml").write_text("[project\n")
    monkeypatch.chdir(tmp_path / "home")
    assert analyze(str(run_dir))[0] != 2


def test_an_unsafe_pattern_is_refused_before_anything_is_read(run_dir: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "ours", pattern="our-launcher: (?:s|ss)+$")
    status, output = analyze(str(run_dir), "--signatures", str(folder))
    assert status == 2
    assert "scratch-not-mounted.toml:11: pattern:" in output and "too slow" in output


@pytest.mark.parametrize("pattern", ["x{1,60000}y", "a(?!look)b"])
def test_a_pattern_that_the_scan_cannot_take_is_refused_alike(run_dir: Path, tmp_path: Path, pattern: str) -> None:
    folder = write(tmp_path / "ours", pattern=pattern)
    status, output = analyze(str(run_dir), "--signatures", str(folder))
    assert status == 2
    assert "scratch-not-mounted.toml:11: pattern:" in output and "give the rule a literal `anchor`" in output
    reason = output.partition("pattern: ")[2].strip()
    tested = CliRunner().invoke(main, ["signatures", "test", str(folder)])
    assert tested.exit_code == 1 and f"scratch-not-mounted.toml:11: scratch-not-mounted: {reason}" in tested.output
    assert unscannable(f"our-launcher: {pattern}") is None  # the scan looks for the literal


def test_what_is_tested_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a command would read; the built-in ones are but one here, for the sake of time."""
    monkeypatch.setattr(schema, "BUILT_IN", write(tmp_path / "built-in", name="built-in-one") and tmp_path / "built-in")
    project_file = tmp_path / "home" / "pyproject.toml"
    write(tmp_path / "home" / "ours", name="ours-alone")
    monkeypatch.chdir(tmp_path / "home")

    def tested() -> tuple[int, str]:
        result = CliRunner().invoke(main, ["signatures", "test"])
        return result.exit_code, result.output

    assert "1 signature, 1 problem" in tested()[1]  # it has no example
    project_file.write_text('[tool.forensics]\nsignatures = ["ours"]\n')
    status, output = tested()
    assert (
        status == 1 and "2 signatures, 2 problems" in output and "ours-alone.toml:1: ours-alone: no positive" in output
    )
    project_file.write_text('[tool.forensics]\nsignature = ["ours"]\n')
    status, output = tested()
    assert status == 1 and "pyproject.toml:2: [tool.forensics] knows no signature" in output


def break_own(folder: Path, change: tuple[str, str]) -> Path:
    file = write(folder) / "scratch-not-mounted.toml"
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))
    return folder


METRICS = 'source = "metrics"\n'
LOG = "source = \"log\"\npattern = 'our-launcher: scratch is not mounted'\n"


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (('severity = "fatal"', "severity = 3"), 5, "severity must be text, not 3"),
        (('severity = "fatal"', 'severity = "bad"'), 5, "severity must be one of"),
        (('severity = "fatal"', 'severity = "fatal"\nspecificity = 101'), 6, "specificity must lie between 0 and 100"),
        (('severity = "fatal"', 'severity = "fatal"\nspecificity = true'), 6, "specificity must be a whole number"),
        (('severity = "fatal"', 'severity = "fatal"\ncodes = ["out of memory"]'), 6, "a code is capital letters"),
        (('severity = "fatal"', 'severity = "fatal'), 5, "at line 5"),
        (('name = "scratch', 'name = "a scratch'), 2, "name must be letters"),
        ((LOG, f'{METRICS}detector = "nan_los"'), 11, "did you mean nan_loss?"),
        ((LOG, f'{METRICS}detector = "nan_loss"\npersists = 2'), 12, "knows no 'persists'"),
        (
            (LOG, f'{METRICS}detector = "nan_loss"\npersist = "3"'),
            12,
            "persist of the detector nan_loss must be a whole",
        ),
        ((LOG, f'{METRICS}detector = "nan_loss"\npersist = 0'), 12, "cannot be 0"),
        ((LOG, f'{METRICS}detector = "nonfinite_module"'), 11, "needs place"),
        ((LOG, 'source = "file"\ndetector = "padding_sides"'), 11, "did you mean padding_side?"),
        ((LOG, 'source = "collectives"\ndetector = "desynch"'), 11, "did you mean desync?"),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "test"])
def test_what_is_wrong_with_a_signature_is_one_line_with_its_place(
    run_dir: Path, tmp_path: Path, change: tuple[str, str], line: int, message: str, command: str
) -> None:
    folder = break_own(tmp_path / "ours", change)
    arguments = [str(run_dir), "--signatures", str(folder)] if command == "analyze" else [str(folder)]
    result = CliRunner().invoke(
        main, ["analyze" if command == "analyze" else "signatures", *_test(command), *arguments]
    )
    assert result.exit_code == (2 if command == "analyze" else 1)
    assert f"scratch-not-mounted.toml:{line}: " in result.output and message in result.output
    assert "fault of forensics" not in result.output


def _test(command: str) -> list[str]:
    return ["test"] if command == "test" else []


def test_a_file_in_another_encoding_is_named_with_its_line(run_dir: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "ours") / "scratch-not-mounted.toml"
    file.write_bytes(file.read_bytes().replace(b"The job's", b"L\xe9 job's"))
    status, output = analyze(str(run_dir), "--signatures", str(file.parent))
    assert status == 2 and "scratch-not-mounted.toml:6: is no UTF-8 text (byte 0xe9)" in output


def test_names_of_no_signature_are_told_and_stop_nothing(run_dir: Path, tmp_path: Path) -> None:
    folder = break_own(
        tmp_path / "ours",
        ('severity = "fatal"', 'severity = "fatal"\nparent = "nobody"\ncauses = ["nothing"]\nsee_also = ["cuda-oom"]'),
    )
    with (folder / "scratch-not-mounted.toml").open("a") as file:
        file.write("[[lookalike]]\nname = 'no-such'\ntell = 'x'\n")
    status, output = analyze(str(run_dir), "--signatures", str(folder))
    assert status == 1 and "scratch file system" in output.lower()
    for line, message in (
        (6, "parent names 'nobody'"),
        (7, "causes names 'nothing'"),
        (16, "lookalike names 'no-such'"),
    ):
        assert f"scratch-not-mounted.toml:{line}: {message}, which is no signature" in output
    assert "cuda-oom" not in output.split("scratch file")[0]


def test_a_line_that_two_rules_match_counts_once(run_dir: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "ours") / "scratch-not-mounted.toml"
    file.write_text(file.read_text() + "[[evidence]]\nsource = 'log'\npattern = 'not mounted on node-'\nweight = 0.7\n")
    for times in (1, 3):
        (run_dir / "job.log").write_text(LINE * times)
        output = analyze(str(run_dir), "--signatures", str(file.parent), "--format", "json")[1]
        finding = json.loads(output)["findings"][0]
        assert (finding["name"], finding["count"]) == ("scratch-not-mounted", times)


def test_the_area_is_the_folder_that_a_file_lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "ours")
    write(tmp_path / "ours" / "storage", name="other")
    monkeypatch.chdir(tmp_path / "ours")
    for folder in (Path(), Path("../ours"), tmp_path / "ours"):
        found = load_catalogue(folder)
        assert (found["scratch-not-mounted"].area, found["other"].area) == ("ours", "storage")


def test_an_empty_folder_is_told(run_dir: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no signatures" in analyze(str(run_dir), "--signatures", str(empty))[1]
    result = CliRunner().invoke(main, ["signatures", "test", str(empty)])
    assert result.exit_code == 1 and "holds no signatures" in result.output


def test_an_experimental_signature_needs_no_near_miss(tmp_path: Path) -> None:
    file = write(tmp_path / "ours") / "scratch-not-mounted.toml"
    file.write_text(file.read_text() + f"[[example]]\nlog = '{LINE.strip()}'\n")
    result = CliRunner().invoke(main, ["signatures", "test", str(file)])
    assert (result.exit_code, result.output) == (0, "1 signature, 0 problems\n")
    file.write_text(file.read_text().replace("kind =", 'status = "stable"\nkind ='))
    assert "stable needs a near-miss" in CliRunner().invoke(main, ["signatures", "test", str(file)]).output


def install(site: Path, value: str, name: str = "ours") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[forensics.signatures]\n{name} = {value}\n")


def test_installed_packages_bring_signatures_and_are_not_imported(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    write(site / "our_package" / "signatures")
    (site / "our_package" / "__init__.py").write_text("raise SystemExit('imported')\n")
    install(site, "our_package.signatures")
    monkeypatch.syspath_prepend(str(site))
    assert plugins.folders() == (site / "our_package" / "signatures",)
    assert plugins.folders() == (site / "our_package" / "signatures",)  # as remembered
    assert "scratch-not-mounted" in load_catalogue(*plugins.folders())
    assert "scratch file system" in analyze(str(run_dir))[1].lower()
    assert "our_package" not in sys.modules


def test_two_packages_with_an_entry_point_of_one_name_both_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    for package in ("pa", "pb"):
        write(site / package / "signatures")
        (site / package / "__init__.py").touch()
        install(site, f"{package}.signatures", name=package)
        (site / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(
            f"[forensics.signatures]\nours = {package}.signatures\n"
        )
    monkeypatch.syspath_prepend(str(site))
    assert plugins.folders() == (site / "pa" / "signatures", site / "pb" / "signatures")


@pytest.mark.parametrize("value", ["missing_package", "our_package.missing", "", "..", "this"])
def test_entry_points_that_lead_nowhere_bring_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    site = tmp_path / "site"
    write(site / "our_package")
    install(site, value)
    monkeypatch.syspath_prepend(str(site))
    assert all(site not in (folder, *folder.parents) for folder in plugins.folders())
    (problem,) = plugins.installed().problems
    assert f"ours = {value}".strip() in problem and "of ours: " in problem


def test_an_entry_point_that_leads_nowhere_is_told(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    write(site / "our_package" / "signatures")
    (site / "our_package" / "__init__.py").touch()
    install(site, "our_pakage.signatures")
    monkeypatch.syspath_prepend(str(site))
    said = "no installed package is called 'our_pakage'"
    assert said in analyze(str(run_dir))[1]
    result = CliRunner().invoke(main, ["signatures", "test", str(site / "our_package" / "signatures")])
    assert result.exit_code == 1 and said in result.output
    # An edited list of entry points is read again, though the folder of packages is as it was.
    for value in ("our_package", "our_package.signatures", "our_package"):
        before = site.stat().st_mtime_ns
        (site / "ours-1.0.dist-info" / "entry_points.txt").write_text(f"[forensics.signatures]\nours = {value}\n")
        assert site.stat().st_mtime_ns == before
        assert plugins.installed() == plugins.Installed((site.joinpath(*value.split(".")),))


@pytest.mark.parametrize("entry", ["", "."])
def test_the_current_directory_brings_no_signatures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """`python -m forensics` puts it on the search path, and it may be the run."""
    write(tmp_path / "our_package")
    install(tmp_path, "our_package")
    monkeypatch.chdir(tmp_path)
    for path in (entry, str(tmp_path)):
        monkeypatch.setattr(sys, "path", [path, *sys.path])
    assert all(tmp_path not in (folder, *folder.parents) for folder in plugins.folders())


def test_a_later_folder_wins(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", pattern="another launcher")
    found = load_catalogue(tmp_path / "a", tmp_path / "b")["scratch-not-mounted"]
    assert found.evidence[0].pattern == "another launcher"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b", r"(?:a|aa)+$", r"(a+)+$", r"failed: (\w+\s*)+$", r"x ((?:[a-z]{1,60})+ ?)*", r"(?:\d+(?:\.\d+)?)+s", r"(\w+\s?)+:$", r"([a-z]+)*1", r"(?:a|a)*b", r"x*", r"", r"(?:", r"a{2,1}",
    ],
)  # fmt: skip
def test_unsafe_patterns(pattern: str) -> None:
    assert unsafe(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:\w+,)+", r"(?: at [\w.]{1,60}:\d+)+", r"(?:[^:]+: )+error",
        r"CUDA out of memory", r"rank (?P<rank>\d+) of \d+", r"(?:x\d+)+y", r"^\[(?P<rank>\d+)\]: .*: error", r"a.*b.*c",
        r"Killed process (?P<pid>\d+) \([^)]{1,64}\)", r"(?i)no space left (?:on|in) \S+",
    ],
)  # fmt: skip
def test_safe_patterns(pattern: str) -> None:
    assert unsafe(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [
        (r"code .*(?:refused|denied)", r"code [^\n]{0,300}(?:refused|denied)"),  # `code` again and again
        (r"pids (?P<pid>\d+)[\d, ]*\) left", r"pids (?P<pid>\d{1,10})(?:, \d{1,10})*\) left"),
        (r"of set [^\n]*was (?P<a>\d+)[^\n]*but (?P<b>\d+) came", r"of set [^\n]{0,300}was (?P<a>\d{1,15})\b[^\n]{0,200}but (?P<b>\d{1,15}) came"),
    ],
)  # fmt: skip
def test_what_only_a_very_long_line_makes_slow_is_told_when_it_is_tested(pattern: str, bounded: str) -> None:
    assert unsafe(pattern) is None
    assert "too slow" in str(unsafe(pattern, LONG))
    assert unsafe(bounded, LONG) is None


def test_places_are_found_in_toml() -> None:
    text = "name = 'a'\nwhy = '''\nfix = no key\n[[evidence]]\n'''\nfix = [\n  'x',\n]\n[[evidence]]\nweight = 1\n[[evidence]]\n\nweight = 2\n"
    assert line_of(text, ("fix",)) == 6
    assert line_of(text, ("evidence", 0, "weight")) == 10
    assert line_of(text, ("evidence", 1, "weight")) == 13
    assert line_of(text, ("evidence", 1)) == 11
    assert line_of(text, ("evidence", 1, "pattern")) == 11
    assert line_of(text, ("missing",)) == 1
    assert line_of(text, ()) == 1


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(
        "name title kind severity why codes status verdict culprit causes parent specificity fix confirm see_also "
        "references versions lookalike evidence example".split()
    ),
)
def test_any_value_of_any_field_is_taken_or_refused(value: object, field: str) -> None:
    import tomllib

    from forensics.signatures.schema import build

    table = tomllib.loads(OWN.format(name="a", pattern="scratch")) | {field: value}
    try:
        build(table, "area", "file")
    except SignatureError as error:
        assert str(error).startswith("file")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for made in (text, OWN.format(name="a", pattern="scratch") + text):
        try:
            parse(made, "area", "file")
        except SignatureError as error:
            assert str(error).startswith("file")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab|()[]{}*+?.^$\\d1,-:", max_size=16))
def test_any_pattern_is_judged(pattern: str) -> None:
    reason = unsafe(pattern)
    assert reason is None or pattern[:20] in reason or repr(pattern)[:20] in reason
