"""PyTorch Flight Recorder dumps (the ring buffer of collectives that each rank writes when it hangs).

Reads every schema version from torch 2.2 (a bare list) to 2.14 ("2.10"), pickle and JSON, NCCL and gloo. The layouts
are those of `torch/csrc/distributed/c10d` (TraceUtils.h, NCCLUtils.hpp, FlightRecorder.cpp, FlightRecorderDetail.hpp).

A dump is a pickle that comes with a run directory, so it is hostile until shown otherwise. Two walls stand between it
and this process: `_refused_opcode` walks the opcodes and admits only those that build numbers, strings, lists, tuples
and dicts (no globals, no calls, no persistent ids, no huge memo index that would make the unpickler allocate
gigabytes), and `_Restricted` refuses every lookup should one slip through.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forensics.files import beginning
from forensics.model import COLLECTIVES_COLUMNS, UNRECORDED, Source, schema
from forensics.patterns import lazy
from forensics.rank_ranges import rank_ranges

if TYPE_CHECKING:
    import polars as pl

# Bytes. 2,000 entries (the default ring) with Python stacks are 1 to 5 MB; 20,000 with C++ stacks stay below this.
MAX_BYTES = 256 * 1024 * 1024
# Lists of tensors longer than this (all_gather over very many ranks) are cut; what is compared stays comparable.
MAX_TENSORS = 4096
MAX_DIMS = 64
MAX_FRAMES = 200
STACKS = 64  # of the newest entries, so many have their whole stack kept
DEEPEST = 8  # frames of a stack that is kept
DEFAULT_GROUP = "0"
# The name of a group that only has an index on its own process: two ranks may mean different groups by it.
UNNAMED = "index"

_BACKEND = lazy(r"^(?:ncclx?|xccl|gloo|rcclx?|mccl|hccl|ucc|mpi):")
# A tuple an entry is what recorders write. Tuples nested some 100,000 deep overflow the C stack when they are hashed.
MAX_TUPLES = 50_000
# The keys that only a Flight Recorder dump has, whatever its version.
_MARKS = (b"pg_config", b"profiling_name", b"last_enqueued_collective", b"collective_seq_id")
# Default file names: torch <= 2.8 nccl_trace_rank_N, later comm_lib_trace_rank_N.
_DEFAULT_NAME = lazy(r"(?:nccl|comm_lib)_trace_rank_?\d+(?:\.\w+)?$")
_RANK_IN_NAME = lazy(r"(?<![a-z])(?<!local_)(?<!group_)rank[_\-.]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NUMBER_AT_END = lazy(r"(?:trace|dump|recorder|fr)[_\-.]?(\d{1,7})$", re.IGNORECASE)
# "<host>_3": what PyTorch's own analyser asks for, a prefix and the rank. Numbers of other things end so as well.
_PREFIX_AND_RANK = lazy(
    r"^(?!.*(?:attempt|local_rank|group_rank|node|step|version|epoch|pid)_\d+$).+_(\d{1,7})$", re.IGNORECASE
)
_EXTENSION = lazy(r"\.(?:json|pickle|pkl|bin|dump|trace)$", re.IGNORECASE)
_LIBRARY = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>", "/torch/", "<eval_with_key>", "<__")
_USER, _LIBRARY_CODE, _NATIVE_CODE = "user", "library", "native"
_NATIVE = (".cpp", ".cc", ".h", ".hpp", ".cu", ".c", ".so", ".S", "??")

# Opcodes of fixed length that build plain data (see pickletools): marks, empty containers, appends, None, booleans,
# memo gets and puts, numbers, frames. LONG_BINPUT is admitted up to index 2**22, because the C unpickler allocates its
# memo up to the index that is named.
_FIXED = lazy(
    rb"(?:[()\]}aeNsu\x88\x89\x94]|[Khq\x80].|M..|[Jj]....|r..[\x00-\x3f]\x00|G.{8}|\x95.{8})*+",
    re.DOTALL,
)
_BLANKS = lazy(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_CUT = "truncated: it ends in the middle of an entry"
_CUT_JSON = "truncated JSON"


@dataclass(frozen=True, slots=True)
class Dump:
    """One rank's recorder. `problem` says why a dump holds nothing to compare; the other fields are then empty."""

    path: str
    version: str | None = None  # "2.10"; None for torch 2.2, which has none
    rank: int | None = None
    format: str | None = None  # "pickle" | "json"
    pg_config: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # group name -> global ranks, where stated
    pg_status: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # local group index -> last_*_collective
    entries: tuple[Mapping[str, Any], ...] = ()  # as written, oldest first; frames kept
    problem: str | None = None
    cut: bool = False  # the file ends early: `entries` are those before that, and what the rank called last is missing


