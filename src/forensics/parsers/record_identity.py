"""Which rank and host a JSON record says that it is of, wherever its program adds that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forensics.model import MAX_RANKS, Identity
from forensics.patterns import lazy

RANKS = ("rank", "global_rank")
HOSTS = ("host", "hostname", "node")
# What loguru, ECS, Google Cloud, structlog and others call the object of fields that a program adds to its records.
_ADDED = ("labels", "extra", "ctx", "context", "fields", "attributes")
# In an object of any other name a rank is one of a process only beside one of these: others have ranks as well.
_OF_A_PROCESS = ("host", "hostname", "local_rank", "world_size")
_NAME = lazy(r"[A-Za-z][\w.-]{0,62}\w")


def identity_of(record: Mapping[str, Any]) -> Identity:
    """Rank and host of a record: at its top, or in an object of what its program adds (loguru's within "record")."""
    places = list(_places(record))
    rank = next((r for place in places for key in RANKS if (r := _rank(place.get(key))) is not None), None)
    host = next((h for place in places for key in HOSTS if (h := _host(place.get(key))) is not None), None)
    return Identity(rank=rank, node=host)


def _places(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield record
    inner = record.get("record")
    for outer in (record, inner if isinstance(inner, dict) else {}):
        for key, value in outer.items():
            if isinstance(value, dict) and (key in _ADDED or not value.keys().isdisjoint(_OF_A_PROCESS)):
                yield value


def _rank(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 7:
        value = int(value)
    return value if type(value) is int and 0 <= value < MAX_RANKS else None


def _host(value: object) -> str | None:
    if isinstance(value, dict):  # ECS: {"hostname": ..., "name": ...}
        value = value.get("hostname") or value.get("name")
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None
