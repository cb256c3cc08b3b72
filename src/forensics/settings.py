"""`[tool.forensics]` of the nearest pyproject.toml: what one would otherwise say on every command line.

The file is looked for in the current directory and above, never in a directory that is analysed: what a run left behind
must not decide how it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.signatures.places import line_of

LARGEST = 4 << 20  # bytes of a pyproject.toml that is read


class SettingsError(ValueError):
    """The settings are wrong; the message names file and key."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project states.

    signatures: folders of signature files. exclude: globs as of `--exclude`. redact: as `--redact` and `--no-redact`.
    file: where it stands; None if no file has such a table.
    """

    signatures: tuple[Path, ...] = ()
    exclude: tuple[str, ...] = ()
    redact: bool | None = None
    file: Path | None = None


def load(start: Path, analysed: Sequence[str] = ()) -> Settings:
    """The settings that hold in directory `start`; paths in them are relative to their file.

    analysed: paths under analysis; a pyproject.toml inside one of them is passed over. Raises SettingsError.
    """
    file = _nearest(start, analysed)
    if file is None:
        return Settings()
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST)
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror or error}") from None
    if b"forensics" not in data:
        return Settings()
    import tomllib

    from forensics.signatures.schema import not_utf8, unparsed

    text = data.decode("utf-8", "replace")
    try:
        data.decode("utf-8")
        whole = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}:{not_utf8(data, error)}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{file}:{unparsed(text, error)}") from None
    tool = whole.get("tool", {})
    if not isinstance(tool, dict):
        raise SettingsError(f"{file}:{line_of(text, ('tool',))}: tool must be a table")
    return Settings() if "forensics" not in tool else _settings(tool["forensics"], file, text)


def _nearest(start: Path, analysed: Sequence[str]) -> Path | None:
    try:
        here = start.resolve()
        runs = [Path(path).resolve() for path in analysed if path not in ("", "-")]
    except (OSError, RuntimeError, ValueError):  # a current directory that is gone, a path with a NUL in it
        return None
    for folder in (here, *here.parents):
        if any(folder.is_relative_to(run) for run in runs):
            continue
        file = folder / "pyproject.toml"
        try:
            if file.is_file():
                return file
        except OSError:
            continue
    return None


def _settings(table: Any, file: Path, text: str) -> Settings:
    def wrong(message: str, key: str | None = None) -> SettingsError:
        line = line_of(text, ("tool.forensics", 0, *([key] if key is not None else [])))
        return SettingsError(f"{file}:{line}: [tool.forensics]{message}")

    if not isinstance(table, dict):
        raise wrong(" must be a table")
    if unknown := sorted(set(table) - {"signatures", "exclude", "redact"}):
        raise wrong(f" knows no {', '.join(unknown)}; there are signatures, exclude, redact", unknown[0])
    for key in ("signatures", "exclude"):
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise wrong(f": {key} must be a list of strings", key)
    redact = table.get("redact")
    if redact is not None and not isinstance(redact, bool):
        raise wrong(": redact must be true or false", "redact")
    folders = tuple(file.parent / folder for folder in table.get("signatures", []))
    for folder in folders:
        if not folder.is_dir():
            raise wrong(f": signatures: there is no folder {folder}", "signatures")
    return Settings(folders, tuple(table.get("exclude", [])), redact, file)
