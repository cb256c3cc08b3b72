"""A diagnosis as an output of a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from forensics.model import Diagnosis, Kind, Source, Status


def embedded(diagnosis: Diagnosis) -> str:
    """The report of a diagnosis (redacted, without pictures) in a frame that runs no script and has no origin.

    In a frame, so that its style sheet does not become the notebook's; notebooks are shared, so it is redacted. What
    names stand bare in it is learnt from the files of the run, where these can still be read.
    """
    from forensics.report.html.material import Material, redact
    from forensics.report.html.page import document
    from forensics.report.redaction import told_by

    told = tuple(told_by(list(_sources(diagnosis))))
    page = document(redact(Material(diagnosis, told=told)), script=False)
    style = "width:100%;height:36em;border:1px solid #8884;border-radius:6px"
    return f'<iframe sandbox title="forensics report" style="{style}" srcdoc="{escape(page)}"></iframe>'


def _sources(diagnosis: Diagnosis) -> Iterator[Source]:
    """The files that were read, where they were read; what lies elsewhere by now is not opened and teaches nothing."""
    run = Path(diagnosis.run.path)
    root = run if run.is_dir() else run.parent
    kinds = {kind.value: kind for kind in Kind}
    for covered in diagnosis.coverage:
        if covered.status in (Status.READ, Status.PARTIAL) and covered.kind in kinds:
            yield Source(covered.path, root / covered.path, kinds[covered.kind], covered.bytes)
