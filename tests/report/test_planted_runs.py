"""Whole runs that tell in every file who ran them and where: no shared form of any of them says so."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from planted_runs import HOST, NAMES, OTHER, RUNS, USER, sources

from forensics.compare import render
from forensics.compare.comparison import compare
from forensics.engine.pipeline import Analysis, Options, analyse_with_data
from forensics.report import github, jsonreport, junit, markdown, sarif, terminal
from forensics.report import html as page
from forensics.report.plots import files
from forensics.report.plots.model import Pictures
from forensics.report.redaction import redact_diagnosis, told
from forensics.signatures.schema import Signature, load_catalogue

DRAWN = ("hang",)  # drawing takes a second a run; of the others the strings that would be drawn are looked at


@cache
def _catalogue() -> dict[str, Signature]:
    return load_catalogue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp(name) / "home" / USER / f"run-of-{HOST}") for name, make in RUNS.items()}


@pytest.fixture(scope="module")
def found(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysis]:
    options = Options(threads=1, sources=(sources(tmp_path_factory.mktemp("code")),))
    return {name: analyse_with_data([str(run)], options, _catalogue()) for name, run in runs.items()}


def _leaks(form: str) -> list[str]:
    plain = unquote(html.unescape(form)).replace("\\", "").replace("\u200b", "").lower()
    return [name for name in NAMES if name.lower() in plain]


@pytest.mark.parametrize("name", RUNS)
def test_no_form_tells_who_or_where(found: dict[str, Analysis], name: str, tmp_path: Path) -> None:
    run = found[name]
    material = page.gather(run.diagnosis, run.data)
    assert len(_leaks(jsonreport.render(run.diagnosis) + repr(material))) >= 5  # they do reach the reports
    shown = redact_diagnosis(run.diagnosis, told=told(run.data))
    redacted = page.redact(material)
    places = {(e.file, e.line) for f in redacted.diagnosis.findings for e in f.evidence}
    assert redacted.contexts.keys() <= places  # neighbours are found again by the redacted name of their file
    if name not in DRAWN:
        assert _leaks(repr(redacted.pictures)) == []
        redacted = replace(redacted, pictures=Pictures())
    drawn = files.write(redacted.pictures, tmp_path)
    forms = {
        "markdown": markdown.render(shown),
        "github": github.render(shown) + github.commands(shown, shown.run.path),
        "junit": junit.render(shown),
        "sarif": sarif.render(shown, _catalogue()),
        "terminal": terminal.render(shown, width=100, colour=False),
        "json": jsonreport.render(shown),
        "html": page.render(redacted),
        "plots": " ".join([*drawn, *(file.read_text() for file in tmp_path.glob("*.svg"))]),
    }
    assert {form: leaks for form, text in forms.items() if (leaks := _leaks(text))} == {}


def test_no_comparison_tells_who_or_where(runs: dict[str, Path]) -> None:
    pair = [str(runs["exception"])], str(runs["diverged"])
    assert len(_leaks(render.as_json(compare(*pair, catalogue=_catalogue())))) >= 5
    shown = compare(*pair, catalogue=_catalogue(), redact=True)
    for form in (render.markdown(shown), render.terminal(shown), render.as_json(shown)):
        assert _leaks(form) == []


def test_one_thing_has_one_stand_in_and_the_story_stays(found: dict[str, Analysis]) -> None:
    run = found["killed"]
    shown = redact_diagnosis(run.diagnosis, told=told(run.data))
    paths = {c.path for c in shown.coverage}
    host = next(path for path in paths if path.startswith("kern-")).removeprefix("kern-").removesuffix(".log")
    assert f"slurm-{host}-42.out" in paths and OTHER not in str(shown)
    text = terminal.render(shown, width=100, colour=False)
    for kept in ("task 3", "Out Of Memory", "oom_kill", f"srun: error: {host}: task 3"):
        assert kept in text
    assert [f.name for f in shown.findings] == [f.name for f in run.diagnosis.findings]


def test_a_name_that_only_the_rest_of_a_log_gives_away_is_taken_out(tmp_path: Path) -> None:
    (tmp_path / "ckpt-qkowalski").mkdir()
    log = tmp_path / "ckpt-qkowalski" / "train.log"
    log.write_text(
        "wandb: Currently logged in as: qkowalski (zeta)\n" + "step 1\n" * 50 + "CUDA error: out of memory\n"
    )
    run = analyse_with_data([str(tmp_path)], Options(threads=1), _catalogue())
    assert "qkowalski" in str(redact_diagnosis(run.diagnosis).coverage)
    assert "qkowalski" not in str(redact_diagnosis(run.diagnosis, told=told(run.data)).coverage)
