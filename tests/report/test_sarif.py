from __future__ import annotations

import json
from typing import Any

import pytest
from samples import ALL, FAILED, diagnosis, finding

from forensics.model import Evidence
from forensics.report import sarif
from forensics.report.fingerprint import VERSION
from forensics.signatures.schema import load_catalogue


def _log(made: Any, catalogue: Any = None) -> dict[str, Any]:
    document = json.loads(sarif.render(made, catalogue))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", ALL)
def test_it_has_what_the_schema_requires(name: str) -> None:
    document = _log(ALL[name])
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "forensics"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in driver["rules"])
    assert all(isinstance(entry["executionSuccessful"], bool) for entry in run["invocations"])
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"] and result["level"] in ("error", "warning", "note", "none")
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            physical = location["physicalLocation"]
            uri = physical["artifactLocation"]["uri"]
            assert uri and not uri.startswith("/") and ":" not in uri and " " not in uri
            assert physical["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
            region = physical.get("region", {})
            assert region.get("startLine", 1) >= 1 and region.get("byteOffset", 0) >= 0


def test_rules_are_slugs_and_the_cause_comes_first() -> None:
    (run,) = _log(FAILED)["runs"]
    first = run["results"][0]
    assert (first["ruleId"], first["level"], first["rank"]) == ("gpu-oom", "error", 97.0)
    assert first["locations"][0]["physicalLocation"]["region"]["startLine"] == 1234
    assert first["partialFingerprints"] == {f"forensicsFailure/v{VERSION}": FAILED.fingerprint}
    assert "partialFingerprints" not in run["results"][1]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("unreadable: ")


def test_the_catalogue_words_the_rules() -> None:
    catalogue = load_catalogue()
    made = diagnosis(finding(name="cuda-oom", title="CUDA out of memory on my own card", fix=("x",)))
    rule = _log(made, catalogue)["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["shortDescription"]["text"] == catalogue["cuda-oom"].title
    assert catalogue["cuda-oom"].fix[0].split(";")[0] in rule["help"]["text"]


def test_a_path_cannot_become_another_place() -> None:
    made = diagnosis(finding(evidence=(Evidence("//evil.example/a b:c?#\\x\ud800.log", 1, 0, "t"),)))
    location = _log(made)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "evil.example/a%20b%3Ac%3F%23/x%3F.log", "uriBaseId": "RUN"}
