"""Git LFS pointers that lie where a checkpoint should: a clone without git-lfs leaves them.

A pointer is a text of some 130 bytes that begins with the version of its specification, in this order of keys
(git-lfs: docs/spec.md). safetensors takes its first eight bytes for the length of a header, which is then too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forensics.files import beginning
from forensics.model import Evidence, Source

_VERSION = b"version https://git-lfs.github.com/spec/"
_LARGEST = 1024  # bytes: the specification says that pointers are smaller
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


def pointers(sources: Iterable[Source]) -> Iterator[Evidence]:
    """The first line of each pointer that bears the name of a file of weights; what cannot be read is passed over."""
    for source in sources:
        if source.size >= _LARGEST or not source.path.endswith(_WEIGHTS):
            continue
        try:
            head = beginning(source.file, _LARGEST)
        except OSError:
            continue
        if head.startswith(_VERSION):
            yield Evidence(source.path, 1, 0, head.partition(b"\n")[0].decode("utf-8", "replace"))
