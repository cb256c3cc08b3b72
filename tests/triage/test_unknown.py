"""Failures without a known signature: what is alike joins, what differs does not, and names stay."""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.triage.insight.templates import LONGEST, clean, pieces, template
from forensics.triage.insight.unknown import find, group, is_unknown, members_of, retold
from forensics.triage.model import JobResult, Unexplained
from tests.triage.rows import raised, row

# Messages as programs print them, with what varies left to be filled in: each is a failure of its own.
FAILURES = (
    ("KeyError", "load", "'{text}'"),
    ("KeyError", "collate", "'{text}'"),
    ("ValueError", "load", "shard {n} of {path} is damaged: crc {hex} != {hex}"),
    ("ValueError", "load", "expected {n} columns in table {word}, got {n}"),
    ("ValueError", "check", "bad config: learning rate {float} is too high"),
    ("ValueError", "check", "optimizer '{text}' is unknown"),
    ("RuntimeError", "forward", "mat1 and mat2 shapes cannot be multiplied ({n}x{n} and {n}x{n})"),
    ("RuntimeError", "forward", "expected scalar type Float but found Half"),
    ("mylib.errors.ShardError", "read", "run {uuid} at {time}: no tokens in {path}, tried {list}"),
    ("AssertionError", "step", ""),
    ("FileNotFoundError", "open_all", "[Errno 2] No such file or directory: '{path}'"),
)


def filled(message: str, draw: random.Random) -> str:
    parts = {
        "n": lambda: str(draw.randrange(100_000)),
        "float": lambda: f"{draw.random():.{draw.randrange(1, 9)}g}",
        "hex": lambda: hex(draw.getrandbits(48) | 1 << 40),
        "path": lambda: f"/data{draw.randrange(9)}/{draw.choice(['train', 'val'])}/part-{draw.randrange(999):05d}.bin",
        "text": lambda: draw.choice(["input_ids", "labels", "x y", "a.b"]) + str(draw.randrange(99)),
        "word": lambda: f"table_{draw.randrange(1, 999)}",
        "uuid": lambda: str(uuid.UUID(int=draw.getrandbits(128))),
        "time": lambda: (
            f"2026-{draw.randrange(1, 13):02d}-11 {draw.randrange(24):02d}:01:02,{draw.randrange(1000):03d}"
        ),
        "list": lambda: str([draw.randrange(99) for _ in range(draw.randrange(2, 9))]),
    }
    for name, make in parts.items():
        while "{" + name + "}" in message:
            message = message.replace("{" + name + "}", make(), 1)
    return message


def jobs(count: int, seed: int) -> tuple[list[JobResult], dict[str, int]]:
    """Rows of FAILURES under other users, folders, line numbers; path -> which of them it is."""
    draw = random.Random(seed)
    rows, truth = [], {}
    for n in range(count):
        which = draw.randrange(len(FAILURES))
        exception, function, message = FAILURES[which]
        home = f"/home/user{draw.randrange(9)}/proj{draw.randrange(9)}"
        frames = ((f"{home}/train.py", draw.randrange(300), "main"), (f"{home}/data.py", draw.randrange(300), function))
        rows.append(raised(n, exception, filled(message, draw), *frames))
        truth[rows[-1].path] = which
    return rows, truth


def test_what_is_alike_joins_and_nothing_else_does() -> None:
    rows, truth = jobs(400, 1)
    groups = group(rows)
    found = {frozenset(g.jobs) for g in groups}
    wanted = {frozenset(p for p, which in truth.items() if which == n) for n in range(len(FAILURES))}
    assert found == wanted
    assert len({g.name for g in groups}) == len(FAILURES)


def test_names_depend_on_neither_order_nor_subset() -> None:
    rows, _ = jobs(300, 2)
    whole = members_of(group(rows))
    draw = random.Random(3)
    for _ in range(5):
        some = draw.sample(rows, 60)
        for path, name in members_of(group(some)).items():
            assert whole[path] == name
    shuffled = rows[:]
    draw.shuffle(shuffled)
    assert group(shuffled) == group(rows)


def test_messages_that_differ_by_a_word_join_and_both_names_find_the_group() -> None:
    one = [raised(n, "ValueError", f"dataset imagenet has too few samples: {n}") for n in range(3)]
    other = [raised(9, "ValueError", "dataset coco has too few samples: 7")]
    (found,) = group(one + other)
    assert len(found.jobs) == 4
    assert found.name == group(one)[0].name
    assert find([found], group(other)[0].name) is found
    assert find([found], found.name[:-3]) is found and find([found], "no-such") is None


def test_other_frames_exceptions_and_messages_stay_apart() -> None:
    rows = [
        raised(0, "ValueError", "the mask has a wrong shape", ("a.py", 1, "f")),
        raised(1, "ValueError", "the mask has a wrong shape", ("a.py", 1, "g")),
        raised(2, "TypeError", "the mask has a wrong shape", ("a.py", 1, "f")),
        raised(3, "ValueError", "no data was left after filtering", ("a.py", 1, "f")),
    ]
    assert len(group(rows)) == 4


