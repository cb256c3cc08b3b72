"""Whether the values of a checkpoint are finite: every floating-point tensor is read, block by block.

Which bytes are a tensor's is told by the file's own header (safetensors) or by the opcodes of its pickle (torch), so
that neither torch nor an unpickler is needed, and checkpoints that `weights_only` refuses are read too. Blocks are
read, not mapped: a file that is cut while it is mapped kills the process.
"""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from forensics.archives.limits import Stop
from forensics.archives.zips import zip_entries
from forensics.files import beginning, buffered
from forensics.parsers.checkpoints.contents import ENTRIES, root_of, safetensors_header, tensors_of
from forensics.parsers.checkpoints.integrity import JSON, LEGACY
from forensics.parsers.checkpoints.opcodes import MAX_BYTES, Made, Storage, Tensor, walk
from forensics.parsers.checkpoints.optimizers import parameter_names

if TYPE_CHECKING:
    import numpy as np

BLOCK = 16 << 20  # bytes that are read at once
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
TENSORS = 200_000  # of one file


@dataclass(frozen=True, slots=True)
class Place:
    """Where the values of one tensor lie in a file. Bytes; `exact` where they are all of it, in order."""

    name: str
    dtype: str
    start: int
    size: int
    shape: tuple[int, ...]
    exact: bool = True
    of: str | None = None  # the parameter that an optimizer's state belongs to, where that is known


