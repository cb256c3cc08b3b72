"""Look-alikes of the root: what rules them out, and what is missing where nothing does."""

from __future__ import annotations

import polars as pl
import pytest

from forensics.engine.candidates import Candidate
from forensics.engine.pipeline import Options, analyse_with_data
from forensics.engine.ruled_out import Witness, ruled_out, witness
from forensics.model import COLLECTIVES_COLUMNS, METRICS_COLUMNS, Evidence, Fact, Observation, Role, RunData, schema
from forensics.signatures.schema import EvidenceRule, LookAlike, Signature, load_catalogue

LOG = EvidenceRule(source="log", pattern="boom")


def signature(name, rules=(LOG,), **fields):
    return Signature(
        name=name, area="x", title=name, kind="cause", severity="fatal", why="w", evidence=tuple(rules), **fields
    )


def candidate(what, line, **fields):
    seen = Observation(signature=what.name, weight=0.9, evidence=(Evidence("train.log", line, 0, f"line {line}"),))
    return Candidate(what, 0, [seen], (0,), False, None, **fields)


def run(facts=(), metrics=()):
    frame = pl.DataFrame(list(metrics), schema=schema(METRICS_COLUMNS), orient="row")
    none = pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS))
    return RunData(
        path="run", sources=(), observations=(), tracebacks=(), writers=(), metrics=frame, collectives=none,
        coverage=(), facts=tuple(facts),
    )  # fmt: skip


def judge(looks, others=(), extra=(), **held):
    root = candidate(
        signature("killed", lookalikes=tuple(LookAlike(n, "the tell") for n in looks), **held.pop("root", {})), 8
    )
    catalogue = {s.name: s for s in (*extra, signature("other"), signature("host-oom"))}
    catalogue["spike"] = signature("spike", (EvidenceRule(source="metrics", detector="loss_spike"),))
    standing = {c.signature.name for c in (root, *others) if c.context is None}
    return ruled_out(root, [root, *others], standing, run(**held), catalogue)


def test_the_line_of_the_root_rules_out_what_would_read_otherwise():
    (item,), missing = judge(["other"])
    assert (item.name, item.evidence[0].line, missing) == ("other", 8, ())
    assert "the tell" in item.reason


def test_a_look_alike_that_followed_stands_in_the_cascade_and_is_not_ruled_out():
    cause = candidate(signature("first"), 3)
    followed = candidate(signature("other"), 20, explained_by=cause)
    assert judge(["other"], [followed]) == ((), ())
    harmless = candidate(signature("other"), 9, context="training went on afterwards")
    assert judge(["other"], [harmless, followed]) == ((), ())


def test_no_finding_that_stands_is_ruled_out(tmp_path):
    first, second = tmp_path / "attempt1", tmp_path / "attempt2"
    first.mkdir()
    second.mkdir()
    (first / "stderr.log").write_text(
        "OSError: [Errno 28] No space left on device: '/data/ckpt/step_100.pt'\n"
        "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/811: "
        "file write failed\n"
    )
    (second / "stderr.log").write_text(
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
    )
    found = analyse_with_data([str(tmp_path)], Options()).diagnosis
    standing = {f.name for f in found.findings if f.role is not Role.CONTEXT}
    assert {"disk-full", "checkpoint-corrupt"} <= standing
    assert found.ruled_out and standing.isdisjoint(item.name for item in found.ruled_out)


def test_a_look_alike_that_did_no_harm_is_shown_with_the_reason():
    (item,), _ = judge(["other"], [candidate(signature("other"), 20, context="training went on afterwards")])
    assert item.evidence[0].line == 20
    assert "training went on afterwards" in item.reason


def test_a_root_of_its_own_is_not_ruled_out():
    assert judge(["other"], [candidate(signature("other"), 20)]) == ((), ())


def test_what_only_a_kernel_log_shows_is_not_ruled_out_without_one():
    ruled, (missing,) = judge(["host-oom"])
    assert ruled == ()
    assert "kernel log" in missing.what
    assert "dmesg" in missing.how


def test_a_kernel_log_without_such_a_line_rules_it_out():
    (item,), missing = judge(["host-oom"], facts=[Fact("kernel_log", "dmesg", "dmesg.txt")])
    assert "dmesg.txt was read" in item.reason
    assert missing == ()


def test_the_file_is_asked_for_once():
    _, missing = judge(["host-oom"], root={"confirm": ("who sent it :: dmesg -T",)})
    assert missing == ()


def test_dumps_are_asked_for_once():
    behind = signature("behind", (EvidenceRule(source="collectives"),))
    _, (missing,) = judge(["behind"], extra=[behind])
    assert "TORCH_FR_BUFFER_SIZE" in missing.how
    asks = "where every rank stood :: TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1"
    assert judge(["behind"], extra=[behind], root={"confirm": (asks,)})[1] == ()
    assert judge(["behind"], extra=[behind], root={"confirm": ("the kernel log :: dmesg -T",)})[1] == (missing,)


def test_numbers_rule_out_a_shape_and_their_lack_does_not():
    assert judge(["spike"])[0] == ()
    row = ("train.log", 1, 0, 0, 1, None, None, "loss", 2.0)
    (item,), missing = judge(["spike"], metrics=[row])
    assert "1 numbers were read" in item.reason
    assert missing == ()


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("host-oom", Witness.KERNEL),
        ("gpu-pmu-halt", Witness.KERNEL),
        ("loss-divergence", Witness.METRICS),
        ("cuda-oom", Witness.LOGS),
        ("python-exception", Witness.LOGS),
    ],
)
def test_where_signatures_of_the_catalogue_show_themselves(name, where):
    assert witness(load_catalogue()[name]) is where


def test_what_a_line_rules_out_comes_before_what_only_silence_speaks_against():
    looks = [*(f"unsaid-{n}" for n in range(6)), "other"]
    items, _ = judge(looks, [candidate(signature("other"), 20, context="training went on afterwards")])
    assert [item.name for item in items] == ["other", "unsaid-0", "unsaid-1", "unsaid-2"]
