"""The plain attributes of a pickled object, told from its opcodes: nothing is imported, called or built.

Every class, function and call in the pickle becomes an `Opaque`: its name, its arguments, its attributes. What is read
is what a pickle states in so many words, and no more.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any

from forensics.parsers.run_files.documents import scalar

_COPIED = 200_000
BYTES = 512 << 10  # a walk takes about a microsecond a byte


class NotReadable(ValueError):
    """The pickle is damaged, too large, or does what is not followed; the message says which."""


@dataclass(slots=True, eq=False)
class Opaque:
    """What a class or a call is to a reader that runs neither."""

    name: str  # "transformers.trainer_utils.IntervalStrategy"
    arguments: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """`torch.device("cuda", 0)` is cuda:0, an enumeration its value; anything else is named by its class."""
        if not self.arguments:
            return self.name[:200]
        if self.name.startswith("pathlib."):
            return "/".join(scalar(a).strip("/") for a in self.arguments[:64])[:300]
        plain = [scalar(a) for a in self.arguments[:4] if isinstance(a, str | int | float)]
        return ":".join(plain) if plain and len(plain) == len(self.arguments) else f"<{self.name[:200]}>"


_MARK = object()
_PUSHED = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8"
    " BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 FLOAT BINFLOAT".split()
)
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_SIZED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.copied = 0  # attributes, over all objects

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark, taken off together with it."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                taken = self.stack[at + 1 :]
                del self.stack[at:]
                return taken
        raise NotReadable("damaged")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _PUSHED:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("EMPTY_LIST", "EMPTY_SET"):
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_TUPLE":
            stack.append(())
        elif name in ("LIST", "FROZENSET"):
            stack.append(self.since_mark())
        elif name == "TUPLE":
            stack.append(tuple(self.since_mark()))
        elif name in _SIZED:
            n = _SIZED[name]
            stack[-n:] = [tuple(stack[-n:])]
        elif name == "DICT":
            taken = self.since_mark()
            table: dict[str, Any] = {}
            _fill(table, taken)
            stack.append(table)
        elif name in ("APPENDS", "ADDITEMS"):
            taken = self.since_mark()
            if isinstance(stack[-1], list):
                stack[-1].extend(taken)
        elif name == "APPEND":
            value = stack.pop()
            if isinstance(stack[-1], list):
                stack[-1].append(value)
        elif name == "SETITEMS":
            taken = self.since_mark()
            _fill(stack[-1], taken)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _fill(stack[-1], [key, value])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[int(argument)])
        elif name == "GLOBAL":
            stack.append(Opaque(str(argument).replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(Opaque(f"{module}.{attribute}"))
        elif name == "INST":
            stack.append(Opaque(str(argument).replace(" ", "."), tuple(self.since_mark())))
        elif name == "OBJ":
            what, *arguments = self.since_mark()
            stack.append(_called(what, tuple(arguments)))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, what = stack.pop(), stack.pop()
            stack.append(_called(what, arguments))
        elif name == "NEWOBJ_EX":
            _, arguments, what = stack.pop(), stack.pop(), stack.pop()
            stack.append(_called(what, arguments))
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(state, tuple) and len(state) == 2:  # (attributes, slots)
                state = state[0] or state[1]
            if isinstance(stack[-1], Opaque) and isinstance(state, dict):
                self.copied += len(state) + len(stack[-1].state)
                if self.copied > _COPIED:
                    raise NotReadable("gives one object the same attributes again and again")
                stack[-1].state = {**stack[-1].state, **state} if stack[-1].state else dict(state)
        elif name in ("BINPERSID", "PERSID"):
            if name == "BINPERSID":
                stack.pop()
            stack.append(Opaque("persistent id"))
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self.since_mark()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise NotReadable(f"holds the opcode {name}, which is not followed")


def _fill(table: Any, pairs: list[Any]) -> None:
    if isinstance(table, Opaque):
        table = table.state
    if isinstance(table, dict):
        table.update({key: value for key, value in zip(pairs[::2], pairs[1::2], strict=False) if isinstance(key, str)})


def _called(what: Any, arguments: Any) -> Any:
    """What a call gives: a container is what it is made from (no copy: a pickle can ask for many), the rest a name."""
    name = what.name if isinstance(what, Opaque) else type(what).__name__
    given = arguments if isinstance(arguments, tuple) else ()
    kind = name.removeprefix("__builtin__.").removeprefix("builtins.")  # protocol 2 has Python 2's names
    if len(given) < 2 and kind in ("dict", "collections.OrderedDict"):
        return given[0] if given and isinstance(given[0], dict) else {}
    if len(given) < 2 and kind in ("set", "frozenset", "list"):
        return given[0] if given and isinstance(given[0], list | tuple) else []
    if kind == "getattr" and len(given) == 2 and isinstance(given[0], Opaque) and isinstance(given[1], str):
        # An enumeration as early releases of Python 3.11 pickle it, by its member: transformers' values are their
        # members' names in small letters.
        return Opaque(given[0].name, (given[1].lower(),))
    return Opaque(name, given)


def read(data: bytes) -> Any:
    """The object of a pickle: plain values, lists, tuples, dicts (their text keys alone) and `Opaque`.

    Sets are lists. Raises NotReadable where the pickle is cut, damaged, or larger than BYTES.
    """
    if len(data) > BYTES:
        raise NotReadable(f"its pickle is larger than {BYTES >> 10} kB")
    machine = _Machine()
    try:
        for op, argument, _ in pickletools.genops(data):
            machine.step(op.name, argument)
        return machine.stack[-1]
    except NotReadable:
        raise
    except Exception:  # genops raises ValueError and what decoders raise; a stack that is empty raises IndexError
        raise NotReadable("its pickle is cut or damaged") from None
