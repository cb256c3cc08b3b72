"""News without names, hosts, addresses and secrets: one stand-in for one thing through the whole watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from forensics.kinds import Sniffers
from forensics.model import Source
from forensics.report.redaction import Redactor, told_by
from forensics.report.redaction.told_lines import FILES
from forensics.run import examine, listing
from forensics.watch.news import News

MOST = 20_000  # lines that one watch learns from


def there(paths: Sequence[str], sniffers: Sniffers, exclude: Sequence[str] = ()) -> list[Source]:
    """Files of a run before it is first looked at; of very many a sample. Raises NothingToRead as `listing` does."""
    names = listing(paths, exclude=exclude)
    found = (examine(file, path, sniffers) for file, path in names[:: -(-len(names) // FILES) or 1])
    return [source for source in found if isinstance(source, Source)]


class Redacting:
    """Redacts news one after the other; what one gives away is replaced in those that follow.

    sources: the files of the run as they are now. Their lines are learnt from as `analyze` does, anew whenever there
    are news and a file has changed its size.
    """

    def __init__(self, sources: Callable[[], Iterable[Source]] = tuple) -> None:
        self._redactor = Redactor()
        self._sources = sources
        self._sizes: dict[str, int] = {}
        self._learnt: set[str] = set()

    def news(self, news: News) -> News:
        """The news as it may be shared; slugs, ranks, steps and times stay."""
        sign = news.sign
        self._redactor.memory.spoken.update(sign.name.split("-"))
        self._learn()
        evidence = sign.evidence
        texts = (sign.title, sign.what, sign.advice, evidence.file if evidence else None, evidence and evidence.text)
        for text in texts:  # a name is replaced also where it stands before what gives it away
            if text:
                self._redactor.redact(text)
        node = self._redactor.host(self._text(sign.node)) if sign.node else None
        if evidence is not None:
            evidence = replace(evidence, file=self._text(evidence.file), text=self._text(evidence.text))
        shown = replace(
            sign,
            title=self._text(sign.title),
            what=self._text(sign.what) if sign.what is not None else None,
            advice=self._text(sign.advice) if sign.advice is not None else None,
            node=node,
            evidence=evidence,
        )
        return replace(news, sign=shown)

    def text(self, text: str) -> str:
        """Any text as it may be shared: the path of the run, a complaint."""
        self._learn()
        return self._text(text)

    def _learn(self) -> None:
        sources = list(self._sources())
        sizes = {source.path: source.size for source in sources}
        if sizes == self._sizes:
            return
        self._sizes = sizes
        for source in sources:
            self._redactor.memory.stand_ins.reserve(source.path)
            if source.identity.node:
                self._redactor.host(source.identity.node)
        new = [line for line in told_by(sources) if line not in self._learnt]
        new = new[: max(0, MOST - len(self._learnt))]
        self._learnt.update(new)
        self._redactor.learn(new)

    def _text(self, text: str) -> str:
        return self._redactor.again(self._redactor.redact(text))
