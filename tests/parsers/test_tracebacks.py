from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers import tracebacks
from forensics.parsers.tracebacks import chained, read_traceback

PLAIN = b"""Traceback (most recent call last):
  File "/app/train.py", line 10, in <module>
    main()
  File "/app/lib/python3.11/site-packages/torch/nn/modules/module.py", line 99, in forward
    return x[key]
           ~^^^^^
KeyError: 'input_ids'
after
"""


def test_plain() -> None:
    t = read_traceback(PLAIN, path="a.log", offset=100, line=7)
    assert t is not None
    assert (t.exception, t.message) == ("KeyError", "'input_ids'")
    assert t.user_frame == ("/app/train.py", 10, "<module>")
    assert (t.header.line, t.final.line) == (7, 13)
    assert t.final.offset == 100 + PLAIN.index(b"KeyError")


def test_two_ranks_interleaved_line_by_line() -> None:
    def lines(rank: int, error: str) -> list[str]:
        body = ["Traceback (most recent call last):", '  File "/app/t.py", line 5, in <module>', "    f()", error]
        return [f"[rank{rank}]: {line}" for line in body]

    merged = [line for pair in zip(lines(0, "ValueError: a"), lines(1, "KeyError: 'b'"), strict=True) for line in pair]
    data = "\n".join(merged).encode()
    first = read_traceback(data, path="x", offset=0, line=1)
    second = read_traceback(data[data.index(b"[rank1]") :], path="x", offset=data.index(b"[rank1]"), line=2)
    assert first is not None
    assert second is not None
    assert (first.exception, first.identity.rank) == ("ValueError", 0)
    assert (second.exception, second.identity.rank) == ("KeyError", 1)


def test_progress_bars_and_foreign_lines_between() -> None:
    data = (
        b"Traceback (most recent call last):\n"
        b'  File "/app/t.py", line 5, in <module>\n'
        b"    f()\r 10%|#  | 1/10 [00:01<00:09,  1.0s/it]\n"
        b"INFO: saving\n"
        b"torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    t = read_traceback(data, path="x", offset=0, line=1)
    assert t is not None
    assert t.exception == "torch.OutOfMemoryError"


def test_headers_and_lines_glued_to_other_ranks_output() -> None:
    data = (
        b" 10%|#  | 1/10 [00:01][rank1]: Traceback (most recent call last):\n"
        b'[rank0]: step 3[rank1]:   File "/app/t.py", line 5, in <module>\n'
        b"[rank1]:     f()[rank0]: step 4\n"
        b"[rank1]: KeyError: 'x'\n"
    )
    t = read_traceback(data, path="x", offset=0, line=1)
    assert t is not None
    assert (t.exception, t.identity.rank, t.frames) == ("KeyError", 1, (("/app/t.py", 5, "<module>"),))


def test_cut_off_gives_nothing() -> None:
    assert read_traceback(PLAIN[:120], path="x", offset=0, line=1) is None


def test_lower_case_exceptions_of_the_standard_library() -> None:
    t = read_traceback(PLAIN.replace(b"KeyError: 'input_ids'", b"zlib.error: bad"), path="x", offset=0, line=1)
    assert t is not None
    assert t.exception == "zlib.error"


def test_chains() -> None:
    assert chained("\nThe above exception was the direct cause of the following exception:\n\n") == "cause"
    assert chained("\nDuring handling of the above exception, another exception occurred:\n\n") == "context"
    assert chained("quiet") is None
    for above in (
        "Exception ignored in: <function BaseFileLock.__del__ at 0x7f>\n",
        "step 3\nError in atexit._run_exitfuncs:\n",
        "--- Logging error ---\n",
    ):
        assert chained(above) == "ignored"
    assert chained("Exception ignored in: <function f>\nKeyError: 1\nstep 4\n") is None


@given(st.binary(max_size=2000))
def test_never_raises(data: bytes) -> None:
    read_traceback(b"Traceback (most recent call last):\n" + data, path="x", offset=0, line=1)


@given(st.integers(0, len(PLAIN)))
def test_truncation_anywhere(n: int) -> None:
    t = read_traceback(PLAIN[:n], path="x", offset=0, line=1)
    assert t is None or t.exception == "KeyError"


_LINES = st.sampled_from([
    '  File "/w/train.py", line 7, in step', '  File "/w/a.py", line 9', "    return g(x)", "      ~~^^", "", "step 3 loss 2.1",
    "ValueError: bad value", "    1 + x", '  File "/w/é.py", line 8, in f', "    a[0]: int", "  ray::f() (pid=3, ip=1.2.3.4)",
    "  | File \"/w/b.py\", line 2, in f", "Traceback (most recent call last):", '  File "broken', "    x\r", "    \x1b[1mx",
])  # fmt: skip


@given(
    prefix=st.sampled_from(["", "[rank1]: ", "é: ", "[rank1]:"]),
    lines=st.lists(st.tuples(st.booleans(), _LINES), max_size=14),
)
def test_lines_passed_over_in_one_go_are_those_read_one_by_one(prefix: str, lines: list[tuple[bool, str]]) -> None:
    text = [f"{prefix}Traceback (most recent call last):"]
    text += [(prefix if own else "[rank0]: ") + line for own, line in lines]
    data = ("\n".join(text) + f"\n{prefix}KeyError: 1\n").encode()
    fast = read_traceback(data, path="a.log", offset=5, line=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracebacks._Writer, "pass_over", lambda self, data, at: at)
        slow = read_traceback(data, path="a.log", offset=5, line=3)
    assert fast == slow


_RAISED = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 9, in <module>',
    "    main()",
    "KeyError: 'caption'",
)


