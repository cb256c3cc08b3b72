"""`training_args.bin`: the arguments of an HF Trainer, pickled into a torch file. Told from its opcodes."""

from __future__ import annotations

import io
from pathlib import Path

from forensics.archives.formats import is_torch_zip
from forensics.archives.limits import Stop
from forensics.archives.zips import zip_entries
from forensics.files import buffered
from forensics.parsers.run_files.base import Reading, item, under
from forensics.parsers.run_files.documents import Item, scalar
from forensics.parsers.run_files.pickled import BYTES, NotReadable, Opaque, read

_ENTRIES = 64  # such a file has half a dozen


def read_file(file: Path) -> Reading:
    """What the file states; empty with a reason where it cannot be told. Raises OSError where it cannot be read."""
    with buffered(file) as raw:
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        head = raw.read(4096)
        if not is_torch_zip(head):  # before torch 1.6: magic number, version, system, then the object
            return Reading((), "its arguments are not read: it is in torch's format before 1.6")
        try:
            for n, entry in enumerate(zip_entries(raw, size)):
                if entry.name.endswith("/data.pkl") and entry.method == 0:
                    start = entry.data_at(raw, size)
                    if start is None or entry.size > BYTES:
                        break
                    raw.seek(start)
                    return arguments(raw.read(entry.size))
                if n >= _ENTRIES:
                    break
        except (Stop, NotReadable) as problem:
            return Reading((), f"its arguments are not read: {problem}")
    return Reading((), "its arguments are not read: it holds no pickle where torch keeps one")


def arguments(data: bytes) -> Reading:
    """The attributes of the pickled arguments object, and its class. Raises NotReadable."""
    found = read(data)
    if not isinstance(found, Opaque):
        raise NotReadable("it holds no object")
    items = [item("training_args.class", found.name)]
    for name, value in sorted(found.state.items()):
        items += _attribute(name, value)
    return Reading(tuple(items))


def _attribute(name: str, value: object) -> list[Item]:
    """One attribute: scalars and enumerations, and one level of what FSDP, DeepSpeed and Accelerate are given."""
    if isinstance(value, Opaque) and value.state:
        value = value.state
    if isinstance(value, dict):
        inner = [Item(f"{name}.{k}", _text(v)) for k, v in value.items() if not isinstance(v, dict | list | tuple)]
    elif isinstance(value, list | tuple):
        plain = [_text(v) for v in value[:16] if not isinstance(v, dict | list | tuple)]
        inner = [Item(name, ", ".join(plain))]
    else:
        inner = [Item(name, _text(value))]
    return list(under("training_args", inner[:100]))


def _text(value: object) -> str:
    return value.text() if isinstance(value, Opaque) else scalar(value)
