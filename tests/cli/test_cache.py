"""The cache may be damaged, foreign or missing, and changes no result."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "forensics"


def test_what_was_stored_is_loaded(folder: Path) -> None:
    cache.store("kind", "kind-1", b"content")
    assert cache.load("kind-1") == b"content"
    assert [p.name for p in folder.iterdir()] == ["kind-1"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b[:-1],
        lambda b: b[:40],
        lambda b: b + b" ",
        lambda b: b[:35] + bytes([b[35] ^ 1]) + b[36:],
        lambda b: b"{}",
        lambda b: b"[1]" * 100,
    ],
)
def test_damage_is_noticed(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    cache.store("kind", "kind-1", b'{"a": 1, "b": 2}')
    file = folder / "kind-1"
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load("kind-1") is None


def test_only_regular_files_of_bounded_size_are_read(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "device").symlink_to("/dev/zero")
    (folder / "folder").mkdir()
    with (folder / "large").open("wb") as file:
        file.truncate(cache.LARGEST + 1)
    for name in ("pipe", "device", "folder", "large", "missing"):
        assert cache.load(name) is None


def test_old_files_of_a_kind_are_removed(folder: Path) -> None:
    for n in range(cache.KEEP + 3):
        cache.store("kind", f"kind-{n}", b"x")
        os.utime(folder / f"kind-{n}", (n, n))
    cache.store("other", "other-1", b"x")
    assert len(list(folder.glob("kind-*"))) == cache.KEEP
    assert cache.load(f"kind-{cache.KEEP + 2}") == b"x"


@pytest.mark.parametrize("base", ["relative", "/dev/null", "/proc/nothing"])
def test_a_folder_that_cannot_be_is_none(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", "also-relative")
    cache.store("kind", "kind-1", b"x")
    assert cache.load("kind-1") is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    cache.store("kind", "kind-1", b"x")
    assert list(folder.iterdir()) == []
