"""What a pickle would build, told by its opcodes: nothing is imported, called or resolved.

A small machine follows the opcodes of every protocol (cpython: Lib/pickletools.py lists them) and keeps a skeleton:
numbers, strings and containers are themselves, tensors become their name, type and shape, and whatever a class or a
function would have made becomes a `Made` that holds the name and the arguments. Time and memory grow with the bytes
that are read; containers may be shared, as in the pickle, so whoever goes through them must count the nodes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 8 << 20  # of one pickle; 10,000 tensors with their optimizer states take about 3 MB
MAX_NAMES = 1_000  # a checkpoint has some ten, and with the objects of a program some hundred
MAX_OPCODES = 2_000_000  # they have four bytes on average
_LARGE = 1 << 60  # dict keys beyond it are not kept: integers can be chosen so that their hashes collide
_DICTS = {"collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict", "builtins.set"}
# (element type, bytes an element) by the name of the storage class that a persistent id gives (torch/storage.py).
STORAGES = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
    "ComplexDoubleStorage": ("C128", 16),
    "ComplexFloatStorage": ("C64", 8),
    "UntypedStorage": ("U8", 1),
}
# The element types that _rebuild_tensor_v3 names beside an untyped storage (torch/_utils.py).
_DTYPES = {
    "torch.float8_e4m3fn": ("F8_E4M3", 1),
    "torch.float8_e5m2": ("F8_E5M2", 1),
    "torch.uint16": ("U16", 2),
    "torch.uint32": ("U32", 4),
    "torch.uint64": ("U64", 8),
}


class Cut(ValueError):
    """The data end before the pickle does."""


class Odd(ValueError):
    """The opcodes are none that a pickler writes; the message says where."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that the pickle names and nobody looks up."""

    name: str  # module.qualname


@dataclass(frozen=True, slots=True)
class Storage:
    """The data of tensors, by the key under which the file keeps them."""

    key: str
    dtype: str  # as safetensors calls it: F32, BF16, I64
    item: int  # bytes an element
    count: int  # elements


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's place in its storage; offset and stride in elements."""

    storage: Storage
    dtype: str
    item: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def count(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n


@dataclass(slots=True, eq=False)
class Made:
    """What a call would have made. Compared and hashed by identity, so that it can be a key."""

    name: str
    args: Any = ()
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)
    extra: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Walked:
    value: Any
    end: int  # where the pickle ends in the data
    storages: dict[str, Storage]
    names: tuple[str, ...] = ()  # of the classes and functions that it names, each once, the first MAX_NAMES


_MARK = object()
_FIXED: dict[int, struct.Struct] = {
    ord("K"): struct.Struct("<B"),
    ord("M"): struct.Struct("<H"),
    ord("J"): struct.Struct("<i"),
    ord("G"): struct.Struct(">d"),
}
# Opcodes that are followed by a length and that many bytes: (size of the length, what becomes of them).
_COUNTED: dict[int, tuple[int, str]] = {
    0x8C: (1, "text"),  # SHORT_BINUNICODE
    ord("X"): (4, "text"),
    0x8D: (8, "text"),
    ord("C"): (1, "bytes"),
    ord("B"): (4, "bytes"),
    0x8E: (8, "bytes"),
    0x96: (8, "bytes"),  # BYTEARRAY8
    ord("U"): (1, "text"),  # SHORT_BINSTRING of Python 2
    ord("T"): (4, "text"),
    0x8A: (1, "number"),  # LONG1
    0x8B: (4, "number"),
}
_CONSTANTS: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False}


