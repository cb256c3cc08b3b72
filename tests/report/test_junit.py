from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ALL, FAILED, HEALTHY, UNKNOWN, diagnosis, finding

from forensics.model import Evidence, Verdict
from forensics.report import junit


@pytest.mark.parametrize("name", ALL)
def test_it_is_well_formed_and_counts_right(name: str) -> None:
    suites = ET.fromstring(junit.render(ALL[name]))
    suite = suites[0]
    cases = suite.findall("testcase")
    for element in (suites, suite):
        assert int(element.attrib["tests"]) == len(cases) >= 1
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
    assert int(suite.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
    assert all(case.attrib["name"] and case.attrib["classname"] for case in cases)


# The attributes that junit-10.xsd of Jenkins' xunit plugin knows; it refuses a report with any other.
_KNOWN = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package", "file"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"message", "type"}, "skipped": {"message", "type"}, "property": {"name", "value"},
    "properties": set(), "system-out": set(),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_no_attribute_is_unknown_to_the_schema_that_jenkins_holds_it_to(name: str) -> None:
    for element in ET.fromstring(junit.render(ALL[name])).iter():
        assert set(element.attrib) <= _KNOWN[element.tag], element.tag


def test_a_cause_fails_and_what_follows_is_skipped() -> None:
    cases = ET.fromstring(junit.render(FAILED))[0].findall("testcase")
    failure = cases[0].find("failure")
    assert failure is not None and failure.text
    assert failure.attrib == {
        "message": "CUDA out of memory on rank 2 (node-7) at step 412 (97 % sure)", "type": "gpu-oom",
    }  # fmt: skip
    assert "rank2/stderr.log:1234" in failure.text and "1. Lower the micro batch size" in failure.text
    assert [c.attrib["classname"] for c in cases if c.find("skipped") is not None] == [
        "forensics.collective-timeout", "forensics.collective-timeout", "forensics.launcher-summary",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "child"),
    [(HEALTHY, None), (UNKNOWN, "skipped"), (diagnosis(verdict=Verdict.HUNG, summary="stuck"), "failure")],
)
def test_a_run_without_a_cause_is_one_case(made: object, child: str | None) -> None:
    case = ET.fromstring(junit.render(made))[0].findall("testcase")[0]  # type: ignore[arg-type]
    assert case.attrib["name"] == "the run"
    assert (case.find("failure") is not None, case.find("skipped") is not None) == (
        child == "failure",
        child == "skipped",
    )


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    root = finding(
        title=text, node=text, why=text, notes=(text,), evidence=(Evidence(text, 1, 0, text),), fix=(text,), name=text
    )
    made = diagnosis(root, summary=text, run={"path": text, "started": text})
    ET.fromstring(junit.render(made).encode("utf-8"))
