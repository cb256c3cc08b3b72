"""Run files as facts: each family from a small file of its kind, and what is refused."""

from __future__ import annotations

import io
import pickle
import sys
import time
import types
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from forensics.kinds import Sniffers
from forensics.model import Fact, Kind, Source, Verdict
from forensics.parsers import error_files, flight_recorder, metric_files, run_files, tensorboard
from forensics.parsers.run_files import documents, training_args
from forensics.parsers.run_files.base import is_private
from forensics.parsers.run_files.pickled import NotReadable, read
from forensics.run import discover

DATA = Path(__file__).parents[1] / "data" / "run_files"
SNIFFERS = Sniffers(
    tensorboard=tensorboard.looks_like_events,
    flight_recorder=flight_recorder.looks_like_dump,
    metrics=metric_files.looks_like_metrics,
    error_file=error_files.looks_like_error_file,
    run_file=run_files.looks_like_run_file,
)


def fault(error: Exception) -> str:
    raise AssertionError from error


@pytest.fixture(scope="module")
def collected() -> run_files.Collected:
    return run_files.collect(discover([str(DATA)], SNIFFERS).sources, fault)


def values(collected: run_files.Collected, end: str) -> dict[str, str]:
    return {f.name: f.value for f in collected.facts if f.source.endswith(end)}


def test_every_file_is_read_without_a_problem(collected: run_files.Collected) -> None:
    assert set(collected.problems.values()) == {None}
    assert len(collected.problems) == 18


def test_facts_stand_where_they_say(collected: run_files.Collected) -> None:
    """The line that a fact names holds its value."""
    skipped = {"tokenizer.added_tokens.max_id", "adapter.target_modules", "gpu.count", "hydra.config.again"}
    for fact in collected.facts:
        if fact.line is not None and fact.name not in skipped:
            line = (DATA / fact.source).read_text().split("\n")[fact.line - 1]
            assert fact.value.lower() in line.lower(), fact


def test_trainer_state(collected: run_files.Collected) -> None:
    state = values(collected, "trainer_state.json")
    assert (state["trainer.global_step"], state["trainer.max_steps"]) == ("400", "1000")
    assert state["trainer.best_model_checkpoint"] == "out/checkpoint-200"
    assert not any("log_history" in name for name in state)


def test_model_tokenizer_adapter(collected: run_files.Collected) -> None:
    assert values(collected, "out/config.json")["model.rope_scaling.factor"] == "2.0"
    tokenizer = values(collected, "tokenizer_config.json")
    assert tokenizer["tokenizer.added_tokens.max_id"] == "32001"
    assert tokenizer["tokenizer.padding_side"] == "right"
    assert tokenizer["tokenizer.eos_token"] == "<|im_end|>"
    assert "tokenizer.chat_template" not in tokenizer
    adapter = values(collected, "adapter_config.json")
    assert adapter["adapter.modules_to_save"] == "null"
    assert adapter["adapter.target_modules"] == "q_proj, v_proj"


def test_the_noise_schedule_of_a_pipeline() -> None:
    text = '{"_class_name": "DDIMScheduler", "prediction_type": "epsilon", "num_train_timesteps": 1000}'
    read = run_files.read_text(text, "out/scheduler/scheduler_config.json")
    assert {i.path: i.value for i in read.items}["noise_schedule.prediction_type"] == "epsilon"
    assert run_files.read_text(text, "out/trainer_config.json").items[1].path == "config.prediction_type"


def test_frameworks(collected: run_files.Collected) -> None:
    assert values(collected, "ds_config.json")["deepspeed.zero_optimization.stage"] == "3"
    assert values(collected, "accelerate.yaml")["accelerate.num_processes"] == "16"
    assert values(collected, ".hydra/config.yaml")["hydra.config.trainer.precision"] == "16-mixed"
    assert values(collected, ".hydra/config.yaml")["hydra.config.again"] == "*opt"
    assert values(collected, ".hydra/hydra.yaml") == {
        "hydra.mode": "RUN",
        "hydra.job.name": "train",
        "hydra.job.num": "0",
    }
    assert values(collected, "train.toml")["config.parallelism.tensor_parallel_degree"] == "2"
    assert values(collected, "latest") == {"checkpoint.latest": "global_step600"}
    assert values(collected, "iteration.txt") == {"checkpoint.latest_checkpointed_iteration": "1200"}