@dataclass(frozen=True, slots=True)
class NonFinite:
    """A tensor that holds NaN or Inf."""

    name: str
    index: tuple[int, ...] | None  # of its first such value; None where the tensor is a view of other order
    nans: int
    infs: int
    values: int  # in all
    of: str | None = None  # the parameter, where the tensor is an optimizer's


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in one file, in the order of the checkpoint."""

    bad: tuple[NonFinite, ...] = ()
    tensors: int = 0  # that were looked at
    bytes: int = 0
    step: float | None = None  # the optimizer's own count of steps
    problem: str | None = None  # why not all of it was looked at


class Allowance:
    """Time and bytes that all scans of a run may take together."""

    def __init__(self, seconds: float = 120.0, size: int = 64 << 30) -> None:
        self.seconds, self.size = seconds, size
        self._end = time.monotonic() + seconds
        self._left = size

    def take(self, n: int) -> None:
        """Raises Stop where the time or the bytes are used up."""
        self._left -= n
        if self._left < 0:
            raise Stop(f"more than {self.size >> 30:,} GiB of values; the rest was not looked at")
        if time.monotonic() > self._end:
            raise Stop(f"looking for values that are not finite took {self.seconds:g} seconds; the rest was not read")


def scan(file: Path, name: str, allowance: Allowance, gap: tuple[int, int] | None = None) -> Scan:
    """Look through one checkpoint file. Never raises for what it holds; raises OSError where it cannot be read.

    gap: bytes [start, end) of it that were not fetched.
    """
    if gap is not None:
        return Scan(problem="its values were not looked at: only the two ends of the file were fetched")
    with buffered(file) as raw:
        size = raw.seek(0, io.SEEK_END)
        try:
            found = places(raw, size, name)
        except (Stop, ValueError) as error:
            return Scan(problem=f"its values were not looked at: {str(error)[:120]}")
        return look(raw, size, found, allowance)


class _Window(io.RawIOBase):
    """A stretch of a file, as a file of its own."""

    def __init__(self, raw: BinaryIO, start: int, size: int) -> None:
        self._raw, self._start, self._size, self._at = raw, start, size, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (self._size if whence == io.SEEK_END else self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def read(self, n: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        self._raw.seek(self._start + self._at)
        data = self._raw.read(left if n < 0 else min(n, left))
        self._at += len(data)
        return data


def scan_shards(metadata: Path, shards: Mapping[str, Path], allowance: Allowance) -> Scan:
    """As `scan`, of a distributed checkpoint: its .metadata tells where in the shards each tensor was saved.

    shards: name -> file. Each piece is a torch file of its own within the shard.
    """
    data = beginning(metadata, MAX_BYTES + 1)
    try:
        pieces = _pieces(walk(data).value)
    except ValueError as error:
        return Scan(problem=f"its values were not looked at: {str(error)[:120]}")
    bad: list[NonFinite] = []
    tensors = done = 0
    for name, members in itertools.groupby(pieces, key=lambda piece: piece[0]):
        if name not in shards:
            continue
        with buffered(shards[name]) as raw:
            for _, key, offset, length in members:
                window: Any = _Window(raw, offset, length)
                try:
                    found = [replace(p, name=key) for p in places(window, length, key)]
                except (Stop, ValueError):
                    continue  # what is no tensor; shards that are cut are told of elsewhere
                one = look(window, length, found, allowance)
                bad += one.bad
                tensors, done = tensors + one.tensors, done + one.bytes
                if one.problem:
                    return Scan(tuple(bad), tensors, done, problem=one.problem)
    return Scan(tuple(bad), tensors, done)


def _pieces(top: Any) -> list[tuple[str, str, int, int]]:
    """(shard, name of the tensor, offset, bytes) of all that a .metadata lists."""
    state = top.state if isinstance(top, Made) else None
    stored = state.get("storage_data") if isinstance(state, dict) else None
    if not isinstance(stored, dict):
        raise ValueError("its .metadata lists no places of tensors")
    found = []
    for key, place in stored.items():
        index, where = (x.state if isinstance(x, Made) else None for x in (key, place))
        if not isinstance(index, dict) or not isinstance(where, dict):
            continue
        name, shard = index.get("fqn"), where.get("relative_path")
        offset, length = where.get("offset"), where.get("length")
        if isinstance(name, str) and isinstance(shard, str) and type(offset) is type(length) is int and offset >= 0:
            found.append((shard, name, offset, length))
    return sorted(found, key=lambda piece: piece[:1] + piece[2:3])


def places(raw: BinaryIO, size: int, name: str) -> list[Place]:
    """Where the floating-point tensors of a checkpoint file lie. Raises ValueError and Stop where that is not told."""
    raw.seek(0)
    head = raw.read(16)
    if head.startswith(b"PK\x03\x04"):
        return [] if name.endswith(".distcp") else _in_zip(raw, size)
    if head.startswith(LEGACY):
        return _in_legacy(raw)
    if name.lower().endswith(".safetensors"):
        return _in_safetensors(raw, size)
    return []


def _in_zip(raw: BinaryIO, size: int) -> list[Place]:
    entries = {}
    for n, entry in enumerate(zip_entries(raw, size)):
        if n >= ENTRIES:
            raise ValueError("it has too many entries")
        entries[entry.name] = entry
    pickled = next((e for key, e in entries.items() if key.endswith("/data.pkl")), None)
    if pickled is None or pickled.method != 0 or pickled.size > MAX_BYTES:
        raise ValueError("it has no list of tensors that can be read")
    start = pickled.data_at(raw, size)
    if start is None:
        raise ValueError("its list of tensors is damaged")
    raw.seek(start)
    top = root_of(raw.read(pickled.size), "torch zip")
    root = pickled.name.removesuffix("data.pkl")

    def begin(storage: Storage) -> int | None:
        entry = entries.get(f"{root}data/{storage.key}")
        return entry.data_at(raw, size) if entry is not None and entry.method == 0 else None

    return _of_tensors(top, begin)


def _in_legacy(raw: BinaryIO) -> list[Place]:
    raw.seek(0)
    data = raw.read(MAX_BYTES)
    end = 0
    for _ in range(3):
        end = walk(data, end).end
    saved = walk(data, end)
    keys = walk(data, saved.end)
    starts: dict[str, int] = {}
    at = keys.end
    for key in keys.value if isinstance(keys.value, list) else ():
        storage = saved.storages.get(key) if isinstance(key, str) else None
        if storage is None:
            raise ValueError("its list of storages is damaged")
        starts[storage.key] = at + 8
        at += 8 + storage.count * storage.item
    return _of_tensors(saved.value, lambda storage: starts.get(storage.key))


def _of_tensors(top: Any, begin: Callable[[Storage], int | None]) -> list[Place]:
    found: list[Place] = []
    owners = parameter_names(top)
    begins: dict[str, int | None] = {}
    seen: set[tuple[str, int, tuple[int, ...]]] = set()
    for n, (path, tensor) in enumerate(tensors_of(top)):
        if n >= TENSORS:
            raise ValueError("it has too many tensors")
        key = (tensor.storage.key, tensor.offset, tensor.shape)
        if tensor.dtype not in FLOATS or not tensor.count or key in seen:
            continue
        seen.add(key)
        if tensor.storage.key not in begins:
            begins[tensor.storage.key] = begin(tensor.storage)
        start = begins[tensor.storage.key]
        if start is None:
            continue
        exact = _in_order(tensor)
        span = tensor.count if exact else 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
        if (tensor.offset + span) * tensor.item > tensor.storage.count * tensor.storage.item:
            raise ValueError(f"tensor {path[:80]!r} would reach beyond its data")
        at, owner = start + tensor.offset * tensor.item, owners.get(path[: path.rfind(".") + 1])
        found.append(Place(path, tensor.dtype, at, span * tensor.item, tensor.shape, exact, owner))
    return found


def _in_order(tensor: Tensor) -> bool:
    expected = 1
    for n, stride in zip(reversed(tensor.shape), reversed(tensor.stride), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def _in_safetensors(raw: BinaryIO, size: int) -> list[Place]:
    found = safetensors_header(raw, size, JSON)
    if found is None:
        raise ValueError("its header is damaged or too long")
    header, start = found
    laid = []
    for name, entry in header.items():
        if name == "__metadata__" or not isinstance(entry, dict) or entry.get("dtype") not in FLOATS:
            continue
        shape, place = entry.get("shape"), entry.get("data_offsets")
        if not (isinstance(shape, list) and isinstance(place, list) and len(place) == 2):
            raise ValueError(f"tensor {name[:80]!r} has no place")
        if not all(type(n) is int and 0 <= n < 1 << 60 for n in (*shape, *place)) or len(shape) > 64:
            raise ValueError(f"tensor {name[:80]!r} has a place that is none")
        laid.append(Place(name, entry["dtype"], start + place[0], max(0, place[1] - place[0]), tuple(shape)))
    return sorted(laid, key=lambda p: p.start)


def look(raw: BinaryIO, size: int, found: Sequence[Place], allowance: Allowance) -> Scan:
    """Go through the values of tensors. found: as `places` gives them; size: of the file in bytes."""
    bad: list[NonFinite] = []
    done = 0
    step: float | None = None
    try:
        for n, place in enumerate(found):
            if place.start + place.size > size:
                return Scan(tuple(bad), n, done, step, f"tensor {place.name[:80]!r} is not whole: the file is cut off")
            if (one := _tensor(raw, place, allowance)) is not None:
                bad.append(one)
            if step is None and place.name.endswith((".step", "/step")) and place.size == 4 and place.dtype == "F32":
                step = _single(raw, place)
            done += place.size
    except Stop as stop:
        return Scan(tuple(bad), n, done, step, str(stop))
    return Scan(tuple(bad), len(found), done, step)


def _single(raw: BinaryIO, place: Place) -> float | None:
    import numpy as np

    raw.seek(place.start)
    value = float(np.frombuffer(raw.read(4), "<f4")[0])
    return value if np.isfinite(value) else None


def _tensor(raw: BinaryIO, place: Place, allowance: Allowance) -> NonFinite | None:
    import numpy as np

    item = FLOATS[place.dtype]
    nans = infs = 0
    first: int | None = None
    low = high = None  # of the finite values: a mask has one or none
    done = 0
    for block in _blocks(raw, place, allowance):
        values, nan, inf = _classes(block, place.dtype)
        wrong = nan | inf
        if wrong.any():
            nans += int(nan.sum())
            infs += int(inf.sum())
            if first is None:
                first = done + int(np.argmax(wrong))
        if infs and not nans:
            sound = values[~wrong]
            if sound.size:
                low = min(v for v in (low, float(sound.min())) if v is not None)
                high = max(v for v in (high, float(sound.max())) if v is not None)
        done += len(block) // item
    if first is None or (not nans and (done == 1 or low == high)):
        # Infinities beside one other value at most are a mask or the bound of a range that nothing has entered yet.
        return None
    index = tuple(int(i) for i in np.unravel_index(first, place.shape)) if place.exact and place.shape else None
    return NonFinite(place.name, index, nans, infs, done, place.of)


def _blocks(raw: BinaryIO, place: Place, allowance: Allowance) -> Iterator[bytes]:
    at, end = place.start, place.start + place.size // FLOATS[place.dtype] * FLOATS[place.dtype]
    while at < end:
        n = min(BLOCK, end - at)
        allowance.take(n)
        raw.seek(at)
        data = raw.read(n)
        if len(data) < n:
            raise Stop("the file was cut while it was read")
        yield data
        at += n


def _classes(block: bytes, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, which are NaN, which are infinite); values of types that numpy lacks are their bits without the sign."""
    import numpy as np

    if dtype in ("F64", "F32", "F16"):
        values = np.frombuffer(block, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype])
        if dtype != "F16" and np.isfinite(np.add.reduce(values, dtype=np.float64)):
            nothing = np.zeros(1, bool)
            return values, nothing, nothing
        return values, np.isnan(values), np.isinf(values)
    if dtype == "BF16":
        bits = np.frombuffer(block, "<u2") & 0x7FFF
        return bits, bits > 0x7F80, bits == 0x7F80
    bits = np.frombuffer(block, "u1") & 0x7F
    if dtype == "F8_E5M2":
        return bits, bits > 0x7C, bits == 0x7C
    return bits, bits == 0x7F, np.zeros(len(bits), bool)


def index_text(one: NonFinite) -> str:
    """`3 NaN of 16 values, the first at [0, 5]`."""
    kinds = [f"{n:,} {what}" for n, what in ((one.nans, "NaN"), (one.infs, "Inf")) if n]
    at = f", the first at {json.dumps(list(one.index))}" if one.index else ""
    return f"{' and '.join(kinds)} of {one.values:,} values{at}"