def walk(data: bytes, start: int = 0) -> Walked:
    """The skeleton of the pickle that begins at `start`. Raises Cut where the data end before it, and Odd."""
    try:
        return _Machine(data, start).run()
    except (IndexError, struct.error):
        raise Cut(f"the pickle does not end within {len(data):,} bytes") from None
    except (TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise Odd(f"opcodes that fit no object ({type(error).__name__})") from None


class _Machine:
    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.at = start
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}
        self.names: dict[str, None] = {}

    def run(self) -> Walked:
        data, stack, memo = self.data, self.stack, self.memo
        for _ in range(MAX_OPCODES):
            op = data[self.at]
            self.at += 1
            if op == 0x71:  # BINPUT
                memo[data[self.at]] = self.top()
                self.at += 1
            elif op == 0x72:  # LONG_BINPUT
                memo[self.number(4)] = self.top()
            elif op == 0x94:  # MEMOIZE
                memo[len(memo)] = self.top()
            elif op == 0x68:  # BINGET
                stack.append(self.remembered(data[self.at]))
                self.at += 1
            elif op == 0x6A:  # LONG_BINGET
                stack.append(self.remembered(self.number(4)))
            elif op == 0x28:
                self.marks.append(len(stack))
            elif op in _FIXED:
                form = _FIXED[op]
                stack.append(form.unpack_from(data, self.at)[0])
                self.at += form.size
            elif op in _COUNTED:
                stack.append(self.counted(*_COUNTED[op]))
            elif op in _CONSTANTS:
                stack.append(_CONSTANTS[op])
            elif op == 0x2E:  # STOP
                return Walked(self.pop(), self.at, self.storages, tuple(self.names))
            else:
                action = _ACTIONS.get(op)
                if action is None:
                    raise Odd(f"byte {self.at - 1:,} is no opcode")
                action(self)
        raise Odd(f"more than {MAX_OPCODES:,} opcodes")

    def top(self) -> Any:
        if not self.stack:
            raise Odd(f"nothing to remember at byte {self.at - 1:,}")
        return self.stack[-1]

    def pop(self) -> Any:
        if not self.stack or (self.marks and self.marks[-1] >= len(self.stack)):
            raise Odd(f"nothing to take at byte {self.at - 1:,}")
        return self.stack.pop()

    def remembered(self, key: int) -> Any:
        if key not in self.memo:
            raise Odd(f"byte {self.at - 1:,} asks for what was never stored")
        return self.memo[key]

    def number(self, size: int) -> int:
        raw = self.data[self.at : self.at + size]
        if len(raw) < size:
            raise Cut("cut within a number")
        self.at += size
        return int.from_bytes(raw, "little")

    def counted(self, size: int, what: str) -> Any:
        length = self.number(size)
        raw = self.data[self.at : self.at + length]
        if len(raw) < length:
            raise Cut("cut within a string")
        self.at += length
        if what == "text":
            return raw.decode("utf-8", "replace")
        return raw if what == "bytes" else int.from_bytes(raw, "little", signed=True)

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise Cut("cut within a line")
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text

    def since_mark(self) -> list[Any]:
        if not self.marks:
            raise Odd(f"no mark at byte {self.at - 1:,}")
        place = self.marks.pop()
        taken = self.stack[place:]
        del self.stack[place:]
        return taken

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def named(self, name: str) -> Name:
        if len(self.names) < MAX_NAMES:
            self.names[name] = None
        return Name(name)

    def take(self, n: int) -> tuple[Any, ...]:
        place = len(self.stack) - n
        if place < (self.marks[-1] if self.marks else 0):
            raise Odd(f"nothing to take at byte {self.at - 1:,}")
        taken = tuple(self.stack[place:])
        del self.stack[place:]
        return taken

    def call(self, function: Any, args: Any) -> Any:
        name = function.name if isinstance(function, Name) else "?"
        args = args if isinstance(args, tuple) else ()
        if name in _DICTS:
            return {}
        if name.startswith("torch._utils._rebuild_tensor") or name == "torch._utils._rebuild_sparse_tensor":
            return _tensor(args) or Made(name, args)
        if name.startswith("torch._utils._rebuild_parameter") and args and isinstance(args[0], Tensor):
            return args[0]
        if name == "torch.Size" and args and isinstance(args[0], tuple):
            return args[0]
        return Made(name, args)

    def store(self, target: Any, pairs: list[Any]) -> None:
        into = target.items if isinstance(target, Made) else target
        if not isinstance(into, dict):
            raise Odd(f"items are set on no dict at byte {self.at - 1:,}")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            plain = type(key) is str or (type(key) is int and -_LARGE < key < _LARGE)
            if plain or isinstance(key, Made):
                into[key] = value
            elif isinstance(key, Tensor | tuple):
                into[Made("?", key)] = value

    def extend(self, target: Any, values: list[Any]) -> None:
        into = target.extra if isinstance(target, Made) else target
        if isinstance(into, dict):  # a set's skeleton
            return
        if not isinstance(into, list):
            raise Odd(f"items are added to no list at byte {self.at - 1:,}")
        into.extend(values)

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Made):
            target.state = state

    def persistent(self) -> None:
        pid = self.pop()
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or type(pid[4]) is not int:
            return self.push(Made("persistent id", pid))
        if not (isinstance(pid[2], str) or (type(pid[2]) is int and 0 <= pid[2] < _LARGE)):
            return self.push(Made("persistent id", pid))
        kind = pid[1].name.rpartition(".")[2] if isinstance(pid[1], Name) else ""
        dtype, item = STORAGES.get(kind, ("?", 1))
        key = pid[2][:40] if isinstance(pid[2], str) else str(pid[2])
        storage = Storage(key, dtype, item, min(max(pid[4], 0), _LARGE))
        self.storages[storage.key] = storage
        return self.push(storage)


def _tensor(args: tuple[Any, ...]) -> Tensor | None:
    if len(args) < 4 or not isinstance(args[0], Storage) or not isinstance(args[1], int):
        return None
    shape, stride = args[2], args[3]
    if not (isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) == len(stride) <= 64):
        return None
    if not all(type(n) is int and 0 <= n < _LARGE for n in (*shape, *stride)) or not 0 <= args[1] < _LARGE:
        return None
    storage = args[0]
    dtype, item = storage.dtype, storage.item
    if len(args) > 6 and isinstance(args[6], Name):
        dtype, item = _DTYPES.get(args[6].name, ("?", 1))
    return Tensor(storage, dtype, item, args[1], shape, stride)


def _global(m: _Machine) -> None:
    module, name = m.line(), m.line()
    m.push(m.named(f"{module}.{name}"[:200]))