def test_what_a_sample_is_to_be_diagnosed_as_is_no_setting() -> None:
    answer = "root_cause: cuda-oom\nverdict: failed\nworld_size: 8\nnotes: rank 2 dies\n"
    assert run_files.read_text(answer, "expected.yaml").items == ()
    assert run_files.read_text(answer, "train.yaml").items and run_files.read_text("lr: 0.1\n", "expected.yaml").items


def test_wandb(collected: run_files.Collected) -> None:
    config = values(collected, "files/config.yaml")
    assert config["wandb.config.bf16"] == "true"
    assert config["wandb.config.lora.target.1"] == "v_proj"
    assert config["wandb.cli_version"] == "0.16.6"
    assert values(collected, "wandb-metadata.json")["wandb.gpu_count"] == "8"
    assert values(collected, "requirements.txt")["torch.version"] == "2.2.2"
    assert values(collected, "debug.log") == {"wandb.version": "0.16.6"}
    assert values(collected, "debug-internal.log") == {}
    assert "wandb.summary.train/global_step" in values(collected, "wandb-summary.json")


def test_people_hosts_and_credentials_are_left_out(collected: run_files.Collected) -> None:
    for fact in collected.facts:
        assert not any(word in fact.value for word in ("example.com", "example-host", "<TOKEN>", "_KEY>", "192.0.2"))


def test_listings(collected: run_files.Collected) -> None:
    environment = values(collected, "collect_env.txt")
    assert environment["torch.version"] == "2.2.2+cu121"
    assert (environment["gpu.count"], environment["gpu.name"]) == ("2", "Tesla V100-SXM2-32GB")
    assert values(collected, "nvidia-smi.txt")["gpu.name"] == "NVIDIA A100-SXM4-80GB"
    assert values(collected, "nvidia-smi.txt")["driver.cuda"] == "12.2"
    assert values(collected, "pip_list.txt")["flash-attn.version"] == "2.5.8"
    assert values(collected, "conda_list.txt") == {"numpy.version": "1.26.4", "torch.version": "2.2.2"}
    assert values(collected, "env.txt")["env.OMP_NUM_THREADS"] == "1"
    log = values(collected, "megatron.log")
    assert log["megatron.world_size"] == "16"
    assert (log["nccl.version"], log["deepspeed.version"]) == ("2.19.3+cuda12.3", "0.14.2")


COLLECT_ENV = """\
PyTorch version: 2.9.1+cu130
CUDA used to build PyTorch: 13.0
{cudnn}
Is XPU available: False

Versions of relevant libraries:
[pip3] numpy==2.3.4
[pip3] nvidia-nccl-cu13==2.27.7
[pip3] flake8==7.0.0
[pip3] triton==3.5.1
[conda] torchvision               0.20.1          py310_cu126    pytorch
[conda] Could not collect
"""


@pytest.mark.parametrize(
    ("cudnn", "version"),
    [
        (
            "cuDNN version: Probably one of the following:\n/usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0\n"
            "/usr/lib/x86_64-linux-gnu/libcudnn_adv.so.9.14.0",
            "9.14.0",
        ),
        ("cuDNN version: /usr/local/cuda/lib64/libcudnn.so.7.6.5", "7.6.5"),
        (
            "cuDNN version: Probably one of the following:\n/usr/lib/libcudnn.so.8.9.2\n/opt/lib/libcudnn.so.9.1.0",
            None,  # either may be loaded
        ),
        ("cuDNN version: Could not collect", None),
    ],
)
def test_packages_and_cudnn_of_collect_env(cudnn: str, version: str | None) -> None:
    found = {i.path: i for i in run_files.read_head(COLLECT_ENV.format(cudnn=cudnn))}
    packages = {p.removesuffix(".version") for p in found} - {"torch.cuda", "cudnn"}
    assert packages == {"torch", "numpy", "nvidia-nccl-cu13", "triton", "torchvision"}
    assert found["nvidia-nccl-cu13.version"].value == "2.27.7" and found["torchvision.version"].value == "0.20.1"
    assert found["numpy.version"].line == COLLECT_ENV.format(cudnn=cudnn).split("\n").index("[pip3] numpy==2.3.4") + 1
    assert (found["cudnn.version"].value if "cudnn.version" in found else None) == version


