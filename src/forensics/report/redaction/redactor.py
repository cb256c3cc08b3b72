"""The rules in their order, applied until nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from forensics.patterns import lazy
from forensics.report.redaction.addresses import addresses, hardware
from forensics.report.redaction.also import also, compile_also
from forensics.report.redaction.apart import apart
from forensics.report.redaction.buckets import buckets
from forensics.report.redaction.ci_paths import ci_paths
from forensics.report.redaction.commands import commands
from forensics.report.redaction.consecutive import line_by_line
from forensics.report.redaction.customs import customary_homes
from forensics.report.redaction.groups import groups
from forensics.report.redaction.homes import shared_homes
from forensics.report.redaction.host_lists import host_lists
from forensics.report.redaction.hosts import host_names, pods
from forensics.report.redaction.images import images
from forensics.report.redaction.labelled import labelled
from forensics.report.redaction.letters import as_seen
from forensics.report.redaction.listings import listings
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.named import is_secret, named_secrets
from forensics.report.redaction.our_words import OurWords, texts_of
from forensics.report.redaction.pairs import paired
from forensics.report.redaction.people import emails, phones, users
from forensics.report.redaction.ranked_heads import ranked_heads
from forensics.report.redaction.remote_paths import remote_paths
from forensics.report.redaction.secrets import shaped_secrets, signed_urls, url_users
from forensics.report.redaction.services import accounts, chats, repositories, trackers
from forensics.report.redaction.shared_links import shared_links
from forensics.report.redaction.sure_hosts import sure_hosts
from forensics.report.redaction.tracked import tracked
from forensics.report.redaction.variables import variables

_MAX_PASSES = 6
_NUMBERED = lazy(r"(?<=\w)(?:\.\d{1,6}){1,4}\Z", re.ASCII)
# What ends here is not one value with what follows: an environment as the kernel keeps it, and headers of HTTP as
# Python prints bytes.
_BETWEEN = ("\0", "\\r\\n")
_LEARNT = 2000  # names that texts which nobody sees may add: there is an end to what they can fill memory with

# Secrets go first, for they can hold what other rules would take a part of; known names go last. What says who a host
# is must be read before any of it is replaced.
_RULES: tuple[Callable[[str, Memory], str], ...] = (
    sure_hosts, shared_links, shaped_secrets, signed_urls, buckets, url_users, commands, apart, paired, named_secrets,
    variables, chats, images, ci_paths, repositories, trackers, tracked, groups, shared_homes, customary_homes,
    accounts, emails, users, listings, phones, hardware, addresses, host_lists, pods, labelled, ranked_heads,
    remote_paths, host_names,
)  # fmt: skip


class Redactor:
    """Replaces what should not leave the house by stand-ins that are stable within one report.

    `hosts` are names known to be hosts (a finding's node); they are replaced wherever they stand as a whole word, also
    in file names. Names that tell nothing (`node-7`, `localhost`, `worker-0`) stay. `patterns` are the user's own
    regular expressions, which go before all rules; `spoken` are words that are no names here.

    Raises RedactionError for a pattern that is none, and from `redact` for one that takes too long.
    """

    def __init__(self, hosts: Iterable[str] = (), *, patterns: Sequence[str] = (), spoken: Iterable[str] = ()) -> None:
        self.memory = Memory(spoken)
        self._also = compile_also(patterns)
        self._ours = OurWords()
        hosts = tuple(hosts)
        for host in hosts:
            self.memory.stand_ins.reserve(host)
        for host in hosts:
            self.host(host)

    def host(self, name: str, *, everywhere: bool = True) -> str:
        """The stand-in of a host name or address; `everywhere`: it is replaced in any text from now on."""
        return self.memory.host(name, everywhere=everywhere)

    def keep_of(self, slugs: Iterable[str]) -> None:
        """Keeps the texts of the catalogue's entries of these slugs as they are: they are ours, and name nothing."""
        self._ours.keep(texts_of(slugs))

    def redact(self, text: str) -> str:
        """`text` with stand-ins; redacting the result again changes nothing."""
        if (ours := self._ours.part(text)) is not None:
            start, end = ours
            kept = also(text[start:end], self.memory, self._also) if self._also else text[start:end]
            return self.redact(text[:start]) + kept + self.redact(text[end:])
        for between in _BETWEEN:
            if between in text and "-----BEGIN" not in text:
                return between.join(map(self.redact, text.split(between)))
        return as_seen(text, self._redact)

    def _redact(self, text: str) -> str:
        # What one rule leaves can be another's: repeat until nothing changes (two rounds, the second to see that).
        for _ in range(_MAX_PASSES):
            redacted = self._once(text)
            if redacted == text:
                break
            text = redacted
        return text

    def lines(self, lines: Sequence[str], above: Sequence[str] = (), below: Sequence[str] = ()) -> tuple[str, ...]:
        """Consecutive lines of a file with stand-ins; each by itself, but for secrets named on lines around.

        above, below: the lines before and after, which are read only for what they say of these.
        """
        named = line_by_line((*above, *lines, *below), self.memory)
        return tuple(self.again(self.redact(line)) for line in named[len(above) : len(above) + len(lines)])

    def setting(self, name: str, value: str) -> str:
        """`value` with stand-ins, as the value of a setting of that name: the name can say that it is a secret, also
        one of several words.
        """
        name = _NUMBERED.sub("", name)  # of a list: what it is called tells what its parts are
        if any(char.isspace() for char in value) and is_secret(name, value):
            return self.memory.secret(value)
        return self.again(self.redact(f"{name}={value}")).removeprefix(f"{name}=")

    def learn(self, texts: Iterable[str]) -> None:
        """Meets the names in `texts`, which are not shown: what they give away is replaced in any text from now on.

        After some thousand names it learns no more. Raises RedactionError as `redact` does.
        """
        most = len(self.memory.stand_ins) + _LEARNT
        self.memory.learning = True  # what is known need not be looked for in a text that nobody sees
        try:
            for text in texts:
                if len(self.memory.stand_ins) >= most:
                    break
                self._once(self._once(text))
        finally:
            self.memory.learning = False

    def _once(self, text: str) -> str:
        redacted = also(text, self.memory, self._also) if self._also else text
        for rule in _RULES:
            redacted = rule(redacted, self.memory)
        return redacted

    def again(self, redacted: str) -> str:
        """What `redact` made, without the names that were learnt since; all rules need not run for it again."""
        if (ours := self._ours.part(redacted)) is not None:
            start, end = ours
            return self.again(redacted[:start]) + redacted[start:end] + self.again(redacted[end:])
        return as_seen(redacted, self._known)

    def _known(self, text: str) -> str:
        text = self.memory.known_hosts(self.memory.known_people(self.memory.known_values(text)))
        return ranked_heads(text, self.memory) if self.memory.has_placed else text
