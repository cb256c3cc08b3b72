"""Notebooks of Jupyter, Colab, Kaggle and papermill, as the text that their cells put out.

nbformat 4 keeps an object a cell with a list `outputs`: streams, results and displays with text, and errors with
`ename`, `evalue` and a `traceback` of lines with colours. nbformat 3 keeps the cells in `worksheets`. The sources of
cells are program text and no evidence. https://nbformat.readthedocs.io/en/latest/format_description.html

IPython prints a traceback in a form of its own (`Cell In[4], line 2`), with the newest frame last and code around it.
What the last line says is the exception, in Python's form. Frames in files become Python's frames.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from forensics.archives.limits import Stop
from forensics.parsers.prefixes import strip_ansi
from forensics.patterns import lazy

DOCUMENT = 256 << 20  # bytes of a notebook, of which pictures are the most
NAME = "outputs.txt"  # of the text
_BEGINS = lazy(rb'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')
# Frames as IPython prints them: "File /w/train.py:12, in main(args)" (8.x), "/w/train.py in main(args)" and
# "<ipython-input-4-0a1b> in <module>" (to 7.x), "Cell In[4], line 2" and "Input In [4], in <cell line: 2>()" (8.x).
_FRAME = lazy(
    r"^(?:File )?(?P<file>(?:[~/.]|[A-Za-z]:\\)[^\n:]{1,400}?)(?::(?P<line>\d+))?,? in (?P<function>[\w.<>]+)"
    r"|^(?:<ipython-input-(?P<input>\d+)-\w+>|(?:Cell |Input )In ?\[(?P<cell>\d+)\])(?P<rest>[^\n]*)"
)
_ARROW = lazy(r"^-+> ?(?P<line>\d+) ?(?P<code>.*)")
_IN_CELL = lazy(r"\bline:? (?P<line>\d+)\b")


def looks_like_notebook(head: bytes, name: str) -> bool:
    """Whether a file that begins with these bytes and has this name is a notebook."""
    return name.lower().endswith(".ipynb") and _BEGINS.match(head) is not None


def text(raw: BinaryIO) -> Iterator[bytes]:
    """What the cells put out, each below a line that says which cell it is, as they were run last. Raises Stop."""
    data = raw.read(DOCUMENT + 1)
    if len(data) > DOCUMENT:
        raise Stop(f"a notebook of more than {DOCUMENT >> 20} MiB; it was not read")
    try:
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        raise Stop("damaged: it is no whole JSON document") from None
    for number, count, cell in _in_order(document):
        said = "".join(_said(output) for output in _items(cell.get("outputs")))
        if not said.strip():
            continue
        ran = f", In [{count}]" if count is not None else ""
        yield f"# cell {number}{ran}\n{said}".encode("utf-8", "replace")
        if not said.endswith("\n"):
            yield b"\n"


def _in_order(document: Any) -> list[tuple[int, int | None, Mapping[str, Any]]]:
    """(number from 1, count of its execution, cell), by execution; a cell without a count comes after the one above."""
    found = []
    last = 0
    for number, cell in enumerate(_cells(document), 1):
        count = cell.get("execution_count", cell.get("prompt_number"))
        own = count if isinstance(count, int) else None
        last = own if own is not None else last
        found.append((last, (number, own, cell)))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def _cells(document: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, Mapping):
        return
    yield from _items(document.get("cells"))
    for sheet in _items(document.get("worksheets")):
        yield from _items(sheet.get("cells"))


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    yield from (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def _said(output: Mapping[str, Any]) -> str:
    """The text of one output; pictures and HTML are none."""
    kind = output.get("output_type")
    if kind in ("error", "pyerr"):
        return _error(output)
    data = output.get("data")
    found = _joined(output.get("text", data.get("text/plain") if isinstance(data, Mapping) else None))
    return found if not found or found.endswith("\n") or kind == "stream" else f"{found}\n"


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _error(output: Mapping[str, Any]) -> str:
    """An error as Python prints it: its frames, and the exception's class and message."""
    name, message = (value if isinstance(value := output.get(key), str) else "" for key in ("ename", "evalue"))
    shown = [part for part in _list(output.get("traceback")) if isinstance(part, str)]
    lines = [line for part in shown for line in strip_ansi(part).split("\n")]
    frames: list[str] = []
    open_frame: tuple[str, str] | None = None
    for line in lines:
        if m := _FRAME.match(line):
            own = m["input"] or m["cell"]
            file, function = (f"In [{own}]", "<module>") if own else (m["file"], m["function"])
            place = _IN_CELL.search(m["rest"] or "")
            number = m["line"] or (place["line"] if place else None)
            open_frame = None if number else (file, function)
            if number:
                frames.append(f'  File "{file}", line {number}, in {function}\n')
        elif open_frame is not None and (m := _ARROW.match(line)):
            frames.append(f'  File "{open_frame[0]}", line {m["line"]}, in {open_frame[1]}\n    {m["code"].strip()}\n')
            open_frame = None
    last = f"{name}: {message}" if message else name
    return (
        f"Traceback (most recent call last):\n{''.join(frames)}{last}\n" if name else "".join(f"{x}\n" for x in lines)
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
