"""A meeting point whose name no resolver knows: the report names it, and waits for it come after."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

WARNED = "[W socket.cpp:663] [c10d] The IPv{family} network addresses of (ft-master-0, 23456) cannot be retrieved (gai error: {number}).\n"
UNKNOWN, FAMILY = "-2 - Name or service not known", "-97 - Address family for hostname not supported"
TIMEOUT = "torch.distributed.DistNetworkError: The client socket has timed out after 900s while trying to connect to (ft-master-0, 23456)."
TRIED = "[W socket.cpp:697] [c10d] The client socket has failed to connect to [ft-master-0]:23456 (errno: 110 - Connection timed out).\n"
CLIENTS = "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."
NAMED = "Not every process came to the rendezvous: the name of ft-master-0 does not resolve"


def raised(error: str, where: str = "/opt/lib/torch/distributed/rendezvous.py") -> str:
    return f'Traceback (most recent call last):\n  File "{where}", line 193, in open\n    store(params)\n{error}\n'


def root(folder: Path, files: dict[str, str]) -> Finding:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)[0]


def warned(family: int, number: str = UNKNOWN) -> str:
    return WARNED.format(family=family, number=number)


@pytest.mark.parametrize(
    "log",
    [
        warned(6) + warned(4) + raised(TIMEOUT),
        warned(6) * 3 + raised(TIMEOUT),
        raised(
            "torch.distributed.DistNetworkError: The IPv6/IPv4 network addresses of (ft-master-0, 23456) cannot be "
            f"retrieved (gai error: {UNKNOWN})."
        ),
    ],
)
def test_a_name_that_does_not_resolve_is_told(tmp_path: Path, log: str) -> None:
    found = root(tmp_path, {"train.log": log})
    assert (found.name, found.title) == ("rendezvous-timeout", NAMED)
    assert "cannot be retrieved" in found.evidence[0].text


def test_it_leads_over_the_wait_of_another_node(tmp_path: Path) -> None:
    error = f"torch.distributed.DistNetworkError: The IPv4 network addresses of (ft-master-0, 23456) cannot be retrieved (gai error: {UNKNOWN})."
    found = root(tmp_path, {"node0.log": raised(CLIENTS), "node1.log": raised(error)})
    assert (found.title, found.evidence[0].file) == (NAMED, "node1.log")


@pytest.mark.parametrize("log", [warned(6) + TRIED + raised(TIMEOUT), warned(6, FAMILY) + raised(TIMEOUT)])
def test_a_name_that_lacks_one_family_of_addresses_resolves(tmp_path: Path, log: str) -> None:
    assert root(tmp_path, {"train.log": log}).title == "Not every process came to the rendezvous"


GAI = "socket.gaierror: [Errno -3] Temporary failure in name resolution"


def test_a_lookup_of_the_rendezvous_itself_is_one(tmp_path: Path) -> None:
    found = root(tmp_path, {"train.log": raised(GAI)})
    assert (found.name, found.title.endswith("a name does not resolve")) == ("rendezvous-timeout", True)


def test_a_lookup_of_anything_else_is_none(tmp_path: Path) -> None:
    assert root(tmp_path, {"train.log": raised(GAI, "/app/fetch.py")}).name == "python-exception"
