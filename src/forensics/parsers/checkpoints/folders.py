"""What is missing of checkpoints that are folders, told by the names and sizes of their files.

Layouts: PyTorch DCP (`__R_N.distcp` and `.metadata`), sharded weights with an index (transformers, safetensors),
DeepSpeed (`latest`, `mp_rank_*`, `zero_pp_rank_*`; deepspeed/runtime/engine.py) and Megatron
(`latest_checkpointed_iteration.txt`, `iter_*/mp_rank_*`; megatron/training/checkpointing.py).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from forensics.files import beginning
from forensics.model import Source
from forensics.parsers.checkpoints import opcodes
from forensics.parsers.checkpoints.damage import CUT, MISSING, POINTER, Damage
from forensics.parsers.checkpoints.integrity import JSON

METADATA = 4 << 20  # bytes of a .metadata whose opcodes are walked; larger ones are searched for names only
MAX_RANKS = 1 << 20  # a number in a name beyond it counts nothing
SPARSE = 64  # where fewer than one of so many files is here, their numbers count something else
_SHARD = re.compile(r"^__(\d+)_(\d+)\.distcp$")
_SHARD_IN_METADATA = re.compile(rb"__\d{1,6}_\d{1,6}\.distcp")
# Files of which every rank writes one. The first group tells sets apart, the second one counts within the set.
_SETS = (
    re.compile(r"^(?P<set>(?:bf16_|fp16_)?zero_pp_rank_)(?P<n>\d+)(?P<rest>_mp_rank_\d+_(?:optim|model)_states\.pt)$"),
    re.compile(r"^(?P<set>mp_rank_)(?P<n>\d+)(?P<rest>_model_states\.pt)$"),
    re.compile(r"^(?P<set>rng_state_)(?P<n>\d+)(?P<rest>\.pth)$"),
    re.compile(r"^(?P<set>random_states_)(?P<n>\d+)(?P<rest>\.pkl)$"),
)
_MEGATRON = re.compile(
    r"^(?P<root>.*?(?:^|/)(?:iter_\d{7}|release)/)mp_rank_(?P<t>\d{2})(?:_(?P<p>\d{3}))?/(?P<name>[^/]+)$"
)
_STEP_FOLDER = re.compile(r"^(.*?)(\d+)$")


def check_folders(sources: Sequence[Source], others: Iterable[str]) -> list[tuple[Source, Damage]]:
    """What is missing of checkpoints that are folders. Each is told of one of the folder's files.

    sources: of the run; others: paths that were found and are no sources.
    """
    sizes = {s.path: s.size for s in sources} | dict.fromkeys(others, 1)
    found: list[tuple[Source, Damage]] = []
    shards: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        if _SHARD.match(name):
            shards[folder].append(source)
        damage = None
        if name == "latest" and source.size <= 200:
            damage = _missing_tag(source, folder, sizes, "{}")
        elif name == "latest_checkpointed_iteration.txt" and source.size <= 200:
            damage = _missing_tag(source, folder, sizes, "iter_{:0>7}")
        elif name.endswith((".safetensors.index.json", ".bin.index.json")) and source.size <= JSON:
            damage = _missing_weights(source, folder, sizes)
        if damage:
            found.append((source, damage))
    by_path = {s.path: s for s in sources}
    for folder, members in shards.items():
        metadata = f"{folder}/.metadata".lstrip("/")
        if sizes.get(metadata, 0) == 0:
            text = f"{len(members)} shards and no .metadata, which is written last: the save did not finish"
            found.append((members[0], Damage(MISSING, text, (".metadata",))))
        elif (index := by_path.get(metadata)) is not None and (lost := _bad_shards(index, members)):
            found.append((index, lost))
    return found + _rank_sets(sources) + _megatron(sources)


def _missing_tag(source: Source, folder: str, sizes: Mapping[str, int], form: str) -> Damage | None:
    """A file that holds the name (or the number) of the folder to resume from."""
    tag = beginning(source.file, 200).decode("utf-8", "replace").strip()
    if not re.fullmatch(r"[\w.+=-]{1,120}", tag):
        return None
    if tag.isdigit():
        tag = form.format(tag)
    start = f"{folder}/{tag}".lstrip("/")
    if any(path == start or path.startswith(start + "/") for path in sizes):
        return None
    here = _like(tag, folder, sizes)
    beside = f"; here {'is' if len(here) == 1 else 'are'} {_some(here, len(here))}" if here else ""
    return Damage(POINTER, f"it names {tag!r}, which is not here{beside}", (tag,))


def _like(tag: str, folder: str, sizes: Mapping[str, int]) -> list[str]:
    """Folders and files beside a pointer that are named like what it points to, the highest number first."""
    start = f"{folder}/" if folder else ""
    shape = re.sub(r"\d+", "#", tag)
    names = {path[len(start) :].partition("/")[0] for path in sizes if path.startswith(start)}
    alike = [name for name in names if re.sub(r"\d+", "#", name) == shape]
    return sorted(alike, key=lambda name: [int(n[:18]) for n in re.findall(r"\d+", name)], reverse=True)


def _missing_weights(source: Source, folder: str, sizes: Mapping[str, int]) -> Damage | None:
    try:
        index = json.loads(beginning(source.file, JSON))
        names = sorted({str(v) for v in index["weight_map"].values()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return _of([n for n in names if not sizes.get(f"{folder}/{n}".lstrip("/"))], len(names))


def _bad_shards(source: Source, members: Sequence[Source]) -> Damage | None:
    """Shards that .metadata names and that are not here, or end before what it says that they hold."""
    data = beginning(source.file, JSON)
    here = {m.path.rpartition("/")[2]: m.size for m in members}
    needed = shard_sizes(data) if len(data) <= METADATA else {}
    names = set(needed) or {m.decode() for m in _SHARD_IN_METADATA.findall(data)}
    if lost := _of(sorted(n for n in names if not here.get(n)), len(names)):
        return lost
    short = sorted(n for n, size in needed.items() if here[n] < size)
    if not short:
        return None
    first = short[0]
    text = f"shard {first[:80]} is {here[first]:,} bytes, and .metadata places data in it up to byte {needed[first]:,}"
    more = f" ({len(short)} of {len(needed)} shards are too short)" if len(short) > 1 else ""
    return Damage(CUT, text + more, tuple(short))


def shard_sizes(metadata: bytes) -> dict[str, int]:
    """Bytes that each shard must have at least, by its name; empty where `.metadata` is of another shape."""
    try:
        top = opcodes.walk(metadata).value
    except ValueError:
        return {}
    state = top.state if isinstance(top, opcodes.Made) else None
    stored = state.get("storage_data") if isinstance(state, dict) else None
    sizes: dict[str, int] = {}
    for place in stored.values() if isinstance(stored, dict) else ():
        where = place.state if isinstance(place, opcodes.Made) else None
        if not isinstance(where, dict):
            continue
        name, offset, length = (where.get(key) for key in ("relative_path", "offset", "length"))
        if isinstance(name, str) and type(offset) is int and type(length) is int and _SHARD.match(name):
            sizes[name] = max(sizes.get(name, 0), offset + length)
    return sizes


def _rank_sets(sources: Sequence[Source]) -> list[tuple[Source, Damage]]:
    """Sets of one file a rank with a gap in their numbers, or with fewer than the same set of a neighbouring step."""
    sets: dict[tuple[str, str, str], dict[int, Source]] = defaultdict(dict)
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        for pattern in _SETS:
            if (m := pattern.match(name)) and int(m["n"]) < MAX_RANKS and source.size:
                sets[folder, m["set"], m["rest"]][int(m["n"])] = source
    wide: dict[tuple[str, str, str], tuple[int, str]] = {}
    for (folder, kind, rest), files in sets.items():
        if stem := _STEP_FOLDER.match(folder):
            wide[stem[1], kind, rest] = max(wide.get((stem[1], kind, rest), (0, "")), (max(files) + 1, folder))
    found = []
    for (folder, kind, rest), files in sets.items():
        stem = _STEP_FOLDER.match(folder)
        count, beside = wide[stem[1], kind, rest] if stem else (max(files) + 1, folder)
        width = len(next(iter(files.values())).path.rpartition("/")[2]) - len(kind) - len(rest)
        if count > len(files) * SPARSE:
            continue
        lost = [n for n in range(count) if n not in files]
        if not lost:
            continue
        names = tuple(f"{kind}{n:0{width}}{rest}" for n in lost[:64])
        why = "the numbers of the others" if beside == folder else f"its neighbour {beside.rpartition('/')[2][:60]}"
        text = f"{len(lost)} of the {count} files that {why} tell of are not here or empty: {_some(names, len(lost))}"
        found.append((files[min(files)], Damage(MISSING, text, names)))
    return found


def partitions_missing(source: Source, world: int, sources: Sequence[Source]) -> Damage | None:
    """What is missing of DeepSpeed's optimizer partitions, of which each data-parallel rank writes one.

    source: a model_states file that states the world size. None where no partition is here at all: ZeRO may be off.
    """
    folder = source.path.rpartition("/")[0]
    here: dict[str, set[int]] = defaultdict(set)
    for other in sources:
        at, _, name = other.path.rpartition("/")
        if at == folder and other.size and (m := _SETS[0].match(name)) and "optim" in m["rest"]:
            here[m["set"] + "{}" + m["rest"]].add(int(m["n"]))
    for form, numbers in here.items():
        if max(numbers) < world - 1 and world <= len(numbers) * SPARSE:
            lost = [form.format(n) for n in range(world) if n not in numbers]
            text = f"{len(lost)} of {world} optimizer partitions are not here or empty: {_some(lost, len(lost))}"
            return Damage(MISSING, text, tuple(lost[:64]))
    return None


def _megatron(sources: Sequence[Source]) -> list[tuple[Source, Damage]]:
    """Folders mp_rank_TT_PPP (tensor and pipeline rank) that are missing from the grid that the others span."""
    grids: dict[tuple[str, str], dict[tuple[int, int], Source]] = defaultdict(dict)
    staged: set[tuple[str, str]] = set()
    for source in sources:
        if (m := _MEGATRON.match(source.path)) and source.size:
            grids[m["root"], m["name"]][int(m["t"]), int(m["p"] or 0)] = source
            if m["p"]:
                staged.add((m["root"], m["name"]))
    found = []
    for (root, name), files in grids.items():
        tensor, pipeline = (max(place[axis] for place in files) + 1 for axis in (0, 1))
        if tensor * pipeline > len(files) * SPARSE:
            continue
        lost = [(t, p) for t in range(tensor) for p in range(pipeline) if (t, p) not in files]
        if not lost:
            continue
        tail = "_{:03}" if (root, name) in staged else ""
        names = tuple(f"mp_rank_{t:02}{tail.format(p)}/{name}" for t, p in lost[:64])
        text = f"{len(lost)} of {tensor * pipeline} files, one a tensor and pipeline rank, are not here or empty: "
        found.append((files[min(files)], Damage(MISSING, text + _some(names, len(lost)), names)))
    return found


def _of(missing: Sequence[str], total: int) -> Damage | None:
    if not missing:
        return None
    text = f"{len(missing)} of the {total} files that it names are not here or empty: {_some(missing, len(missing))}"
    return Damage(MISSING, text, tuple(missing[:64]))


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(name[:80] for name in names[:3]) + (", ..." if count > 3 else "")