def test_collect_env_of_rocm() -> None:
    text = (
        "PyTorch version: 2.7.0+rocm6.3\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.3.42131-fa1d09cbd\n"
        "GPU models and configuration: AMD Instinct MI300X (gfx942:sramecc+:xnack-)\ncuDNN version: Could not collect\n"
        "HIP runtime version: 6.3.42131\nMIOpen runtime version: 3.3.0\n"
    )
    assert {i.path: i.value for i in run_files.read_head(text)} == {
        "torch.version": "2.7.0+rocm6.3",
        "torch.rocm": "6.3.42131-fa1d09cbd",
        "gpu.name": "AMD Instinct MI300X",
        "hip.version": "6.3.42131",
        "miopen.version": "3.3.0",
    }
    cuda = "GPU models and configuration: \nGPU 0: NVIDIA B200\nHIP runtime version: N/A\n"
    assert {i.path: i.value for i in run_files.read_head(cuda)} == {"gpu.count": "1", "gpu.name": "NVIDIA B200"}


SMI = """\
| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |
|===============================+======================+======================|
|   4  {first:16}    On   | 00000000:8C:00.0 Off |                    0 |
| N/A   34C    P0    60W / 400W |      0MiB / 81920MiB |      0%      Default |
|   5  ERR!                On   | 00000000:91:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |
"""


def test_a_gpu_of_which_nothing_can_be_read_is_counted_and_told() -> None:
    found = {i.path: i for i in run_files.read_head(SMI.format(first="NVIDIA A100-SXM"))}
    assert (found["gpu.count"].value, found["gpu.name"].value) == ("2", "NVIDIA A100-SXM")
    assert (found["gpu.unreadable"].value, found["gpu.unreadable"].line) == ("5", 5)
    both = {i.path: i.value for i in run_files.read_head(SMI.format(first="ERR!"))}
    assert (both["gpu.count"], both["gpu.unreadable"]) == ("2", "4, 5") and "gpu.name" not in both
    # One cell that cannot be read is a sensor's matter.
    fan = SMI.format(first="NVIDIA A100-SXM").split("|   5")[0].replace("| N/A ", "|ERR! ")
    assert "gpu.unreadable" not in {i.path for i in run_files.read_head(fan)}


def test_package_lists_in_json() -> None:
    pip = '[{"name": "deepspeed", "version": "0.15.4"}, {"name": "six", "version": "1.16.0"}]'
    assert run_files.looks_like_run_file(pip.encode(), "pip.json")
    assert {i.path: i.value for i in run_files.read_text(pip, "env/pip.json").items} == {"deepspeed.version": "0.15.4"}
    conda = """[
  {
    "base_url": "https://conda.anaconda.org/conda-forge",
    "build_number": 0,
    "name": "python",
    "platform": "linux-64",
    "version": "3.10.14"
  }
]"""
    (python,) = run_files.read_text(conda, "conda.json").items
    assert (python.path, python.value, python.line) == ("python.version", "3.10.14", 5)
    for other in ('[{"name": "loss", "value": 0.5}]', '{"name": "torch", "version": "2.1"}', '[{"version": "2.1"}]'):
        assert not run_files.looks_like_run_file(other.encode(), "x.json")


def test_pip_freeze_in_a_log_needs_lines_that_stand_together() -> None:
    block = "a==1\nb==2\nnumpy==1.26.4\ntorch==2.2.2+cu121\nmine @ git+https://example.com/x\n"
    found = {i.path: i for i in run_files.read_head("start\n" + block + "step 1\n")}
    assert (found["torch.version"].value, found["torch.version"].line) == ("2.2.2+cu121", 5)
    assert run_files.read_head("assert torch==2\nnumpy==1.26.4\nloss==3\n") == ()


def test_banners_behind_local_rank_marks() -> None:
    text = "[default3]:PyTorch version: 2.3.0\n[rank3]:  Total optimization steps = 1,500\n"
    assert {i.path: i.value for i in run_files.read_head(text)} == {
        "torch.version": "2.3.0",
        "trainer.planned_steps": "1500",
    }