@pytest.mark.parametrize(
    ("label", "rank"),
    [
        ("2026-11-01T00:00:0{n}.1234567Z ", None),
        ("2026-11-01 00:00:0{n} ", None),
        ("Nov 01 00:00:0{n} ", None),
        ("Nov  1 00:00:0{n} node-1 python[123]: ", None),
        ("2026-11-01T00:00:0{n}+0000 node-1 python[123]: ", None),
        ("[pod/train-0/main] 2026-11-01T00:00:0{n}.123456789Z ", None),
        ("[rank3]: 2026-11-01T00:00:0{n}Z ", 3),
        ("3: 2026-11-01T00:00:0{n}Z ", 3),
        ("[rank3][INFO]: ", 3),
        ("train-worker-1 pytorch ", None),
        ("trainer/0 ", None),
    ],
)
def test_a_label_on_every_line(label: str, rank: int | None) -> None:
    data = "".join(f"{label.format(n=n)}{line}\n" for n, line in enumerate(_RAISED)).encode()
    found = read_traceback(data, path="x", offset=0, line=1, voted=frozenset({"srun"}))
    assert found is not None
    assert (found.exception, found.message) == ("KeyError", "'caption'")
    assert found.frames == (("/app/train.py", 9, "<module>"),)
    said = found.identity
    assert (said.task if said.rank is None else said.rank) == rank


def test_lines_behind_another_label_are_not_of_the_traceback() -> None:
    other = "trainer/1 ValueError: of another\n"
    lines = [f"trainer/0 {line}\n" for line in _RAISED]
    found = read_traceback("".join([*lines[:3], other, lines[3]]).encode(), path="x", offset=0, line=1)
    assert found is not None
    assert found.exception == "KeyError"


def test_a_head_of_the_first_line_alone_is_no_label() -> None:
    data = ("2026-11-01 00:00:00 ERROR " + "\n".join(_RAISED) + "\n").encode()
    found = read_traceback(data, path="x", offset=0, line=1)
    assert found is not None
    assert found.exception == "KeyError"


def test_a_tag_of_the_rank_before_each_line_with_the_head_of_a_record_in_the_first() -> None:
    lines = [f"[rank3] {line}" for line in _RAISED]
    lines[0] = lines[0].replace("Traceback", "2026-11-01 00:00:00 ERROR Traceback")
    lines.insert(2, "[rank1] ValueError: of another rank")
    found = read_traceback("\n".join([*lines, ""]).encode(), path="x", offset=0, line=1)
    assert found is not None
    assert (found.exception, found.message) == ("KeyError", "'caption'")


def test_a_stamp_before_the_last_words() -> None:
    assert tracebacks.exception_of("2026-11-01T00:00:00.1234567Z RuntimeError: boom") == ("RuntimeError", "boom")
    assert tracebacks.exception_of("2026-11-01T00:00:00Z INFO RuntimeError: boom") is None


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/w/main.py", line 212, in <module>
  |     asyncio.run(main(cfg))
  |   File "/usr/lib/python3.12/asyncio/taskgroups.py", line 145, in __aexit__
  |     raise me from None
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/w/rollout.py", line 77, in score
    |     raise ScoreError(f"judge returned {r.status}")
    | judge.ScoreError: judge returned 422 for sample 9917
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/w/rollout.py", line 90, in keep
    |     raise KeyError(name)
    | KeyError: 'reward'
    +------------------------------------
