"""A diagnosis as an output of a notebook."""

from __future__ import annotations

from html import escape

from forensics.model import Diagnosis


def embedded(diagnosis: Diagnosis) -> str:
    """The report of a diagnosis (redacted, without pictures) in a frame that runs no script and has no origin.

    In a frame, so that its style sheet does not become the notebook's; notebooks are shared, so it is redacted.
    """
    from forensics.report.html.material import gather, redact
    from forensics.report.html.page import document

    page = document(redact(gather(diagnosis, None)), script=False)
    style = "width:100%;height:36em;border:1px solid #8884;border-radius:6px"
    return f'<iframe sandbox title="forensics report" style="{style}" srcdoc="{escape(page)}"></iframe>'
