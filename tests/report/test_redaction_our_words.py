"""The catalogue's own texts stay as they are in redacted reports; what a run put beside them does not."""

from __future__ import annotations

import dataclasses

import pytest
from samples import diagnosis, finding

from forensics.model import Hint, RuledOut
from forensics.report.redaction import Redactor, redact_diagnosis
from forensics.report.redaction.our_words import texts_of
from forensics.signatures.schema import load_catalogue

READ_AS_PLACES = ["hostfile-nodes-missing", "slurm-launch-failed", "tokenizer-model-unreadable", "tracker-unreachable"]


@pytest.mark.parametrize("slug", READ_AS_PLACES)
def test_advice_that_reads_like_places_of_hosts_stays(slug: str) -> None:
    entry = load_catalogue(examples=False)[slug]
    found = finding(name=slug, title=entry.title, why=entry.why, fix=entry.fix, node="vexlark")
    redacted = redact_diagnosis(diagnosis(found, summary=f"{entry.title} on vexlark.")).findings[0]
    assert (redacted.title, redacted.why, redacted.fix) == (entry.title, entry.why, entry.fix)
    assert redacted.node == "host-1"
    assert redact_diagnosis(diagnosis(found, summary=f"{entry.title} on vexlark.")).summary.endswith("on host-1.")


def test_what_a_run_put_before_or_behind_them_goes() -> None:
    entry = load_catalogue(examples=False)["slurm-launch-failed"]
    why = f"Here it concerned /home/jdoe/train on the node vexlark7. {entry.why}"
    found = finding(name=entry.name, title=f"{entry.title}: /home/jdoe/t.py", why=why)
    redacted = redact_diagnosis(diagnosis(found)).findings[0]
    assert redacted.title == f"{entry.title}: /home/user-1/t.py"
    assert redacted.why == f"Here it concerned /home/user-1/train on the node host-1. {entry.why}"


def test_hints_and_what_was_ruled_out_have_their_texts_too() -> None:
    entry = load_catalogue(examples=False)["tracker-unreachable"]
    hint = Hint(
        name=entry.name, codes=(), title=entry.title, check="x", confidence=0.5, evidence=(), why=entry.why,
        fix=entry.fix, supports=(),
    )  # fmt: skip
    ruled_out = RuledOut("slurm-launch-failed", load_catalogue(examples=False)["slurm-launch-failed"].fix[1])
    whole = dataclasses.replace(diagnosis(), hints=(hint,), ruled_out=(ruled_out,))
    redacted = redact_diagnosis(whole)
    assert redacted.hints[0] == hint
    assert redacted.ruled_out[0] == ruled_out


def test_the_same_words_in_a_log_are_no_ones_but_the_runs() -> None:
    redactor = Redactor()
    redactor.keep_of(READ_AS_PLACES)
    assert redactor.redact("torchrun --master_addr vexlark") == "torchrun --master_addr host-1"
    assert redactor.redact("slurmd runs on the node vexlark") == "slurmd runs on the node host-1"


def test_a_pattern_of_the_users_own_is_heeded_in_them_too() -> None:
    redactor = Redactor(patterns=["slurmd"])
    redactor.keep_of(["slurm-launch-failed"])
    text = load_catalogue(examples=False)["slurm-launch-failed"].fix[1]
    assert redactor.redact(text) == text.replace("slurmd", "private-1")


@pytest.mark.parametrize("slug", ["no-such-entry", "../index", "", "a user's own"])
def test_other_slugs_have_none(slug: str) -> None:
    assert texts_of([slug]) == ()
