"""TensorProto: one number, or all of them, of any numeric dtype that event files hold.

Field numbers are those of TensorFlow's `tensor.proto`, `tensor_shape.proto` and `types.proto`.
"""

from __future__ import annotations

from array import array
from struct import Struct
from sys import byteorder
from typing import NamedTuple

from forensics.parsers.tensorboard.wire import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields, signed, varint

# types.proto: how one element of a dtype is stored in tensor_content. bfloat16 (14) has no struct code of its own.
_BFLOAT16, _HALF = 14, 19
_CODES = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 17: "H", _HALF: "e", 22: "I", 23: "Q"}
CONTENT = {dtype: Struct("<" + code) for dtype, code in _CODES.items()}
_PACKED = {5: (FIXED32, Struct("<f")), 6: (FIXED64, Struct("<d"))}  # float_val, double_val
_INTEGERS = {7, 10, 11, 16, 17}  # int_val, int64_val, bool_val, uint32_val, uint64_val
_HALF_VAL = 13
_UNSIGNED = 17  # uint64_val
MAX_ELEMENTS = 1 << 16  # of a tensor that is read whole; histograms have some dozens


class Scalar(NamedTuple):
    tag: str
    value: float
    start: int  # where the value stands in the payload, -1 where it has no fixed width
    code: Struct | None  # of a float at `start`


class Tensor(NamedTuple):
    """A TensorProto whose numbers have not been looked at yet."""

    dtype: int
    shape: tuple[int, ...] | None  # None where it is not known; -1 for an unknown dimension
    content: tuple[int, int] | None  # span of tensor_content
    # (field, start, stop, varint value) of each repeated value; packed ones are one entry with a span
    values: tuple[tuple[int, int, int, int | None], ...]

    @property
    def numeric(self) -> bool:
        return self.dtype in CONTENT or self.dtype == _BFLOAT16


def tensor(data: bytes, start: int, stop: int) -> Tensor:
    """The TensorProto in data[start:stop]. Raises Malformed."""
    dtype = 0
    shape: tuple[int, ...] | None = ()
    content: tuple[int, int] | None = None
    values: list[tuple[int, int, int, int | None]] = []
    for number, wire, value, first, last in fields(data, start, stop):
        if number == 1 and wire == VARINT:
            dtype = value
        elif number == 2 and wire == BYTES:
            shape = _shape(data, first, last)
        elif number == 4 and wire == BYTES and last > first:
            content = (first, last)
        elif number in _PACKED and wire in (BYTES, _PACKED[number][0]):
            if last > first:
                values.append((number, first, last, None))
        elif number in _INTEGERS or number == _HALF_VAL:
            if wire == VARINT:
                values.append((number, first, last, value))
            elif wire == BYTES and last > first:
                values.append((number, first, last, None))
    return Tensor(dtype, shape, content, tuple(values))


def scalar(data: bytes, found: Tensor, tag: str, declared: bool) -> Scalar | None:
    """The one number of a tensor, or None where it holds more, none, or no number. Raises Malformed.

    declared: the tag is known to be a scalar, so that a tensor without values is a zero (which TensorFlow leaves out
        when it compresses a tensor).
    """
    if found.shape is None or any(size != 1 for size in found.shape):
        return None
    if found.content is not None:
        first, last = found.content
        if found.dtype == _BFLOAT16 and last - first == 2:
            return Scalar(tag, _half(_BFLOAT16, int.from_bytes(data[first:last], "little")), -1, None)
        stored = CONTENT.get(found.dtype)
        if stored is None or last - first != stored.size:
            return None
        element = stored.unpack_from(data, first)[0]
        return Scalar(tag, float(element), first, stored if isinstance(element, float) else None)
    if not found.values:
        return Scalar(tag, 0.0, -1, None) if declared and found.numeric else None
    if len(found.values) > 1:
        return None
    number, first, last, value = found.values[0]
    if number in _PACKED:
        code = _PACKED[number][1]
        return Scalar(tag, code.unpack_from(data, first)[0], first, code) if last - first == code.size else None
    if value is None:
        value, first = varint(data, first, last)
        if first != last:
            return None
    return Scalar(tag, _integer(number, found.dtype, value), -1, None)


def numbers(data: bytes, found: Tensor) -> list[float] | None:
    """All numbers of a tensor in row-major order; None where it is no numeric one, or too large. Raises Malformed.

    One value that stands for all (TensorFlow's compression of constant tensors) is repeated.
    """
    size = 1
    for length in found.shape if found.shape is not None else (-1,):
        size = size * length if length >= 0 else -1
        if not 0 <= size <= MAX_ELEMENTS:
            return None
    if not found.numeric:
        return None
    read = _content(data, found) if found.content is not None else _values(data, found)
    if read is None:
        return None
    if 0 < len(read) < size:
        read += [read[-1]] * (size - len(read))
    return read if len(read) == size else [0.0] * size if not read else None


def _content(data: bytes, found: Tensor) -> list[float] | None:
    first, last = found.content or (0, 0)
    width = 2 if found.dtype == _BFLOAT16 else CONTENT[found.dtype].size
    if (last - first) % width or (last - first) // width > MAX_ELEMENTS:
        return None
    if found.dtype == _BFLOAT16:
        halves = _array("H", data[first:last])
        return [_half(_BFLOAT16, int(bits)) for bits in halves]
    return [float(element) for (element,) in CONTENT[found.dtype].iter_unpack(data[first:last])]


def _values(data: bytes, found: Tensor) -> list[float] | None:
    read: list[float] = []
    for number, first, last, value in found.values:
        if number in _PACKED:
            code = _PACKED[number][1]
            if (last - first) % code.size:
                raise Malformed("packed values")
            read += _array(code.format[-1], data[first:last])
        elif value is not None:
            read.append(_integer(number, found.dtype, value))
        else:
            while first < last and len(read) <= MAX_ELEMENTS:
                value, first = varint(data, first, last)
                read.append(_integer(number, found.dtype, value))
        if len(read) > MAX_ELEMENTS:
            return None
    return read


def doubles(data: bytes) -> list[float]:
    """Little-endian doubles that follow each other. Raises Malformed where the last one is cut."""
    if len(data) % 8:
        raise Malformed("packed values")
    return list(_array("d", data))


def _array(code: str, data: bytes) -> array[float]:
    values: array[float] = array(code)
    values.frombytes(data)
    if byteorder == "big":
        values.byteswap()
    return values


def _integer(number: int, dtype: int, value: int) -> float:
    if number == _HALF_VAL:
        return _half(dtype, value & 0xFFFF)
    return float(value if number == _UNSIGNED else signed(value))


def _shape(data: bytes, start: int, stop: int) -> tuple[int, ...] | None:
    """The sizes that a TensorShapeProto names (dim 2, in it size 1); None where the rank is unknown (field 3)."""
    sizes = []
    for number, wire, value, first, last in fields(data, start, stop):
        if number == 2 and wire == BYTES:
            size = 0
            for inner, inner_wire, length, _, _ in fields(data, first, last):
                if inner == 1 and inner_wire == VARINT:
                    size = signed(length)
            sizes.append(size)
        elif number == 3 and wire == VARINT and value:
            return None
    return tuple(sizes)


def _half(dtype: int, bits: int) -> float:
    """A float16, or a bfloat16, from its 16 bits."""
    if dtype == _BFLOAT16:
        return float(CONTENT[1].unpack((bits << 16).to_bytes(4, "little"))[0])
    return float(CONTENT[_HALF].unpack(bits.to_bytes(2, "little"))[0])
