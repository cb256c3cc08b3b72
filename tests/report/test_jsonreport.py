from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, FAILED, HOSTILE, diagnosis, finding

from forensics.report import jsonreport

FINDING_FIELDS = [
    "id", "name", "signature", "codes", "title", "role", "severity", "confidence", "ranks", "local_ranks", "devices",
    "node", "step", "step_is", "step_unit", "epoch", "time", "time_is", "time_source", "attempt", "count", "evidence", "captures",
    "explains", "explained_by", "fix",
]  # fmt: skip


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text.encode("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize("name", ALL)
def test_it_is_strict_and_has_the_fields_of_the_contract(name: str) -> None:
    document = strict(jsonreport.render(ALL[name]))
    assert document == jsonreport.to_dict(ALL[name])
    assert list(document) == [
        "schema_version", "tool", "run", "verdict", "summary", "findings", "ruled_out", "missing_evidence", "coverage",
        "environment", "hints", "fingerprint",
    ]  # fmt: skip
    assert list(document["run"]) == ["path", "world_size", "nodes", "attempts", "started", "ended"]
    for item in document["findings"]:
        assert list(item)[: len(FINDING_FIELDS)] == FINDING_FIELDS
        for evidence in item["evidence"]:
            assert list(evidence) == ["file", "line", "offset", "text"]
    for source in document["coverage"]["sources"]:
        assert list(source) == ["path", "kind", "rank", "node", "bytes", "status", "reason"]


def test_signature_is_the_first_code_else_the_slug() -> None:
    by_name = {item["name"]: item for item in jsonreport.to_dict(FAILED)["findings"]}
    assert by_name["checkpoint-truncated"]["signature"] == "C4"
    assert by_name["launcher-summary"]["signature"] == "launcher-summary"


def test_numbers_that_json_lacks_are_strings() -> None:
    document = strict(jsonreport.render(HOSTILE))
    assert document["findings"][0]["confidence"] == "NaN"
    assert document["findings"][0]["epoch"] == "Infinity"


def test_ranks_are_sorted_and_nobody_is_null() -> None:
    findings = jsonreport.to_dict(diagnosis(finding(ranks=(3, 1)), finding(ranks=())))["findings"]
    assert findings[0]["ranks"] == [1, 3]
    assert findings[1]["ranks"] is None


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_text_survives_and_does_nothing_to_a_terminal(text: str) -> None:
    written = jsonreport.render(diagnosis(finding(why=text)))
    assert not any(c in written for c in map(chr, (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x202E)))
    expected = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
    assert strict(written)["findings"][0]["why"] == expected


def test_one_line_for_json_lines() -> None:
    assert jsonreport.render(FAILED, indent=None).count("\n") == 1
