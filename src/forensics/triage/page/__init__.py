"""A triage as one HTML file that needs no network and no script: `render(Page(batch=batch))`."""

from __future__ import annotations

from forensics.triage.page.document import document as render
from forensics.triage.page.material import Asked, Page

__all__ = ["Asked", "Page", "render"]
