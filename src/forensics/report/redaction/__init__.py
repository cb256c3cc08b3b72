"""Takes secrets and identities out of text that is going to be shared (docs/redaction.md).

One `Redactor` a report: within it the same thing always gets the same stand-in (`host-1`, `ip-2`, `secret-1`), so that
the story stays readable, and nothing can be joined across reports. What looks like nothing in particular is not found.
"""

from forensics.report.redaction.also import RedactionError
from forensics.report.redaction.diagnoses import redact_diagnosis, redact_tree
from forensics.report.redaction.redactor import Redactor
from forensics.report.redaction.told_lines import told, told_by

__all__ = ["RedactionError", "Redactor", "redact_diagnosis", "redact_tree", "told", "told_by"]
