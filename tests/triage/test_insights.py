"""Insights from folders to tables: what rows keep of a job, filters, outputs, redaction."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from forensics.model import Fact
from forensics.triage.batch import Options, count, triage
from forensics.triage.codec import dumps, loads
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.filters import Filter
from forensics.triage.insight.found import insights, related
from forensics.triage.insight.model import Insights
from forensics.triage.insight.statistics import fisher_greater
from forensics.triage.labels import labels_of
from forensics.triage.model import Batch, Device, JobResult, Place
from forensics.triage.pool import Limits
from forensics.triage.redacted import redacted
from forensics.triage.show import csv_text, markdown, payload, terminal
from tests.triage.rows import fault, raised, row


def here(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine without processes."""
    tools = Tools(setup)
    return (examine(task, tools, time.time()) for task in tasks)


def rows() -> list[JobResult]:
    """60 healthy jobs, three faults of one node, and eight unknown failures under one image."""
    node = "gpu17.corp.internal"
    fine = [
        row(n, nodes=(f"gpu{n % 9}.corp.internal",), labels={"image": "new" if n < 8 else "old"}) for n in range(60)
    ]
    bad = [fault(100 + n, "host-hardware-error", node, 12 * n, labels={"image": "old"}) for n in range(3)]
    new = [
        raised(200 + n, "ValueError", f"bob@example.com has no table {n} on {node}", labels={"image": "new"})
        for n in range(8)
    ]
    return [*fine, *bad, *new]


def batch(results: list[JobResult]) -> Batch:
    return Batch(paths=("runs",), results=tuple(results), causes=(), made=1.8e9, insights=insights(results))


def test_three_tables() -> None:
    shown = terminal(batch(rows()), width=140)
    assert "valueerror-load-" in shown and "drain  gpu17.corp.internal: 3 incidents in 3 jobs" in shown
    assert "image=new" in shown
    text = markdown(batch(rows()))
    assert all(f"### {title}" in text for title in ("Unknown failures", "What causes go with", "Hardware that failed"))
    found = json.loads(payload(batch(rows())))
    assert found["hardware"][0]["advice"] == "drain" and len(found["hardware"][0]["events"]) == 3
    assert found["unknown"][0]["jobs"] == [f"runs/{n}" for n in range(200, 208)]
    assert found["concentrations"][0]["inside"]["hits"] and found["tried"] >= 1


def test_nothing_to_say_is_no_table() -> None:
    quiet = batch([row(n, nodes=("a",)) for n in range(30)])
    assert quiet.insights == Insights()
    assert "###" not in markdown(quiet) and "chance" not in terminal(quiet, width=100)


def test_hostile_words_do_not_act() -> None:
    evil = [raised(n, "ValueError", "\x1b[2J<script>@all|`x`\u202e too many rows") for n in range(3)]
    for text in (terminal(batch(evil), width=200), markdown(batch(evil)), payload(batch(evil))):
        assert "\x1b" not in text and "\u202e" not in text
    assert "<script>" not in markdown(batch(evil))
    many = [raised(n, f"E{n}Error", "x" * 400) for n in range(600)]
    assert len(markdown(batch(many)).encode()) < 70_000
    assert "left out" in terminal(batch(many), width=100)


def test_shared_tables_name_no_hosts_and_people() -> None:
    shared = redacted(batch(rows()))
    text = markdown(shared) + payload(shared)
    assert "corp" not in text and "bob" not in text
    assert shared.insights.hardware[0].node == next(r.node for r in shared.results if r.root == "host-hardware-error")
    assert {j for g in shared.insights.unknown for j in g.jobs} <= {r.path for r in shared.results}


def test_the_catalogues_advice_stays_word_for_word() -> None:
    advice = "Check that the nodes' clocks agree and that slurmd runs on the node named"
    jobs = [row(n, "slurm-launch-failed", fix=advice, error="srun: error: failed on node vexlark7") for n in range(2)]
    shared = redacted(batch(jobs)).results[0]
    assert shared.fix == advice
    assert shared.error == "srun: error: failed on node host-1"


