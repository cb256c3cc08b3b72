"""Notebooks with outputs, and what `tail` prints of several files: texts that lie within another file."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.archives import joined, notebook
from forensics.archives.limits import Stop
from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Verdict
from forensics.run import NothingToRead

ANSI, PLAIN = "\x1b[0;31m", "\x1b[0m"
# The forms of IPython 7, 8.0 and 8.7.
OLD = [
    f"{ANSI}----{PLAIN}",
    f"{ANSI}KeyError{PLAIN}            Traceback (most recent call last)",
    f"{ANSI}<ipython-input-7-3435b262f1ae>{PLAIN} in {ANSI}<module>{PLAIN}\n      1 x = 1\n{ANSI}----> 2{PLAIN} train(x)",
    "/w/train.py in train(x)\n     11     a = 1\n---> 12     return table[x]",
    f"{ANSI}KeyError{PLAIN}: 'sr-Latn'",
]
MIDDLE = [
    "Input In [7], in <cell line: 2>()\n      1 x = 1\n----> 2 train(x)",
    "File /w/train.py:12, in train(x)\n     11     a = 1\n---> 12     return table[x]",
    "KeyError: 'sr-Latn'",
]
NEW = [
    "Cell In[7], line 2\n      1 x = 1\n----> 2 train(x)",
    "File /w/train.py:12, in train(x)\n     11     a = 1\n---> 12     return table[x]",
    "KeyError: 'sr-Latn'",
]


def cell(outputs: list[dict[str, Any]], count: int | None, source: str = "train(x)") -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": count, "metadata": {}, "outputs": outputs, "source": [source]}


def stream(text: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def error(traceback: list[str]) -> dict[str, Any]:
    return {"output_type": "error", "ename": "KeyError", "evalue": "'sr-Latn'", "traceback": traceback}


def written(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def text_of(raw: str) -> str:
    return b"".join(notebook.text(BytesIO(raw.encode()))).decode()


def diagnosed(folder: Path) -> Diagnosis:
    return analyse([str(folder)], Options(cache=False))


STEPS = "".join(f"step {n} loss {3 - n / 100:.2f}\n" for n in range(0, 50, 5))
LATER = "".join(f"step {n} loss {3 - n / 100:.2f}\n" for n in range(50, 90, 5))


@pytest.mark.parametrize("traceback", [OLD, MIDDLE, NEW], ids=["IPython 7", "IPython 8.0", "IPython 8.7"])
def test_an_error_of_a_cell_with_its_frames(tmp_path: Path, traceback: list[str]) -> None:
    (tmp_path / "train.ipynb").write_text(written(cell([stream(STEPS)], 6), cell([error(traceback)], 7)))
    found = diagnosed(tmp_path)
    root = found.findings[0]
    assert (found.verdict, root.name, root.step) == (Verdict.FAILED, "python-exception", 45)
    assert root.notes[0] == "KeyError was raised at /w/train.py:12 in train"
    assert root.evidence[0].file == "train.ipynb!/outputs.txt"
    shown = text_of((tmp_path / "train.ipynb").read_text())
    assert '# cell 2, In [7]\nTraceback (most recent call last):\n  File "In [7]", line 2, in <module>\n' in shown


def test_the_program_in_the_cells_is_no_evidence(tmp_path: Path) -> None:
    source = 'raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")'
    (tmp_path / "train.ipynb").write_text(written(cell([stream(f"{STEPS}Training completed.\n")], 1, source)))
    assert diagnosed(tmp_path).verdict is Verdict.HEALTHY


def test_an_error_after_which_the_same_kernel_trained_on_is_no_failure(tmp_path: Path) -> None:
    """Cells stand in another order than that in which they were run: their counts tell it."""
    cells = cell([stream(LATER)], 9), cell([stream(STEPS)], 6), cell([error(NEW)], 7)
    (tmp_path / "train.ipynb").write_text(written(*cells))
    assert diagnosed(tmp_path).verdict is Verdict.HEALTHY


def test_notebooks_beside_logs_are_said_and_not_read(tmp_path: Path) -> None:
    """Code comes with notebooks whose outputs are of other runs."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "demo.ipynb").write_text(written(cell([error(NEW)], 1)))
    (tmp_path / "train.log").write_text(f"{STEPS}Training completed.\n")
    found = diagnosed(tmp_path)
    assert found.verdict is Verdict.HEALTHY
    rows = [row for row in found.coverage if row.path.startswith("code/")]
    assert [(row.path, row.reason) for row in rows] == [
        ("code/demo.ipynb", "a notebook beside logs; give its path to have it read")
    ]
    both = analyse([str(tmp_path / "train.log"), str(tmp_path / "code" / "demo.ipynb")], Options(cache=False))
    assert any(f.name == "python-exception" for f in both.findings)


