"""GitHub Actions: a step summary, and workflow commands that show the cause where people look first.

forensics analyze run/ --format github --annotate >> "$GITHUB_STEP_SUMMARY"
"""

from __future__ import annotations

import re

from forensics.model import Diagnosis, Evidence, Finding, Role, Verdict
from forensics.report import markdown, words
from forensics.report.inert import one_line

# GitHub shows ten of each level a step, and cuts none that are shorter than this.
MOST = 10
_MESSAGE = 1500  # characters
_ZERO_WIDTH = "\u200b"
# The runner takes a line for a command if it starts with `::` after white space, or holds `##[` anywhere.
_COMMAND = re.compile(r"^(\s*)::|##\[", re.M)


def no_commands(text: str) -> str:
    """`text` in which the runner finds no workflow command: a log must not set outputs or masks by being shown."""
    return _COMMAND.sub(lambda m: f"##{_ZERO_WIDTH}[" if m[0] == "##[" else f"{m[1]}{_ZERO_WIDTH}::", text)


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis for `$GITHUB_STEP_SUMMARY`: Markdown that begins and ends with a blank line, to be appended."""
    return no_commands("\n" + markdown.render(diagnosis).rstrip("\n") + "\n\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _command(level: str, title: str, message: str, evidence: Evidence | None, base: str) -> str:
    properties = []
    if evidence is not None and evidence.file:
        file = one_line(f"{base}/{evidence.file}" if base else evidence.file, 400)
        properties.append(f"file={_property(file)}")
        if evidence.line is not None and evidence.line > 0:
            properties.append(f"line={evidence.line}")
    properties.append(f"title={_property(one_line(title, 200))}")
    return f"::{level} {','.join(properties)}::{_data(one_line(message, _MESSAGE))}"


def _level(finding: Finding) -> str:
    return {"fatal": "error", "error": "error", "warning": "warning"}.get(finding.severity, "notice")


def commands(diagnosis: Diagnosis, base: str = "") -> str:
    """Workflow commands, one a line: one for each root, or one that says how the run is.

    `base` is the path of the run as GitHub should show it, before the names of its files; one relative to the
    repository makes them links.
    """
    roots = diagnosis.of_role(Role.ROOT)
    lines = []
    for root in roots[:MOST]:
        evidence = root.evidence[0] if root.evidence else None
        parts = [evidence.text.strip().split("\n")[0][:400] if evidence else "", *root.notes[:1], root.why]
        parts += [f"To do: {root.fix[0]}"] if root.fix else []
        message = " · ".join(part.strip() for part in parts if part.strip())
        lines.append(_command(_level(root), words.located(root), message or root.title, evidence, base))
    if not roots:
        level = "notice" if diagnosis.verdict in (Verdict.HEALTHY, Verdict.RECOVERED) else "warning"
        verdict, sentence, _ = words.headline(diagnosis)
        lines.append(_command(level, f"forensics: {verdict}", sentence, None, base))
    return "".join(line + "\n" for line in lines)
