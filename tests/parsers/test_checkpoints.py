from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Kind, Role, Source, Status, Verdict
from forensics.parsers.checkpoints.damage import CUT, LEFT_OVER, MISSING, POINTER, Damage
from forensics.parsers.checkpoints.folders import check_folders
from forensics.parsers.checkpoints.integrity import check, check_stream

DATA = Path(__file__).parents[1] / "data" / "checkpoints"  # written by torch 2.13
TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line 40, in main
    state = torch.load(path)
  File "/usr/lib/python3.11/site-packages/torch/serialization.py", line 1432, in load
    return _load(opened_file)
{final}
"""
HEALTHY = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(1, 60)) + "Training completed.\n"


def safetensors(shapes: Mapping[str, int]) -> bytes:
    """A safetensors file of float32 vectors of these lengths."""
    header, at = {}, 0
    for name, n in shapes.items():
        header[name] = {"dtype": "F32", "shape": [n], "data_offsets": [at, at + 4 * n]}
        at += 4 * n
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def torch_zip() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        z.writestr("model/data.pkl", b"\x80\x02}q\x00.")
        z.writestr("model/data/0", os.urandom(3_000))
        z.writestr("model/version", b"3\n")
    return data.getvalue()


def told(data: bytes, name: str) -> Damage | None:
    return check_stream(io.BytesIO(data), len(data), name)


def text_of(data: bytes, name: str) -> str:
    damage = told(data, name)
    assert damage is not None and damage.state == CUT
    return damage.text


def test_whole_files_are_whole() -> None:
    assert told(safetensors({"a": 100, "b": 7}), "model.safetensors") is None
    assert told(safetensors({}), "model.safetensors") is None
    assert told(torch_zip(), "model.pt") is None
    assert told(pickle.dumps({"step": list(range(300))}), "state.pkl") is None
    assert told(b"\x01\x02" + os.urandom(5_000), "weights.ckpt") is None  # of no format that is known


def test_safetensors_that_is_cut_gives_the_numbers() -> None:
    whole = safetensors({"a": 10_000})
    assert text_of(whole[:9_000], "m.safetensors") == f"file is 9,000 bytes, its header needs {len(whole):,}"
    assert "header alone needs" in text_of(whole[:40], "m.safetensors")
    assert "takes 8" in text_of(whole[:5], "m.safetensors")
    assert "accounts for" in text_of(whole + b"x", "m.safetensors")
    assert "no length" in text_of(b"\xff" * 900, "m.safetensors")
    odd = b'{"a": {"data_offsets": [0, Infinity]}}'
    assert "cannot be read" in text_of(len(odd).to_bytes(8, "little") + odd, "m.safetensors")
    assert "cannot be read" in text_of((9).to_bytes(8, "little") + b'{"a": [1]', "m.safetensors")


def test_a_torch_file_that_is_cut() -> None:
    whole = torch_zip()
    for end in (40, 2_000, len(whole) - 30):
        assert f"file is {end:,} bytes" in text_of(whole[:end], "m.pt")


def test_a_shard_of_several_zip_files() -> None:
    whole = torch_zip() + torch_zip()
    assert told(whole, "__0_0.distcp") is None
    for end in (2_000, len(torch_zip()) + 400, len(whole) - 5):
        assert f"file is {end:,} bytes" in text_of(whole[:end], "__0_0.distcp")


def test_a_torch_file_with_a_hole_in_it() -> None:
    whole = bytearray(torch_zip())
    at = whole.index(b"PK\x03\x04", 10)
    whole[at : at + 400] = bytes(400)
    assert "where none does" in text_of(bytes(whole), "m.pt")


def test_flipped_bytes_of_a_small_entry() -> None:
    whole = bytearray(torch_zip())
    whole[500] ^= 0xFF
    assert "checksum" in text_of(bytes(whole), "m.pt")


def test_empty_and_zeroed_files() -> None:
    assert text_of(b"", "m.pt") == "the file is empty (0 bytes)"
    assert "zero" in text_of(bytes(50_000), "m.safetensors")


def test_a_pickle_that_is_cut() -> None:
    whole = pickle.dumps({"step": list(range(300)), "name": "x" * 100})
    assert "no end" in text_of(whole[:-9], "state.pkl")


def test_left_over_temporary_files() -> None:
    damage = told(torch_zip()[:500], "m.pt.tmp")
    assert damage is not None and damage.state == LEFT_OVER and "cut off" in damage.text
    assert told(torch_zip(), "m.pt.tmp") == Damage(LEFT_OVER, "left over by a save that did not finish")


@pytest.mark.parametrize("name", ["torch.pt", "torch_legacy.pt"])
def test_files_that_torch_wrote(name: str, tmp_path: Path) -> None:
    whole = (DATA / name).read_bytes()
    file = tmp_path / name
    for keep in (len(whole) - 1, len(whole) // 2, 700):
        file.write_bytes(whole[:keep])
        damage = check(file, name)
        assert damage is not None and f"{keep:,} bytes" in damage.text
    file.write_bytes(whole)
    assert check(file, name) is None


def sources(folder: Path) -> list[Source]:
    return [
        Source(str(p.relative_to(folder)), p, Kind.LOG, p.stat().st_size)
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    ]


def missing(folder: Path) -> list[tuple[str, str]]:
    found = check_folders(sources(folder), [])
    assert all(damage.state in (MISSING, POINTER) for _, damage in found)
    return [(source.path, damage.text) for source, damage in found]


def test_sharded_folders(tmp_path: Path) -> None:
    (tmp_path / "ck").mkdir()
    for n in range(3):
        (tmp_path / f"ck/__{n}_0.distcp").write_bytes(b"x")
    assert "no .metadata" in missing(tmp_path)[0][1]
    names = [f"__{n}_0.distcp" for n in range(3)]
    (tmp_path / "ck/.metadata").write_bytes(pickle.dumps({"storage": names}))
    assert missing(tmp_path) == []
    (tmp_path / "ck/__1_0.distcp").unlink()
    assert missing(tmp_path) == [("ck/.metadata", "1 of the 3 files that it names are not here or empty: __1_0.distcp")]


def test_latest_and_index(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("global_step200\n")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(safetensors({"a": 1}))
    assert dict(missing(tmp_path)) == {
        "latest": "it names 'global_step200', which is not here",
        "model.safetensors.index.json": "1 of the 2 files that it names are not here or empty: model-00002-of-00002.safetensors",
    }
    (tmp_path / "global_step200").mkdir()
    (tmp_path / "global_step200/x.pt").write_bytes(b"x")
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(safetensors({"b": 1}))
    assert missing(tmp_path) == []


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_never_raises(data: st.DataObject) -> None:
    kinds = {
        "m.pt": torch_zip(),
        "m.safetensors": safetensors({"a": 30}),
        "m.pkl": pickle.dumps([1, "x", {"y": 2.5}]),
        "l.pt": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03." + pickle.dumps({"a": 1}, 2) * 3,
    }
    name = data.draw(st.sampled_from(sorted(kinds)))
    raw = bytearray(kinds[name])
    for _ in range(data.draw(st.integers(0, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    damage = told(bytes(raw), name)
    assert damage is None or damage.text


def diagnose(folder: Path) -> Diagnosis:
    return analyse([str(folder)])


def test_a_cut_file_in_a_healthy_run_is_context(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(HEALTHY)
    (tmp_path / "latest").write_text("global_step200\n")
    (tmp_path / "m.safetensors").write_bytes(safetensors({"a": 10_000})[:9_000])
    found = diagnose(tmp_path)
    assert found.verdict is Verdict.HEALTHY
    assert [(f.name, f.role) for f in found.findings if "checkpoint" in f.name] == [
        ("checkpoint-corrupt", Role.CONTEXT),
        ("checkpoint-latest-dangling", Role.CONTEXT),
    ]
    row = next(c for c in found.coverage if c.path == "m.safetensors")
    assert (row.kind, row.status) == ("checkpoint", Status.PARTIAL)
    assert "9,000" in (row.reason or "")


def test_a_cut_file_explains_why_it_could_not_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TRACEBACK.format(final="EOFError: Ran out of input"))
    (tmp_path / "m.pt").write_bytes(b"")
    (root, *_) = diagnose(tmp_path).of_role(Role.ROOT)
    assert root.name == "checkpoint-corrupt"
    assert any("empty" in e.text for e in root.evidence)


def test_a_cut_file_beside_an_unrelated_failure_is_context(tmp_path: Path) -> None:
    log = 'Traceback (most recent call last):\n  File "/app/t.py", line 4, in step\n    x[3]\nKeyError: 3\n'
    (tmp_path / "train.log").write_text(log)
    (tmp_path / "m.pt").write_bytes(torch_zip()[:900])
    found = diagnose(tmp_path)
    assert [f.name for f in found.of_role(Role.ROOT)] == ["python-exception"]
    assert "checkpoint-corrupt" in [f.name for f in found.of_role(Role.CONTEXT)]


def test_a_sound_file_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TRACEBACK.format(final="KeyError: 'optimizer'"))
    (tmp_path / "m.pt").write_bytes(torch_zip())
    found = diagnose(tmp_path)
    assert [f.name for f in found.findings] == ["python-exception"]
    assert {c.path: c.status for c in found.coverage}["m.pt"] is Status.READ


def test_the_numbers_of_a_file_stand_beside_what_the_log_says(tmp_path: Path) -> None:
    final = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    (tmp_path / "train.log").write_text(TRACEBACK.format(final=final))
    (tmp_path / "m.pt").write_bytes(torch_zip()[:900])
    (root, *others) = diagnose(tmp_path).of_role(Role.ROOT)
    assert root.name == "checkpoint-corrupt" and not others
    assert root.evidence[0].file == "train.log"
    assert any("900 bytes" in note for note in root.notes)


def test_a_shard_that_is_cut_stands_beside_the_reader_s_words(tmp_path: Path) -> None:
    log = (
        "CheckpointException ranks:dict_keys([0])\n"
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
    )
    (tmp_path / "train.log").write_text(log)
    (tmp_path / "__0_0.distcp").write_bytes(torch_zip()[:900])
    found = diagnose(tmp_path)
    root = next(f for f in found.findings if f.name == "checkpoint-corrupt")
    assert root.role is Role.ROOT
    assert any("900 bytes" in note for note in root.notes)


def test_a_folder_without_metadata_bears_out_what_the_log_says(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("FileNotFoundError: [Errno 2] No such file or directory: 'ck/.metadata'\n")
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck/__0_0.distcp").write_bytes(torch_zip())
    (root, *others) = diagnose(tmp_path).of_role(Role.ROOT)
    assert root.name == "dcp-checkpoint-incomplete" and not others
    assert any("no .metadata" in note for note in root.notes)
