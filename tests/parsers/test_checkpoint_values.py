from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.torch_files import adam, linear, torch_legacy, torch_zip

from forensics.archives.limits import Stop
from forensics.model import Kind, Observation, Source
from forensics.parsers.checkpoints.deep import Allowance, NonFinite, Scan, index_text, look, places, scan, scan_shards
from forensics.parsers.checkpoints.survey import Survey, survey
from forensics.parsers.checkpoints.units import units

DATA = Path(__file__).parents[1] / "data" / "checkpoints"  # written by torch 2.13
NAN, INF = float("nan"), float("inf")


def scanned(data: bytes, name: str = "ck.pt", allowance: Allowance | None = None) -> Scan:
    raw = io.BytesIO(data)
    return look(raw, len(data), places(raw, len(data), name), allowance or Allowance())


def moments(at: tuple[int, int], value: float) -> np.ndarray:
    made = np.zeros((4, 3), "f4")
    made[at] = value
    return made


@pytest.mark.parametrize("make", [torch_zip, torch_legacy])
def test_the_first_tensor_in_order_with_name_index_and_count(make: Any) -> None:
    bad = moments((2, 1), NAN)
    bad[3] = INF
    found = scanned(make({"model": linear(), "optimizer": adam(exp_avg_sq_0=bad), "step": 40}))
    assert found.bad == (NonFinite("optimizer.state.0.exp_avg_sq", (2, 1), 1, 3, 12, "0.weight"),)
    assert index_text(found.bad[0]) == "1 NaN and 3 Inf of 12 values, the first at [2, 1]"
    assert found.tensors == 12 and found.problem is None
    assert found.step == 40.0


@pytest.mark.parametrize("name", ["torch.pt", "torch_legacy.pt"])
def test_files_that_torch_wrote_are_finite(name: str) -> None:
    found = scan(DATA / name, name, Allowance())
    assert not found.bad and found.problem is None and found.step == 1.0
    assert found.tensors == 4 + 2 + 12 + 1  # what is tied is looked at once; running mean and variance are two


def test_shards_of_a_distributed_checkpoint() -> None:
    shards = {"__0_0.distcp": DATA / "dcp" / "__0_0.distcp"}
    found = scan_shards(DATA / "dcp" / ".metadata", shards, Allowance())
    assert [(one.name, one.index, one.nans) for one in found.bad] == [("model.bad", (1, 3), 1)]
    assert found.tensors == 3


def test_the_optimizer_s_numbers_are_names_only_where_they_must_be() -> None:
    other = adam(exp_avg_sq_0=moments((0, 0), NAN))
    other["state"][1]["exp_avg"] = np.zeros((9,), "f4")  # not the shape of the second parameter
    found = scanned(torch_zip({"model": linear(), "optimizer": other}))
    assert found.bad[0].of is None
    other["param_groups"][0]["param_names"] = ["a", "b", "c"]
    assert scanned(torch_zip({"model": linear(), "optimizer": other})).bad[0].of == "a"


def test_masks_and_open_ranges_are_no_fault() -> None:
    mask = np.triu(np.full((8, 8), -INF, "f4"), 1)
    whole = {"attn.mask": mask, "observer.min_val": np.array(INF, "f4"), "none.bounds": np.full(3, -INF, "f4")}
    assert not scanned(torch_zip({"model": linear() | whole})).bad
    bad = scanned(torch_zip({"model": linear() | {"w": np.array([1.0, 2.0, INF], "f4")}})).bad
    assert [(b.name, b.index, b.infs) for b in bad] == [("model.w", (2,), 1)]


