"""The names that one report has met: hosts, users and accounts, which are replaced wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from forensics.report.redaction.node_ranges import expanded
from forensics.report.redaction.stand_ins import StandIns, is_stand_in
from forensics.report.redaction.whole_names import WholeNames
from forensics.report.redaction.words import COMMON_USERS, ORDINARY, PROGRAMS, PUBLIC_OWNERS, TERMS

# Names that say what a machine is for and nothing about whose it is: the story of a report is told in them.
_PLAIN_HOST = re.compile(
    r"(?:localhost|local|localdomain|none|unknown|the|train|test|null|true|false|auto|all|head_node|[0-9]+|"
    r"(?:(?:node|worker|host|rank|gpu|server|machine|master|head|compute|launcher|pod|trainer|algo)(?:[-_.]?(?:\d+|[a-z]))?))\Z",
    re.ASCII | re.I,
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*", re.ASCII)
# Things that are replaced wherever their very text stands, once a place has given them away.
_ANYWHERE = frozenset(
    "secret private email phone bucket arn run repo project namespace job serial guid uuid gpu mac nodes channel "
    "resource".split()
)
# What jobs are called that nobody has named: Slurm takes the script's or the program's name.
_PROGRAM = re.compile(
    r"(?:[\w.-]+\.(?:py|sh|bash|sbatch|slurm|ipynb)|python[\d.]*|torchrun|accelerate|deepspeed|mpirun|srun|bash|sh|wrap|batch"
    r"|extern|interactive)\Z",
    re.ASCII,
)
# Folders of programs and of models, in which a word is a word: `site-packages/apex/`, `torch/optim/adam/`.
_PACKAGE = re.compile(
    r"(?:(?:site|dist)-packages|torch|transformers|megatron|deepspeed|optim(?:izers?)?|models?|modeling)/(?:[\w.-]+/)*\Z",
    re.ASCII,
)
_BEFORE_PART, _AFTER_PART = frozenset("/\\~"), re.compile(r"[/\\\s:\"'>,)]|\Z")  # around a part of a path
_NUMBERED = re.compile(r"-\d")  # where "dgx" is a host, "dgx-17" is another one
_SHORTEST = 8  # characters of such a text
_PLACEHOLDER = ("$", "{", "%", "*", "~", "<")
# Values that say that there is none, and the project that a library logs to where none is given.
_NOTHING = frozenset({"null", "none", "true", "false", "unknown", "default", "huggingface", "uncategorized"})


def second(pattern: re.Pattern[str], make: Callable[[str], str], text: str) -> str:
    """Replaces group 2 of each match by `make` of it, and keeps group 1 and what follows group 2."""

    def replace(match: re.Match[str]) -> str:
        return match[1] + make(match[2]) + match[0][match.end(2) - match.start() :]

    return pattern.sub(replace, text)


def telling(name: str) -> bool:
    """Whether a name that a pattern took for a host's may be replaced wherever it occurs, and not only there.

    A place can be misread, and a plain word is then to stay a word everywhere else.
    """
    return any(char in name for char in "-.0123456789")


def _word(name: str) -> bool:
    """Whether a name is a word that logs are told in."""
    return name in ORDINARY or name in TERMS


class Memory:
    """The names that one report has met so far, each with its stand-in.

    `spoken` are words that the report itself is told in: a user of such a name is replaced in paths only.
    """

    def __init__(self, spoken: Iterable[str] = ()) -> None:
        self.stand_ins = StandIns()
        self.learning = False  # whether texts are gone through for new names only
        self.spoken: set[str] = set(spoken)
        self._hosts: dict[str, str] = {}  # lower-case name -> stand-in, empty where it is only expected
        self._words: dict[str, str] = {}  # hosts that are plain words, as they are written -> stand-in
        self._placed: set[str] = set()  # hosts that are words of other things, as they are written
        self._people: dict[str, str] = {}  # users and accounts
        self._values: dict[str, str] = {}  # text -> stand-in
        self._values_of = 0  # how many stand-ins there were when these were made
        self._host_names = WholeNames(any_case=True)
        self._word_names = WholeNames(any_case=False)
        self._people_names = WholeNames(any_case=True)
        self._value_names = WholeNames(any_case=False)

    def of(self, kind: str, value: str) -> str:
        """The stand-in of `value` as a thing of `kind`; placeholders (`$USER`, `<your token>`) stay as they are."""
        nothing = not value or value.startswith(_PLACEHOLDER) or value.lower() in _NOTHING
        nothing = nothing or (kind == "run" and _PROGRAM.match(value) is not None)
        if kind == "nodes" and not nothing and not is_stand_in(value):
            self.expect(expanded(value))
        return value if nothing else self.stand_ins.of(kind, value)

    def secret(self, value: str) -> str:
        """The stand-in of a secret."""
        return self.stand_ins.of("secret", value)

    def host(self, name: str, *, everywhere: bool = True) -> str:
        """The stand-in of a host name or address; `everywhere`: it is replaced in any text from now on."""
        bare = name.strip().strip(".[]")
        if is_stand_in(bare) or not re.fullmatch(r"[\w.:%-]{1,253}", bare, re.ASCII):
            return name
        if _ADDRESS.fullmatch(bare):
            from forensics.report.redaction.addresses import addresses

            return addresses(name, self)
        full, short = bare.lower(), bare.split(".")[0].lower()
        if _PLAIN_HOST.match(short):
            # Of `worker-3.some-job.svc.cluster.local` the domain is what tells, and the name what one needs.
            return bare if full == short else short
        stand_in = self._hosts.get(full) or self._hosts.get(short) or self.stand_ins.of_host(short)
        # Of a name with a domain, "data" or "login" alone are words. One or two letters are a word in any text.
        forms = (full, short) if full == short or any(char in short for char in "-0123456789") else (full,)
        for form in forms:
            if everywhere and len(form) > 2 and not self._hosts.get(form) and not _word(form):
                self._hosts[form] = stand_in
                self._host_names.add(form)
        return stand_in

    def word(self, name: str, stand_in: str) -> None:
        """A host called by a plain word, which is replaced in any text from now on where it is written so.

        Nothing is learnt where the host has no stand-in, or the report itself is told in the word.
        """
        if is_stand_in(stand_in) and name.lower() not in self.spoken and name not in self._words:
            self._words[name] = stand_in
            self._word_names.add(name)

    def place(self, name: str) -> None:
        """A host called by a word that logs, code or prose have as well: it is replaced only where a host stands."""
        if not is_stand_in(name) and not _PLAIN_HOST.match(name):
            self._placed.add(name)

    @property
    def has_placed(self) -> bool:
        """Whether a host is known that is replaced only where a host stands."""
        return bool(self._placed)

    def is_placed(self, name: str) -> bool:
        """Whether a word is known to be a host's name where a host may stand, and perhaps no other place."""
        return name in self._placed or self.is_host(name)

    def is_host(self, name: str) -> bool:
        """Whether a name is known for a host's wherever it stands."""
        return name in self._words or name.lower() in self._hosts

    def expect(self, names: Iterable[str]) -> None:
        """Hosts of a list that is shown as a whole: each gets its stand-in where it is met, and none before."""
        for name in names:
            lowered = name.lower()
            if (
                len(name) > 2
                and not _PLAIN_HOST.match(name)
                and lowered not in self._hosts
                and not is_stand_in(lowered)
            ):
                self._hosts[lowered] = ""
                self._host_names.add(lowered)

    def user(self, name: str) -> str:
        """The stand-in of a user's name; accounts that everybody has (`root`, `ubuntu`) stay."""
        return self._person("user", name, COMMON_USERS)

    def account(self, name: str) -> str:
        """The stand-in of an organisation's or person's account at a service; well-known publishers stay."""
        return self._person("account", name, PUBLIC_OWNERS)

    def _person(self, kind: str, name: str, common: frozenset[str]) -> str:
        lowered = name.lower()
        if lowered in common or lowered in _NOTHING or not name or is_stand_in(name) or name.startswith(_PLACEHOLDER):
            return name
        if lowered not in self._people:
            self._people[lowered] = self.stand_ins.of(kind, lowered)
            if not is_stand_in(lowered):
                self._people_names.add(lowered)
        return self._people[lowered]

    # --- what one report has met, for another

    def names(self) -> list[tuple[str, str]]:
        """(kind, name) of all that is replaced wherever it stands; `know` takes them."""
        met = self.stand_ins.items()
        hosts = [("host", name) for name in sorted(self._hosts, key=lambda name: not self._hosts[name])]
        people = [(kind, name) for kind, name, shown in met if self._people.get(name) == shown]
        words = [("word", name) for name in self._words]
        return [*people, *hosts, *words, *((kind, name) for kind, name, _ in met if kind in _ANYWHERE)]

    def know(self, kind: str, name: str) -> None:
        """Replaces a name wherever it stands from now on."""
        if kind == "host":
            self.host(name)
        elif kind == "word":
            self.word(name, self.host(name, everywhere=False))
        elif kind in ("user", "account"):
            self._person(kind, name, COMMON_USERS if kind == "user" else PUBLIC_OWNERS)
        elif kind in _ANYWHERE:
            self.of(kind, name)

    # --- known names, wherever they stand

    def known_people(self, text: str) -> str:
        """`text` without known users and accounts: as a part of a path, and anywhere if the name is no word."""
        if not self._people or self.learning or not self._people_names.may_stand_in(text):
            return text
        return self._people_names.replaced(self._people_names.replaced(text, self._in_path), self._anywhere)

    def _in_path(self, name: str, text: str, start: int, end: int) -> str | None:
        if text[max(0, start - 1) : start] not in _BEFORE_PART or not _AFTER_PART.match(text, end):
            return None
        if not self._no_word(name) and _PACKAGE.search(text[max(0, start - 160) : start]):
            return text[start:end]
        return self._people[name]

    def _anywhere(self, name: str, text: str, start: int, end: int) -> str | None:
        return self._people[name] if self._no_word(name) else None

    def _no_word(self, name: str) -> bool:
        if _word(name) or name in PROGRAMS or name in self.spoken or len(name) < 3:
            return False
        return len(name) > 3 or any(char.isdigit() for char in name)

    def known_values(self, text: str) -> str:
        """`text` without secrets and names of things that a place elsewhere has given away."""
        for kind, value, stand_in in self.stand_ins.items(self._values_of):
            if kind in _ANYWHERE and len(value) >= _SHORTEST and not (value.isalpha() and value.islower()):
                self._values[value] = stand_in
                self._value_names.add(value)
        self._values_of = len(self.stand_ins)
        return self._value_names.replaced(text, lambda value, text, start, end: self._values[value])

    def known_hosts(self, text: str) -> str:
        """`text` without the names of hosts that are known, as whole words."""
        if self.learning:
            return text
        if self._words:
            text = self._word_names.replaced(text, self._as_word)
        return self._host_names.replaced(text, self._as_host) if self._hosts else text

    def _as_word(self, name: str, text: str, start: int, end: int) -> str | None:
        numbered = _NUMBERED.match(text, end) is not None
        return None if numbered or _PACKAGE.search(text[max(0, start - 160) : start]) else self._words[name]

    def _as_host(self, name: str, text: str, start: int, end: int) -> str | None:
        if name[-1].isalpha() and _NUMBERED.match(text, end):
            return None
        if name.isalpha() and text[start:end].isupper() and "_" in (text[start - 1 : start], text[end : end + 1]):
            return None  # of a variable's name: REDIS_URL
        return self._hosts[name] or self.host(text[start:end])
