"""Hosts that are called by plain words: known from places that name nothing else, and from no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import diagnosis, finding

from forensics.model import Kind, Source
from forensics.report.redaction import Redactor, redact_diagnosis, told_by

NAMED = [
    "INFO hostname=vexlark user=root rank=2",
    '{"hostname": "vexlark", "rank": 2}',
    '{"host":"vexlark","msg":"start"}',
    "hostname: vexlark",
    "HOSTNAME=vexlark",
    "export MASTER_ADDR='vexlark'",
    "environ({'HOSTNAME': 'vexlark', 'A': 'b'})",
    "MASTER_ADDR=vexlark.lab.example",
    "SLURMD_NODENAME=vexlark",
    "SLURM_JOB_NODELIST=ambrick,vexlark",
    "NodeList=vexlark",
    "vexlark:31201:31201 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
    "[rank3] vexlark:31201:31377 [3] transport/net.cc:41 NCCL WARN x",
    "  host      : vexlark",
    "srun: error: vexlark: task 3: Exited with exit code 1",
    "slurmstepd: error: *** STEP 1.0 ON vexlark CANCELLED AT 2026-01-02T03:04:05 ***",
    "Linux vexlark 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux",
    "torchrun --master_addr vexlark --nnodes 2",
    "torchrun --rdzv_endpoint=vexlark:29500 t.py",
    "Running on the following workers: ambrick,vexlark",
    "hosts: [vexlark, ambrick]",
    "socket.gethostname() = vexlark",
    "Hostname: vexlark",
    "  rdzv_endpoint    : vexlark:29503",
    "events.out.tfevents.1714640000.vexlark.4411.0",
    "vexlark: [2026-05-09 09:00:09,000] [INFO] [launch.py:163:main] dist_world_size=16",
]
TOLD = "worker on vexlark failed at vexlark:/data, '/local/vexlark/ckpt', vexlark-ib and out_vexlark.log"
HIDDEN = "worker on host-{n} failed at host-{n}:/data, '/local/host-{n}/ckpt', host-{n}-ib and out_host-{n}.log"


@pytest.mark.parametrize("named", NAMED)
def test_a_plain_word_that_is_named_as_a_host_is_hidden_everywhere(named: str) -> None:
    redactor = Redactor()
    assert "vexlark" not in redactor.redact(named)
    n = redactor.host("vexlark", everywhere=False).removeprefix("host-")
    assert redactor.redact(TOLD) == HIDDEN.format(n=n)


@pytest.mark.parametrize(
    "named",
    [
        "hostname=args.vexlark",
        "hostname = vexlark",
        "hostname=vexlark()",
        "hostname: Vexlark of the node is not known",
        "HOSTNAME=$vexlark",
        "nodes: [vexlark, relu]",
        "Hostname: vexlark is not known to the host",
        "socket.gethostname() = vexlark.name()",
        "Node: vexlark; worker vexlark: started",
    ],
)
def test_a_word_in_a_place_that_may_hold_another_thing_stays_elsewhere(named: str) -> None:
    redactor = Redactor()
    redactor.redact(named)
    assert redactor.redact(TOLD) == TOLD


@pytest.mark.parametrize(
    "word", ["server", "training", "bucket", "gradients", "barrier", "torch", "python", "default", "adam", "head"]
)
def test_words_in_which_logs_are_told_stay(word: str) -> None:
    redactor = Redactor()
    told = f"the {word} of {word} is told, {word}: x"
    for named in (
        f"HOSTNAME={word}",
        f"hostname={word} rank=1",
        f"{word}:12:12 [0] NCCL INFO x",
        f"hosts: [{word}, x7]",
    ):
        redactor.redact(named)
    assert redactor.redact(told) == told


def test_a_word_is_hidden_as_it_is_written_and_not_in_packages_or_numbered_names() -> None:
    redactor = Redactor()
    redactor.redact("HOSTNAME=vexlark")
    told = "Vexlark, vexlarks, vexlark-3 and site-packages/vexlark/x.py"
    assert redactor.redact(told) == told


def test_the_others_of_a_list_of_nodes_are_hosts_where_one_of_them_is() -> None:
    redactor = Redactor()
    redactor.redact("HOSTNAME=vexlark")
    assert redactor.redact("nodes: [vexlark, ambrick]; ambrick is up") == "nodes: [host-1, host-2]; host-2 is up"


def test_what_captures_and_facts_call_a_host_is_hidden_in_the_text() -> None:
    made = diagnosis(finding(why="lost ambrick", captures={"peer_host": "ambrick"}), summary="ambrick went away")
    shown = redact_diagnosis(made)
    assert shown.findings[0].why == "lost host-1"
    assert shown.summary == "host-1 went away"


@pytest.mark.parametrize(
    "named",
    [
        "vexlark: [2026-05-09 09:00:09,000] [INFO] [launch.py:163:main] dist_world_size=16",
        "  host      : vexlark",
        "slurmstepd: error: *** STEP 1.0 ON vexlark CANCELLED AT 2026-01-02T03:04:05 ***",
        "Linux vexlark 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux",
    ],
)
def test_lines_that_name_a_host_are_read_for_it(named: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 1\n{named}\nstep 2\n")
    assert told_by([Source("train.log", log, Kind.LOG, log.stat().st_size)]) == [named]


def test_a_word_is_handed_on_to_another_report() -> None:
    one, other = Redactor(), Redactor()
    one.redact("HOSTNAME=vexlark")
    for kind, name in one.memory.names():
        other.memory.know(kind, name)
    assert other.redact("telling vexlark, not Vexlark") == "telling host-1, not Vexlark"
