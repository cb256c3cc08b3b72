"""Whether a file is an event file, by its first bytes; light, since every file of a run is asked."""

from __future__ import annotations

from struct import Struct

from forensics.parsers.tensorboard.checksums import header_checksum
from forensics.parsers.tensorboard.wire import EVENT_WIRE, Malformed, fields

_FILE_VERSION = b"brain.Event:"
_HEADER = Struct("<QI")  # of a record: length of the payload, and the masked CRC32C of these eight bytes


def looks_like_events(head: bytes) -> bool:
    """Tell from the first bytes of a file (64 or more are best) whether it is an event file.

    True where the version record shows, or where the first record has a correct header and its payload, as far as it
    lies in `head`, reads as an Event (other TFRecord files, such as data sets, do not). False for less than 12 bytes.
    """
    size = _HEADER.size
    if len(head) < size:
        return False
    if _FILE_VERSION in head[:64]:
        return True
    length, checksum = _HEADER.unpack_from(head)
    if not length or header_checksum(length) != checksum:
        return False
    payload = head[size : size + length]
    if len(payload) < length:
        # Every writer sets wall_time, and it is serialised first: field 1, fixed64.
        return payload[:1] in (b"", b"\x09")
    try:
        seen = {(number, wire) for number, wire, _, _, _ in fields(payload, 0, length)}
    except Malformed:
        return False
    return bool(seen) and all(EVENT_WIRE.get(number) == wire for number, wire in seen)
