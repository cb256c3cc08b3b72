"""Reading programs: whatever a folder holds, the rest is read, and coverage says what was not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Coverage, Status
from forensics.sources import walk
from forensics.sources.run import examine, run_checks
from forensics.sources.walk import Unreadable, parse, parse_notebook, read_code

GOOD = b"import torch\nmodel = torch.nn.Linear(2, 2)\n"


def _row(rows: tuple[Coverage, ...], path: str) -> Coverage:
    return next(row for row in rows if row.path == path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"import torch\nprint 'loss', loss\n", "Python 2"),
        (b"import torch\nexcept IOError, e:\n", "no program"),
        (b"import torch\ndef f(:\n", "line 2"),
        (b"import torch\n\x00\x01", "binary"),
        (b"# coding: no-such-codec\nimport torch\n", "no program"),
        (b"import torch\nx = '\xff\xfe'\n", "no program"),
        (b"import torch\nx = " + b"(" * 5000 + b")" * 5000, "no program"),
        (b"import torch\nx = " + b"1+" * 60000 + b"1", "nested"),
        (b"import torch\nx = " + b"-" * 20000 + b"1", "nested"),
        (b"import torch\nx = a" + b".b" * 2000, "nested"),
    ],
    ids=["print", "except", "syntax", "nul", "codec", "bytes", "parentheses", "sum", "minus", "attributes"],
)
def test_what_cannot_be_parsed_is_said_to_be_so(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "good.py").write_bytes(GOOD)
    code = read_code([tmp_path])
    row = _row(code.coverage, f"{tmp_path.name}/bad.py")
    assert row.status is Status.SKIPPED
    assert reason in (row.reason or "")
    assert [program.path for program in code.programs] == [f"{tmp_path.name}/good.py"]


def test_a_program_without_a_training_library_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "plot.py").write_text("def f(:")
    code = read_code([tmp_path])
    assert code.programs == ()
    assert code.coverage[0].status is Status.READ
    assert code.coverage[0].reason == "uses no training library"


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "code"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.py").write_bytes(GOOD)
    (inside / "train.py").write_bytes(GOOD)
    (inside / "out.py").symlink_to(outside / "secret.py")
    (inside / "loop.py").symlink_to(inside / "loop.py")
    (inside / "folder").symlink_to(outside)
    (inside / "again.py").symlink_to(inside / "train.py")
    code = read_code([inside])
    assert [program.path for program in code.programs] in (["code/again.py"], ["code/train.py"])
    assert "leaves the folder" in (_row(code.coverage, "code/out.py").reason or "")
    assert _row(code.coverage, "code/loop.py").status is Status.SKIPPED


def test_pipes_and_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "large.py").write_bytes(GOOD + b"#" * 3000)
    (tmp_path / "small.py").write_bytes(GOOD)
    monkeypatch.setattr(walk, "MAX_SIZE", 2000)
    code = read_code([tmp_path])
    assert "regular" in (_row(code.coverage, f"{tmp_path.name}/pipe.py").reason or "")
    assert "larger" in (_row(code.coverage, f"{tmp_path.name}/large.py").reason or "")
    assert len(code.programs) == 1


def test_the_number_of_programs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        (tmp_path / f"p{n}.py").write_bytes(GOOD)
    monkeypatch.setattr(walk, "MAX_FILES", 3)
    code = read_code([tmp_path])
    assert len(code.programs) == 3
    assert "more than 3" in (code.coverage[-1].reason or "")


def test_the_size_of_all_syntax_trees_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        (tmp_path / f"p{n}.py").write_bytes(GOOD + b"a," * 1000)
    monkeypatch.setattr(walk, "MAX_NODES", 1500)
    code = read_code([tmp_path])
    assert len(code.programs) == 2
    assert "syntax nodes" in (code.coverage[-1].reason or "")


def test_installed_packages_are_left_out(tmp_path: Path) -> None:
    for folder in ("venv/lib/site-packages/torch", "__pycache__", ".git"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_bytes(GOOD)
    assert read_code([tmp_path]).coverage[0].reason == "holds no program"


def test_single_files_and_equal_names(tmp_path: Path) -> None:
    for name in ("a/src", "b/src"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "train.py").write_bytes(GOOD)
    code = read_code([tmp_path / "a/src", tmp_path / "b/src", tmp_path / "a/src/train.py"])
    assert [program.path for program in code.programs] == ["src/train.py", "src.2/train.py"]


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Training"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", "import torch\n", "from torch import nn"]},
        {"cell_type": "code", "source": "%%bash\nls -la | head\n"},
        {"cell_type": "code", "source": "this is no python"},
        {"cell_type": "code", "source": "loss = nn.CrossEntropyLoss()(torch.rand(2, 2).softmax(1), torch.zeros(2).long())"},
    ]
}  # fmt: skip


def test_the_code_cells_of_a_notebook_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    found = examine([tmp_path])
    assert [hit.check for hit in found.hits] == ["softmax_before_cross_entropy"]
    assert found.hits[0].evidence[0].text.startswith("loss = nn.Cross")
    assert found.hits[0].evidence[0].offset is None
    assert found.coverage[0].status is Status.PARTIAL
    assert found.coverage[0].reason == "1 of 4 code cells are no Python"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("{bad", "not valid JSON"),
        ("torch", "not valid JSON"),
        ("[" * 100000 + "torch", "not valid JSON"),
        ("[]", "no cells"),
        ('{"cells": 3, "torch": 1}', "no cells"),
    ],
)
def test_what_is_no_notebook_is_said_to_be_none(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "x.ipynb").write_text(text)
    row = read_code([tmp_path]).coverage[0]
    assert row.status is Status.SKIPPED
    assert row.reason == f"no notebook: {'it has ' if reason == 'no cells' else ''}{reason}"


@pytest.mark.parametrize("word", ["torch", "matplotlib"])
def test_cells_that_are_none_cost_nothing(tmp_path: Path, word: str) -> None:
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [1, {}, word]}))
    assert read_code([tmp_path]).coverage[0].status is Status.READ


def test_a_check_that_fails_costs_its_program_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.sources import run

    def fails(program: object, project: object) -> object:
        raise RecursionError("too deep")

    monkeypatch.setattr(run, "REGISTRY", {"fails": fails})
    hits, faults = run_checks([parse(GOOD, "a.py")])
    assert hits == ()
    assert "fails" in faults["a.py"]


def test_a_hostile_text_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import torch\nx = '''\x1b[31m\u202e'''\nos.system('touch ran')\n", "utf-8")
    examine([tmp_path])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.py"]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_program_or_a_reason(data: bytes) -> None:
    for read in (lambda: parse(b"import torch\n" + data, "x.py"), lambda: parse_notebook(data, "x.ipynb")):
        try:
            read()
        except Unreadable as error:
            assert str(error)


LINES = st.sampled_from(
    [
        "dist.barrier()", "return", "continue", "loss.backward()", "optimizer.step()", "optimizer.zero_grad()", "f(x)",
        "model = DDP(model)", "model.to(d)", "model.eval()", "scaler.step(optimizer)", "scaler.update()", "x = F.softmax(x)",
        "torch.save({'model': model.state_dict(), 'epoch': 1}, p)", "s = torch.load(p)", "loss = F.cross_entropy(f(x), y)",
        "total += loss", "x = lambda: rank", "a[0].b()().c = d = e", "x: int = 3", "del x", "match = [*x]", "self.log(loss, sync_dist=True)",
        "optimizer = torch.optim.Adam(model.parameters())", "model = Net(x)", "rank = dist.get_rank() == 0", "clip_grad_norm_(x)",
    ]
)  # fmt: skip
HEADS = st.sampled_from(
    ["if rank == 0:", "if not rank:", "for x in loader:", "while not is_main_process():", "with torch.no_grad():", "def f(x):",
     "class Net(nn.Module):", "def forward(self, x, *a, **k):", "def __init__(self):", "if loss.item() < val:", "class A(Dataset):",
     "try:\n    pass\nfinally:", "async def g():", "if (i + 1) % accum == 0:"]
)  # fmt: skip
BLOCKS = st.recursive(
    LINES,
    lambda inner: st.tuples(HEADS, st.lists(inner, min_size=1, max_size=4)),
    max_leaves=25,
)


def _rendered(block: str | tuple[str, list[object]], depth: int = 0) -> list[str]:
    pad = "    " * depth
    if isinstance(block, str):
        return [pad + block]
    head, inner = block
    lines = [pad + line for line in head.split("\n")]
    return lines + [line for part in inner for line in _rendered(part, depth + 1)]  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(st.lists(BLOCKS, max_size=5))
def test_checks_survive_any_program(blocks: list[str | tuple[str, list[object]]]) -> None:
    head = (
        "import torch\nimport torch.nn.functional as F\nfrom torch import distributed as dist, nn\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\nscaler = torch.cuda.amp.GradScaler()\n"
    )
    text = head + "\n".join(line for block in blocks for line in _rendered(block))
    _, faults = run_checks([parse(text.encode(), "x.py")])
    assert not faults
