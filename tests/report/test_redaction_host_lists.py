"""Lists of hosts in the forms in which schedulers, launchers and scripts print them; each host is known from then on."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor
from forensics.report.redaction.node_ranges import MOST, expanded

GOES = [
    ("Nodes: {0} {1} GPUs: 16", "Nodes: host-1 host-2 GPUs: 16"),
    ("Nodes: {0},{1}", "Nodes: host-1,host-2"),
    ("using 2 nodes: {0}, {1}", "using 2 nodes: host-1, host-2"),
    ("running on hosts {0}, {1}", "running on hosts host-1, host-2"),
    ("Job ran on: {0},{1}", "Job ran on: host-1,host-2"),
    ("Nodes allocated: {0} {1}", "Nodes allocated: host-1 host-2"),
    ("Host(s): {0}, {1}", "Host(s): host-1, host-2"),
    ("node list = {0} {1}", "node list = host-1 host-2"),
    ("hosts=['{0}', '{1}']", "hosts=['host-1', 'host-2']"),
    ("nodes: ['{0}', '{1}']", "nodes: ['host-1', 'host-2']"),
    ("all_hosts: {{'{0}', '{1}'}}", "all_hosts: {{'host-1', 'host-2'}}"),
    ("rank_to_host={{0: '{0}', 1: '{1}'}}", "rank_to_host={{0: 'host-1', 1: 'host-2'}}"),
    ("rank mapping: {{0: '{0}', 1: '{1}'}}", "rank mapping: {{0: 'host-1', 1: 'host-2'}}"),
    ("--worker_hosts={0}:2222,{1}:2222", "--worker_hosts=host-1:2222,host-2:2222"),
    ("mpiexec -hosts {0},{1} -n 2", "mpiexec -hosts host-1,host-2 -n 2"),
    ("horovodrun -np 16 -H {0}:8,{1}:8 python", "horovodrun -np 16 -H host-1:8,host-2:8 python"),
    ("#SBATCH -w {0},{1}", "#SBATCH -w host-1,host-2"),
    ("{0} slots=8\n{1} slots=8", "host-1 slots=8\nhost-2 slots=8"),
    ("{0}:8\n{1}:8", "host-1:8\nhost-2:8"),
]
WORDS = [
    ("hosts: tiger, lion", "hosts: host-1, host-2"),
    ("Nodes: tiger lion", "Nodes: host-1 host-2"),
    ("2 nodes: tiger, lion", "2 nodes: host-1, host-2"),
    ("hosts: {0: 'tiger', 1: 'lion'}", "hosts: {0: 'host-1', 1: 'host-2'}"),
    ("--ps_hosts=tiger:2222", "--ps_hosts=host-1:2222"),
]
STAYS = [
    "nodes: 2, gpus: 16",
    "Nodes: 2 x 8 GPUs",
    "graph nodes: conv1, relu1, fc1",
    "Nodes: placeholder, call_function",
    "workers: prefetch, decode",
    "hosts: none found",
    "on nodes that are down",
    "servers: ['loss1', 'acc1']",
    "workers=['worker-0', 'worker-1']",
    "rank map {0: 'cuda0', 1: 'cuda1'}",
    "mapping: {0: 'class1', 1: 'class2'}",
    "number_of_nodes: identical method",
    "nodes = self.graph.nodes",
]


@pytest.mark.parametrize(("text", "shown"), GOES)
@pytest.mark.parametrize("names", [("rack3n01", "rack3n02"), ("gpu-a12", "gpu-a13")])
def test_each_host_of_a_list_goes(text: str, shown: str, names: tuple[str, str]) -> None:
    assert Redactor().redact(text.format(*names)) == shown.format()


@pytest.mark.parametrize(("text", "shown"), WORDS)
def test_words_are_hosts_where_a_list_is_surely_one_of_hosts(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown


@pytest.mark.parametrize("text", STAYS)
def test_counts_graphs_and_services_stay(text: str) -> None:
    assert Redactor().redact(text) == text


def test_hosts_of_a_range_are_known_and_counted_where_they_are_met() -> None:
    redactor = Redactor()
    assert redactor.redact("SLURM_JOB_NODELIST=rack3n[01-04,7]") == "SLURM_JOB_NODELIST=nodes-1"
    assert redactor.redact("lost rack3n03, then RACK3N7 and rack3n05") == "lost host-1, then host-2 and rack3n05"


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("gpu[001-003,7],b2", ["gpu001", "gpu002", "gpu003", "gpu7", "b2"]),
        ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
        ("a[3-1]", []),
        ("[1-2]", []),
        ("", []),
    ],
)
def test_a_range_is_expanded(names: str, hosts: list[str]) -> None:
    assert expanded(names) == hosts


def test_a_huge_range_is_cut() -> None:
    assert len(expanded("n[1-99999999]x[1-99999999]")) == MOST
