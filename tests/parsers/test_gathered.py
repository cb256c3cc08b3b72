"""Output of many hosts in blocks, as clush and dshbak gather it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import Role
from forensics.parsers.gathered import Block, blocks, may_tell
from forensics.parsers.prefixes import clean, vote

FAILED = (
    'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n    import torch\n'
    "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n"
)


def block(hosts: str, text: str, rule: int = 15, end: str = "\n") -> str:
    return f"{'-' * rule}\n{hosts}\n{'-' * rule}\n{text}".replace("\n", end)


@pytest.mark.parametrize("rule", [15, 16])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("hosts", "node"), [("node04", "node04"), ("gpu-a-4.cluster", "gpu-a-4.cluster"), ("node[04-05] (2)", None)]
)
def test_the_host_of_a_block_is_that_of_what_stands_below(
    tmp_path: Path, rule: int, end: str, hosts: str, node: str | None
) -> None:
    log = (
        block("node[01-03]", "ready\n", rule, end)
        + block(hosts, FAILED, rule, end)
        + block("node06", "ready\n", rule, end)
    )
    (tmp_path / "clush.log").write_bytes(log.encode())
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.node) == ("missing-shared-library", node)


@pytest.mark.parametrize(
    "text",
    [
        block("Evaluation", FAILED),
        block("Epoch-3", FAILED),
        block("stage2", FAILED),
        block("llama3", FAILED),
        block("llama3", "ready\n") + block("imagenet1k", FAILED),
        block("node04", FAILED, rule=40),
        "---------------\nnode04 is slow today\n---------------\n",
        f"node04\n{FAILED}",
    ],
)
def test_a_title_between_rules_is_no_host(text: str) -> None:
    assert not may_tell(text.encode())


def test_lines_and_hosts_of_blocks() -> None:
    text = "clush: node09: exited with exit code 1\n" + block("node[01-03]", "a\nb\n") + block("n4", "c\n")
    assert blocks(text) == [Block(3, None), Block(8, "n4")]


@given(st.text(alphabet="-\nn1 [", max_size=200))
def test_any_text_gives_lines_that_hold_a_host(text: str) -> None:
    lines = text.split("\n")
    for line, host in blocks(text):
        assert set(lines[line - 2]) == {"-"} and lines[line - 1].partition(" ")[0]
        assert host is None or lines[line - 1].startswith(host)


LOST = "NVRM: Xid (PCI:0000:ca:00): 79, GPU has fallen off the bus."
INITS = "".join(
    f"n{1 + r // 2}:{400 + r}:{500 + r} [{r % 2}] NCCL INFO ncclCommInitRank comm 0x55 rank {r} nranks 8 cudaDev {r % 2} "
    f"nvmlDev {r % 2} busId {('1b000', 'ca000')[r % 2]} commId 0x11 - Init COMPLETE\n"
    for r in range(8)
)


@pytest.mark.parametrize(
    ("line", "node", "ranks"),
    [
        (f"n3: [12345.678901] {LOST}", "n3", (5,)),
        (f"n3: [12345.6] {LOST}", "n3", (5,)),
        (f"n3: [Sat Nov 28 10:00:01 2026] {LOST}", "n3", (5,)),
        (f"n3: {LOST}", "n3", (5,)),
        (f"n3: 2026-11-28T10:00:01+0000 n3 kernel: {LOST}", "n3", (5,)),
        (f"gpu-a: [12345.678901] {LOST}", "gpu-a", None),
        (f"n3: /var/log/kern.log:Nov 28 10:00:01 n3 kernel: {LOST}", "n3", (5,)),
        (f"/var/log/hosts/n3/kern.log:Nov 28 10:00:01 n3 kernel: [12345.678901] {LOST}", "n3", (5,)),
        (f"kern.log.1:1022:Nov 28 10:00:01 n3 kernel: {LOST}", "n3", (5,)),
        (f"dmesg-n3.txt:[12345.678901] {LOST}", "n3", (5,)),
        (f"logs/n3/dmesg.txt:12:[12345.678901] {LOST}", "n3", (5,)),
        (f"dmesg-boot1.txt:[12345.678901] {LOST}", None, None),
        (f"kernel: [12345.678901] {LOST}", None, None),
    ],
)
def test_one_gathered_line_of_a_kernel_bears_its_host(
    tmp_path: Path, line: str, node: str | None, ranks: tuple[int, ...] | None
) -> None:
    (tmp_path / "train.log").write_text(INITS)
    (tmp_path / "xid.txt").write_text(line + "\n")
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.node, root.ranks) == ("gpu-fell-off-bus", node, ranks)


@pytest.mark.parametrize(
    "line",
    [
        "n3: loss 3.0",
        "n3: [0.693147] nats",  # printk's seconds take five characters at least
        "loss1: [12345.693147] of the sum",
        "rank3: [12345.678901] done",
        f"gpu0: {LOST}",
        "epoch: [12345.678901] x",
        "n3: see /var/log",
    ],
)
def test_a_label_before_other_words_needs_a_vote(line: str) -> None:
    assert clean(line).identity.node is None and not vote([line])
