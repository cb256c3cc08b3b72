"""What is left of the machine in a sample: rewritten where it is text, complained about where it is not."""

from __future__ import annotations

import getpass
import re
import socket
import sys
from pathlib import Path

from sandbox import HOST, ROOT

_IPV4 = re.compile(rb"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_HOME = re.compile(rb"/(?:home|Users|root)/[\w.-]+")
_HARMLESS = {b"127.0.0.1", b"0.0.0.0"}


def _is_binary(data: bytes) -> bool:
    """Logs may hold single NULs (torch's SIGBUS handler writes one); binary formats are full of them."""
    return data.count(0) * 50 > len(data)


def neutralise(run: Path) -> None:
    """Rewrite in place what the namespaces could not hide: host name, Python's true prefixes.

    Text files only; the host name also in file names (TensorBoard puts it there). Names of one or two letters are
    replaced only where they stand alone between dots or as torchrun's `host      :` value.
    """
    host = socket.gethostname()
    table_host = re.compile(rf"(host\s+: ){re.escape(host)}\b")
    for path in sorted(run.rglob("*"), reverse=True):
        if path.is_file():
            data = path.read_bytes()
            if not _is_binary(data):
                text = data.decode("utf-8", "surrogateescape")
                text = text.replace(sys.prefix, f"{ROOT}/venv").replace(sys.base_prefix, f"{ROOT}/python")
                text = table_host.sub(rf"\g<1>{HOST}", text)
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
        if f".{host}." in path.name:
            path.rename(path.with_name(path.name.replace(f".{host}.", f".{HOST}.")))


def audit(run: Path) -> list[str]:
    """What must not be in a sample and is there: host, user, home directories, addresses; one sentence each."""
    words = {w.encode() for w in (socket.gethostname(), getpass.getuser(), str(Path.home())) if w}
    found = []
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        name, data = str(path.relative_to(run)), path.read_bytes()
        for word in words:
            # two letters happen in any binary file; no format here but a file name holds the host's name
            if len(word) < 4 and _is_binary(data):
                data = b""
            # torchtitan-style loggers are called "root": only paths give that user away, and _HOME sees those
            if word != b"root" and re.search(rb"(?<![\w-])" + re.escape(word) + rb"(?![\w-])", data + name.encode()):
                found.append(f"{name} names {word.decode()}")
        found += [f"{name} holds {m.decode()}" for m in sorted(set(_HOME.findall(data)))]
        found += [f"{name} holds {m.decode()}" for m in sorted(set(_IPV4.findall(data)) - _HARMLESS)]
    return found
