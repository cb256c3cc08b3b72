"""Runs that lie behind a URL (s3://, gs://, hf://, ssh://, https://, memory://): listed, and fetched with limits.

What fsspec lists is fetched into a temporary folder, under numbers and not under names, so that no name of a bucket
ever becomes a path on this machine. Of checkpoints, which can be far larger than all else, only the two ends are
fetched. Whatever an error says, it is told in one line without the credentials that a URL or the environment holds.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

MEBI = 1 << 20
CHUNK = 4 * MEBI
_URL = re.compile(r"^(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*)://")
# What each protocol's file system is in (fsspec.registry.known_implementations).
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "ssh": "paramiko",
    "sftp": "paramiko",
    "http": "aiohttp",
    "https": "aiohttp",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "adl": "adlfs",
}
_SECRET_VARIABLE = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|CREDENTIAL|SAS|CONNECTION_STRING", re.I)
_SECRET_PARAMETER = re.compile(
    r"((?:[\w-]*(?:signature|token|credential|secret|password|passwd|api[_-]?key|sig|key[_-]?id|accesskeyid))[=:]\s*)"
    r"[^\s&'\",;]+",
    re.I,
)
_USER = re.compile(r"(\w+://)[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one URL may cost. Bytes, unless said otherwise."""

    total: int = 4 << 30  # that are fetched in all
    files: int = 50_000  # that are listed
    folders: int = 20_000
    depth: int = 40  # of folders
    seconds: float = 600.0  # until no further file is begun
    small: int = MEBI  # files up to this size are fetched without a look at their heads
    head: int = 16 << 10  # that tell a file's kind
    ends: int = 4 * MEBI  # of a checkpoint, at either end
    disk: int = 512 * MEBI  # left free where the temporary folder is
    tries: int = 3
    pause: float = 0.5  # seconds before the second try; doubled before each further one


class Unreachable(Exception):
    """The URL cannot be listed; the message says why, in one line and without credentials."""


@dataclass(frozen=True, slots=True)
class Found:
    """One object below a URL, and what became of it."""

    name: str  # relative to the URL, with "/"
    key: str  # how the file system calls it
    size: int  # as listed; -1 where the server does not say
    file: Path | None = None  # where its bytes are now
    modified: float | None = None
    gap: tuple[int, int] | None = None  # bytes [start, end) that were not fetched, and are zero in the file
    reason: str | None = None  # why it, or a part of it, was not fetched
    given: bool = False  # the URL names it, and no folder that holds it


@dataclass(frozen=True, slots=True)
class Choice:
    """What decides which objects are fetched; given in by discovery."""

    wanted: Callable[[str], str | None]  # by name: why it is left out
    readable: Callable[[bytes, str], str | None]  # by its first bytes: why it is left out
    checkpoint: Callable[[str], bool]  # by name: whether its two ends are enough
    since: float | None = None  # seconds since the epoch; older objects are left out


def is_url(path: str) -> bool:
    """Whether a path is a URL that fsspec may know."""
    return _URL.match(path) is not None


def shown(url: str) -> str:
    """A URL as it may be printed: without user, password, query and fragment."""
    if not is_url(url):
        return url
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, netloc, parts.path, "", ""))[:300]
    except ValueError:
        return _USER.sub(r"\1", url.partition("?")[0])[:300]


def without_secrets(text: str, url: str = "") -> str:
    """A message in one line, without what the URL or the environment holds of credentials."""
    secrets = {value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name) and len(value) >= 8}
    try:
        parts = urlsplit(url)
        secrets |= {s for s in (parts.password, unquote(parts.password or "")) if s}
        secrets |= {s for s in (parts.query,) if len(s) >= 4}
    except ValueError:
        pass
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _SECRET_PARAMETER.sub(r"\1***", _USER.sub(r"\1", text))
    return " ".join(text.split())