def safetensors(dtype: str, values: np.ndarray, shape: list[int]) -> bytes:
    data = values.tobytes()
    text = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("dtype", "bits", "nan", "inf"),
    [
        ("BF16", "u2", 0x7FC1, 0xFF80),
        ("F16", "u2", 0x7E00, 0x7C00),
        ("F32", "u4", 0x7FC00000, 0xFF800000),
        ("F64", "u8", 0x7FF8000000000000, 0x7FF0000000000000),
        ("F8_E5M2", "u1", 0x7F, 0x7C),
        ("F8_E4M3", "u1", 0xFF, None),
    ],
)
def test_every_type_of_float(dtype: str, bits: str, nan: int, inf: int | None) -> None:
    values = np.array([0x11, 0x12, 0x13, 0x14, 0x15, 0x16], f"<{bits}")
    assert not scanned(safetensors(dtype, values, [2, 3]), "m.safetensors").bad
    values[4] = nan
    values[5] = inf if inf is not None else 0x11
    (bad,) = scanned(safetensors(dtype, values, [2, 3]), "m.safetensors").bad
    assert (bad.index, bad.nans, bad.infs) == ((1, 1), 1, int(inf is not None))


def test_limits_end_a_scan_and_say_so() -> None:
    data = torch_zip({"model": linear()})
    assert "the rest was not looked at" in (scanned(data, allowance=Allowance(size=50)).problem or "")
    assert "0 seconds" in (scanned(data, allowance=Allowance(seconds=0.0)).problem or "")


def test_places_beyond_the_data_are_refused() -> None:
    data = torch_zip({"model": linear()})
    lied = data.replace(b"K\x04K\x03\x86", b"K\xffK\x03\x86")  # a shape of (255, 3)
    assert lied != data
    with pytest.raises((ValueError, Stop)):
        scanned(lied)
    whole = safetensors("F32", np.ones(6, "f4"), [2, 3])
    assert "cut off" in (scanned(whole[:-4], "m.safetensors").problem or "")


def run(folder: Path, bad_from: int, steps: range, name: str = "step-{}.pt") -> Survey:
    for step in steps:
        bad = moments((1, 1), NAN if step >= bad_from else 0.5)
        file = folder / name.format(step)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(torch_zip({"model": linear(), "optimizer": adam(exp_avg_sq_0=bad), "step": step}))
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    found = [Source(p.relative_to(folder).as_posix(), p, Kind.CHECKPOINT, p.stat().st_size) for p in files]
    return survey(found, found, [], deep=True)


def sign(found: Survey) -> Observation:
    (one,) = found.observations
    return one


def test_the_first_bad_checkpoint_of_a_history(tmp_path: Path) -> None:
    found = run(tmp_path, 500, range(100, 1700, 100))
    one = sign(found)
    assert (one.signature, one.step, one.step_is) == ("checkpoint-nonfinite", 500, "first_logged")
    assert one.evidence[0].file == "step-500.pt"
    assert "optimizer.state.0.exp_avg_sq (of 0.weight) holds 1 NaN of 12 values" in one.evidence[0].text
    assert "step-400.pt, the one before it, is finite" in (one.note or "")
    left = [path for path, (_, _, reason) in found.rows.items() if reason]
    assert len(left) >= 10  # sixteen files, and a handful of them was looked at


def test_a_history_that_is_sound_is_looked_at_once(tmp_path: Path) -> None:
    found = run(tmp_path, 10_000, range(100, 600, 100))
    assert not found.observations
    assert [u.step for u in units(found.facts) if u.finite] == [500]
    assert sum("a later one is finite" in (reason or "") for _, _, reason in found.rows.values()) == 4


def test_histories_of_two_folders_are_told_apart(tmp_path: Path) -> None:
    run(tmp_path, 200, range(100, 400, 100), "a/step-{}.pt")
    found = run(tmp_path, 300, range(100, 400, 100), "b/step-{}.pt")
    assert sorted(o.evidence[0].file for o in found.observations) == ["a/step-200.pt", "b/step-300.pt"]


def test_without_deep_no_value_is_read(tmp_path: Path) -> None:
    run(tmp_path, 100, range(100, 300, 100))
    files = [Source(p.name, p, Kind.CHECKPOINT, p.stat().st_size) for p in sorted(tmp_path.iterdir())]
    found = survey(files, files, [])
    assert not found.observations and not any("finite" in f.name for f in found.facts)