class _Restricted(pickle.Unpickler):
    """An unpickler that knows no class, no function and no persistent object."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module[:60]}.{name[:60]}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for a persistent object")


def looks_like_dump(head: bytes, name: str) -> bool:
    """Whether a file that starts with `head` is a Flight Recorder dump.

    Told by its content: a pickle or JSON container that holds one of the recorder's own keys. A file with one of
    torch's default names is claimed whatever it holds, so that a cut or damaged dump is reported as one.
    """
    if _DEFAULT_NAME.search(name):
        return True
    start = head.lstrip()[:1]
    if head[:1] == b"\x80":
        return any(mark in head for mark in _MARKS)
    if start in (b"{", b"["):
        return any(b'"' + mark + b'"' in head for mark in _MARKS) and (b'"version"' in head or b"_seq_id" in head)
    return False


def rank_of(name: str) -> int | None:
    """The global rank in a file name: `..._rank_3`, `host-a_rank3.json`, `trace_3`, `host-a_3`; None if it has none."""
    named = _named_rank(name)
    if named is None and (ending := _PREFIX_AND_RANK.search(_stem(name))) is not None:
        return int(ending.group(1))
    return named


def _stem(name: str) -> str:
    return _EXTENSION.sub("", name.rsplit("/", 1)[-1])


def _named_rank(name: str) -> int | None:
    """The rank in a file name that says that it is one."""
    if named := _RANK_IN_NAME.findall(_stem(name)):
        return int(named[-1])
    if (ending := _NUMBER_AT_END.search(_stem(name))) is not None:
        return int(ending.group(1))
    return None


def read_dump(path: Path, source: Source) -> Dump:
    """Read one dump. Never raises for what the file holds: `problem` names what is wrong with it."""
    rank = _named_rank(source.path)
    if rank is None:
        rank = source.identity.rank
    if rank is None:
        rank = rank_of(source.path)

    def broken(reason: str, container: str | None = None) -> Dump:
        return Dump(path=source.path, rank=rank, format=container, problem=reason)

    try:
        data = beginning(path, MAX_BYTES + 1)
    except OSError as error:
        return broken(f"cannot be read: {error.strerror or error}")
    if not data:
        return broken("empty: the process ended before it had written its dump")
    if len(data) > MAX_BYTES:
        return broken(f"larger than {MAX_BYTES // 2**20} MiB: not read")
    cut = False
    if data[:1] == b"\x80":
        container = "pickle"
        loaded, reason = _unpickle(data)
        if reason == _CUT and (closed := _closed(data)) is not None:
            loaded, reason = _unpickle(closed)
            cut = True
    elif data.lstrip()[:1] in (b"{", b"["):
        container = "json"
        loaded, reason = _from_json(data)
        if reason == _CUT_JSON:
            loaded, cut = _beginning_of_json(data), True
            reason = None if loaded else _CUT_JSON
    else:
        return broken("neither a pickle nor JSON")
    if reason is not None:
        return broken(reason, container)
    dump = _dump(loaded, source.path, rank, container)
    if cut and not dump.entries:
        return broken(_CUT if container == "pickle" else _CUT_JSON, container)
    return replace(dump, cut=cut)


def not_compared(dump: Dump) -> str | None:
    """What of a dump cannot be compared with other ranks', and why: damage, a rank that is not known, a lost end."""
    if dump.problem is None and dump.rank is None:
        return (
            "not compared with other dumps: neither its name nor a folder says which rank's it is "
            "(name it ..._rank_N, as the recorder does)"
        )
    if dump.cut:
        last = dump.entries[-1]
        seq = _seq(last, _is_p2p(last))
        reached = f", up to {_BACKEND.sub('', last['profiling_name'][:80])}" + (f" #{seq}" if seq is not None else "")
        many = f"the first {len(dump.entries):,} entries" if len(dump.entries) > 1 else "the first entry"
        return f"truncated: {many} could be read{reached}; the calls after that are missing"
    return dump.problem