def fetch(url: str, choice: Choice, limits: Limits = Limits()) -> Iterator[Found]:
    """Every object below a URL, fetched as far as it is worth reading, in the order of their names.

    Files lie in a temporary folder that is deleted when the program ends. Raises Unreachable where the URL cannot be
    listed; what goes wrong with one object is told in its `reason`.
    """
    remote = _Remote(url, limits)
    listed, dropped = remote.objects()
    if not listed:
        raise Unreachable(f"{shown(url)}: holds no files")
    yield from remote.all(listed, choice)
    if dropped:
        yield Found(".", "", -1, reason=dropped)


class _Remote:
    def __init__(self, url: str, limits: Limits) -> None:
        self.url = url
        self.limits = limits
        self.left = limits.total
        self.end = time.monotonic() + limits.seconds
        self.number = 0
        self.folder: Path | None = None
        self.fs, self.root = connect(url)
        self.threads = 8 if getattr(self.fs, "async_impl", False) else 1

    def objects(self) -> tuple[list[Found], str | None]:
        """(objects below the URL or the one that it names, what was left out)."""
        try:
            info = self.tried(lambda: self.fs.info(self.root))
        except FileNotFoundError:
            info = {"type": "directory"}  # a prefix of an object store need not exist by itself
        except Exception as error:
            raise unreachable(self.url, error) from None
        page = str(info.get("mimetype", "")).startswith("text/html")  # what HTTP servers give for a folder
        if info.get("type") == "file" and not page and not self.root.endswith("/"):
            name = self.root.partition("?")[0].rpartition("/")[2]
            return [replace(self._found(name, self.root, info), given=True)], None
        try:
            return self._walk()
        except Exception as error:
            raise unreachable(self.url, error) from None

    def _walk(self) -> tuple[list[Found], str | None]:
        found: list[Found] = []
        root = self.root.rstrip("/")
        level, seen = [root], {root}
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in range(self.limits.depth + 1):
                below: list[str] = []
                for entries in pool.map(self._ls, level):
                    for entry in entries:
                        path = str(entry.get("name", "")).rstrip("/")
                        inside = path.startswith(root + "/") or not root
                        if path in seen or not inside:
                            continue
                        seen.add(path)
                        if entry.get("type") == "directory":
                            below.append(path)
                        elif entry.get("type") == "file":
                            found.append(self._found(path[len(root) :].strip("/"), path, entry))
                    if len(found) > self.limits.files:
                        return sorted(found[: self.limits.files], key=_order), f"more than {self.limits.files:,} files"
                if not below:
                    return sorted(found, key=_order), None
                if len(seen) > self.limits.folders + self.limits.files or time.monotonic() > self.end:
                    return sorted(found, key=_order), "too many folders to list all of them"
                level = below
        return sorted(found, key=_order), f"deeper than {self.limits.depth} folders"

    def _ls(self, path: str) -> Sequence[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.tried(lambda: self.fs.ls(path, detail=True))
        return listed

    def _found(self, name: str, key: str, info: dict[str, Any]) -> Found:
        size = info.get("size")
        name = unquote(name) if key.startswith(("http://", "https://")) else name
        return Found(name, key, size if isinstance(size, int) else -1, modified=_modified(info))

    def tried(self, action: Callable[[], Any]) -> Any:
        """What the action gives, tried again where the network may be to blame."""
        for n in range(self.limits.tries):
            try:
                return action()
            except (FileNotFoundError, PermissionError, NotADirectoryError, ImportError, NotImplementedError):
                raise
            except Exception as error:
                if n + 1 == self.limits.tries or not _may_pass(error):
                    raise
                time.sleep(self.limits.pause * 2**n)
        raise AssertionError("unreachable")

    def all(self, listed: Sequence[Found], choice: Choice) -> Iterator[Found]:
        """The objects, several at a time, in order. Sizes are counted before anything is fetched."""
        planned = [self._planned(one, choice) for one in listed]
        with ThreadPoolExecutor(self.threads) as pool:
            for start in range(0, len(planned), 64):
                yield from pool.map(lambda p: self._one(p, choice), planned[start : start + 64])

    def _planned(self, one: Found, choice: Choice) -> Found:
        """The object, with the reason why it is left out, or a number for its file."""
        reason = choice.wanted(one.name)
        if reason is None and choice.since is not None and one.modified is not None and one.modified < choice.since:
            reason = "older than --since"
        if reason is not None:
            return replace(one, reason=reason)
        if reason := self._too_much(one, choice):
            return replace(one, reason=reason)
        self.number += 1
        return replace(one, file=self._folder() / f"{self.number:07}")

    def _too_much(self, one: Found, choice: Choice) -> str | None:
        """Why an object is too large for what is left of the limit; else its bytes are taken from that."""
        ends = choice.checkpoint(one.name) and one.size > 2 * self.limits.ends
        cost = 2 * self.limits.ends if ends else max(one.size, 0)
        if cost > self.left:
            what = f"{one.size:,} bytes: more than is fetched of one run ({self.limits.total:,} bytes)"
            return f"{what}; copy it here and give its path"
        self.left -= cost
        return None

    def _sized(self, one: Found) -> Found:
        """The object with its size, which listings of HTTP servers do not give."""
        try:
            size = self.fs.info(one.key).get("size")
        except Exception:
            return one
        return replace(one, size=size) if isinstance(size, int) else one

    def _folder(self) -> Path:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="forensics-remote-"))
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        return self.folder

    def _one(self, one: Found, choice: Choice) -> Found:
        file = one.file
        if file is None:
            return one
        if time.monotonic() > self.end:
            return replace(one, file=None, reason=f"not fetched within {self.limits.seconds:g} seconds")
        if one.size < 0:
            one = self._sized(one)
            if reason := self._too_much(one, choice):
                return replace(one, file=None, reason=reason)
        if shutil.disk_usage(file.parent).free < self.limits.disk + max(one.size, 0):
            return replace(one, file=None, reason="too little space in the temporary folder to fetch it")
        try:
            got: Found = self.tried(lambda: self._get(one, choice))
        except Exception as error:
            file.unlink(missing_ok=True)
            return replace(one, file=None, reason=f"cannot be fetched: {_why(error, self.url)}")
        if got.file is not None and got.modified is not None:
            os.utime(got.file, (got.modified, got.modified))
        return got

    def _get(self, one: Found, choice: Choice) -> Found:
        try:
            return self._read(one, choice, CHUNK)
        except ValueError:
            if not one.key.startswith(("http://", "https://")):
                raise
            return self._read(one, choice, 0)  # a server that gives no ranges is read as a stream

    def _read(self, one: Found, choice: Choice, block: int) -> Found:
        assert one.file is not None
        with self.fs.open(one.key, "rb", block_size=block, cache_type="none") as raw, one.file.open("wb") as out:
            size = one.size if one.size >= 0 else getattr(raw, "size", None)
            limit = size if isinstance(size, int) else max(0, self.left)
            if not block:  # what is unpacked on its way is larger than the server says
                limit += max(0, self.left)
            if limit <= self.limits.small:
                return self._copied(raw, out, one, b"", limit)
            head = _read(raw, self.limits.head)
            if reason := choice.readable(head, one.name.rpartition("/")[2]):
                one.file.unlink(missing_ok=True)
                return replace(one, file=None, reason=reason)
            if choice.checkpoint(one.name) and isinstance(size, int) and size > 2 * self.limits.ends:
                return self._ends(raw, out, one, head, size)
            return self._copied(raw, out, one, head, limit)

    def _copied(self, raw: Any, out: Any, one: Found, head: bytes, limit: int) -> Found:
        out.write(head)
        done = len(head)
        while done < limit and (data := raw.read(min(CHUNK, limit - done))):
            out.write(data)
            done += len(data)
        if one.size > done:
            raise OSError(f"{done:,} of {one.size:,} bytes came")
        if one.size < 0:
            self.left -= done  # no size was listed, so that nothing was counted before
            if done >= limit and raw.read(1):
                raise OSError(f"it is larger than {done:,} bytes")
        return one

    def _ends(self, raw: Any, out: Any, one: Found, head: bytes, size: int) -> Found:
        ends = self.limits.ends
        head += _read(raw, ends - len(head))
        out.write(head)
        try:
            raw.seek(size - ends)
        except (ValueError, OSError, NotImplementedError):
            out.truncate(size)
            return replace(one, gap=(len(head), size), reason=f"only its first {len(head):,} bytes were fetched")
        out.seek(size - ends)
        tail = _read(raw, ends)
        if len(tail) < ends:
            raise OSError(f"{len(tail):,} of its last {ends:,} bytes came")
        out.write(tail)
        return replace(one, gap=(len(head), size - ends))


