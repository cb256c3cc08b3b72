"""What the readers of run files share: the shape of a family and of what it reads, and what is never kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from forensics.parsers.run_files.documents import VALUE, Document, Item, thinned

FACTS = 1_500  # of one file

# Values under such names are credentials, or name people and machines; neither explains a failure.
_PRIVATE = (
    r"(?i:token|secret|passw(?:or)?d|passphrase|credential|private|(?:api|access|auth|ssh|account)[_.-]?key"
    r"|key[_.-]?(?:id|file)|webhook|cookie|e?mail|user_?name|^user$|^host(?:name)?$|sas_url|connection_string|dsn)"
)
# Settings that only look like those.
_NOT_PRIVATE = (
    r"(?i)(?:^|_)(?:pad|eos|bos|unk|sep|cls|mask|image|video|audio|decoder_start|forced_\w+|special|added|extra|new)_tokens?"
    r"|tokens?_(?:id|ids|per|count|side|type|classif\w*|limit|weights?|indices|len\w*)|tokenizer|max_(?:\w+_)?tokens|num_tokens|_tokens$"
)


class Reading(NamedTuple):
    """What one file states, before it is known as whose: (name, value, line), and what is wrong with the file."""

    items: tuple[Item, ...] = ()
    problem: str | None = None


class Family(NamedTuple):
    """Files of one program that are read alike."""

    name: str
    matches: Callable[[str, str], bool]  # (path in lower case, with "/", the head's text) -> whether it is one
    read: Callable[[str, str], Reading]  # (text, path) -> what it states


@lru_cache(maxsize=8192)
def is_private(name: str) -> bool:
    """Whether a setting's name says that its value is a credential, or a person's or machine's name."""
    return re.search(_PRIVATE, name) is not None and re.search(_NOT_PRIVATE, name) is None


def under(prefix: str, items: Iterable[Item]) -> Iterator[Item]:
    """The items with their paths below `prefix`; private ones are left out."""
    for item in items:
        # An override or an argument ("wandb.api_key=...") has its name in its value.
        named = item.value.partition("=")[0] if "=" in item.value else ""
        if not any(is_private(part) for part in (*item.path.split("."), named)):
            yield Item(f"{prefix}.{item.path}" if item.path else prefix, item.value, item.line)


def reading(prefix: str, document: Document) -> Reading:
    """A document's values as facts below `prefix`."""
    return Reading(tuple(under(prefix, thinned(document.items))), document.problem)


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


def item(name: str, value: object, line: int | None = None) -> Item:
    """A fact that a reader makes itself."""
    return Item(name, str(value).strip()[:VALUE], line)
