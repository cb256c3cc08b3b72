"""Hosts that one line mentions: where they were not reached, copied from, asked about, listed; and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.model import Kind, Source
from forensics.report.redaction import Redactor, told_by

ANY_NAME = [
    "Host {} rank 3 failed",
    "<{}> [rank3]: lost",
    "host={} rank=3 level=error msg=died",
    "Mar  3 10:00:00 {} python[441]: step 3",
    "host: {} | rank: 3",
    "scontrol: node {} state=DOWN",
    "scontrol update NodeName={} State=RESUME",
    "sbatch: Submitted batch job 4411 on cluster {}",
    "Connecting to master {}:29500",
    "Connecting to the head node {}:6379",
    "Could not connect to {}",
    'up{{instance="{}:9100",job="node"}} 0',
    "ts=1 instance={}:9100 job=dcgm",
    "scp: {}:/data/x.tar: No such file",
    "rsync error: connection to {}:/data lost",
    "copying logs to {}:/export/logs",
    "Stale file handle: {}:/export/logs",
    "Running with gitlab-runner 16.11.0 (91a27b2a) on {} DNxril3R",
    "  on {} DNxril3R, system ID: s_0ae2a1c5ed55",
    "{}.12345hfp_gen1_context_open: assign_context command failed",
]
NUMBERED = [
    "Worker on {} died",
    "{}: torch.OutOfMemoryError: CUDA out of memory",
    "{}: Traceback (most recent call last):",
    "unable to reach {}.",
    "Worker 3 on {} started",
    "process 3 is running on {}, gpu 0",
    "nvidia-smi on {}: No devices were found",
    "dmesg -T on {}:",
    "sending the state to {}:/data",
]
STAYS = [
    "node local rank 0",
    "host memory rank 3",
    "step3: ValueError: x",
    "layer1: torch.OutOfMemoryError: x",
    "Worker on stage1 died",
    "Could not connect to redis",
    "Could not connect to server",
    "Cannot connect to wandb.",
    "Unable to reach internet",
    "Failed to reach consensus",
    "could not connect to Kubernetes",
    "Connecting to master process",
    "Worker 3 on step 4",
    "Task 3 on fold2",
    "GPU 3 on cuda0",
    "docker run -v cache3:/data --volume hub1:/export/x img",
    "  - pgdata3:/export/x",
    "saved to output:/export/x",
    "python:/opt/x model:/srv/x file:/export/x dbfs:/mnt/data",
    "C:/data D:/export",
    "instance: g5.xlarge",
    "step 3 on runs ABCDEFGH, system",
    "Nodes: conv1 relu2 add3",
]


@pytest.mark.parametrize("name", ["cn041", "vexlark"])
@pytest.mark.parametrize("line", ANY_NAME)
def test_any_name_goes(line: str, name: str) -> None:
    assert Redactor().redact(line.format(name)) == line.format("host-1")


@pytest.mark.parametrize("line", NUMBERED)
def test_a_name_with_a_number_goes(line: str) -> None:
    assert Redactor().redact(line.format("cn041")) == line.format("host-1")
    assert Redactor().redact(line.format("vexlark")) == line.format("vexlark")


@pytest.mark.parametrize("line", STAYS)
def test_services_volumes_and_counts_stay(line: str) -> None:
    assert Redactor().redact(line) == line


def test_before_an_export_a_host_may_be_called_like_a_library() -> None:
    assert Redactor().redact("logs are on hydra:/export/logs") == "logs are on host-1:/export/logs"
    assert Redactor().redact("hydra: /export/logs, see hydra.run.dir") == "hydra: /export/logs, see hydra.run.dir"


def test_all_hosts_of_a_row_go_also_where_they_are_not_alike() -> None:
    assert Redactor().redact("Nodes: cn041 vexlark orrin3") == "Nodes: host-1 host-2 host-3"
    assert Redactor().redact("Nodes: cn041 is down again") == "Nodes: host-1 is down again"


@pytest.mark.parametrize("label", ["Host list:", "PBS_NODEFILE contents:", "Allocated nodes:", "hosts"])
def test_hosts_below_a_label_are_learnt_a_line_each(label: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(f"{label}\ncn041\ncn041\nvexlark\nstep 1 loss 2.0\nambrick\n")
    source = Source("job.log", tmp_path / "job.log", Kind.LOG, (tmp_path / "job.log").stat().st_size)
    redactor = Redactor()
    redactor.learn(told_by([source]))
    hidden = redactor.redact("to cn041, vexlark and ambrick")
    assert hidden in ("to host-1, host-2 and ambrick", "to host-2, host-1 and ambrick")


@pytest.mark.parametrize("below", ["vexlark\nambrick\n", "step 1\ncn041\n", "conv1\nrelu2\n"])
def test_words_alone_or_other_lines_below_a_label_are_not(below: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(f"Node list:\n{below}")
    source = Source("job.log", tmp_path / "job.log", Kind.LOG, (tmp_path / "job.log").stat().st_size)
    redactor = Redactor()
    redactor.learn(told_by([source]))
    for word in below.split():
        assert redactor.redact(f"a {word} b") == f"a {word} b"
