"""What `forensics.probe` says where PyTorch is not installed."""

from __future__ import annotations

import sys

import pytest

import forensics.probe


def _forget_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("forensics.probe.") and n != "forensics.probe.tags"]:
        monkeypatch.delitem(sys.modules, name)


def test_the_probe_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_probe(monkeypatch)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch.*pip install torch") as raised:
        from forensics.probe import Probe  # noqa: F401
    assert raised.value.name == "torch"


def test_another_missing_module_is_named_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_probe(monkeypatch)
    monkeypatch.setitem(sys.modules, "forensics.probe.probe", None)
    with pytest.raises(ModuleNotFoundError, match=r"forensics\.probe\.probe"):
        from forensics.probe import Probe  # noqa: F401


def test_tags_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "forensics.probe.tags", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    from forensics.probe import tags

    assert tags.DEAD.startswith("probe/")


def test_what_the_package_does_not_have() -> None:
    with pytest.raises(AttributeError):
        _ = forensics.probe.nothing  # type: ignore[attr-defined]
