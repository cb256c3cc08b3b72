"""Hyperparameters as the hparams plugin stores them (`plugin_data.proto`, `google.protobuf.Value`)."""

from __future__ import annotations

from forensics.parsers.tensorboard.wire import BYTES, DOUBLE, FIXED64, VARINT, Malformed, fields

MAX_NAMES = 1_000  # hyperparameters kept of one session
END = "session_end_info"  # name of the end of a session that failed
# Of enum Status in hparams/api.proto. Success (1) says nothing: `add_hparams` of PyTorch states it with the start.
FAILURE = 2


def session(content: bytes) -> tuple[tuple[str, str], ...]:
    """(name, value) pairs of an HParamsPluginData with session_start_info (3, its map hparams is 1); () for others.

    Of a session_end_info (4, its status is 1) that states a failure the pair (END, "failure").
    """
    pairs: list[tuple[str, str]] = []
    try:
        for number, wire, _, start, stop in fields(content, 0, len(content)):
            if number not in (3, 4) or wire != BYTES:
                continue
            for inner, inner_wire, value, first, last in fields(content, start, stop):
                if number == 3 and inner == 1 and inner_wire == BYTES and len(pairs) < MAX_NAMES:
                    pairs.append(_pair(content, first, last))
                elif number == 4 and inner == 1 and inner_wire == VARINT and value == FAILURE:
                    pairs.append((END, "failure"))
    except Malformed:
        return ()
    return tuple(pairs)


def _pair(data: bytes, start: int, stop: int) -> tuple[str, str]:
    """One entry of a map<string, google.protobuf.Value>: number_value 2, string_value 3, bool_value 4."""
    name, text = "", "None"
    for number, wire, _, first, last in fields(data, start, stop):
        if number == 1 and wire == BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == 2 and wire == BYTES:
            for inner, inner_wire, value, a, b in fields(data, first, last):
                if inner == 2 and inner_wire == FIXED64:
                    text = f"{DOUBLE.unpack_from(data, a)[0]:.17g}"
                elif inner == 3 and inner_wire == BYTES:
                    text = data[a:b].decode("utf-8", "replace")
                elif inner == 4 and inner_wire == VARINT:
                    text = str(bool(value))
    return name, text