def _stack_global(m: _Machine) -> None:
    module, name = m.take(2)
    both = isinstance(module, str) and isinstance(name, str)
    m.push(
        m.named(f"{module[:100]}.{name[:100]}" if both else "?")
    )  # cut first: one long string can be used very often


def _reduce(m: _Machine) -> None:
    function, args = m.take(2)
    m.push(m.call(function, args))


def _newobj_ex(m: _Machine) -> None:
    function, args, _ = m.take(3)
    m.push(m.call(function, args))


def _obj(m: _Machine) -> None:
    taken = m.since_mark()
    if not taken:
        raise Odd(f"nothing to call at byte {m.at - 1:,}")
    m.push(m.call(taken[0], tuple(taken[1:])))


def _inst(m: _Machine) -> None:
    name = m.named(f"{m.line()}.{m.line()}"[:200])
    m.push(m.call(name, tuple(m.since_mark())))


def _dict(m: _Machine) -> None:
    made: dict[Any, Any] = {}
    pairs = m.since_mark()
    m.store(made, pairs[: len(pairs) // 2 * 2])
    m.push(made)


def _setitems(m: _Machine) -> None:
    pairs = m.since_mark()
    m.store(m.top(), pairs[: len(pairs) // 2 * 2])


def _setitem(m: _Machine) -> None:
    pair = list(m.take(2))
    m.store(m.top(), pair)


def _append(m: _Machine) -> None:
    value = m.pop()
    m.extend(m.top(), [value])


def _appends(m: _Machine) -> None:
    values = m.since_mark()
    m.extend(m.top(), values)


def _pop(m: _Machine) -> None:
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.pop()


def _pop_mark(m: _Machine) -> None:
    m.since_mark()


def _text_int(m: _Machine) -> None:
    text = m.line()
    if text in ("00", "01"):
        return m.push(text == "01")
    return m.push(_decimal(text))


def _decimal(text: str) -> int:
    try:
        return int(text[:40].rstrip("L"))
    except ValueError:
        raise Odd("a number that is none") from None


def _unicode(m: _Machine) -> None:
    end = m.data.find(b"\n", m.at)
    if end < 0:
        raise Cut("cut within a line")
    m.push(m.data[m.at : end].decode("raw-unicode-escape", "replace"))
    m.at = end + 1


def _text_float(m: _Machine) -> None:
    try:
        m.push(float(m.line()[:60]))
    except ValueError:
        raise Odd("a number that is none") from None


def _skip(size: int) -> Callable[[_Machine], None]:
    def skip(m: _Machine) -> None:
        m.number(size)

    return skip


def _put(m: _Machine) -> None:
    key = _decimal(m.line())
    if not 0 <= key < 1 << 32:
        raise Odd("a place to remember that is too far")
    m.memo[key] = m.top()


def _extension(size: int) -> Callable[[_Machine], None]:
    def extension(m: _Machine) -> None:
        m.push(Name(f"extension {m.number(size)}"))

    return extension


def _persistent_line(m: _Machine) -> None:
    m.push(Made("persistent id", m.line()[:200]))


_ACTIONS: dict[int, Callable[[_Machine], None]] = {
    0x80: _skip(1),  # PROTO
    0x95: _skip(8),  # FRAME
    ord("}"): lambda m: m.push({}),
    ord("]"): lambda m: m.push([]),
    ord(")"): lambda m: m.push(()),
    0x8F: lambda m: m.push([]),  # EMPTY_SET
    ord("t"): lambda m: m.push(tuple(m.since_mark())),
    ord("l"): lambda m: m.push(m.since_mark()),
    0x91: lambda m: m.push(m.since_mark()),  # FROZENSET
    0x85: lambda m: m.push(m.take(1)),
    0x86: lambda m: m.push(m.take(2)),
    0x87: lambda m: m.push(m.take(3)),
    ord("c"): _global,
    0x93: _stack_global,
    ord("R"): _reduce,
    0x81: _reduce,  # NEWOBJ
    0x92: _newobj_ex,
    ord("o"): _obj,
    ord("i"): _inst,
    ord("b"): _Machine.build,
    ord("d"): _dict,
    ord("u"): _setitems,
    ord("s"): _setitem,
    ord("a"): _append,
    ord("e"): _appends,
    0x90: _appends,  # ADDITEMS
    ord("Q"): _Machine.persistent,
    ord("P"): _persistent_line,
    ord("0"): _pop,
    ord("1"): _pop_mark,
    ord("2"): lambda m: m.push(m.top()),
    ord("I"): _text_int,
    ord("L"): lambda m: m.push(_decimal(m.line())),
    ord("F"): _text_float,
    ord("S"): lambda m: m.push(m.line().strip("'\"")),
    ord("V"): _unicode,
    ord("p"): _put,
    ord("g"): lambda m: m.push(m.remembered(_decimal(m.line()))),
    0x82: _extension(1),
    0x83: _extension(2),
    0x84: _extension(4),
    0x97: lambda m: m.push(Made("buffer")),
    0x98: lambda m: None,
}