def _order(one: Found) -> str:
    return one.name


def _read(raw: Any, n: int) -> bytes:
    """n bytes, or fewer at the end: a stream may give less than it is asked for."""
    parts: list[bytes] = []
    while n > 0 and (data := raw.read(n)):
        parts.append(data)
        n -= len(data)
    return b"".join(parts)


def _modified(info: dict[str, Any]) -> float | None:
    for key in ("LastModified", "mtime", "updated", "last_modified", "created"):
        value = info.get(key)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None


def connect(url: str) -> tuple[Any, str]:
    """(fsspec file system, how it calls what the URL names). Raises Unreachable."""
    protocol = url.partition("://")[0].lower()
    if "::" in url:
        raise Unreachable(f"{shown(url)}: URLs within URLs are not read")
    try:
        import fsspec
    except ImportError:
        raise Unreachable(f"{shown(url)}: needs the extra: pip install '.[remote]' in a clone of the project") from None
    try:
        fs, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(protocol)
        needed = f"pip install {package}" if package else without_secrets(str(error), url)[:120]
        raise Unreachable(f"{shown(url)}: {protocol}:// needs one more package: {needed}") from None
    except ValueError as error:
        what = f"no protocol is called {protocol!r}" if "not known" in str(error) else _why(error, url)
        raise Unreachable(f"{shown(url)}: {what}") from None
    except Exception as error:
        raise unreachable(url, error) from None
    return fs, str(root)


