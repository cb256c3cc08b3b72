"""The report: its parts in their order."""

from __future__ import annotations

from forensics.report import words
from forensics.report.html import frame
from forensics.report.html.figures import figures
from forensics.report.html.markup import tag
from forensics.report.html.material import Material
from forensics.report.html.sections import headline, sections

# Pictures stand behind the evidence and before what explains them: after these parts.
_BEFORE_PICTURES = ("where", "why", "fix", "evidence", "chain")


def document(material: Material, *, script: bool = True) -> str:
    """The whole page. `script`: with the one that sorts tables and opens all parts; the page says the same without it.

    The policy admits this style sheet and this script by their hashes, and nothing else: no request leaves the page.
    """
    package = "forensics.report.html"
    style, code = frame.asset(package, "report.css"), frame.asset(package, "report.js") if script else ""
    verdict, sentence, _ = words.headline(material.diagnosis)
    parts = sections(material)
    first = [part for part in parts if part[0] in _BEFORE_PICTURES]
    rest = [part for part in parts if part[0] not in _BEFORE_PICTURES]
    order = [*first, *figures(material.pictures), *rest]
    said = frame.REDACTED if material.redacted else "Nothing is redacted in this report."
    main = tag(
        "main", headline(material.diagnosis), frame.contents(order), *map(frame.section, order), frame.foot(said)
    )
    return frame.document(f"{verdict}: {sentence}"[:300], frame.policy(style, code), style, code, main)
