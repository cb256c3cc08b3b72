"""Sweeps that lie behind a URL: their folders are listed with fsspec, and each job is a URL of its own."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from forensics import remote
from forensics.triage.jobs import MOST_ENTRIES, NoJobs
from forensics.triage.layouts import Listing, natural


class RemoteFiles:
    """What fsspec lists below one URL. Raises NoJobs where it cannot be reached."""

    def __init__(self, url: str, exclude: Sequence[str] = ()) -> None:
        self.exclude = tuple(exclude)
        try:
            self._fs, self._root = remote.connect(url)
        except remote.Unreachable as error:
            raise NoJobs(str(error)) from None
        self._url = url.rstrip("/")

    def shown(self, url: str) -> str:
        return remote.shown(url)

    def joined(self, folder: str, name: str) -> str:
        return f"{folder.rstrip('/')}/{name}"

    def listing(self, path: str) -> Listing | None:
        folders: list[str] = []
        files: list[str] = []
        try:
            entries: list[dict[str, Any]] = self._fs.ls(self._key(path), detail=True)
        except Exception as error:  # of whatever library is below fsspec
            if path == self._url:
                self._check(error)
            return None
        for entry in entries[:MOST_ENTRIES]:
            name = str(entry.get("name", "")).rstrip("/").rpartition("/")[2]
            if not name or any(fnmatch.fnmatch(name, glob) for glob in self.exclude):
                continue
            (folders if entry.get("type") == "directory" else files).append(name)
        return Listing(tuple(sorted(folders, key=natural)), tuple(sorted(files, key=natural)))

    def _check(self, error: Exception) -> None:
        """Raises NoJobs where what was given cannot be reached; it may be a file, which cannot be listed."""
        try:
            self._fs.info(self._root)
        except Exception:
            raise NoJobs(str(remote.unreachable(self._url, error))) from None

    def head(self, path: str, size: int) -> bytes:
        try:
            data: bytes = self._fs.cat_file(self._key(path), start=0, end=size)
        except Exception:
            return b""
        return data

    def _key(self, path: str) -> str:
        """How the file system calls what lies behind a URL below the given one."""
        return self._root.rstrip("/") + path[len(self._url) :]