def _may_pass(error: Exception) -> bool:
    """Whether trying again can help: trouble of the network, and servers that are busy."""
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    if "Credential" in names or "Token" in names or type(error).__module__.startswith("botocore"):
        return False  # s3fs has tried again by itself
    status = getattr(error, "status", None) or getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in (408, 429) or status >= 500
    return isinstance(error, OSError | TimeoutError | EOFError) or "Connect" in names or "Timeout" in names


def unreachable(url: str, error: Exception) -> Unreachable:
    """What a file system raised, as what a reader can do about it."""
    return Unreachable(f"{shown(url)}: {_why(error, url)}")


def _why(error: Exception, url: str) -> str:
    """An exception in one line, by what a reader can do about it; of other libraries only names of types are known."""
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    said = without_secrets(str(error), url)[:160]
    protocol = url.partition("://")[0].lower()
    if "NoCredentials" in names or "PartialCredentials" in names or "DefaultCredentialsError" in names:
        hint = " (AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; FSSPEC_S3_ANON=true for a public one)"
        return "no credentials were found" + (hint if protocol.startswith("s3") else "")
    if isinstance(error, FileNotFoundError):
        return "no such bucket, folder or file"
    if isinstance(error, PermissionError) or getattr(error, "status", None) in (401, 403):
        return "access denied: the credentials do not allow it" + (f" ({said})" if said else "")
    if "Timeout" in names:
        return "the server does not answer in time"
    if isinstance(error, ConnectionError) or "Connect" in names or "gaierror" in names:
        return "the server cannot be reached" + (f" ({said})" if said else "")
    return said or type(error).__name__
