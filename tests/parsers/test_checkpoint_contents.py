from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import pickletools
import random
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch_files import adam, linear, pickled, torch_legacy, torch_zip

from forensics.engine.pipeline import Options, analyse
from forensics.model import Fact, Kind, Source, Status
from forensics.parsers.checkpoints.contents import Contents, bare, facts, read_stream, step_in, wrappers
from forensics.parsers.checkpoints.damage import CUT
from forensics.parsers.checkpoints.folders import check_folders, shard_sizes
from forensics.parsers.checkpoints.opcodes import Cut, Made, Odd, Tensor, walk
from forensics.parsers.checkpoints.survey import survey
from forensics.parsers.checkpoints.units import at_or_before, units

DATA = Path(__file__).parents[1] / "data" / "checkpoints"  # written by torch 2.13
SCHEDULER = {"base_lrs": [0.1], "last_epoch": 40, "_step_count": 41, "_last_lr": [0.05]}
SCALER = {"scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 17}


def contents(value: Any, name: str = "ck.pt", make: Any = torch_zip) -> Contents:
    data = make(value)
    return read_stream(io.BytesIO(data), len(data), name)


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_gives_the_same_plain_values(protocol: int) -> None:
    value = {"a": [1, 2.5, True, None, (), (1,), (1, 2), (1, 2, 3, 4)], "b": {3: "é", "n": -7}, "big": 1 << 70}
    assert walk(pickle.dumps(value, protocol)).value == value


def test_no_class_is_looked_up() -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit('executed')",)

    made = walk(pickle.dumps({"x": Bomb()})).value["x"]
    assert isinstance(made, Made)
    assert (made.name, made.args) == ("builtins.exec", ("raise SystemExit('executed')",))


def test_tensors_are_told_by_type_and_shape() -> None:
    data, _ = pickled({"w": np.zeros((3, 5), "f8")})
    tensor = walk(data).value["w"]
    assert isinstance(tensor, Tensor)
    assert (tensor.dtype, tensor.shape, tensor.stride, tensor.storage.count) == ("F64", (3, 5), (5, 1), 15)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_opcodes_raise_nothing_else(data: st.DataObject) -> None:
    whole, _ = pickled({"model": linear(), "optimizer": adam(), "rng": random.Random(1).getstate()[1][:20]})
    raw = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    for value in (bytes(raw), data.draw(st.binary(max_size=60)) + b"."):
        with contextlib.suppress(Cut, Odd):
            walk(value)


def test_a_call_of_nothing_is_odd() -> None:
    with pytest.raises(Odd, match="nothing to call at byte 3"):
        walk(b"\x80\x02(o.")


def test_a_pickle_that_doubles_itself_stays_small() -> None:
    # l = [l0, l0]; each list twice in the next: 2**60 leaves for whoever follows them all
    out = b"\x80\x02]q\x00"
    for n in range(60):
        out += b"]q" + bytes([n + 1]) + b"(h" + bytes([n]) + b"h" + bytes([n]) + b"e"
    found = contents(None, make=lambda _: out + b"0" * 60 + b".")
    assert found.states == ()


def test_a_training_checkpoint() -> None:
    whole = {
        "model": linear(),
        "optimizer": adam(lr=0.003),
        "lr_scheduler": SCHEDULER,
        "scaler": SCALER,
        "rng_state": np.zeros(16, "u1"),
        "ema": linear(),
        "step": 40,
        "epoch": 2,
        "model_args": {"n_layer": 3},
        "config": {"optimizer": "adamw"},
    }
    for make, container in ((torch_zip, "torch zip"), (torch_legacy, "torch (before 1.6)")):
        found = contents(whole, make=make)
        assert found.container == container
        assert found.states == ("model", "optimizer", "scheduler", "scaler", "rng", "ema", "step", "epoch")
        assert (found.step, found.epoch) == (40, 2.0)
        assert found.parameters == {"0.weight": (4, 3), "0.bias": (4,), "1.weight": (2, 4)}
        assert found.values["scaler.scale"] == 1024 and found.values["scaler.growth_tracker"] == 17
        assert found.values["scheduler.last_epoch"] == 40 and found.values["optimizer.lr"] == 0.003


def test_settings_and_empty_shells_are_no_states() -> None:
    found = contents(
        {"model_args": {"a": 1}, "optimizer_states": [], "lr_schedulers": [], "optimizer_config": {"lr": 1}}
    )
    assert found.states == ()
    assert contents({"args": "x"}).states == ()


def test_lightning() -> None:
    found = contents(
        {
            "epoch": 3,
            "global_step": 77,
            "pytorch-lightning_version": "2.4.0",
            "state_dict": linear("model."),
            "loops": {"fit_loop": {"state_dict": {}}},
            "callbacks": {},
            "optimizer_states": [adam()],
            "lr_schedulers": [SCHEDULER],
            "MixedPrecision": SCALER,
        },
        "epoch=3-step=77.ckpt",
    )
    assert found.states == ("model", "optimizer", "scheduler", "scaler", "step", "epoch")
    assert (found.step, found.epoch) == (77, 3.0)


def test_deepspeed_and_megatron() -> None:
    states = {"module": linear(), "optimizer": None, "lr_scheduler": SCHEDULER, "global_steps": 100, "dp_world_size": 2}
    assert contents(states).states == ("model", "scheduler", "step")
    zero = {"optimizer_state_dict": {"cur_scale": 256.0, "state": adam()["state"]}, "ds_config": {}, "ds_version": "0"}
    found = contents(zero, "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    assert found.states == ("optimizer",) and found.values["scaler.scale"] == 256
    megatron = {
        "iteration": 200,
        "checkpoint_version": 3.0,
        "model": {"language_model": {"embedding": {"weight": np.ones((3, 3), "f4")}}},
        "optimizer": {"optimizer": adam()},
        "opt_param_scheduler": {"max_lr": 0.1, "num_steps": 9, "lr_decay_steps": 10},
        "rng_state": [{"random_rng_state": (3, (1, 2), None)}],
    }
    found = contents(megatron)
    assert found.states == ("model", "optimizer", "scheduler", "rng", "step")
    assert list(found.parameters) == ["language_model.embedding.weight"]


def test_what_a_training_checkpoint_lacks() -> None:
    source = Source("ck.pt", Path("ck.pt"), Kind.CHECKPOINT, 1)
    told = {f.name: f.value for f in facts(source, contents({"model": linear(), "optimizer": adam(), "step": 4}))}
    assert told["checkpoint.lacks"] == "scheduler, scaler, rng, ema"
    assert "checkpoint.lacks" not in {f.name for f in facts(source, contents(linear()))}


def test_one_file_a_state() -> None:
    assert contents(adam(), "optimizer.pt").states == ("optimizer",)
    assert contents(SCHEDULER, "scheduler.pt").states == ("scheduler",)
    assert contents(SCALER, "scaler.pt").states == ("scaler",)
    assert contents({"python": 1, "numpy": 2, "cpu": np.zeros(4, "u1")}, "rng_state_0.pth").states == ("rng",)
    assert contents(linear(), "pytorch_model.bin").states == ("model",)


def test_prefixes_of_wrappers() -> None:
    names = ["module._orig_mod.a.weight", "_orig_mod.module.a.bias", "b._fsdp_wrapped_module.c", "encoder.module.d"]
    assert wrappers(dict.fromkeys(names)) == {"module.": 2, "_orig_mod.": 2, "_fsdp_wrapped_module.": 1}
    assert [bare(n) for n in names] == ["a.weight", "a.bias", "b.c", "encoder.module.d"]


def test_steps_in_paths() -> None:
    paths = {
        "out/checkpoint-400/optimizer.pt": 400,
        "global_step100/mp_rank_00_model_states.pt": 100,
        "iter_0000200/mp_rank_00/model_optim_rng.pt": 200,
        "epoch=3-step=77.ckpt": 77,
        "ckpt-step500.pt": 500,
        "ckpt_step_500.pt": 500,
        "checkpoint_3/model.safetensors": None,  # Accelerate counts its saves
        "model-00001-of-00003.safetensors": None,
    }
    assert {p: step_in(p) for p in paths} == paths


def safetensors(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


def test_safetensors_are_listed_by_their_header() -> None:
    data = safetensors({"__metadata__": {"format": "pt"}, "module.a": {"dtype": "F32", "shape": [2, 3]}, "b": 5})
    found = read_stream(io.BytesIO(data), len(data), "model.safetensors")
    assert found.parameters == {"module.a": (2, 3), "b": ()}
    told = {f.name: f.value for f in facts(Source("step-4/model.safetensors", Path("x"), Kind.CHECKPOINT, 1), found)}
    assert told["checkpoint.step"] == "4" and told["checkpoint.prefix.module."] == "1"


def fact(path: str, **values: str) -> list[Fact]:
    return [Fact(f"checkpoint.{name}", value, path) for name, value in ({"format": "torch zip"} | values).items()]


def test_files_of_one_folder_are_one_checkpoint() -> None:
    found = units(
        [
            *fact("o/checkpoint-400/optimizer.pt", holds="optimizer", step="400"),
            *fact("o/checkpoint-400/model.safetensors", holds="model", step="400", parameters="3"),
            *fact("o/checkpoint-300/model.safetensors", holds="model", step="300", not_listed="too long"),
            *fact("o/best.pt", holds="model, ema"),
        ],
        ["o/checkpoint-400/scheduler.pt"],
    )
    assert [(u.path, sorted(u.holds), u.step, u.whole) for u in found] == [
        ("o/best.pt", ["ema", "model"], None, True),
        ("o/checkpoint-300", ["model"], 300, False),
        ("o/checkpoint-400", ["model", "optimizer"], 400, False),
    ]
    assert [
        (u.path if u else None) for u in (at_or_before(found, 399), at_or_before(found, 4), at_or_before(found, None))
    ] == [
        "o/checkpoint-300",
        None,
        None,
    ]


def sources(folder: Path, kind: Kind = Kind.CHECKPOINT) -> list[Source]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return [Source(p.relative_to(folder).as_posix(), p, kind, p.stat().st_size) for p in files]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_sets_of_ranks_with_gaps(tmp_path: Path) -> None:
    write(tmp_path, *(f"global_step100/zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in (0, 1, 3)))
    write(tmp_path, *(f"global_step200/zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in (0, 1)))
    write(tmp_path, "global_step100/mp_rank_00_model_states.pt", "global_step100/bf16_other.pt")
    write(tmp_path, *(f"iter_0000040/mp_rank_0{t}_00{p}/model_optim_rng.pt" for t, p in ((0, 0), (0, 1), (1, 0))))
    found = {(s.path.partition("/")[0], d.names) for s, d in check_folders(sources(tmp_path), [])}
    assert found == {
        ("global_step100", ("zero_pp_rank_2_mp_rank_00_optim_states.pt",)),
        (
            "global_step200",
            ("zero_pp_rank_2_mp_rank_00_optim_states.pt", "zero_pp_rank_3_mp_rank_00_optim_states.pt"),
        ),
        ("iter_0000040", ("mp_rank_01_001/model_optim_rng.pt",)),
    }


def test_partitions_are_counted_against_the_world_size_that_the_model_states(tmp_path: Path) -> None:
    write(tmp_path, *(f"global_step100/zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in (0, 1)))
    states = tmp_path / "global_step100/mp_rank_00_model_states.pt"
    for world, lost in ((4, "zero_pp_rank_3_mp_rank_00_optim_states.pt"), (2, None)):
        states.write_bytes(torch_zip({"module": linear(), "dp_world_size": world, "global_steps": 100}))
        found = [o for o in survey([], sources(tmp_path), []).observations if "partitions" in (o.note or "")]
        assert [o.captures["missing_files"].split()[-1] for o in found] == ([lost] if lost else [])


def test_numbers_that_are_no_ranks_cost_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a/rng_state_0.pth", "a/rng_state_999999.pth", "iter_0000040/mp_rank_99_999/x.pt")
    assert check_folders(sources(tmp_path), []) == []


def test_megatron_s_tracker_file(tmp_path: Path) -> None:
    write(tmp_path, "iter_0000200/mp_rank_00/model_optim_rng.pt")
    tracker = tmp_path / "latest_checkpointed_iteration.txt"
    tracker.write_text("300\n")
    ((source, damage),) = check_folders(sources(tmp_path), [])
    assert source.path == tracker.name and damage.names == ("iter_0000300",)
    tracker.write_text("200\n")
    assert check_folders(sources(tmp_path), []) == []


def test_a_distributed_checkpoint_of_torch(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "dcp", tmp_path / "ck"))
    shard, index = folder / "__0_0.distcp", folder / ".metadata"
    assert shard_sizes(index.read_bytes()) == {"__0_0.distcp": shard.stat().st_size}
    data = index.read_bytes()
    found = read_stream(io.BytesIO(data), len(data), "ck/.metadata")
    assert found.states == ("model", "optimizer", "step") and found.parameters == {"a": (2, 2), "bad": (5, 5)}
    assert check_folders(sources(tmp_path), []) == []
    shard.write_bytes(shard.read_bytes()[:-100])
    ((_, damage),) = check_folders(sources(tmp_path), [])
    assert damage.state == CUT and "places data in it up to byte" in damage.text


@pytest.mark.parametrize("name", ["torch.pt", "torch_legacy.pt"])
def test_files_that_torch_wrote(name: str) -> None:
    data = (DATA / name).read_bytes()
    found = read_stream(io.BytesIO(data), len(data), name)
    assert found.states == ("model", "optimizer", "rng", "step") and found.step == 7
    assert found.parameters["0.weight"] == (4, 3) and found.parameters["1.running_var"] == (4,)
    assert found.values["optimizer.lr"] == 0.01


def test_names_beyond_the_limit_are_said_not_to_be_listed(tmp_path: Path) -> None:
    data = torch_zip({"model": linear()})
    found = read_stream(io.BytesIO(data), len(data), "ck.pt", limit=10)
    assert found.states == () and "too many" in (found.problem or "")


def test_one_file_that_cannot_be_read_costs_itself_only(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(torch_zip({"model": linear(), "step": 3}))
    gone = Source("b.pt", tmp_path / "b.pt", Kind.CHECKPOINT, 5)
    found = survey([], [*sources(tmp_path), gone], [])
    assert [(f.name, f.value) for f in found.facts if f.name == "checkpoint.holds"] == [
        ("checkpoint.holds", "model, step")
    ]
    assert found.rows["b.pt"][1].value == "unreadable"


def test_opcodes_agree_with_pickletools() -> None:
    data, _ = pickled({"model": linear(), "optimizer": adam()})
    *_, (_, _, last) = pickletools.genops(data)
    assert walk(data + b"rest").end == (last or 0) + 1


class _Runs:
    def __init__(self, function: Any, *args: str) -> None:
        self.function, self.args = function, args

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        return self.function, self.args


def _rows_of(folder: Path, **files: bytes) -> dict[str, tuple[Status, str | None]]:
    for name, data in files.items():
        (folder / f"{name}.pt").write_bytes(data)
    return {c.path: (c.status, c.reason) for c in analyse([str(folder)], Options(threads=1)).coverage}


@pytest.mark.parametrize("protocol", [3, 4])
def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "ran"
    bare = pickle.dumps({"model": {}, "x": _Runs(os.system, f"touch {mark}")}, protocol)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps([_Runs(subprocess.getoutput, f"touch {mark}")] * 2, protocol))
        archive.writestr("model/version", "3\n")
    harmless = pickle.dumps(
        {"path": Path("a"), "namespace": argparse.Namespace(lr=1.0), "error": subprocess.CalledProcessError}, protocol
    )
    rows = _rows_of(tmp_path, bare=bare, zipped=zipped.getvalue(), harmless=harmless)
    assert rows["bare.pt"] == (Status.PARTIAL, f"refused: it names global {os.system.__module__}.system")
    assert rows["zipped.pt"] == (Status.PARTIAL, "refused: it names global subprocess.getoutput")
    assert rows["harmless.pt"] == (Status.READ, None)
    assert not mark.exists()