@pytest.mark.parametrize(
    ("name", "head", "is_one"),
    [
        ("config.json", b'{"model_type": "gpt2"}', True),
        ("config.json", b'{"server": "x"}', True),  # settings of a program that is not known
        ("events.json", b'{"kind": "Event"}', False),
        ("config_service.json", b'{"msg": "start"}\n{"msg": "CUDA error: an illegal memory access"}\n', False),
        ("config.yaml", b"lr: 1e-3\n", True),
        ("pod.yaml", b"apiVersion: v1\nkind: Pod\nstatus:\n  reason: OOMKilled\n", False),
        ("out.yaml", b"2026-01-02 03:04:05 ERROR worker died\nTraceback (most recent call last):\n", False),
        ("latest", b"global_step10\n", True),
        ("latest", b"RuntimeError: CUDA error\n", False),
        ("debug.log", b"2026-01-02 DEBUG my own program\n", False),
        ("debug.log", b"2026 INFO MainThread:1 [wandb_setup.py:_flush():76] Current SDK version is 0.17.0\n", True),
        ("train.log", b"lr: 1e-3\n", False),
        ("metrics.toml", b"x = 1\n", True),
    ],
)
def test_what_is_settings_and_what_is_a_log(name: str, head: bytes, is_one: bool) -> None:
    assert run_files.looks_like_run_file(head, name) is is_one


# ------------------------------------------------------------------------------------------------ training_args.bin


class IntervalStrategy(StrEnum):
    STEPS = "steps"


class DPOConfig:
    """A stand-in for trl's class, under its name."""


@pytest.fixture
def arguments() -> Iterator[bytes]:
    """A pickle as a Trainer writes it, of classes that cannot be imported where it is read."""
    names = {"trl.trainer.dpo_config": DPOConfig, "transformers.trainer_utils": IntervalStrategy}
    added = []
    for module, cls in names.items():
        cls.__module__ = module
        parts = module.split(".")
        for n in range(1, len(parts) + 1):
            added.append(".".join(parts[:n]))
            sys.modules[added[-1]] = types.ModuleType(added[-1])
        setattr(sys.modules[module], cls.__name__, cls)
    value = DPOConfig()
    vars(value).update(
        learning_rate=5e-5, fp16=True, save_strategy=IntervalStrategy.STEPS, hub_token="hf_none", report_to=["wandb"],
        fsdp_config={"min_num_params": 0}, max_steps=-1, label_names=None, logging_dir=PurePosixPath("/x/y"),
        tags={"a"}, seed=10**5000,
    )  # fmt: skip
    try:
        yield pickle.dumps(value, protocol=2)
    finally:
        for module in added:
            sys.modules.pop(module, None)


def torch_file(data: bytes, folder: Path, name: str = "training_args/data.pkl") -> Path:
    file = folder / "training_args.bin"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
        archive.writestr("training_args/version", "3\n")
    return file


def test_training_args(arguments: bytes, tmp_path: Path) -> None:
    found = training_args.read_file(torch_file(arguments, tmp_path))
    told = {i.path.removeprefix("training_args."): i.value for i in found.items}
    assert found.problem is None
    assert told["class"] == "trl.trainer.dpo_config.DPOConfig"
    assert (told["learning_rate"], told["fp16"], told["max_steps"]) == ("5e-05", "true", "-1")
    assert told["save_strategy"] == "steps"
    assert told["fsdp_config.min_num_params"] == "0"
    assert told["report_to"] == "wandb"
    assert "hub_token" not in told
    assert (told["logging_dir"], told["tags"], told["seed"]) == ("/x/y", "a", "a very large number")