def collectives(dump: Dump, source: Source) -> pl.DataFrame:
    """The dump's entries as rows of model.COLLECTIVES_COLUMNS, oldest first.

    A dump with nothing in it (unreadable, or the recorder was off) gives one row in which only source and rank are
    set: the rank left a dump, and what it did is unknown. A dump that is cut has such a row beside its entries, unless
    its counters say how far its rank came in each group. `group_desc` ends in "ranks 0-3,8" where the dump states
    the group's members. Times are seconds since the epoch. `seq` counts point-to-point operations apart (`is_p2p`).
    """
    import polars as pl

    entries = dump.entries
    if not entries:
        row = dict.fromkeys(COLLECTIVES_COLUMNS) | {"source": source.path, "rank": dump.rank}
        return pl.DataFrame([row | _from_counters(dump)], schema=schema(COLLECTIVES_COLUMNS))
    groups = _Cache(lambda key: _group(key[0], key[1], dump.pg_config))
    ops = _Cache(lambda name: _BACKEND.sub("", name[:200]))
    named = [groups[_pair(entry.get("process_group")), _integer(entry.get("pg_id"))] for entry in entries]
    p2p = [_is_p2p(entry) for entry in entries]
    sizes = _Cache(_one_size)
    columns: dict[str, list[Any]] = {
        "source": [source.path] * len(entries),
        "rank": [dump.rank] * len(entries),
        "group": [name for name, _ in named],
        "group_desc": [desc for _, desc in named],
        "seq": [_seq(entry, apart) for entry, apart in zip(entries, p2p, strict=True)],
        "op": [ops[entry["profiling_name"]] for entry in entries],
        "input_sizes": [_sizes(entry.get("input_sizes"), sizes) for entry in entries],
        "output_sizes": [_sizes(entry.get("output_sizes"), sizes) for entry in entries],
        "dtypes": [_names(entry.get("input_dtypes")) for entry in entries],
        "state": [state if type(state := entry.get("state")) is str else None for entry in entries],
        "retired": [entry.get("retired") is True for entry in entries],
        "time": [_time(entry) for entry in entries],
        "is_p2p": p2p,
        "frame": [user_frame(entry.get("frames")) for entry in entries],
        "stack": _stacks(entries),
        "line": [None] * len(entries),
        "printed": [None] * len(entries),
    }
    if dump.cut:
        for row in _after_the_cut(dump, columns):
            for name, values in columns.items():
                values.append(row.get(name))
    try:
        return pl.DataFrame(columns, schema=schema(COLLECTIVES_COLUMNS))
    except UnicodeEncodeError:  # lone surrogates, which both containers can hold
        clean = {name: [_utf8(value) for value in values] for name, values in columns.items()}
        return pl.DataFrame(clean, schema=schema(COLLECTIVES_COLUMNS))


