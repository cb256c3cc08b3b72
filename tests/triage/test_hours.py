"""GPU-hours, nodes and GPUs of rows: what files of real layouts say, and what they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.engine.identity import know_world
from forensics.engine.pipeline import analyse_with_data
from forensics.model import Identity, Writer
from forensics.triage.batch import Options, triage
from forensics.triage.hosts import joined, one_name
from forensics.triage.hours import between_attempts, gpu_hours
from forensics.triage.model import Batch, Device, JobResult
from forensics.triage.pool import Limits
from forensics.triage.redacted import redacted
from forensics.triage.result import node_of
from forensics.triage.show import csv_text, payload
from tests.triage.rows import fault, row
from tests.triage.test_batch import here

STEPS = "".join(f"2026-11-20 {h:02d}:00:00,000 INFO train.py:9 step {h} loss {2.0 / h:.3f}\n" for h in (1, 2, 3))
FAILED = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nKeyError: 'x'\n"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def batch_of(tmp_path: Path, files: dict[str, str]) -> Batch:
    for name, text in files.items():
        (tmp_path / "jobs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "jobs" / name).write_text(text)
    return triage([str(tmp_path / "jobs")], Options(store=tmp_path / "s", engine=here, limits=Limits()))


def only(tmp_path: Path, files: dict[str, str]) -> JobResult:
    (found,) = batch_of(tmp_path, {f"a/{name}": text for name, text in files.items()}).results
    return found


SUBMITIT = (
    "submitit INFO (2026-11-20 01:00:00,121) - Starting with JobEnvironment(job_id=7_1, hostname=gpu-1, "
    "local_rank=0({0}), node=0(1), global_rank=0({0}))\n"
)
LAUNCH = "  nproc_per_node   : 8\n  max_nodes        : 1\n"


@pytest.mark.parametrize(
    ("head", "hours"),
    [
        ("Using device: cuda:0\n", 2.0),
        ("Using cuda device\n", 2.0),
        ("GPU available: True (cuda), used: True\n", 2.0),
        ("args: Namespace(device='cuda', lr=0.1)\n", 2.0),
        ("CUDA_VISIBLE_DEVICES=3\nRANK_X=1\n", 2.0),
        (SUBMITIT.format(1), 2.0),
        (SUBMITIT.format(4), 8.0),
        ("2026-11-20 01:00:00,001 INFO world_size=1 device=cuda:0\n", 2.0),
        ("", None),
        ("Using device: cpu\n", None),
        ("GPU available: True (cuda), used: False\n", None),
        ("CUDA_VISIBLE_DEVICES=\nMASTER_ADDR=x\n", None),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3\n", None),
        (f"Using device: cuda:0\n{LAUNCH}", None),
        ("Using device: cuda:0\nNCCL version 2.21.5+cuda12.4\n", None),
    ],
)
def test_one_process_with_a_gpu_is_one(tmp_path: Path, head: str, hours: float | None) -> None:
    assert only(tmp_path, {"train.log": head + STEPS + FAILED}).gpu_hours == hours


def test_what_only_a_gpu_fails_of_shows_one(tmp_path: Path) -> None:
    assert only(tmp_path, {"train.log": STEPS + ECC}).gpu_hours == 2.0


def test_no_gpu_to_use_is_none(tmp_path: Path) -> None:
    said = "RuntimeError: No CUDA GPUs are available\n"
    assert only(tmp_path, {"train.log": "device='cuda'\n" + STEPS + said}).gpu_hours is None


def test_a_time_of_something_else_gives_no_hours() -> None:
    assert gpu_hours(1, "2024-04-15T09:52:04", "2026-11-20T10:59:43") is None
    assert gpu_hours(2, "2026-11-20T10:00:00", "2026-11-20T11:30:00") == 3.0
    assert gpu_hours(2, "2026-11-20T11:30:00", "2026-11-20T10:00:00") is None


def trial(**changes: object) -> str:
    rows = [
        {"training_iteration": n, "loss": 2.0 / n, "timestamp": 1763633000 + 3600 * n, "time_total_s": 3600.0 * n,
         "hostname": "gpu-04", "node_ip": "10.0.0.4"} | changes
        for n in (1, 2)
    ]  # fmt: skip
    return "".join(json.dumps(r) + "\n" for r in rows)


def test_ray_says_where_and_how_long(tmp_path: Path) -> None:
    params = json.dumps({"lr": 0.1, "device": "cuda"})
    (found,) = batch_of(
        tmp_path,
        {"tuner.pkl": "x", "experiment_state-1.json": "{}", "t_0/params.json": params, "t_0/result.json": trial()},
    ).results
    assert (found.gpu_hours, found.nodes) == (2.0, ("gpu-04",))
    assert (found.started, found.ended) == ("2025-11-20T10:03:20.000Z", "2025-11-20T12:03:20.000Z")


def test_a_result_of_something_else_says_nothing(tmp_path: Path) -> None:
    result = trial().replace("training_iteration", "step")
    assert only(tmp_path, {"train.log": STEPS, "result.json": result}).nodes == ()
    strange = trial(hostname="no host at all", node_ip="", timestamp=3, time_total_s="x")
    found = only(tmp_path / "b", {"train.log": STEPS, "result.json": strange})
    assert found.nodes == () and found.ended == "2026-11-20T03:00:00.000"


def wandb(host: str) -> dict[str, str]:
    run = "wandb/offline-run-20261120_100031-aaaaaaaa"
    meta = json.dumps({"host": host, "gpu": "NVIDIA A100", "docker": "nvcr.io/nvidia/pytorch:24.05-py3"})
    return {f"{run}/files/output.log": STEPS + ECC, f"{run}/files/wandb-metadata.json": meta}


def test_the_host_of_a_tracker_is_the_node_and_no_fact(tmp_path: Path) -> None:
    found = batch_of(tmp_path, wandb("dgx-17"))
    (job,) = found.results
    assert (job.node, job.nodes, job.labels["image"]) == ("dgx-17", ("dgx-17",), "nvcr.io/nvidia/pytorch:24.05-py3")
    assert "dgx-17" in payload(found)
    hidden = redacted(found)
    assert "dgx-17" not in payload(hidden) + csv_text(hidden)
    assert len(hidden.results[0].nodes) == 1 and hidden.results[0].node == hidden.results[0].nodes[0]
    store = (tmp_path / "s").read_bytes()
    assert b"host" not in store or b'"wandb.host"' not in store


def test_a_node_is_filled_in_for_causes_of_a_machine_only(tmp_path: Path) -> None:
    head = "Running on gpu-03\n"
    assert only(tmp_path, {"train.log": head + STEPS + ECC}).node == "gpu-03"
    assert node_of("gpu-ecc-uncorrectable", None, ("gpu-03",)) == "gpu-03"
    assert node_of("gpu-ecc-uncorrectable", None, ("gpu-03", "gpu-04")) is None
    assert node_of("python-exception", None, ("gpu-03",)) is None


def test_a_host_has_one_name() -> None:
    assert one_name(["dgx17", "dgx17.hpc.uni.example", "dgx18.hpc.uni.example"]) == {"dgx17.hpc.uni.example": "dgx17"}
    assert one_name(["n1", "n1.a.example", "n1.b.example"]) == {}  # two hosts of two clusters
    assert one_name(["10.0.0.4", "10.0.0.5", "10"]) == {}


def test_rows_of_one_host_are_joined() -> None:
    long = fault(1, "node-failure", "n7.a.example", 1, devices=(Device(node="n7.a.example", bus_id="0000:07:00"),))
    short, other = fault(2, "node-failure", "n7", 2), row(3, nodes=("n8.a.example",))
    first, second, third = joined([long, short, other])
    assert (first.node, first.nodes, first.signs[0].node, first.devices[0].node) == ("n7", ("n7",), "n7", "n7")
    assert second is short and third is other


SMI = """\
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:4B:00.0 Off |                    0 |
"""
XID = "[12.1] NVRM: GPU at PCI:0000:5e:00: GPU-1b2c3d4e-0001-0002-0003-000000000004\n"


def test_gpus_that_nvidia_smi_lists_count(tmp_path: Path) -> None:
    found = only(tmp_path, {"train.log": SMI + STEPS + ECC})
    assert [(d.bus_id, d.listed) for d in found.devices] == [("0000:4b:00", True)]


def test_a_card_that_the_kernel_names_is_not_listed(tmp_path: Path) -> None:
    """Its line stands before the card's first error, so that jobs without one would have no such card."""
    found = only(tmp_path, {"train.log": STEPS + ECC, "dmesg.log": XID})
    assert [(d.bus_id, d.listed) for d in found.devices] == [("0000:5e:00", False)]


