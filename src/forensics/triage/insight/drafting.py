"""What `forensics signatures draft` does: find a group in a store or a run, draft, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.report.inert import one_line
from forensics.signatures.schema import Signature
from forensics.triage.insight import unknown
from forensics.triage.insight.drafts import Draft, DraftError, draft
from forensics.triage.insight.model import UnknownGroup
from forensics.triage.model import JobResult, Unexplained
from forensics.triage.store import Store, StoreError, default_file


@dataclass(frozen=True, slots=True)
class Material:
    """A group and its jobs."""

    group: UnknownGroup
    members: Sequence[JobResult]

    def draft(self, *, name: str | None, redact: bool, taken: Mapping[str, Signature]) -> Draft:
        """Raises DraftError, also where the name is taken or is none."""
        if (name or self.group.name) in taken:
            raise DraftError(f"a signature is called {name or self.group.name!r} already; choose another --name")
        if not redact:
            return draft(self.group, self.members, name=name)
        return draft(self.group, self.members, name=name, redact=_redaction(self.members))


def _redaction(rows: Sequence[JobResult]) -> Callable[[str], str]:
    """What takes names, hosts, addresses and secrets out of texts of these jobs."""
    from forensics.report.redaction import Redactor
    from forensics.triage.names import teach

    redactor = Redactor(node for row in rows for node in (*row.nodes, *((row.node,) if row.node else ())))
    for row in rows[:200]:  # a name is replaced also in what comes before the line that gives it away
        redactor.learn([row.path, row.summary, *(_told(row.unexplained) if row.unexplained else ())])
    teach(redactor, rows)
    return lambda text: redactor.again(redactor.redact(text))


def _told(rest: Unexplained) -> list[str]:
    return [*rest.last_lines, *((rest.last_error,) if rest.last_error else ())]


def from_run(path: str, catalogue: Mapping[str, Signature]) -> Material:
    """The failure of one run. Raises DraftError where its cause is known, it did not fail, or cannot be read."""
    from forensics.engine.pipeline import Options, analyse_with_data
    from forensics.run import NothingToRead
    from forensics.triage.result import result_of

    try:
        analysis = analyse_with_data([path], Options(), catalogue)
    except NothingToRead as error:
        raise DraftError(str(error)) from None
    row = result_of(analysis, path=path, layout="folder", fingerprint="", size=0, files=0)
    groups = unknown.group([row])
    if not groups:
        known = f"its cause is known: {row.root} (forensics explain {row.root})" if row.root else f"it is {row.verdict}"
        raise DraftError(f"{path}: nothing to draft from; {known}")
    return Material(groups[0], [row])


def from_store(name: str, file: Path | None) -> Material:
    """The group of that name, of an alias of it, or of a beginning of a name. Raises DraftError, StoreError."""
    rows = _rows(file)
    groups = unknown.group(rows)
    group = unknown.find(groups, name)
    if group is None:
        near = [g.name for g in groups if name in g.name][:5]
        hint = f"; did you mean {', '.join(near)}?" if near else "; without a name, the groups are listed"
        raise DraftError(f"no group is called {name[:200]!r}{hint}")
    paths = set(group.jobs)
    return Material(group, [row for row in rows if row.path in paths])


def listing(file: Path | None, *, redact: bool = True) -> str:
    """The groups of a store, most jobs first: name, jobs, what they have in common. Raises StoreError."""
    rows = _rows(file)
    groups = unknown.group(rows)
    if not groups:
        return "No job in the store failed of something unknown."
    wide = max(len(g.name) for g in groups)
    if redact:
        hide = _redaction(rows)
        groups = tuple(replace(g, title=hide(g.title)) for g in groups)
    return "\n".join(f"{g.name:{wide}}  {len(g.jobs):>6,}  {one_line(g.title, 120)}" for g in groups)


def _rows(file: Path | None) -> list[JobResult]:
    file = file or default_file()
    if file is None or not file.is_file():
        raise StoreError(f"{file or 'no cache folder'}: there is no store yet; forensics triage makes one")
    store = Store(file)
    try:
        return list(store.every())
    finally:
        store.close()


def write(drafted: Draft, folder: Path) -> str:
    """Write NAME.toml into a folder that is made where it is missing; what was written, in words.

    Raises DraftError where the file exists or cannot be written.
    """
    file = folder / f"{drafted.name}.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(drafted.text)
    except FileExistsError:
        raise DraftError(f"{file}: exists, and may have been edited; choose another --name") from None
    except OSError as error:
        raise DraftError(f"{file}: {error.strerror or error}") from None
    return f"{file}: a draft to be edited; try it with: forensics signatures test {file}"
