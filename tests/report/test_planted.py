"""Nothing secret or personal leaves in any shared format, from any place that a log can reach."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from planted import PLANTED
from samples import diagnosis, finding
from test_html import pictures

from forensics.compare import render
from forensics.compare.model import CallDifference, Change, Comparison, OrderDifference, Parting, Side, Sign
from forensics.compare.redacted import redacted as redacted_comparison
from forensics.engine.pipeline import Options, analyse
from forensics.model import Coverage, Diagnosis, Evidence, Fact, Hint, MissingEvidence, Role, RuledOut, Status
from forensics.report import github, jsonreport, junit, markdown, sarif, terminal
from forensics.report import html as page
from forensics.report.html.context import Context
from forensics.report.html.material import Material
from forensics.report.redaction import Redactor, redact_diagnosis

SHARED: dict[str, Callable[[Diagnosis], str]] = {
    "markdown": markdown.render,
    "github": lambda d: github.render(d) + github.commands(d, d.run.path),
    "junit": junit.render,
    "sarif": sarif.render,
    "json": jsonreport.render,
    "terminal": lambda d: terminal.render(d, width=200, colour=False),
    "html": lambda d: page.render(Material(d)),
}


def _plain(report: str) -> str:
    """The report as a reader sees it: a leak that is only escaped is one."""
    return unquote(html.unescape(report)).replace("\\", "").replace("\u200b", "")


def _leaks(report: str) -> list[str]:
    plain = _plain(report)
    return [kind for kind, _, value in PLANTED if re.sub(r"\\", "", value) in plain]


def test_there_are_many_kinds() -> None:
    assert len({kind for kind, _, _ in PLANTED}) == len(PLANTED) >= 60


@pytest.mark.parametrize(("kind", "text", "value"), PLANTED, ids=[kind for kind, _, _ in PLANTED])
def test_each_kind_goes(kind: str, text: str, value: str) -> None:
    planted = text.format(value)
    redactor = Redactor()
    redacted = redactor.redact(planted)
    assert value not in redacted
    assert re.search(r"[a-z]+-\d+", redacted)
    assert redactor.redact(redacted) == redacted


def _everywhere(text: str) -> Diagnosis:
    """`text` in every field of a diagnosis that a log can reach."""
    at = (Evidence(f"logs/{text}", 3, 4, text), Evidence(f"run.tar.gz!/{text}", 1, 0, text))
    return diagnosis(
        finding(
            title=text, node=text, why=text, notes=(text,), fix=(text,), evidence=at, captures={"message": text, "x": text},
            time_source=text, step=3, step_unit=text,
        ),
        finding(id="f2", name="a", role=Role.CASCADE, title=text, node=text, evidence=at, explained_by="f1"),
        finding(id="f3", name="b", role=Role.CONTEXT, title=text, why=text, evidence=at, notes=(text,)),
        summary=text,
        run={"path": f"/data/{text}"},
        ruled_out=(RuledOut("c", text, at),),
        missing_evidence=(MissingEvidence(text, text),),
        coverage=(
            Coverage(f"in/{text}", "log", 1, Status.READ, None, 0, text),
            Coverage(f"run.tar.gz!/{text}", "log", 1, Status.SKIPPED, text),
        ),
        environment=(Fact("torch.version", text, text, 1), Fact("gpu.name", text, text), Fact(f"args.{text}", text, text)),
        hints=(Hint(name="h", codes=(), title=text, check="c", confidence=0.5, evidence=at, why=text, fix=(text,), supports=()),),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value"), PLANTED, ids=[kind for kind, _, _ in PLANTED])
def test_no_field_lets_it_through(kind: str, text: str, value: str) -> None:
    redacted = redact_diagnosis(_everywhere(text.format(value)))
    for name, form in SHARED.items():
        assert value.replace("\\", "") not in _plain(form(redacted)), name


@pytest.mark.parametrize(("kind", "text", "value"), PLANTED, ids=[kind for kind, _, _ in PLANTED])
def test_no_picture_and_no_neighbour_lets_it_through(kind: str, text: str, value: str) -> None:
    text = text.format(value)
    around = {(f"logs/{text}", 3): Context(f"logs/{text}", 3, ((2, text, False), (3, text, True)))}
    shown = page.redact(Material(_everywhere(text), pictures(text), around))
    # What a picture draws are these strings; the page has them as titles, labels and attributes too.
    assert value.replace("\\", "") not in _plain(f"{shown.pictures!r} {shown.contexts!r}")


@pytest.mark.parametrize(("kind", "text", "value"), PLANTED, ids=[kind for kind, _, _ in PLANTED])
def test_no_comparison_lets_it_through(kind: str, text: str, value: str) -> None:
    text = text.format(value)
    at = Evidence(text, 3, 0, text)
    side = Side(f"/data/{text}", "failed", text, 1, 1, 1, 0, 9)
    change = Change(text, f"{text} | {text}", None, text, text)
    part = Parting(
        metric=text, kind="parts", ranks=(0,), compared_ranks=1, records=9, first_common=0, last_common=9, unit="step",
        equal_through=3, first_unequal=4, step=4, good_at=at, bad_at=at,
    )  # fmt: skip
    signs = tuple(Sign(name=text, title=text, role="message", count=1, evidence=at) for _ in range(2))
    moved = OrderDifference(rank=0, position=1, unit="step", good=text, bad=text, good_at=at, bad_at=at)
    call = CallDifference(rank=0, group=text, seq=1, what="op", good=text, bad=text, ranks=(0,))
    made = Comparison(
        goods=(side,), bad=side, shape=(change,), settings=(change,), expected=(change,), partings=(part,), calls=(call,),
        only_bad=(Sign(name="slug", title=text, role="root", count=1, evidence=at),), only_good=(), order=(moved,),
        messages_only_bad=signs, messages_only_good=signs, order_compared=1, notes=(text,),
    )  # fmt: skip
    shown = redacted_comparison(made)
    for form in (render.markdown(shown), render.terminal(shown), render.as_json(shown)):
        assert value.replace("\\", "") not in _plain(form)


@pytest.fixture(scope="module")
def planted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose files say everything that is planted: log, traceback, names of files and folders, records."""
    run = tmp_path_factory.mktemp("home") / "zjdoe" / "run-of-zeta17"
    folder = run / "wandb" / "run-20261127_204924-q7w8e9r1"
    folder.mkdir(parents=True)
    flat = [text.format(value).replace("\n", " ") for _, text, value in PLANTED]
    lines = [f"2026-11-27 20:49:{number % 60:02} {line}" for number, line in enumerate(flat)]
    trace = ["Traceback (most recent call last):"]
    trace += [
        f'  File "/home/zjdoe/p/train.py", line {n}, in step\n    call("{t}")' for n, t in enumerate(flat[:40], 1)
    ]
    trace += ["RuntimeError: " + " | ".join(flat)]
    (folder / "zeta17_rank0.log").write_text("\n".join([*lines, *trace]) + "\n")
    for number, line in enumerate(flat):
        # A record of each: the message becomes that of an exception.
        record = {
            "message": {"message": f"RuntimeError: {line}", "extraInfo": {"py_callstack": trace[1], "timestamp": "1"}}
        }
        (run / f"error_{number}.json").write_text(json.dumps(record))
        if "/" not in line:
            (run / f"{number} {line[:120]}.log").write_text(f"step {number} loss nan\n")
    return run


@pytest.mark.parametrize("form", SHARED)
def test_a_run_full_of_them_tells_none(planted_run: Path, form: str) -> None:
    found = analyse([str(planted_run)], Options(threads=1))
    assert len(_leaks(SHARED[form](found))) > 10  # they do reach the reports
    report = SHARED[form](redact_diagnosis(found))
    assert _leaks(report) == []
    assert "zjdoe" not in report and "zeta17" not in report