def test_a_notebook_that_was_never_run(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(written(cell([], None)))
    with pytest.raises(NothingToRead):
        diagnosed(tmp_path)


def test_forms_of_outputs() -> None:
    result = {"output_type": "execute_result", "data": {"text/plain": ["0.91"], "image/png": "aGk="}, "metadata": {}}
    assert text_of(written(cell([result, stream("a\n")], 3))) == "# cell 1, In [3]\n0.91\na\n"
    old = {"worksheets": [{"cells": [{"prompt_number": 2, "outputs": [{"output_type": "stream", "text": ["b\n"]}]}]}]}
    assert text_of(json.dumps(old)) == "# cell 1, In [2]\nb\n"
    with pytest.raises(Stop, match="no whole JSON"):
        text_of(written()[:-3])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cells", "outputs", "output_type", "text", "data", "ename", "evalue", "traceback", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_document_breaks_it(value: object) -> None:
    text_of(json.dumps({"cells": value}))


RAISED = (
    "Traceback (most recent call last):\n  File \"/w/t.py\", line 22, in main\n    x = d[k]\nKeyError: 'lm_head.7'\n"
)
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.3]:4411\n"


@pytest.mark.parametrize("front", ["", "$ tail -n 50 logs/rank*.log\n"], ids=["file", "pasted"])
@pytest.mark.parametrize("root", ["logs", "/scratch/me/logs", "../logs"])
def test_what_tail_prints_of_a_file_is_of_its_rank(tmp_path: Path, root: str, front: str) -> None:
    parts = [f"==> {root}/rank{n}.log <==\n{STEPS}{RAISED if n == 3 else CLOSED}" for n in range(5)]
    (tmp_path / "all.txt").write_text(front + "\n".join(parts))
    found = diagnosed(tmp_path).findings[0]
    assert (found.name, found.ranks, found.step) == ("python-exception", (3,), 45)
    assert found.evidence[0].file.startswith("all.txt!/")
    assert found.evidence[0].file.endswith("logs/rank3.log")


def test_a_file_that_tail_f_goes_on_with_is_one(tmp_path: Path) -> None:
    raw = BytesIO(b"==> a.log <==\n1\n\n==> b.log <==\n2\n\n==> a.log <==\n3\n")
    parts = joined.parts(raw, "all.txt")
    assert [part.name for part in parts] == ["a.log", "b.log"]
    assert [b"".join(joined.read(raw, part)) for part in parts] == [b"1\n\n3\n", b"2\n\n"]


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 2.0\n" * 20 + "==> logs/rank3.log <==\nx\n==> logs/rank4.log <==\n",
        "==> Downloading the model\nstep 1\n",
        "step 1\n==> new best <==\nstep 2\n",
        "",
    ],
)
def test_logs_that_are_not_joined(text: str) -> None:
    assert not joined.looks_joined(text.encode())


@given(st.lists(st.sampled_from(["==> a <==\n", "==> ../../b <==\n", "x\n", "==> <==\n", "\0", "==> a <=="])))
def test_no_text_loses_a_line(lines: list[str]) -> None:
    raw = BytesIO("".join(lines).encode())
    parts = joined.parts(raw, "own")
    assert all(".." not in part.name.split("/") and not part.name.startswith("/") for part in parts)
    kept = "".join(b"".join(joined.read(raw, part)).decode() for part in parts)
    assert kept.count("x\n") == "".join(lines).count("x\n")
