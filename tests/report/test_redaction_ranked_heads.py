"""Hosts beside the number of a process at the heads of lines, and what stands there that is none."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse_with_data
from forensics.report import jsonreport
from forensics.report.redaction import Redactor, redact_diagnosis, told
from forensics.report.redaction.ranked_heads import named_in_heads

BESIDE_RANKS = [
    "[rank2@{}] step 1",
    "2026-03-03 10:00:00,100 {} rank2 INFO step 1",
    "2026-03-03 10:00:00,100 {} rank2 step 1",
    "[2026-03-03 10:00:00] [{}] [rank 2] step 1",
    "2026-03-03 10:00:00,100 - {} - rank2 - INFO - step 1",
    "03/03 10:00:00 - {} - rank 2 - mmengine - INFO - step 1",
    "2026-03-03 10:00:00.100 | INFO     | {} | rank=2 | step 1",
    "2026-03-03 10:00:00 (rank 2 @ {}) step 1",
    "INFO:{}:rank2:step 1",
    "rank 2 ({}): step 1",
    "{}:rank2: step 1",
    "{} rank 2: CUDA error",
]
BESIDE_NUMBERS = ["[{}/2] step 1", "[{},2] step 1", "{}:2: step 1", "2: {}: step 1", "[2@{}] step 1"]
STAYS = [
    "[2026-03-03 10:00:00] [Trainer] [rank 2] step 1",
    "[train][rank 2] step 1",
    "[vextool] rank 2: no step for 5 s",
    "[vextool][rank 2] no step for 5 s",
    "2026-03-03 10:00:00,100 INFO rank2 step 1",
    "2026-03-03 10:00:00,100 - trainer - rank2 - INFO - step 1",
    "ValueError: rank 2 is out of range",
    "Expected tensor of rank 2: got 3",
    "model: Tucker rank 3 with 8 factors",
    "[epoch/2] loss 3.0",
    "[shard-03/12] read",
    "train.py:88: UserWarning: x",
    "2: loss: 3.0",
    "loss:2: 3.0",
    "server: 3 requests",
]


@pytest.mark.parametrize("form", BESIDE_RANKS)
@pytest.mark.parametrize("name", ["vexlark", "cn-a03"])
def test_a_host_beside_a_rank_goes(form: str, name: str) -> None:
    assert Redactor().redact(form.format(name)) == form.format("host-1")


@pytest.mark.parametrize("form", BESIDE_NUMBERS)
def test_a_name_as_only_hosts_have_goes_beside_a_number(form: str) -> None:
    assert Redactor().redact(form.format("cn-a03")) == form.format("host-1")
    assert Redactor().redact(form.format("vexlark")) == form.format("vexlark")


@pytest.mark.parametrize("form", [*BESIDE_RANKS, *BESIDE_NUMBERS, "{}: step 1", "{}  | step 1"])
def test_a_host_called_by_a_word_of_logs_goes_where_it_is_known(form: str) -> None:
    assert Redactor().redact(form.format("falcon")) == form.format("falcon")
    redactor = Redactor()
    redactor.redact("HOSTNAME=falcon")
    assert redactor.redact(form.format("falcon")) == form.format("host-1")
    assert redactor.redact("loading falcon, a model") == "loading falcon, a model"


@pytest.mark.parametrize("text", STAYS)
def test_loggers_counts_and_prose_stay(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize("form", [*BESIDE_RANKS, *BESIDE_NUMBERS])
def test_a_file_tells_its_hosts(form: str) -> None:
    lines = [form.format(name).replace("2 ", f"{n} ", 1) for name in ("vexlark", "ambrick") for n in (2,)]
    assert named_in_heads([*lines] * 8) == ["vexlark", "ambrick"]


@pytest.mark.parametrize("form", ["[{}/{}] step 1", "{}:{}: step 1", "[rank{1}@{0}] step 1", "{} rank{}: step 1"])
def test_numbers_that_stand_with_one_name_each_tell_hosts_whatever_they_are_called(form: str) -> None:
    heads = [form.format(name, n) for n, name in enumerate(("falcon", "orca", "vexlark", "albert"))]
    assert named_in_heads(list(islice(cycle(heads), 40))) == ["falcon", "orca", "vexlark", "albert"]


@pytest.mark.parametrize(
    "heads",
    [
        ["[falcon/0] a", "[falcon/1] a"],  # a model or a logger, for all its processes
        ["[falcon/0] a", "[orca/0] a", "[orca/1] a"],
        ["[vextool] rank 0: a", "[vextool] rank 1: a"],
        ["[train/0] a", "[val/1] a"],
        ["[INFO/0] a", "[ERROR/1] a"],
        ["epoch:1: a", "step:2: a"],
        ["0: loss: 1", "0: lr: 2", "1: loss: 1"],
        ["a line", "another one"],
    ],
)
def test_loggers_that_all_processes_share_are_no_hosts(heads: list[str]) -> None:
    assert named_in_heads(list(islice(cycle(heads), 40))) == []


def test_names_that_a_file_says_once_are_none() -> None:
    assert named_in_heads(["[vexlark/0] a", "[ambrick/1] a", "[ombrel/2] a", "[quivane/3] a"]) == []


@pytest.mark.parametrize(
    "form", ["[rank{n}@{}] ", "{}:{n}: ", "[{},{n}] ", "INFO:{}:rank{n}:", "[{}/{n}] ", "{n}: {}: "]
)
def test_reports_of_whole_logs_name_no_host(tmp_path: Path, form: str) -> None:
    hosts = ["vexlark", "ambrick", "falcon", "cn-b08"]
    lines = [form.format(host, n=n) + f"step {step} loss 3.0" for step in range(9) for n, host in enumerate(hosts)]
    lines.append(form.format(hosts[2], n=2) + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    lines.append(form.format(hosts[0], n=0) + "RuntimeError: lost the peer vexlark")
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    assert found.diagnosis.findings
    report = jsonreport.render(redact_diagnosis(found.diagnosis, told=told(found.data)))
    for host in hosts:
        assert host not in report
