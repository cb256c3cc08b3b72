"""Compressed data as streams of unpacked bytes, counted against the limits of the run."""

from __future__ import annotations

import bz2
import importlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from forensics.archives.limits import CHUNK, Limits, Stop

# Bytes given to a decoder that has no limit on what it gives back: at most a block of 128 KiB for every 4 of them.
ZSTD_FEED = 1 << 10


class Piece:
    """A stretch of a file, as a stream of its own."""

    def __init__(self, raw: BinaryIO, start: int, size: int) -> None:
        self._raw, self._at, self._end = raw, start, start + size

    def read(self, n: int) -> bytes:
        self._raw.seek(self._at)
        data = self._raw.read(max(0, min(n, self._end - self._at)))
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at


class Stream:
    """Unpacked bytes, counted against the limits of the run."""

    def __init__(
        self, chunks: Iterator[bytes], raw: Any, limits: Limits, take: Callable[[int], None], given: int = 0
    ) -> None:
        self._chunks = chunks
        self._raw = raw
        self._start = raw.tell()
        self._limits, self._take = limits, take
        self._before = given
        self._buffer = b""
        self._at = 0  # of the first byte of the buffer that was not read yet
        self.failed: Exception | None = None  # what a `peek` has met, and the read that comes to it will raise
        self.given = 0

    def _more(self) -> bool:
        if self.failed is not None:
            raise self.failed
        chunk = next(self._chunks, b"")
        self.given += len(chunk)
        self._take(len(chunk))
        packed = max(self._raw.tell() - self._start, 1)
        if self.given + self._before > self._limits.free and self.given > self._limits.ratio * packed:
            raise Stop(f"unpacks to more than {self._limits.ratio} times its size; the rest was not read")
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        return bool(chunk)

    def peek(self, n: int) -> bytes:
        """Up to n bytes that `read` gives again; what is wrong with the file is told by the read that meets it."""
        try:
            while len(self._buffer) - self._at < n and self._more():
                pass
        except (Stop, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError) as error:
            self.failed = error
        return self._buffer[self._at : self._at + n]

    def read(self, n: int) -> bytes:
        """Up to n bytes, and none at the end."""
        if self._at == len(self._buffer) and not self._more():
            return b""
        data = self._buffer[self._at : self._at + n]
        self._at += len(data)
        return data

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self.given - len(self._buffer) + self._at

    def exactly(self, n: int) -> bytes:
        """n bytes, or fewer at the end."""
        parts: list[bytes] = []
        while n > 0 and (data := self.read(n)):
            parts.append(data)
            n -= len(data)
        return b"".join(parts)

    def parts(self, n: int) -> Iterator[bytes]:
        """n bytes in chunks. Raises Stop where the stream ends before."""
        while n > 0:
            data = self.read(min(n, CHUNK))
            if not data:
                raise Stop(f"cut off: {n:,} bytes of its last member are missing")
            n -= len(data)
            yield data


def decoder(what: str, raw: Any, limits: Limits) -> Iterator[bytes]:
    """The unpacked bytes of a stream, in chunks of CHUNK at most. Raises Stop where it is cut off."""
    if what in ("tar", "stored"):
        return iter(lambda: raw.read(CHUNK), b"")
    if what in ("gzip", "deflate"):
        return _inflate(raw, 31 if what == "gzip" else -15)
    if what == "bzip2":
        return _decompress(raw, bz2.BZ2Decompressor, what)
    if what == "xz":
        return _decompress(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.memory), what)
    return _zstd(raw, limits)


def unpacked_start(head: bytes, what: str, size: int) -> bytes:
    """Up to `size` bytes of what a file holds whose first bytes are `head`; b"" where these cannot be unpacked.

    what: "gzip", "bzip2", "xz" or "zstd".
    """
    found = bytearray()
    try:
        for chunk in decoder(what, io.BytesIO(head), Limits()):
            found += chunk
            if len(found) >= size:
                break
    except (Stop, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError):
        pass  # a head ends in the middle
    return bytes(found[:size])


def _inflate(raw: Any, bits: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(bits)
    waiting = b""
    while True:
        data = waiting or raw.read(64 << 10)
        if decoder.eof:
            data = data.lstrip(b"\0")  # tapes and some writers pad with zeros
            if not data and not (data := raw.read(64 << 10).lstrip(b"\0")):
                return
            if bits < 0 or not data.startswith(b"\x1f"):
                if bits < 0:
                    return
                raise ValueError("what follows its gzip data is none")
            decoder = zlib.decompressobj(bits)
        elif not data:
            raise Stop("cut off in the middle of its compressed data")
        chunk = decoder.decompress(data, CHUNK)
        waiting = decoder.unconsumed_tail or decoder.unused_data
        if chunk:
            yield chunk


def _decompress(raw: Any, make: Callable[[], Any], what: str) -> Iterator[bytes]:
    decoder = make()
    data = b""
    while True:
        if decoder.eof:
            data = (decoder.unused_data or raw.read(64 << 10)).lstrip(b"\0")
            if not data:
                return
            decoder = make()
        elif decoder.needs_input:
            data = raw.read(64 << 10)
            if not data:
                raise Stop(f"cut off in the middle of its {what} data")
        try:
            chunk = decoder.decompress(data, CHUNK)
        except OSError as error:  # bz2 says so where its data are damaged
            raise ValueError(str(error)) from None
        data = b""
        if chunk:
            yield chunk


def _refused(error: Exception, limits: Limits) -> Exception:
    """What a zstd decoder's error is to the reader: the limit of its memory, or damage."""
    if "too much memory" not in str(error):  # ZSTD_error_frameParameter_windowTooLarge
        return ValueError(str(error))
    most = f"{limits.memory >> 20} MiB"
    return Stop(
        f"packed with a window of more than {most} (zstd --long); to have it read, unpack it: zstd -d --long=31"
    )


def _zstd(raw: Any, limits: Limits) -> Iterator[bytes]:
    window = limits.memory.bit_length() - 1
    try:
        native: Any = importlib.import_module("compression.zstd")
    except ImportError:
        native = None
    if native is not None:
        options = {native.DecompressionParameter.window_log_max: window}
        try:
            yield from _decompress(raw, lambda: native.ZstdDecompressor(options=options), "zstd")
        except native.ZstdError as error:
            raise _refused(error, limits) from None
        return
    try:
        package: Any = importlib.import_module("zstandard")
    except ImportError:
        raise Stop("zstd-compressed; to have it read, unpack it or: pip install zstandard") from None
    factory = package.ZstdDecompressor(max_window_size=1 << window)
    decoder, waiting = factory.decompressobj(), b""
    try:
        while data := waiting or raw.read(ZSTD_FEED):
            waiting = b""
            if decoder.eof:
                decoder = factory.decompressobj()
            chunk = decoder.decompress(data)
            if decoder.eof:
                waiting = decoder.unused_data
            if chunk:
                yield chunk
    except package.ZstdError as error:
        raise _refused(error, limits) from None
    if not decoder.eof:
        raise Stop("cut off in the middle of its zstd data")