HF_BATCH = (
    "Using device: cuda:0\n  Instantaneous batch size per device = 4\n"
    "  Total train batch size (w. parallel, distributed & accumulation) = 64\n  Gradient Accumulation steps = {0}\n"
)


@pytest.mark.parametrize(
    ("head", "size", "hours"),
    [
        ("Distributed environment: FSDP  Backend: nccl\nNum processes: 16\nProcess index: 0\n", 16, 32.0),
        ("[11/20 01:00:00 detectron2]: Rank of current process: 0. World size: 8\n", 8, 16.0),
        ("    Distributed launcher: pytorch\n    Distributed training: True\n    GPU number: 8\n", 8, 16.0),
        ("2026-11-20 01:00:00 | INFO | fairseq_cli.train | training on 8 devices (GPUs/TPUs)\n", 8, 16.0),
        ("[2026-11-20 01:00:00,000] [INFO] [config.py:1001:print]   world_size ................... 8\n", 8, 16.0),
        ("INFO:torchtune.utils._logging:World size: 4\n", 4, 8.0),
        (HF_BATCH.format(2), None, 16.0),
        (HF_BATCH.format(16), None, 2.0),
        (f"args: Namespace(tensor_parallel_size=2, lr=0.1)\n{HF_BATCH.format(2)}", None, None),
        (
            "Process rank: 0, device: cuda:0, n_gpu: 1, distributed training: True, 16-bits training: False\n",
            None,
            None,
        ),
        ("Process rank: 0, device: cuda:0, n_gpu: 1, distributed training: False\n", None, 2.0),
        ("[rank0]: Using device: cuda:0\n", None, None),
        ("[rank0]: Using device: cuda:0\n[rank1]: Using device: cuda:1\n", 2, 4.0),
    ],
)
def test_how_many_processes_a_framework_says_there_are(
    tmp_path: Path, head: str, size: int | None, hours: float | None
) -> None:
    found = only(tmp_path, {"train.log": f"{head}{STEPS}{FAILED}"})
    assert (found.world_size, found.gpu_hours) == (size, hours)