"""


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "worker-1  | "])
def test_the_exceptions_of_a_group_have_their_own_tracebacks(prefix: str) -> None:
    data = "".join(f"{prefix}{line}\n" for line in GROUP.splitlines()).encode()
    starts = [data.rfind(b"\n", 0, m.start()) + 1 for m in re.finditer(rb"Traceback \(most", data)]
    found = [read_traceback(data[at:], path="a.log", offset=at, line=1) for at in starts]
    assert found[0] is None
    told = [(t.exception, t.message, t.frames[-1][:2]) for t in found[1:] if t is not None]
    assert told == [
        ("judge.ScoreError", "judge returned 422 for sample 9917", ("/w/rollout.py", 77)),
        ("KeyError", "'reward'", ("/w/rollout.py", 90)),
    ]


FRAMES = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    go()\n'


@pytest.mark.parametrize("last", ["mod.outer.<locals>.LocalErr: x", "pkg.bad_thing: x", "bad_thing: x"])
def test_classes_of_any_spelling(last: str) -> None:
    found = read_traceback((FRAMES + last + "\n").encode(), path="a", offset=0, line=1)
    assert found is not None and (found.exception, found.message) == (last.partition(":")[0], "x")


@pytest.mark.parametrize("last", ["train.loss: 3.2", "train.py: restarting", "global_step: 40", "step 4"])
def test_other_lines_below_a_frame(last: str) -> None:
    assert read_traceback((FRAMES + last + "\n").encode(), path="a", offset=0, line=1) is None


CELL = """\
BadVocab                                  Traceback (most recent call last)
Cell In[7], line 1
----> 1 trainer.train()

File /w/t.py:88, in Trainer.train(self)
     86 for b in dl:
---> 88     self.step(b)

BadVocab: 7
"""


def test_a_notebooks_traceback_of_any_class() -> None:
    found = read_traceback(CELL.encode(), path="a", offset=0, line=1)
    assert found is not None and (found.exception, found.message) == ("BadVocab", "7")
    assert found.frames == (("Cell In[7]", 1, ""), ("/w/t.py", 88, "Trainer.train"))
    assert read_traceback(CELL.replace("BadVocab: 7", "done: 7").encode(), path="a", offset=0, line=1) is None


@pytest.mark.parametrize(
    "prefix", ["", "[rank1]: ", "worker-1  | ", "2026-11-01 00:00:00,123 - trainer - INFO - [rank0]: "]
)
def test_a_message_that_begins_with_a_newline_is_read_below_the_class(prefix: str) -> None:
    body = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 5, in <module>',
        "    import quantised",
        "RuntimeError: ",
        "        Setup failed despite GPU being available. Run this to see more:",
        "",
        "        python -m quantised",
    ]
    found = read_traceback("".join(f"{prefix}{line}\n" for line in body).encode(), path="x", offset=0, line=1)
    assert found is not None
    assert (found.exception, found.message) == (
        "RuntimeError",
        "Setup failed despite GPU being available. Run this to see more:",
    )


def test_what_follows_an_exception_without_a_message_is_no_message() -> None:
    data = b'Traceback (most recent call last):\n  File "/w/t.py", line 5, in <module>\n    assert x\nAssertionError\nbye\n'
    found = read_traceback(data, path="x", offset=0, line=1)
    assert found is not None
    assert (found.exception, found.message) == ("AssertionError", "")


CUT = b"""\
step 3 loss 2.1
[rank2]:     out = layer(x)
[rank2]: RuntimeError: node batch_gemm failed
2026-11-01 00:00:00,123 - trainer - INFO - [rank1]: ValueError:
2026-11-01 00:00:00,123 - trainer - INFO - [rank1]:
2026-11-01 00:00:00,123 - trainer - INFO - [rank1]:     the shapes differ
[rank3]:   KeyError: inner
[rank3] ValueError: told by a logger
the words [rank4]: were printed, ValueError: no
"""


def test_the_last_lines_of_ranks_whose_tracebacks_are_cut() -> None:
    found = tracebacks.headless(CUT)
    assert [(h.rank, h.exception, h.message) for h in found] == [
        (2, "RuntimeError", "node batch_gemm failed"),
        (1, "ValueError", "the shapes differ"),
    ]
    assert CUT[found[0].offset :].startswith(b"[rank2]: RuntimeError")


def test_of_several_exceptions_of_a_cut_rank_the_last_counts() -> None:
    found = tracebacks.headless(b"[rank0]: KeyError: 'a'\n[rank0]: torch.distributed.DistBackendError: NCCL error\n")
    assert [(h.exception, h.message) for h in found] == [("torch.distributed.DistBackendError", "NCCL error")]