def _from_counters(dump: Dump) -> dict[str, Any]:
    """What a dump without entries still says: how far its rank came in the default group.

    Such dumps are made with only the active collectives in them (none was), or with none at all.
    """
    counts = dump.pg_status.get(DEFAULT_GROUP, {})
    enqueued, completed = counts.get("last_enqueued_collective"), counts.get("last_completed_collective")
    if enqueued is None:
        return {}
    group, desc = _group((DEFAULT_GROUP, "default_pg"), 0, dump.pg_config)
    done = completed is not None and completed >= enqueued
    # -1: nothing was called, which is what #0 says where the first call is #1
    return _counted_call(group, desc, max(enqueued, 0), done)


def _after_the_cut(dump: Dump, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows for what a cut dump lost: how far its rank came by the counters, which stand before the entries in pickles.

    A counter belongs to an index that the process gave a group; entries of that group bear both. Where the counters do
    not cover every group in use, one row in which only source and rank are set.
    """
    unknown = {"source": columns["source"][0], "rank": dump.rank}
    groups: dict[str, tuple[str, str]] = {}
    seen: set[tuple[str, int | None]] = set()
    for entry, name, desc, seq in zip(dump.entries, *(columns[n] for n in ("group", "group_desc", "seq")), strict=True):
        groups[str(_integer(entry.get("pg_id")))] = name, desc
        seen.add((name, seq))
    used = {index: c for index, c in dump.pg_status.items() if c.get("last_enqueued_collective", -1) >= 0}
    if not used or set(used) != set(groups):
        return [unknown]
    rows = []
    for index, counts in used.items():
        (name, desc), enqueued = groups[index], counts["last_enqueued_collective"]
        done = counts.get("last_completed_collective", -1) >= enqueued
        if (name, enqueued) not in seen:
            rows.append(unknown | _counted_call(name, desc, enqueued, done))
    return rows


def _counted_call(group: str, desc: str, enqueued: int, done: bool) -> dict[str, Any]:
    """A call of which only its number is known."""
    return {
        "group": group, "group_desc": desc, "seq": enqueued, "op": UNRECORDED,
        "state": "completed" if done else "scheduled", "retired": done, "is_p2p": False,
    }  # fmt: skip


def _stacks(entries: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The user's frames of the last calls and of those that have not ended: the only ones that are ever shown."""
    recent = len(entries) - STACKS
    return [
        user_stack(entry.get("frames")) if n >= recent or entry.get("retired") is not True else None
        for n, entry in enumerate(entries)
    ]


def _utf8(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


class _Cache(dict[Any, Any]):
    """What a pure function gave for each argument so far: a dump says the same few things thousands of times."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self.function(key)
        return value


def _refused_opcode(data: bytes) -> str | None:
    """Why this pickle is not plain data, or None. Follows the opcodes without executing any."""
    position, end, tuples = 0, len(data), 0
    while True:
        match = _FIXED.match(data, position)
        position = match.end() if match is not None else position
        if position >= end:
            return _CUT
        opcode = data[position]
        if opcode == 0x2E:  # STOP
            return None
        if opcode in b"t\x85\x86\x87":  # TUPLE, TUPLE1 to TUPLE3
            position += 1
            tuples += 1
            if tuples > MAX_TUPLES:
                return f"not read: more than {MAX_TUPLES} tuples"
        elif opcode == 0x58:  # BINUNICODE
            position += 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        elif opcode in (0x8C, 0x8A):  # SHORT_BINUNICODE, LONG1
            position += 2 + (data[position + 1] if position + 1 < end else 0)
        elif opcode in b"KhqMJjrG\x80\x95" and end - position < 9:
            return _CUT
        else:
            return f"not a Flight Recorder dump: pickle opcode {opcode:#04x} at byte {position} is not plain data"


# The same opcodes one by one; group 1 is unset for those that leave the stack as it is (memo puts, frames).
_OPCODE = lazy(
    rb"q.|r..[\x00-\x3f]\x00|\x94|\x95.{8}|([()\]}aeNsu\x88\x89]|[Kh\x80].|M..|[Jj]....|G.{8})",
    re.DOTALL,
)
_MARK, _LIST, _DICT, _APPENDS, _SETITEMS, _TUPLE = b"(]}eut"
# What closes a mark, by the opcode before it: containers just opened, and those that go on in a further batch.
_CLOSED_BY = {_LIST: _APPENDS, _APPENDS: _APPENDS, _DICT: _SETITEMS, _SETITEMS: _SETITEMS}


def _closed(data: bytes) -> bytes | None:
    """A pickle that ends early, up to its last whole entry and closed there; None where no entry is whole.

    A dump is a dict that holds a list of dicts (or the list alone, torch 2.2), each written as a mark, its members, and
    the opcode that puts them into it. What is left open at the end of an entry is closed by these opcodes.
    """
    marks: list[int] = []  # the open ones, by the opcode that closes each
    before, position, whole, closing = 0, 0, 0, b""
    while True:
        for token in _tokens(data, position):
            position = token.end()
            if token[1] is None:
                continue
            opcode = token[1][0]
            if opcode == _MARK:
                marks.append(_CLOSED_BY.get(before, _TUPLE))
            elif opcode in (_APPENDS, _SETITEMS) and marks:
                marks.pop()
                if opcode == _SETITEMS and marks in ([_SETITEMS, _APPENDS], [_APPENDS]):
                    whole, closing = position, bytes(reversed(marks)) + b"."
            before = opcode
        if position >= len(data):
            break
        opcode, before = data[position], 0
        if opcode == 0x58:  # BINUNICODE
            position += 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        elif opcode in (0x8C, 0x8A) and position + 1 < len(data):  # SHORT_BINUNICODE, LONG1
            position += 2 + data[position + 1]
        elif opcode in b"t\x85\x86\x87":  # TUPLE, TUPLE1 to TUPLE3
            position += 1
            if opcode == _TUPLE and marks:
                marks.pop()
        else:
            break
    return data[:whole] + closing if whole else None


def _tokens(data: bytes, position: int) -> Iterator[re.Match[bytes]]:
    """The opcodes of fixed length from a position on, up to the first other one."""
    while (match := _OPCODE.match(data, position)) is not None:
        yield match
        position = match.end()


def _unpickle(data: bytes) -> tuple[Any, str | None]:
    if (reason := _refused_opcode(data)) is not None:
        return None, reason
    try:
        # A reader with peek() is read in blocks; without it the C unpickler asks for every opcode on its own.
        return _Restricted(io.BufferedReader(io.BytesIO(data), 1 << 20)).load(), None
    except EOFError:
        return None, _CUT
    except (RecursionError, MemoryError):
        return None, "not a Flight Recorder dump: nested too deeply or too large"
    except Exception as error:  # a damaged pickle raises nearly anything: ValueError, KeyError, IndexError, TypeError
        return None, f"damaged pickle: {str(error)[:120] or type(error).__name__}"


def _from_json(data: bytes) -> tuple[Any, str | None]:
    try:
        return json.loads(data), None
    except RecursionError:
        return None, "not a Flight Recorder dump: nested too deeply"
    except UnicodeDecodeError:
        return None, "damaged JSON: not UTF-8"
    except json.JSONDecodeError as error:
        cut = error.doc.rstrip()[-1:] not in ("}", "]") or error.pos >= len(error.doc.rstrip())
        return None, _CUT_JSON if cut else f"damaged JSON: {str(error)[:120]}"


def _beginning_of_json(data: bytes) -> Any:
    """What is whole in JSON that ends early: values of the outermost object, or items of a list; {} without any.

    Of the value in which it ends, the items that are whole are kept where it is a list: the entries.
    """
    text = data.decode("utf-8", "replace")
    start = _after_blanks(text, 0)
    if text[start : start + 1] == "[":
        return _whole_items(text, start)
    found: dict[str, Any] = {}
    position = _after_blanks(text, start + 1)
    while text[position : position + 1] == '"':
        try:
            key, position = _DECODER.raw_decode(text, position)
            position = _after_blanks(text, _after_blanks(text, position) + 1)
            if text[position : position + 1] == "[" and key == "entries":
                found[key] = _whole_items(text, position)
            found[key], position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        position = _after_blanks(text, _after_blanks(text, position) + 1)
    return found


def _whole_items(text: str, start: int) -> list[Any]:
    """The items of a list that begins at `start`, up to the first that is not whole."""
    items: list[Any] = []
    position = _after_blanks(text, start + 1)
    while position < len(text) and text[position] != "]":
        try:
            item, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        items.append(item)
        position = _after_blanks(text, position)
        if text[position : position + 1] == ",":
            position = _after_blanks(text, position + 1)
    return items


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return position if match is None else match.end()


def _dump(loaded: Any, path: str, rank: int | None, container: str) -> Dump:
    if isinstance(loaded, list):  # torch 2.2
        top: Mapping[str, Any] = {"entries": loaded}
    elif isinstance(loaded, dict) and ("entries" in loaded or "pg_config" in loaded or "pg_status" in loaded):
        top = loaded
    else:
        reason = "not a Flight Recorder dump: it has none of its keys"
        return Dump(path=path, rank=rank, format=container, problem=reason)
    raw = top.get("entries")
    if not isinstance(raw, list):
        raw = []  # JSON dumps leave the key out where there are none
    entries = tuple(entry for entry in raw if type(entry) is dict and isinstance(entry.get("profiling_name"), str))
    if raw and not entries:
        reason = "not a Flight Recorder dump: its entries are no collectives"
        return Dump(path=path, rank=rank, format=container, problem=reason)
    version = top.get("version")
    status = _status(top.get("pg_status"))
    return Dump(
        path=path,
        version=_utf8(version[:20]) if isinstance(version, str) else None,
        rank=rank,
        format=container,
        pg_config=_members(top.get("pg_config")),
        pg_status=status,
        entries=entries,
        problem=None
        if entries or _counted(status)
        else "no collectives in it: the recorder was off (TORCH_FR_BUFFER_SIZE, TORCH_NCCL_TRACE_BUFFER_SIZE), or no "
        "collective had been called",
    )


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    """Group name -> global ranks. gloo files everything under the name '' and overwrites it: that says nothing."""
    members: dict[str, tuple[int, ...]] = {}
    if not isinstance(config, dict):
        return members
    for name, value in config.items():
        ranks = value.get("ranks") if isinstance(value, dict) else value  # torch 2.3: {pg_id: [ranks]}
        if isinstance(ranks, str) and re.fullmatch(r"\[[\d,\s]*\]", ranks):
            ranks = [int(text) for text in re.findall(r"\d{1,9}", ranks)]
        if str(name) != "" and isinstance(ranks, list) and ranks and all(type(rank) is int for rank in ranks):
            members[str(name)[:200]] = tuple(sorted(set(ranks)))
    return members


def _status(status: Any) -> dict[str, dict[str, int]]:
    if not isinstance(status, dict):
        return {}
    return {
        str(group): {str(key): number for key, value in counts.items() if (number := _integer(value)) is not None}
        for group, counts in status.items()
        if isinstance(counts, dict)
    }


def _counted(status: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the counters of a dump say that collectives were called: then the entries were left out on request."""
    return any(counts.get("last_enqueued_collective", -1) >= 0 for counts in status.values())


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value if abs(value) < 2**63 else None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):  # JSON dumps write counters as text
        return int(value)
    return None


def _seq(entry: Mapping[str, Any], p2p: bool) -> int | None:
    seq = entry.get("p2p_seq_id" if p2p else "collective_seq_id")
    if type(seq) is not int:
        seq = entry.get("seq_id")  # torch 2.2, 2.3
    return seq if type(seq) is int and abs(seq) < 2**63 else None


def _is_p2p(entry: Mapping[str, Any]) -> bool:
    said = entry.get("is_p2p")
    return said if type(said) is bool else ":send" in entry["profiling_name"] or ":recv" in entry["profiling_name"]


def _time(entry: Mapping[str, Any]) -> float | None:
    created = entry.get("time_created_ns")
    if type(created) is int and 0 <= created < 2**63:
        return created / 1e9
    created = entry.get("time_created_us")  # torch 2.2
    return created / 1e6 if type(created) is int and 0 <= created < 2**63 else None


def _pair(value: Any) -> tuple[str, str]:
    if type(value) in (list, tuple) and len(value) == 2 and type(value[0]) is str and type(value[1]) is str:
        return value[0], value[1]
    return "", ""


def _group(pair: tuple[str, str], index: int | None, members: Mapping[str, tuple[int, ...]]) -> tuple[str, str]:
    """Name and description of an entry's group.

    Where no name was recorded (torch < 2.4, or the DETAIL wrapper's ('', '')) the group's index on this process stands
    in: index 0 is the default group everywhere, the others need not be the same group on two ranks.
    """
    name, desc = pair[0][:200], pair[1][:200]
    ranks = members.get(name or str(index))
    if not name:
        name = "0" if index == 0 else f"{UNNAMED} {index}"
    if desc == "undefined":
        desc = ""
    if ranks:
        desc = f"{desc} ranks {rank_ranges(ranks, separator=',', pair='-')}".strip()
    return name, desc


def _one_size(size: int) -> str | None:
    return f"[[{size}]]" if abs(size) < 2**63 else None


def _sizes(value: Any, cache: Mapping[int, str | None]) -> str | None:
    """JSON text of a list of shapes. Anything else is None: shared references could make its text explode."""
    if type(value) is not list:
        return None
    if len(value) == 1 and type(shape := value[0]) is list and len(shape) == 1 and type(shape[0]) is int:
        return cache[shape[0]]
    for shape in value[:MAX_TENSORS]:
        if type(shape) is not list or len(shape) > MAX_DIMS:
            return None
        for size in shape:
            if type(size) is not int or abs(size) >= 2**63:
                return None
    return json.dumps(value[:MAX_TENSORS])


def _names(value: Any) -> str | None:
    if type(value) is not list:
        return None
    for name in value[:MAX_TENSORS]:
        if type(name) is not str or len(name) > 40:
            return None
    return f'["{value[0]}"]' if len(value) == 1 and value[0].isalnum() else json.dumps(value[:MAX_TENSORS])


def user_frame(frames: Any) -> str | None:
    """The innermost frame of the user's own code, as "file:line function"; None where no stack was recorded.

    `frames` is innermost first. Where every frame is a library's, the innermost Python one is given.
    """
    if type(frames) is not list:
        return None
    fallback = None
    for frame in frames[:MAX_FRAMES]:
        if type(frame) is not dict:
            continue
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if type(file) is not str or type(name) is not str or type(line) is not int:
            continue
        kind = _frame_kind(file)
        if kind is _USER:
            return f"{file[:400]}:{line} {name[:120]}"
        if kind is _LIBRARY_CODE and fallback is None:
            fallback = f"{file[:400]}:{line} {name[:120]}"
    return fallback


def user_stack(frames: Any) -> str | None:
    """The user's own frames of a recorded stack, "file:line function" one a line, innermost first; None without any."""
    if type(frames) is not list:
        return None
    found: list[str] = []
    for frame in frames[:MAX_FRAMES]:
        if type(frame) is not dict or len(found) == DEEPEST:
            continue
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if type(file) is str and type(name) is str and type(line) is int and _frame_kind(file) is _USER:
            found.append(f"{file[:400]}:{line} {name[:120]}".replace("\n", " "))
    return "\n".join(found) or None


@lru_cache(maxsize=4096)
def _frame_kind(file: str) -> str:
    if file.endswith(_NATIVE):
        return _NATIVE_CODE
    return _LIBRARY_CODE if any(part in file for part in _LIBRARY) else _USER
