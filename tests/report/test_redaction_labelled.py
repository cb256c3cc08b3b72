"""Hosts behind the labels that people write, in sentences and beside ranks, and words there that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse_with_data
from forensics.report import markdown
from forensics.report.redaction import Redactor, redact_diagnosis, told

GOES = [
    # labels
    "Host: {}, GPUs: 8",
    "Node: {} | rank 0",
    "Master node: {}",
    "MASTER: {}",
    "MASTER={}",
    "Master address: {}",
    "master_node={}",
    "Head node: {}",
    "Node name: {}, GPUs: 8",
    "hostname is {}",
    "host={} rank=3",
    "[host={}]",
    "Submitted from {}",
    "Submitted from host {}",
    "submit host: {}",
    "Running on node {}",
]
NUMBERED = [
    # where the name must look like one
    "Machine: {}",
    "Server: {}",
    "Node 0: {}",
    "node_rank 0 host {}",
    "Running on {} with 8 GPUs",
    "Job started on {} at Mon",
    "Hello from {}",
    "This is node {}",
    "I am {}, rank 3",
    "rank 3 of 8 on {}",
    "rank 3 ({})",
    # columns
    "2025-01-01 00:00:01,123 {} rank3 INFO step 1",
    "2025-01-01 00:00:01,123 INFO {} rank3 step 1",
    "[2025-01-01 00:00:01,123][{}][rank 3][INFO] step 1",
    "2025-01-01 00:00:01,123 - {} - rank 3 - INFO - step 1",
    "2025-01-01T00:00:01Z {} 3 INFO step 1",
    "2025-01-01 00:00:01,123 [{}:4242] step 1",
    "{}|rank3| loss 2.1",
    "[rank3@{}] loss 2.1",
    "(rank 3, {}) loss 2.1",
]
STAYS = [
    "Host: localhost",
    "Host: CPU, Device: GPU",
    "Node: 0, GPUs: 8",
    "Node: AddBackward0",
    "Node: aten.add",
    "Node: conv1, rank 3",
    "node=add rank=2",
    "Node: v18.2.0",
    "current node: getitem-3",
    "this node is chosen at random",
    "Server: uvicorn",
    "master: true",
    "host: str, port: int",
    "offload of states on host memory",
    "Running on H100",
    "Running on p4d.24xlarge",
    "Training on cifar10",
    "Restarted from ckpt1000",
    "rank 3 on cuda3",
    "[rank3] model.layers.3: nan",
    "[default1]:[rank1]: Traceback (most recent call last):",
    "comm 0x55f0a010 rank 1 nranks 8",
    "lora3 rank 16",
    "2025-01-01 00:00:01,123 urllib3 INFO retry",
    "machine: x86_64",
]


@pytest.mark.parametrize("line", [*GOES, *NUMBERED])
def test_a_label_a_sentence_and_a_column_tell_a_host(line: str) -> None:
    assert Redactor().redact(line.format("rack3n01")) == line.format("host-1")


@pytest.mark.parametrize("line", GOES)
def test_behind_a_label_any_word_is_a_host(line: str) -> None:
    assert Redactor().redact(line.format("tiger")) == line.format("host-1")


@pytest.mark.parametrize("line", STAYS)
def test_states_devices_and_parts_of_models_stay(line: str) -> None:
    assert Redactor().redact(line) == line


def test_what_is_read_as_a_host_is_hidden_wherever_it_stands(tmp_path: Path) -> None:
    lines = [f"zeta{n}n7: step {step} loss 2.{step}" for step in range(5) for n in range(4)]
    (tmp_path / "train.log").write_text(
        "\n".join([*lines, "zeta1n7: RuntimeError: cannot write /local/zeta1n7/ckpt, nor zeta0n7/ckpt", ""])
    )
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    report = markdown.render(redact_diagnosis(found.diagnosis, told=told(found.data)))
    assert "cannot write" in report
    assert "zeta" not in report


@pytest.mark.parametrize("line", ["Running on rack3n01", "Master: rack3n01", "rank 3 of 8 on rack3n01"])
def test_lines_of_that_kind_are_learnt_from(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{line}\nstep 1 loss 2\nValueError: no file below ckpt_rack3n01\n")
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    assert line in told(found.data)


@pytest.mark.parametrize(
    "line",
    [
        "GPU 3 on {} fell off the bus",
        "heartbeat lost from {}",
        "Waiting for {} to join",
        "MPI rank 3 process 17 on {}: Killed",
        "[{}/gpu3] temp 90",
        "[{}] GPU 3 ECC",
        "Starting WORKER 1 at {}",
    ],
)
@pytest.mark.parametrize("name", ["rack3n01", "gpu-a017", "x1000c0s0b0n0"])
def test_names_that_only_hosts_have_go_where_monitors_speak(line: str, name: str) -> None:
    assert Redactor().redact(line.format(name)) == line.format("host-1")


@pytest.mark.parametrize(
    "line",
    [
        "GPU 3 stuck on step001",
        "process died at epoch_01",
        "connection from worker01",
        "exit code from rank01",
        "GPU memory of img0001",
        "process 3 at math500",
        "quantised to w4a16 on GPU 3",
        "node 3 of e4m3",
    ],
)
def test_what_is_counted_stays_where_monitors_speak(line: str) -> None:
    assert Redactor().redact(line) == line


@pytest.mark.parametrize(
    "name",
    ["Ingrids-MacBook-Pro", "Ingrids-MacBook-Pro-2", "MacBook-Pro-von-Ingrid", "DESKTOP-4Q2Z7AB", "WIN-0A1B2C3D4E5"],
)
def test_machines_of_persons_go_anywhere(name: str) -> None:
    assert Redactor().redact(f"x {name} y /logs/{name}/z") == "x host-1 y /logs/host-1/z"


@pytest.mark.parametrize("text", ["MacBook-Pro", "DESKTOP-SESSION", "WIN-WIN", "Apple-MacBook-Pro"])
def test_kinds_of_machines_stay(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize(
    "said",
    [
        "Failed on model-00001-of-00004.safetensors",
        "Crashed on data-00012.tar",
        "Failed on train-00001-of-00002",
        "error reading from pile-00012.parquet",
        "Encountered on video01.mp4",
        "running on NVIDIA-A100-SXM4-80GB",
        "Running on AMD-EPYC-7763",
        "Running on Gaudi2",
    ],
)
def test_a_file_of_data_or_a_processor_is_no_host(said: str) -> None:
    assert Redactor().redact(said) == said
