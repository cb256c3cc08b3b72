"""Code beside a run: hits support the findings that they fit, and are hints everywhere else."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli import main
from forensics.engine import pipeline, reading
from forensics.engine.hints import related, with_sources
from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options
from forensics.model import Diagnosis, Role, RunData
from forensics.report import jsonreport, markdown, terminal
from forensics.report.redaction import redact_diagnosis
from forensics.run import discover
from forensics.signatures.schema import Signature, load_catalogue
from forensics.sources.checks import REGISTRY
from forensics.sources.walk import parse

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "examples" / "runs"
SAMPLES = ROOT / "sample_logs"
BAD = ROOT / "tests" / "data" / "sources" / "bad"
HUNG = SAMPLES / "hung-rank0-evaluation" / "input"


@cache
def _catalogue() -> dict[str, Signature]:
    return load_catalogue()


@cache
def _matcher() -> Matcher:
    return Matcher(_catalogue())


@cache
def _without(run: Path) -> tuple[Diagnosis, RunData]:
    data = reading.read(discover([str(run)], reading.sniffers()), _matcher(), Options())
    return pipeline.explain(data, _catalogue()), data


def _with(run: Path, *sources: Path) -> Diagnosis:
    diagnosis, data = _without(run)
    return with_sources(diagnosis, data, sources, _catalogue())


def _both(run: Path, *sources: Path) -> tuple[Diagnosis, Diagnosis]:
    return _without(run)[0], _with(run, *sources)


def _supported(diagnosis: Diagnosis) -> set[tuple[str, str, str]]:
    """(finding, file of the code, check) of everything that code supports."""
    names = {finding.id: finding.name for finding in diagnosis.findings}
    return {(names[i], h.evidence[0].file.rsplit("/", 1)[-1], h.check) for h in diagnosis.hints for i in h.supports}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            "hung-rank0-evaluation",
            ("rank-conditional-collective", "train_rank0_eval.py", "rank_conditional_collective"),
        ),
        ("collective-op-mismatch", ("collective-op-mismatch", "train_early_stop.py", "data_dependent_collective")),
        ("ddp-unused-parameters", ("ddp-unused-parameters", "train_multitask.py", "layers_without_gradient")),
        ("loss-scale-stall-after-resume", ("loss-scale-stall", "train_fp16.py", "checkpoint_key_mismatch")),
    ],
)
def test_the_code_of_a_sample_supports_its_root(run: str, expected: tuple[str, str, str]) -> None:
    without, having = _both(SAMPLES / run / "input", RUNS)
    assert expected in _supported(having)
    before, after = without.findings[0], having.findings[0]
    assert after.name == before.name == expected[0]
    assert before.confidence <= after.confidence <= 0.99
    assert after.evidence[0] == before.evidence[0]
    assert after.evidence[1].file.endswith(expected[1])
    assert expected[1] in after.notes[0]
    assert {file for _, file, _ in _supported(having)} == {expected[1]}


@pytest.mark.parametrize(
    "run", ["healthy-ddp", "exception-rank2", "grad-scaler-collapse", "uneven-inputs", "disk-full-on-save"]
)
def test_code_that_has_nothing_to_do_with_it_changes_nothing(run: str) -> None:
    without, having = _both(SAMPLES / run / "input", RUNS)
    assert _supported(having) == set()
    assert having.findings == without.findings
    assert (having.verdict, having.summary) == (without.verdict, without.summary)


def test_the_place_counts_more_than_the_kind(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    script = (RUNS / "scripts" / "train_rank0_eval.py").read_text("utf-8")
    (code / "train_rank0_eval.py").write_text(script)
    placed = _with(HUNG, code)
    assert "The run stood there: train_rank0_eval.py:33, in evaluate" in placed.findings[0].notes[0]
    # Another version of the program, in which the lines of the run's stacks are in other functions.
    (code / "train_rank0_eval.py").write_text("#\n" * 30 + script)
    shifted = _with(HUNG, code)
    assert "The run stood there" not in shifted.findings[0].notes[0]
    plain, _ = _without(HUNG)
    assert plain.findings[0].confidence < shifted.findings[0].confidence < placed.findings[0].confidence


# Rank 0 evaluates alone: its all-reduce of one number meets the gradients of the others.
EVALUATES_ALONE = """\
import torch
import torch.distributed as dist


def evaluate(model):
    t = torch.zeros(1).cuda()
    dist.all_reduce(t)
    return t


