"""Sources and documents that quote messages, told from logs."""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forensics.cli import main
from forensics.parsers.writing import DOCUMENT, SOURCE, what_else

ROOT = Path(__file__).parents[2]
PYTHON = inspect.getsource(argparse) + inspect.getsource(subprocess)
PROSE = "\n".join(topics[name] for name in sorted(topics))
QUOTED = (
    'raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")\n',
    'raise ValueError("optimizer got an empty parameter list")\n',
)
CPP = """
ncclResult_t ncclTransportSetup(struct ncclComm* comm, int rank) {
  // The peer has to be there before anything is sent.
  if (comm == NULL || rank < 0) {
    WARN("NET/IB : Got completion from peer with status=%d opcode=%d vendor err %u", wc.status, wc.opcode, wc.vendor);
    return ncclInternalError;
  }
  for (int channel = 0; channel < comm->nChannels; channel++) {
    NCCLCHECK(ncclChannelSetup(comm, channel));
    struct ncclPeer* peer = comm->peers + channel;
    TORCH_CHECK(peer != nullptr, "NCCL communicator was aborted on rank ", rank);
  }
  return ncclSuccess;
}

"""
LOG = "".join(f"[rank0]: step {n} loss {2 - n / 1000:.4f} lr 1.0e-04\n" for n in range(800))


def judged(text: str, name: str = "all.txt") -> str | None:
    data = text.encode("utf-8", "surrogateescape")
    return what_else(data[: 16 << 10], len(data), name, lambda offset, size: data[offset : offset + size])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PYTHON, SOURCE),
        (PYTHON.replace("raise ", QUOTED[0] + "        raise "), SOURCE),
        (CPP * 20, SOURCE),
        (PROSE[:400_000], DOCUMENT),
        (PROSE[:20_000] + PYTHON, SOURCE),
    ],
)
def test_sources_and_documents(text: str, kind: str) -> None:
    assert judged(text) == kind
    assert judged(text, "all.log") == (kind if len(text) > 64 << 10 else None)


@pytest.mark.parametrize(
    "text",
    [
        LOG,
        PYTHON + LOG,  # the script that a job printed before it ran it
        LOG + PYTHON,
        PROSE[:200_000] + LOG,
        PROSE[:200_000] + LOG + PROSE[:200_000],
        "Traceback (most recent call last):\n"
        + '  File "a.py", line 3, in f\n    return f(x)\n' * 300
        + "KeyError: 1\n",
        PROSE[:200_000] + '\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 1\n',
        "loading the checkpoint that is in the folder of the run\n" * 400,
        "import torch\n" * 20,
        "",
    ],
)
def test_logs_stay_logs(text: str) -> None:
    assert judged(text) is None


def test_what_was_printed_is_never_taken_for_anything_else() -> None:
    """All logs of the sample runs and of the healthy cases, also without the help of their names."""
    files = [
        f
        for folder in (ROOT / "sample_logs", ROOT / "tests" / "cases")
        for f in folder.rglob("*")
        if f.is_file() and f.suffix in (".log", ".out", ".err", ".txt", "") and "input" in f.parts
    ]
    assert len(files) > 300
    texts = [(f, f.read_bytes()) for f in files]
    taken = [
        f for f, d in texts if what_else(d[: 16 << 10], len(d), "all.txt", lambda o, n, d=d: d[o : o + n]) is not None
    ]
    assert taken == []


def test_a_folder_of_sources_and_documents_is_no_failed_run(tmp_path: Path) -> None:
    (tmp_path / "torch.txt").write_text("".join(QUOTED) + PYTHON)
    (tmp_path / "docs.txt").write_text(PROSE[:300_000] + "\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    (tmp_path / "README.md").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    (tmp_path / "guide.rst").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    result = CliRunner().invoke(main, ["analyze", str(tmp_path)])
    assert result.exit_code == 2 and "nothing to analyse" in result.output and "document" in result.output
    (tmp_path / "train.log").write_text(LOG)
    found = json.loads(CliRunner().invoke(main, ["analyze", str(tmp_path), "--format", "json"]).stdout)
    assert found["findings"] == []
    assert {s["path"]: s["reason"] for s in found["coverage"]["sources"]} == {
        "torch.txt": SOURCE, "docs.txt": DOCUMENT, "README.md": DOCUMENT, "guide.rst": DOCUMENT, "train.log": None,
    }  # fmt: skip


def test_a_file_that_bears_a_rank_was_printed_by_it(tmp_path: Path) -> None:
    (tmp_path / "rank3.txt").write_text(PYTHON)
    found = json.loads(CliRunner().invoke(main, ["analyze", str(tmp_path), "--format", "json"]).stdout)
    assert [s["status"] for s in found["coverage"]["sources"]] == ["read"]


def test_a_file_that_went_is_left_to_the_reader() -> None:
    def gone(offset: int, size: int) -> bytes:
        raise OSError

    data = PYTHON.encode()
    with pytest.raises(OSError):
        what_else(data[: 16 << 10], len(data), "a.txt", gone)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000), st.integers(0, 1 << 40))
@example(b" " * 400 + b"\n" + b"x\n" * 3000, 7000)
@example(PYTHON[:9000].encode(), 1 << 40)
def test_anything_is_judged(data: bytes, size: int) -> None:
    assert what_else(data, size, "a.txt", lambda offset, number: data[:number]) in (None, SOURCE, DOCUMENT)
