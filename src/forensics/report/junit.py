"""JUnit XML: what a CI system shows as a list of tests. One test case a finding, and one for the run.

The format has no standard; this keeps to what Jenkins, GitLab and GitHub's actions read (testmoapp/junitxml lists it),
and to the schema by which Jenkins' xunit plugin refuses a report (junit-10.xsd of jenkinsci/xunit-plugin).
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from forensics.model import Diagnosis, Finding, Role, Verdict
from forensics.report import words
from forensics.report.inert import inert, one_line

# Characters that XML 1.0 has no form for; `inert` has made the others visible.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = 20_000  # characters of one case's output


def _attributes(**values: str | int) -> str:
    return "".join(f" {name}={_attribute(str(value))}" for name, value in values.items())


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", one_line(text, 1000)))


def _text(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", inert(text, _TEXT, keep_newlines=True)))


def _details(finding: Finding) -> str:
    lines = [finding.why] if finding.why.strip() else []
    lines += [f"- {note}" for note in finding.notes]
    for evidence in finding.evidence[:8]:
        lines += [words.place(evidence), *(f"    {line}" for line in evidence.text.splitlines()[:20])]
    if finding.fix:
        lines += ["What to do:", *(f"{number}. {fix}" for number, fix in enumerate(finding.fix, 1))]
    return "\n".join(lines)


def _case(diagnosis: Diagnosis, finding: Finding) -> str:
    """A root fails, what follows from it is skipped, and what is worth knowing passes."""
    of = {other.id: other for other in diagnosis.findings}
    head = _attributes(name=words.located(finding), classname=f"forensics.{finding.name}", time="0")
    details = _text(_details(finding))
    if finding.role is Role.ROOT:
        sure = words.percent(finding.confidence)
        message = words.located(finding) + (f" ({sure})" if sure else "")
        inside = f"<failure{_attributes(message=message, type=finding.name)}>{details}</failure>"
    elif finding.role is Role.CASCADE:
        above = of.get(finding.explained_by or "")
        because = f"follows from {above.title}" if above else "follows from something else"
        inside = f"<skipped{_attributes(message=because)}/><system-out>{details}</system-out>"
    else:
        inside = f"<system-out>{details}</system-out>"
    return f"    <testcase{head}>{inside}</testcase>\n"


def _run(diagnosis: Diagnosis) -> tuple[str, bool, bool]:
    """The case that stands for the run where no root does: (XML, whether it failed, whether it was skipped)."""
    verdict, sentence, _ = words.headline(diagnosis)
    head = f"    <testcase{_attributes(name='the run', classname='forensics.run', time='0')}>"
    unknown = diagnosis.verdict is Verdict.UNKNOWN
    bad = diagnosis.verdict not in (Verdict.HEALTHY, Verdict.RECOVERED, Verdict.UNKNOWN)
    missing = "".join(f"\nmissing: {m.what}: {m.how}" for m in diagnosis.missing_evidence)
    out = f"<system-out>{_text(sentence + missing)}</system-out>"
    if bad:
        inside = f"<failure{_attributes(message=sentence, type=verdict)}>{_text(sentence)}</failure>"
    elif unknown:
        inside = f"<skipped{_attributes(message='unknown: ' + sentence)}/>{out}"
    else:
        inside = out
    return head + inside + "</testcase>\n", bad, unknown


def render(diagnosis: Diagnosis) -> str:
    """The document; well-formed XML 1.0 whatever a log holds. It is not redacted here."""
    roots = diagnosis.of_role(Role.ROOT)
    cases = [_case(diagnosis, finding) for finding in diagnosis.findings]
    failures, skipped = len(roots), len(diagnosis.of_role(Role.CASCADE))
    if diagnosis.verdict is Verdict.RECOVERED or not roots:
        case, failed, unknown = _run(diagnosis)
        cases.insert(0, case)
        failures, skipped = failures + failed, skipped + unknown
    counts = {"tests": len(cases), "failures": failures, "errors": 0}
    properties = {
        "verdict": diagnosis.verdict.value,
        "summary": diagnosis.summary,
        "fingerprint": diagnosis.fingerprint or "",
        "coverage": words.coverage_phrase(diagnosis.coverage),
    }
    suite = _attributes(name=f"forensics {diagnosis.run.path}", **counts, skipped=skipped, time="0")
    if diagnosis.run.started:
        suite += _attributes(timestamp=diagnosis.run.started)
    return "".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>\n',
            f"<testsuites{_attributes(name='forensics', **counts, time='0')}>\n",
            f"  <testsuite{suite}>\n",
            "    <properties>\n",
            *(f"      <property{_attributes(name=n, value=v)}/>\n" for n, v in properties.items() if v),
            "    </properties>\n",
            *cases,
            "  </testsuite>\n</testsuites>\n",
        ]
    )
