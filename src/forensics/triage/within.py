"""The jobs that lie in one archive, by the rule of `walk`, on the names of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from forensics.archives.formats import MARK, without_compression
from forensics.files import beginning
from forensics.model import Kind, Source
from forensics.run import Run
from forensics.triage.layouts import Listing, natural
from forensics.triage.walk import Search


class Members:
    """What was unpacked of an archive, as folders. names: paths in it -> the source, None for what is not read."""

    def __init__(self, names: Mapping[str, Source | None]) -> None:
        self._sources = names
        folders: dict[str, set[str]] = {}
        files: dict[str, set[str]] = {}
        for path in names:
            folder, _, name = path.rpartition("/")
            files.setdefault(folder, set()).add(name)
            while folder:
                above, _, name = folder.rpartition("/")
                folders.setdefault(above, set()).add(name)
                folder = above
        self._folders = folders
        self._files = files

    def listing(self, path: str) -> Listing | None:
        folders, files = self._folders.get(path), self._files.get(path)
        if folders is None and files is None:
            return None
        return Listing(tuple(sorted(folders or (), key=natural)), tuple(sorted(files or (), key=natural)))

    def head(self, path: str, size: int) -> bytes:
        source = self._sources.get(path)
        try:
            return beginning(source.file, size) if source is not None else b""
        except OSError:
            return b""


def jobs(run: Run) -> Mapping[str, frozenset[str]]:
    """The jobs of an archive: path in it -> the files of each that are read; none where all of it is one job.

    None also where a run is more than one archive.
    """
    roots = {source.path.split(MARK)[0] if MARK in source.path else "" for source in run.sources}
    if len(roots) != 1 or not (root := roots.pop()):
        return MappingProxyType({})
    prefix = f"{root}{MARK}"
    names: dict[str, Source | None] = {
        without_compression(row.path.removeprefix(prefix)): None for row in run.skipped if row.path.startswith(prefix)
    }
    names |= {without_compression(source.path.removeprefix(prefix)): source for source in run.sources}
    found = Search(Members(names), (), _joined, str).given("").jobs
    job_of = {place: job.path for job in found for place in job.parts}
    held: dict[str, list[Source]] = {}
    for path, source in names.items():
        job = next((job_of[place] for place in _upwards(path) if place in job_of), None)
        if source is not None and job is not None:
            held.setdefault(job, []).append(source)
    logged = {
        job: frozenset(s.path for s in sources)
        for job, sources in held.items()
        if any(s.kind is Kind.LOG for s in sources)
    }
    return MappingProxyType(logged if len(logged) > 1 else {})


def _upwards(path: str) -> Iterator[str]:
    """A path and the folders that it lies in, up to the top, which is ""."""
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