class ByMember:
    """An enumeration as some releases of Python 3.11 pickle it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (Verdict, "HEALTHY"))


def test_an_enumeration_that_is_pickled_by_its_member() -> None:
    assert read(pickle.dumps(ByMember(), protocol=2)).text() == "healthy"


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit",))


def test_nothing_in_a_pickle_is_called(tmp_path: Path) -> None:
    found = training_args.read_file(torch_file(pickle.dumps({"x": Bomb()}), tmp_path))
    assert found.items == ()
    assert "builtins.exec" in str(read(pickle.dumps(Bomb())))


def test_damaged_training_args(arguments: bytes, tmp_path: Path) -> None:
    cut = training_args.read_file(torch_file(arguments[:-20], tmp_path))
    assert cut.items == () and cut.problem and "cut or damaged" in cut.problem
    file = torch_file(arguments, tmp_path)
    file.write_bytes(file.read_bytes()[:120])
    assert training_args.read_file(file).problem
    file.write_bytes(b"\x80\x02.")
    assert "before 1.6" in str(training_args.read_file(file).problem)


def test_attributes_that_are_given_again_and_again_are_bounded() -> None:
    table = b"".join(b"X\x04\x00\x00\x00%04dK\x01" % i for i in range(9000))
    with pytest.raises(NotReadable):
        read(b"\x80\x02c__builtin__\ndict\nq\x02}q\x01(" + table + b"u" + b"h\x02h\x01\x85R0" * 60000)  # without an end
    with pytest.raises(NotReadable):
        read(b"\x80\x02cx\nA\n)\x81q\x00}q\x01(" + table + b"u" + b"h\x00h\x01b0" * 60000 + b"h\x00.")


# -------------------------------------------------------------------------------------------------------- documents


def test_json_keeps_what_stands_before_its_end() -> None:
    document = documents.read_json('{"a": {"b": [1, null, {"c": "None"}]}, "d": NaN, "e": "x')
    assert [(i.path, i.value) for i in document.items] == [
        ("a.b.0", "1"),
        ("a.b.1", "null"),
        ("a.b.2.c", "None"),
        ("d", "NaN"),
    ]
    assert document.problem == "ends in the middle"


def test_yaml_scalars_have_one_spelling_and_aliases_are_not_followed() -> None:
    text = 'a: True\nb: ~\nc: "True"\nd: &x [1, 2]\ne: *x\n<<: {f: 3}\ng: !!python/object/apply:os.system ["true"]\n'
    found = {i.path: i.value for i in documents.read_yaml(text).items}
    assert (found["a"], found["b"], found["c"], found["e"]) == ("true", "null", "True", "*x")
    assert found["g.0"] == "true"


@pytest.mark.parametrize(
    "document",
    [
        lambda: documents.read_json("[" * 1_000_000),
        lambda: documents.read_yaml("[" * 1_000_000),
        lambda: documents.read_yaml("{a: " * 100_000),
        lambda: documents.read_yaml("- " * 200_000),
        lambda: documents.read_toml("a" + ".a" * 30_000 + " = 1"),
        lambda: documents.read_toml("a = " + "[" * 30_000),
    ],
)
def test_depth_is_bounded(document: Any) -> None:
    found = document()
    assert found.problem and not found.items


def test_shared_containers_are_not_multiplied_out() -> None:
    value: Any = ["x"]
    for _ in range(28):
        value = [value, value]
    assert documents.walk(value).problem


def test_names_that_hold_credentials() -> None:
    private = "api_key WANDB_API_KEY hub_token password aws_secret_access_key email token user webhook_url".split()
    plain = "pad_token_id tokenizer max_new_tokens eos_token num_key_value_heads added_tokens tokens_per_batch".split()
    assert all(map(is_private, private)) and not any(map(is_private, plain))


def test_limits_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "FILES", 2)
    sources = []
    for n in range(4):
        file = tmp_path / f"{n}.yaml"
        file.write_text("lr: 1\n")
        sources.append(Source(file.name, file, Kind.CONFIG, 6))
    found = run_files.collect(sources, fault)
    assert found.facts == (Fact("config.lr", "1", "0.yaml", 1), Fact("config.lr", "1", "1.yaml", 1))
    assert [bool(p) for p in found.problems.values()] == [False, False, True, True]


def test_a_file_that_vanished_costs_its_own_row_only(tmp_path: Path) -> None:
    found = run_files.collect([Source("a.yaml", tmp_path / "a.yaml", Kind.CONFIG, 6)], fault)
    assert found.facts == () and found.problems["a.yaml"]


def test_only_what_is_needed_is_imported() -> None:
    import subprocess

    code = "import sys, forensics.parsers.run_files as r; r.read_head('step 1'); print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_stream_of_a_pickle_that_holds_itself() -> None:
    buffer = io.BytesIO()
    own: list[Any] = []
    own.append(own)
    pickle.dump({"a": own, "b": 1}, buffer)
    assert documents.walk(read(buffer.getvalue())).problem


def test_versions_that_a_program_prints() -> None:
    text = (
        "torch version: 2.4.0\ntransformers==4.44.0\nminimum numpy version: 1.2.3\n"
        "10:00 INFO x\n2026-01-01 INFO accelerate==0.33.0\npeft.__version__ = '0.12.0'\n"
    )
    assert {i.path: i.value for i in run_files.read_head(text)} == {
        "torch.version": "2.4.0",
        "transformers.version": "4.44.0",
        "accelerate.version": "0.33.0",
        "peft.version": "0.12.0",
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "INFO environ({'NCCL_P2P_DISABLE': '1', 'HOME': '/x', 'HF_TOKEN': 'abc', \"OMP_NUM_THREADS\": \"8\"})",
            {"env.NCCL_P2P_DISABLE": "1", "env.OMP_NUM_THREADS": "8"},
        ),
        ("environ({'NCCL_DEBUG': 'INFO', 'NCCL_ALGO': 'Ri", {"env.NCCL_DEBUG": "INFO"}),  # cut
        (
            "{'CUDA_VISIBLE_DEVICES': '0,1',\n 'NCCL_ALGO': ''}",
            {"env.CUDA_VISIBLE_DEVICES": "0,1", "env.NCCL_ALGO": ""},
        ),
        ('{\n  "WORLD_SIZE": "8",\n  "MASTER_ADDR": "node-0"\n}', {"env.WORLD_SIZE": "8"}),
        ("environ({'HOME': '/x'})\nset {'NCCL_P2P_DISABLE': '1'} to go on", {}),
        ("try environ['NCCL_P2P_DISABLE'] = '1' or \"NCCL_DEBUG\": \"INFO\" in your config", {}),
    ],
)
def test_the_environment_as_python_prints_it(text: str, found: dict[str, str]) -> None:
    assert {i.path: i.value for i in run_files.read_head(text)} == found


def test_the_device_of_which_lightning_speaks() -> None:
    tip = "You are using a CUDA device ('NVIDIA L40S') that has Tensor Cores. To properly utilize them, you should set"
    assert [(i.path, i.value) for i in run_files.read_head(tip)] == [("gpu.name", "NVIDIA L40S")]


def test_arguments_that_a_program_prints() -> None:
    text = (
        "x\nINFO Namespace(lr=0.0003, path=PosixPath('/x, y'), betas=(0.9, 0.95), name='it\\'s)', f=<f at 0x1, b>,"
        " none=None, wandb_api_key='abc', model={'dim': 3, 'password': 'x', 'deep': {'a': [1, 2]}},"
        " kept=[{'token': 'x'}], last=True)\n"
        "args = Namespace(momentum=momentum)\n"
        "args: {'dropout': 0.1, 'cut': 'abc"
    )
    found = {i.path: (i.value, i.line) for i in run_files.read_head(text)}
    assert found == {
        "arguments.lr": ("0.0003", 2),
        "arguments.path": ("PosixPath('/x, y')", 2),
        "arguments.betas": ("(0.9, 0.95)", 2),
        "arguments.name": ("it\\'s)", 2),
        "arguments.f": ("<f at 0x1, b>", 2),
        "arguments.none": ("None", 2),
        "arguments.model.dim": ("3", 2),
        "arguments.model.deep.a": ("[1, 2]", 2),
        "arguments.last": ("True", 2),
        "arguments.dropout": ("0.1", 4),
    }


def test_settings_that_torchtune_prints() -> None:
    text = (
        "INFO:torchtune.utils._logging:Running FullFinetuneRecipeSingleDevice with resolved config:\n\n"
        "batch_size: 4\ncheckpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n"
        "  checkpoint_files:\n  - a.safetensors\noptimizer:\n  lr: 2.0e-05\nhf_token: abc\n\n"
        "2026-11-27 02:00:02,511 | INFO | model | device: cuda:0\nseed: 9\n"
    )
    found = {i.path: (i.value, i.line) for i in run_files.read_head(text) if i.path.startswith("arguments.")}
    assert found["arguments.batch_size"] == ("4", 3) and found["arguments.optimizer.lr"] == ("2.0e-05", 9)
    assert not {"arguments.hf_token", "arguments.seed"} & found.keys()
    assert run_files.read_head("with resolved config:\n\nbatch_size: 4\n") == ()


@pytest.mark.parametrize(
    "piece", ["\\'", "a=1, ", "Namespace(", "{'a': ", "<", "'\"", " version", "INFO ", "environ({", "'NCCL_A': '"]
)
def test_hostile_prints_take_no_time(piece: str) -> None:
    start = time.perf_counter()
    run_files.read_head(f"Namespace(a='{piece * (60_000 // len(piece))}")
    run_files.read_head(f"Namespace({piece * (60_000 // len(piece))}")
    assert time.perf_counter() - start < 2
