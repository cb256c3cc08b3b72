"""The catalogue and its matcher, made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from forensics.engine.matcher import Matcher
from forensics.signatures.schema import Signature, load_catalogue
from forensics.watch.watcher import Settings
from tests.watch.live_run import Live


@pytest.fixture(scope="session")
def catalogue() -> Mapping[str, Signature]:
    return load_catalogue()


@pytest.fixture(scope="session")
def matcher(catalogue: Mapping[str, Signature]) -> Matcher:
    return Matcher(catalogue)


@pytest.fixture
def live(tmp_path: Path, catalogue: Mapping[str, Signature], matcher: Matcher) -> Callable[..., Live]:
    """Makes a live run: `live()`, or with settings of the watch by name."""

    def make(**settings: Any) -> Live:
        folder = tmp_path / "run"
        folder.mkdir()
        return Live(folder, catalogue, matcher, Settings(**({"measure": lambda f: None} | settings)))

    return make