def main(model, optimizer, rank):
    for step in range(1000):
        loss = model(torch.randn(2, 2).cuda()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99 and rank == 0:
            evaluate(model)
"""
TIMED_OUT = (
    "[rank{rank}]:[E1107 03:12:4{rank}.123 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation"
    " timeout: WorkNCCL(SeqNum=201, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for"
    " 600028 milliseconds before timing out.\n"
)
STOOD = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/proj/train.py", line {line}, in {function}
[rank0]:     dist.all_reduce(t)
[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.
"""


@pytest.mark.parametrize(
    ("line", "function", "stood"), [(7, "evaluate", True), (15, "main", False)], ids=["there", "elsewhere"]
)
def test_sizes_that_differ_because_one_rank_made_another_call(
    tmp_path: Path, line: int, function: str, stood: bool
) -> None:
    code, run = tmp_path / "code", tmp_path / "run"
    code.mkdir()
    run.mkdir()
    (code / "train.py").write_text(EVALUATES_ALONE)
    log = "".join(TIMED_OUT.format(rank=rank, size=6 if rank else 1) for rank in range(4))
    (run / "log.txt").write_text(log + STOOD.format(line=line, function=function))
    without, having = _both(run, code)
    root = having.findings[0]
    assert root.name == "collective-shape-mismatch" and root.role is Role.ROOT
    supports = ("collective-shape-mismatch", "train.py", "rank_conditional_collective") in _supported(having)
    assert supports is stood
    shown = terminal.render(having, width=100, colour=False)
    assert ("train.py:18" in shown.partition("WHAT TO DO")[0]) is stood
    advice = _catalogue()["rank-conditional-collective"].fix[0]
    assert (root.fix[0] == advice) is stood
    assert [f for f in root.fix if f != advice] == list(without.findings[0].fix)


def test_a_hang_elsewhere_in_the_program_is_not_put_down_to_a_hit(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    lines = (RUNS / "scripts" / "train_rank0_eval.py").read_text("utf-8").splitlines()
    fixed = [line.replace(" and rank == 0", "") for line in lines]
    # A guilty branch further down, to which the run's stacks do not point.
    fixed += ["def finish():", "    if rank == 0:", "        dist.barrier()"]
    (code / "train_rank0_eval.py").write_text("\n".join(fixed))
    diagnosis = _with(HUNG, code)
    assert [(h.check, h.supports) for h in diagnosis.hints] == [("rank_conditional_collective", ())]
    assert "The code at" not in diagnosis.findings[0].notes[0]


def test_a_hint_alone_makes_no_root(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "data" / "sources" / "bad" / "barrier_in_save.py", tmp_path / "train.py")
    without, having = _both(SAMPLES / "healthy-ddp" / "input", tmp_path)
    assert [h.name for h in having.hints] == ["rank-conditional-collective"]
    assert having.hints[0].supports == ()
    assert having.verdict == without.verdict == "healthy"
    assert having.of_role(Role.ROOT) == having.of_role(Role.CASCADE) == ()


def test_code_that_did_not_run_has_nothing_to_say() -> None:
    without, _ = _without(SAMPLES / "exception-rank2" / "input")  # its traceback names train_jsonl.py
    having = _with(SAMPLES / "exception-rank2" / "input", BAD)
    assert having.hints == ()
    assert having.findings == without.findings


def test_what_tells_only_beside_a_finding_is_no_hint(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch\nmodel.load_state_dict(torch.load('x'), strict=False)\n")
    assert _with(SAMPLES / "healthy-ddp" / "input", tmp_path).hints == ()


def test_only_what_a_program_imports_belongs_to_it() -> None:
    programs = [
        parse(text.encode(), path)
        for path, text in (
            ("c/train.py", "import torch\nfrom lib.dist import sync\n"),
            ("c/lib/dist.py", "import torch\n"),
            ("c/other.py", "import torch\n"),
        )
    ]
    assert related(programs, {"c/train.py"}) == {"c/train.py", "c/lib/dist.py"}
    assert related(programs, set()) == {"c/train.py", "c/lib/dist.py", "c/other.py"}


NET = """\
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return F.softmax(self.fc(x))
"""
TRAIN = """\
import torch.nn as nn
from net import Net

model = Net()
crit = nn.CrossEntropyLoss()
for x, y in loader:
    loss = crit(model(x), y)
    loss.backward()
    print("loss of the classifier:", loss)
"""
WARNED = """\
/w/net.py:10: UserWarning: Implicit dimension choice for softmax has been deprecated.
  return F.softmax(self.fc(x))
"""


@pytest.mark.parametrize(
    ("others", "said", "files"),
    [
        ({}, "", ["train.py"]),
        ({"prune.py": TRAIN.replace("from net import Net", "from old import Net")}, "", ["train.py"]),
        ({"tune.py": TRAIN.replace("classifier", "tuned model")}, "", []),
        ({"tune.py": TRAIN.replace("classifier", "tuned model")}, "loss of the tuned model: 1.9", ["tune.py"]),
    ],
    ids=["alone", "another does not import it", "either may be it", "one of two speaks"],
)
def test_a_warning_about_a_module_tells_the_program_that_imports_it(
    tmp_path: Path, others: dict[str, str], said: str, files: list[str]
) -> None:
    code, run = tmp_path / "code", tmp_path / "run"
    code.mkdir()
    run.mkdir()
    for name, text in {"net.py": NET, "train.py": TRAIN, **others}.items():
        (code / name).write_text(text)
    (run / "train.log").write_text(WARNED + "".join(f"step {i} loss 2.0 {said}\n" for i in range(5)))
    hints = _with(run, code).hints
    assert [h.evidence[0].file for h in hints if h.check == "softmax_before_cross_entropy"] == [
        f"code/{name}" for name in files
    ]


def test_reports_show_hints_and_coverage() -> None:
    diagnosis = _with(SAMPLES / "healthy-ddp" / "input", BAD)
    document = jsonreport.to_dict(diagnosis)
    assert {hint["name"] for hint in document["hints"]} >= {"rank-conditional-collective", "loss-graph-kept"}
    assert set(document["hints"][0]) == {"name", "signature", "codes", "title", "check", "confidence", "evidence", "why", "fix", "supports"}  # fmt: skip
    assert {s["kind"] for s in document["coverage"]["sources"] if s["path"].startswith("bad/")} == {"code"}
    text = terminal.render(diagnosis, width=100, colour=False)
    assert "HINTS FROM THE CODE" in text
    assert "bad/lightning_log.py:" in text
    assert "Hints from the code" in markdown.render(diagnosis)


def test_code_in_which_nothing_is_found_is_told(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("import torch\nx = torch.ones(3)\n")
    (tmp_path / "code" / "paths.py").write_text("root = 1\n")
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.0\n")
    said = f"Nothing was found: 2 programs read, 1 of them without a training library; {len(REGISTRY)} checks."
    for name in ("terminal", "markdown"):
        command = ["analyze", str(log), "--sources", str(tmp_path / "code"), "--format", name, "-q"]
        assert said in " ".join(CliRunner().invoke(main, command).output.split())
        assert "Nothing was found" not in CliRunner().invoke(main, ["analyze", str(log), "--format", name, "-q"]).output


def test_a_hint_that_speaks_for_a_follow_up_alone_is_shown() -> None:
    _, diagnosis = _both(HUNG, RUNS)
    hint = next(h for h in diagnosis.hints if h.supports)
    for supports, apart in (((diagnosis.findings[0].id,), False), (("of a cascade",), True), ((), True)):
        changed = replace(diagnosis, hints=(replace(hint, supports=supports),))
        assert (changed.hints_apart() == changed.hints) is apart
        assert ("HINTS FROM THE CODE" in terminal.render(changed, width=100, colour=False)) is apart
        assert ("Hints from the code" in markdown.render(changed)) is apart


def test_hints_are_redacted() -> None:
    diagnosis = _with(SAMPLES / "healthy-ddp" / "input", BAD)
    hint = diagnosis.hints[0]
    secret = replace(hint, evidence=(replace(hint.evidence[0], text="key = 'hf_abcdefghijklmnopqrstuvwxyzABCDEFGH'"),))
    redacted = redact_diagnosis(replace(diagnosis, hints=(secret,))).hints[0]
    assert "hf_abcdef" not in redacted.evidence[0].text
    assert (redacted.name, redacted.check) == (hint.name, hint.check)


def test_the_command_line(tmp_path: Path) -> None:
    run = CliRunner().invoke(main, ["analyze", str(HUNG), "--sources", str(RUNS), "--format", "json", "-q"])
    assert run.exit_code == 1
    assert json.loads(run.stdout)["hints"][0]["supports"] == ["f1"]
    without = CliRunner().invoke(main, ["analyze", str(HUNG), "--format", "json", "-q"])
    assert json.loads(without.stdout)["hints"] == []
    missing = CliRunner().invoke(main, ["analyze", str(HUNG), "--sources", str(tmp_path / "no"), "-q"])
    assert missing.exit_code == 2
