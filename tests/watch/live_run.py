"""A run that goes on while it is watched, with time as the test says."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forensics.engine.matcher import Matcher
from forensics.parsers.tensorboard import frames
from forensics.parsers.tensorboard.checksums import header_checksum, masked_crc
from forensics.signatures.schema import Signature
from forensics.watch.news import News
from forensics.watch.watcher import Settings, Watcher

STEP = "step {step}/1000 loss {loss:.4f} grad_norm 1.02 lr 3e-4"
OOM = (
    "Traceback (most recent call last):\n",
    '  File "/app/train.py", line 10, in <module>\n    loss.backward()\n',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated "
    "memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n",
)


@dataclass
class Live:
    """A folder that a test writes to, its watcher, and a clock that only the test moves."""

    folder: Path
    catalogue: Mapping[str, Signature]
    matcher: Matcher
    settings: Settings = Settings(measure=lambda folder: None)  # noqa: RUF009 - frozen
    seconds: float = 1000.0
    news: list[News] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watcher = Watcher(
            [str(self.folder)], self.catalogue, self.settings, matcher=self.matcher, clock=lambda: self.seconds
        )

    def add(self, name: str, text: str | bytes) -> None:
        """Append to a file of the run."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as stream:
            stream.write(text if isinstance(text, bytes) else text.encode())

    def steps(self, ranks: Iterable[int], steps: Iterable[int], loss: float | None = None) -> None:
        """One line a rank and step; the loss falls unless one is given."""
        for step in steps:
            for rank in ranks:
                value = loss if loss is not None else 3 - step * 0.002 + (step * 7 % 11) * 0.001
                self.add(f"rank{rank}.log", STEP.format(step=step, loss=value) + "\n")

    def look(self, times: int = 1, *, every: float = 5.0) -> list[News]:
        """Look so often, with time between; the news of these looks."""
        found: list[News] = []
        for _ in range(times):
            self.seconds += every
            found += self.watcher.look()
        self.news += found
        return found

    def told(self) -> list[tuple[str, str, tuple[int, ...] | None]]:
        """(state, name, ranks) of all news so far."""
        return [(n.state.value, n.sign.name, n.sign.ranks) for n in self.news]


def record(step: int, value: float, tag: str = "train/loss") -> bytes:
    """A scalar as TensorBoard writes it, with its frame."""
    name = tag.encode()
    inner = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    payload = b"\x09" + struct.pack("<d", 1.7e9 + step) + b"\x10" + _varint(step)
    payload += b"\x2a" + bytes([len(summary)]) + summary
    header = frames.HEADER.pack(len(payload), header_checksum(len(payload)))
    return header + payload + frames.FOOTER.pack(masked_crc(payload))


def version() -> bytes:
    """The record that an event file begins with."""
    text = b"brain.Event:2"
    payload = b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a" + bytes([len(text)]) + text
    header = frames.HEADER.pack(len(payload), header_checksum(len(payload)))
    return header + payload + frames.FOOTER.pack(masked_crc(payload))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
