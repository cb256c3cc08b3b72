"""Files as torch.save writes them, made without torch: arrays of numpy stand for tensors."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

_STORAGES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage", "u1": "ByteStorage"}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


class Class:
    """A class or function of torch, written by its name alone."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> None:
        raise AssertionError("never called")


class _Storage:
    def __init__(self, key: str, array: np.ndarray) -> None:
        self.key, self.array = key, array


class _Pickler(pickle._Pickler):  # type: ignore[misc]
    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined] # noqa: RUF012

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, 2)
        self.storages: list[np.ndarray] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Storage):
            return None
        kind = Class("torch", _STORAGES[obj.array.dtype.str[1:]])
        return ("storage", kind, obj.key, "cpu", obj.array.size)

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, np.ndarray):
            return NotImplemented
        storage = _Storage(str(len(self.storages)), obj)
        self.storages.append(obj)
        stride = tuple(s // obj.itemsize for s in np.ascontiguousarray(obj).strides) if obj.ndim else ()
        return Class("torch._utils", "_rebuild_tensor_v2"), (storage, 0, obj.shape, stride, False, OrderedDict())

    def save_class(self, obj: Class) -> None:
        self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())

    dispatch[Class] = save_class


def pickled(value: Any) -> tuple[bytes, list[np.ndarray]]:
    """(the pickle, the data of its tensors)."""
    out = io.BytesIO()
    pickler = _Pickler(out)
    pickler.dump(value)
    return out.getvalue(), pickler.storages


def torch_zip(value: Any) -> bytes:
    """A file as torch.save writes it since 1.6."""
    data, storages = pickled(value)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", data)
        z.writestr("archive/byteorder", b"little")
        for n, array in enumerate(storages):
            z.writestr(f"archive/data/{n}", array.tobytes())
        z.writestr("archive/version", b"3\n")
    return out.getvalue()


def torch_legacy(value: Any) -> bytes:
    """A file as torch.save wrote it before 1.6."""
    data, storages = pickled(value)
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(part, 2) for part in (LEGACY_MAGIC, 1001, system)]
    parts += [data, pickle.dumps([str(n) for n in range(len(storages))], 2)]
    parts += [len(a.ravel()).to_bytes(8, "little") + a.tobytes() for a in storages]
    return b"".join(parts)


def linear(prefix: str = "") -> OrderedDict[str, np.ndarray]:
    """A small model's state dict."""
    made = OrderedDict({f"{prefix}0.weight": np.ones((4, 3), "f4"), f"{prefix}0.bias": np.ones(4, "f4")})
    made |= {f"{prefix}1.weight": np.full((2, 4), 0.5, "f4")}
    return made


def adam(lr: float = 0.001, **bad: np.ndarray) -> dict[str, Any]:
    """The state dict of AdamW over `linear`."""
    state = {}
    for n, shape in enumerate(((4, 3), (4,), (2, 4))):
        state[n] = {
            "step": np.array(40.0, "f4"),
            "exp_avg": np.zeros(shape, "f4"),
            "exp_avg_sq": bad.get(f"exp_avg_sq_{n}", np.zeros(shape, "f4")),
        }
    return {"state": state, "param_groups": [{"lr": lr, "betas": (0.9, 0.95), "params": [0, 1, 2]}]}
