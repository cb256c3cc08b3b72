"""News without names, hosts, addresses and secrets: one stand-in for one thing through the whole watch."""

from __future__ import annotations

from dataclasses import replace

from forensics.report.redaction import Redactor
from forensics.watch.news import News


class Redacting:
    """Redacts news one after the other; what one gives away is replaced in those that follow."""

    def __init__(self) -> None:
        self._redactor = Redactor()

    def news(self, news: News) -> News:
        """The news as it may be shared; slugs, ranks, steps and times stay."""
        sign = news.sign
        self._redactor.memory.spoken.update(sign.name.split("-"))
        node = self._redactor.host(sign.node) if sign.node else None
        evidence = sign.evidence
        if evidence is not None:
            evidence = replace(evidence, file=self._text(evidence.file), text=self._text(evidence.text))
        shown = replace(
            sign,
            title=self._text(sign.title),
            what=self._text(sign.what) if sign.what is not None else None,
            node=node,
            evidence=evidence,
        )
        return replace(news, sign=shown)

    def _text(self, text: str) -> str:
        return self._redactor.redact(text)
