"""The diagnosis as one HTML file that needs no network and no script: `render(redact(gather(diagnosis, data)))`."""

from __future__ import annotations

from forensics.report.html.material import Material, gather, redact
from forensics.report.html.page import document as render

__all__ = ["Material", "gather", "redact", "render"]