def test_the_days_between_attempts_do_not_count(tmp_path: Path) -> None:
    later = STEPS.replace("2026-11-20", "2026-11-22")
    head = "world_size=1 device=cuda:0\n"
    files = {"attempt_0/stdout.log": head + STEPS, "attempt_1/stdout.log": head + later + FAILED}
    assert only(tmp_path, files).gpu_hours == 4.0


def test_the_queue_between_requeued_runs_of_one_log_does_not_count(tmp_path: Path) -> None:
    head = "2026-11-20 {0}:00:00,000 INFO train: rank 0 of world_size 1\n"
    steps = "".join(f"2026-11-20 {{0}}:{m:02d}:00,000 INFO train: step {{1}}{m} loss 1.{m}\n" for m in (10, 20, 30, 40))
    end = "slurmstepd: error: *** JOB 9120 ON gpu-001 CANCELLED AT 2026-11-20T{0}:50:00 DUE TO PREEMPTION ***\n"
    first = head.format("09") + steps.format("09", 1) + end.format("09")
    resumed = "2026-11-20 15:00:01,000 INFO train: resumed from checkpoint at step 140\n"
    text = first + head.format("15") + resumed + steps.format("15", 2) + "2026-11-20 15:50:00,000 Training finished\n"
    found = only(tmp_path, {"train.log": "device=cuda:0\n" + text})
    assert found.attempts == 2
    assert found.gpu_hours == pytest.approx(1.6, abs=0.1)


def test_the_queue_between_jobs_of_one_run_does_not_count(tmp_path: Path) -> None:
    head = "world_size=1 device=cuda:0\n"
    later = STEPS.replace("2026-11-20", "2026-11-22")
    files = {"config.yaml": "lr: 1\n", "slurm-7700.out": head + STEPS, "slurm-7713.out": head + later}
    assert only(tmp_path, files).gpu_hours == 4.0
    monitor = "".join(f"2026-11-2{d} 00:00:00,000 INFO monitor: temperature 40\n" for d in (0, 1, 2, 3))
    assert only(tmp_path / "b", {**files, "monitor.log": monitor}).gpu_hours > 40.0


def test_pods_of_one_attempt_are_more_than_one_process(tmp_path: Path) -> None:
    text = "".join(f"[pod/llm-a-worker-{n}/pytorch] {line}\n" for line in STEPS.splitlines() for n in range(3))
    lost = "".join(f"[pod/llm-a-worker-{n}/pytorch] {line}\n" for line in (ECC + FAILED).splitlines() for n in (1, 2))
    assert only(tmp_path, {"all.log": "Using device: cuda:0\n" + text + lost}).gpu_hours is None


def test_a_log_that_goes_on_between_attempts_counts(tmp_path: Path) -> None:
    def writer(source: str, attempt: int | None, first: float, last: float) -> Writer:
        identity = Identity(attempt=attempt)
        return Writer(source=source, identity=identity, first_time=first, last_time=last, last_line="", bytes=1)

    apart = [writer("a", 0, 0.0, 10.0), writer("b", 1, 90.0, 100.0)]
    assert between_attempts(apart) == 80.0
    assert between_attempts([*apart, writer("slurm.out", None, 5.0, 60.0)]) == 30.0
    assert between_attempts([writer("a", None, 0.0, 10.0), writer("b", None, 90.0, 100.0)]) == 0.0


def test_where_a_job_runs_is_no_second_host_to_the_name_of_its_folder(tmp_path: Path) -> None:
    log = tmp_path / "node-0" / "train.log"
    log.parent.mkdir()
    log.write_text(f"NODE_NAME=cn-04\n{STEPS}")
    found = analyse_with_data([str(tmp_path)])
    assert {o.identity.node for o in found.data.observations if o.signature == "runs-on-host"} == {"cn-04"}
    assert know_world(found.data).one_host
    (log.parent.parent / "other.log").write_text(f"NODE_NAME=cn-05\n{STEPS}")
    assert not know_world(analyse_with_data([str(tmp_path)]).data).one_host