def test_short_names_of_nodes_are_replaced_beside_their_gpus() -> None:
    jobs = []
    for n in range(40):
        node = f"n{n % 4}"
        cards = (Device(node=node, bus_id="0000:1a:00", listed=True, blamed=node == "n2"),)
        line = Place(file=f"{node}.log", line=1, text=f"{node} kernel: NVRM: Xid (PCI:0000:1a:00): 79, n2k of n22")
        if node == "n2":
            more = {"evidence": line, "summary": f"lost on {node}", "devices": cards}
            jobs.append(fault(n, "gpu-fell-off-bus", node, n * 5, **more))
        else:
            jobs.append(row(n, nodes=(node,), devices=cards))
    found = batch(jobs)
    card = replace(found.insights.hardware[0], kind="gpu", name="n2 0000:1a:00", bus_id="0000:1a:00")
    shared = redacted(replace(found, insights=replace(found.insights, hardware=(card,))))
    text = markdown(shared) + payload(shared) + csv_text(shared)
    assert not re.search(r"\bn[0-3]\b", text)
    assert "n2k of n22" in text  # other words stay
    stand_in = next(r.node for r in shared.results if r.node)
    assert any(c.value == f"{stand_in} 0000:1a:00" for c in shared.insights.concentrations if c.factor == "gpu")
    assert shared.insights.hardware[0].name == f"{stand_in} 0000:1a:00"
    assert shared.results[2].evidence is not None
    assert shared.results[2].evidence.text.startswith(f"{stand_in} kernel")


def test_the_title_of_a_cause_is_no_single_jobs() -> None:
    said = "An exception ended the process"
    both = [row(n, "python-exception", title=f"{said}: {e}") for n, e in enumerate(("KeyError", "KeyError", "a.B: c"))]
    assert count(both)[0].title == said
    assert count(both[:2])[0].title == f"{said}: KeyError"
    assert count([row(1, "x", title="one"), row(2, "x", title="two", confidence=0.9)])[0].title == "two"


def test_the_unknown_group_has_a_column() -> None:
    found = batch([raised(1, "KeyError", "x"), row(2)])
    first, second = csv.DictReader(io.StringIO(csv_text(found)))
    assert first["unknown_group"] == found.insights.unknown[0].name and second["unknown_group"] == ""


def test_a_filter_leaves_the_comparison_alone(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / "jobs" / f"{n}").mkdir(parents=True)
        image = "a" if n < 10 else "b"
        (tmp_path / "jobs" / f"{n}" / "params.json").write_text(json.dumps({"image_size": image, "lr": 0.1}))
        said = (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 GiB\n" if n < 10 else f"step {n}\n"
        )
        (tmp_path / "jobs" / f"{n}" / "train.log").write_text(said)
    wanted = Filter(cause=("cuda-oom",))
    found = triage([str(tmp_path / "jobs")], Options(store=tmp_path / "s", engine=here, limits=Limits(), wanted=wanted))
    assert len(found.results) == 10
    assert found.results[0].labels == {"hparam.image_size": "a", "hparam.lr": "0.1"}
    (mine,) = found.insights.concentrations
    assert (mine.factor, mine.value, mine.outside.jobs) == ("hparam.image_size", "a", 10)
    assert mine.p == fisher_greater(10, 10, 10, 20)
    assert related(found.insights, frozenset({"elsewhere"})).concentrations == ()


def test_settings_come_from_overrides_and_command_lines() -> None:
    facts = [
        Fact("hydra.config.model.lr", "0.1", ".hydra/config.yaml"),
        Fact("hydra.overrides.0", "+model.lr=0.2", ".hydra/overrides.yaml"),
        Fact("wandb.args.0", "--lr", "wandb-metadata.json"),
        Fact("wandb.args.1", "0.3", "wandb-metadata.json"),
        Fact("wandb.args.2", "--batch-size=8", "wandb-metadata.json"),
        Fact("wandb.args.3", "--amp", "wandb-metadata.json"),
        Fact("wandb.python", "3.11.4", "wandb-metadata.json"),
        Fact("trainer.global_step", "117", "trainer_state.json"),
        Fact("trainer.max_steps", "500", "trainer_state.json"),
    ]
    assert labels_of(facts) == {
        "hparam.amp": "true",
        "hparam.batch_size": "8",
        "hparam.lr": "0.3",
        "hparam.max_steps": "500",
        "hparam.model.lr": "0.2",
        "version.python": "3.11.4",
    }


def test_listed_gpus_are_told_from_blamed_ones(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "x.log").write_text(
        "node-0:4242:4300 [0] NCCL INFO comm 0x55f0a0 rank 0 nranks 1 cudaDev 0 busId 57000 - Init COMPLETE\n"
        "[12.1] NVRM: Xid (PCI:0000:5e:00): 79, pid=4242, GPU has fallen off the bus.\n"
    )
    (found,) = triage([str(tmp_path / "job")], Options(store=tmp_path / "s", engine=here, limits=Limits())).results
    assert {d.bus_id: d.listed for d in found.devices} == {"0000:57:00": True, "0000:5e:00": False}
    assert loads(dumps(found)) == found
    old = json.loads(dumps(replace(found, devices=(Device(node="a"),))))
    del old["devices"][0]["listed"]
    assert loads(json.dumps(old)).devices == (Device(node="a"),)