def test_jobs_without_an_exception_go_by_the_line_that_speaks_of_trouble() -> None:
    def ended(n: int, *lines: str, verdict: str = "failed") -> JobResult:
        return row(n, "insufficient-evidence", verdict=verdict, unexplained=Unexplained(last_lines=lines))

    rows = [ended(n, "step 10", f"fatal: cannot mount volume vol-{n} at 10:0{n}:11") for n in range(4)]
    (found,) = group([*rows, row(8)])
    assert found.title == "fatal: cannot mount volume vol-<n> at <time>"
    assert found.jobs == ("runs/0", "runs/1", "runs/2", "runs/3")
    quiet = row(5, verdict="unknown", unexplained=Unexplained(last_lines=("step 100 loss 0.2",)))
    assert not is_unknown(quiet)
    assert is_unknown(replace(quiet, unexplained=Unexplained(last_lines=("step 100", "bus error: no such device"))))


def test_known_causes_and_jobs_that_were_not_analysed_are_no_members() -> None:
    rest = Unexplained(exception="KeyError", message="'x'")
    assert not is_unknown(row(0, "cuda-oom", unexplained=rest))
    assert not is_unknown(row(0, error="timeout: 300 s", verdict=None, unexplained=rest))
    assert not is_unknown(row(0))


def test_a_name_says_nothing_of_the_message() -> None:
    (found,) = group([raised(0, "mylib.ShardError", "alice at gpu17.corp.internal is over quota")])
    assert found.name.startswith("sharderror-load-") and "alice" not in found.name
    (last,) = group(
        [row(1, "insufficient-evidence", unexplained=Unexplained(last_lines=("error: alice has no quota",)))]
    )
    assert last.name.startswith("failed-") and "alice" not in last.name


def test_a_redacted_group_is_made_from_its_redacted_line() -> None:
    (found,) = group([raised(0, "ValueError", "gpu17.corp.internal:8080 refused 3 times")])
    shown = retold(found, lambda text: text.replace("gpu17.corp.internal", "host-1"))
    assert "corp" not in shown.title + shown.template + shown.line
    assert shown.template == "<id>:<n> refused <n> times"


def test_templates() -> None:
    for message, wanted in {
        "'shard-0042'": "<text>",
        "shape [3, 224, 224] is not (3, 256)": "shape [<n>] is not (<n>)",
        "can't open /data/x_01.bin at 1234": "can't open <path> at <n>",
        "expected Float32 but got bfloat16 in conv2d": "expected Float32 but got bfloat16 in conv2d",
        "layer_12 of rank3: 3.5GiB": "layer_<n> of rank<n>: <n>GiB",
        "{'a': 1, 'b': -2e-5}": "{<text>}",
        "10.0.0.1:29500 at 2026-11-20T10:11:12Z": "<id> at <time>",
        "export v3, client v12 on a V100": "export v<n>, client v<n> on a V100",
        "commit 3fa9c1d2e at 0x7ffe": "commit <hex> at <hex>",
    }.items():
        assert template(message) == wanted


@given(st.text(max_size=700) | st.text("'\"`<>/\\.:-0129afx, [](){}eE+\n\x1b", max_size=700))
@settings(max_examples=300, deadline=None)
def test_pieces_are_the_message(message: str) -> None:
    line = clean(message)
    assert "".join(p.text for p in pieces(line)) == line
    assert len(line) <= LONGEST and "\n" not in line and "\x1b" not in line


def test_hostile_messages_are_quick() -> None:
    began = time.process_time()
    for text in (
        "'" * 500,
        "a/" * 250,
        "1.1" * 170,
        "0x" * 250,
        "[1, " * 125,
        "a1" * 250,
        "1e" * 250,
        "://a" * 125,
        "a_" * 249 + "1b",
        "@" * 500,
        "1d" * 250,
    ):
        template(text)
    rows = [raised(n, "ValueError", " ".join(random.Random(n).choices("abcdefgh", k=12)) * 3) for n in range(1500)]
    assert sum(len(g.jobs) for g in group(rows)) == 1500
    assert time.process_time() - began < 4


def test_a_space_in_a_path_is_part_of_the_file() -> None:
    (found,) = group([raised(1, "KeyError", "x", ("/home/ü/tr äin.py", 4, "schritt"))])
    assert found.title.startswith("KeyError in schritt (tr äin.py)")
    assert found.name.startswith("keyerror-schritt-")


def test_what_a_job_got_over_is_no_failure() -> None:
    rows = [raised(n, "KeyError", "'x'", ("/w/data.py", 3, "load")) for n in range(3)]
    recovered = replace(rows[1], verdict="recovered")
    assert is_unknown(rows[1]) and not is_unknown(recovered)
    (only,) = group([rows[0], recovered, rows[2]])
    assert only.jobs == (rows[0].path, rows[2].path)
