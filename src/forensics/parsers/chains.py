"""Which lines of a log are one traceback with those that it hangs on.

A message that ends a traceback is told apart by the frames above it (who raised it), not by what the log holds around
it: a warning at the start that quotes `torch.load(` says nothing of an EOFError of a reader of samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forensics.model import Identity, Traceback
from forensics.parsers.tracebacks import QUOTED

BELOW = 2  # lines below an exception within which the traceback that it quotes begins


@dataclass(frozen=True, slots=True)
class Chain:
    """Tracebacks of one writer that hang together, and the lines that they take."""

    first: int
    last: int
    identity: Identity

    def may_hold(self, line: int, writer: Identity) -> bool:
        """Whether a line of `writer` can be one of the chain's; the lines of other ranks may stand between them."""
        mine, its = self.identity.rank, writer.rank
        return self.first <= line <= self.last and (mine is None or its is None or mine == its)


def chains(found: Iterable[Traceback]) -> tuple[Chain, ...]:
    """The chains of a log's tracebacks, in the order of their first lines.

    A traceback joins the one above it of its writer where Python says that it was raised from it or while it was
    handled, and where that one's message quotes it, right below its last line (a DataLoader's worker).
    """
    open_chains: dict[Identity, Chain] = {}
    done: list[Chain] = []
    for t in sorted(found, key=lambda t: t.header.line or 0):
        if t.header.line is None or t.final.line is None or t.header.line == t.final.line:
            continue  # a last line of which the frames are not there, or are above it without a header
        before = open_chains.get(t.identity)
        hangs = t.chained in ("cause", "context")
        quoted = before is not None and QUOTED in t.header.text and t.header.line <= before.last + BELOW
        if before is not None and (hangs or quoted):
            chain = Chain(before.first, max(before.last, t.final.line), t.identity)
        else:
            if before is not None:
                done.append(before)
            chain = Chain(t.header.line, t.final.line, t.identity)
        open_chains[t.identity] = chain
    return tuple(sorted((*done, *open_chains.values()), key=lambda c: c.first))


def chain_of(known: Iterable[Chain], line: int, writer: Identity) -> Chain | None:
    """The chain that a line of `writer` is part of: that of its own rank, where several lie over each other."""
    holding = [c for c in known if c.may_hold(line, writer)]
    return min(holding, key=lambda c: (c.identity.rank != writer.rank, c.last - c.first), default=None)
