"""`[default3]:` in a host's log is the third process of that host: which rank that is, the launch says, or nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

STEPS = "".join(
    f"[default{rank}]:2026-05-14 10:{n // 6:02d}:{n % 6}0 step {n * 10} loss {3 - n / 100:.3f}\n"
    for n in range(12)
    for rank in range(4)
)
RAISED = """\
[default3]:Traceback (most recent call last):
[default3]:  File "/w/train.py", line 77, in main
[default3]:    lab = classes[rec["y"]]
[default3]:KeyError: 1004
"""


def root(folder: Path, launch: str) -> tuple[Finding, int | None]:
    (folder / "train.log").write_text(launch + STEPS + RAISED)
    found = analyse([str(folder)], Options(cache=False))
    assert found.findings[0].name == "python-exception"
    return found.findings[0], found.run.world_size


@pytest.mark.parametrize(
    ("launch", "rank"),
    [
        ("+ torchrun --nnodes 2 --nproc_per_node 4 --node_rank 1 --master_addr h0 --tee 3 train.py\n", 7),
        ("+ srun python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --node-rank=1 train.py\n", 7),
        ("export NNODES=2 NODE_RANK=1 GPUS_PER_NODE=4\n", 7),
        ('PET_NNODES="2"\nPET_NODE_RANK="1"\nPET_NPROC_PER_NODE="4"\n', 7),
        ("export NNODES=2 NODE_RANK=0 GPUS_PER_NODE=4\n", 3),
    ],
)
def test_the_launch_states_which_of_the_hosts_this_is(tmp_path: Path, launch: str, rank: int) -> None:
    found, size = root(tmp_path, launch)
    assert (found.ranks, found.step, size) == ((rank,), 110, 8)


@pytest.mark.parametrize(
    "launch",
    [
        "+ torchrun --nnodes 2 --nproc_per_node gpu --node_rank 1 train.py\n",
        "+ torchrun --nnodes 2 --nproc_per_node 4 --node_rank $SLURM_NODEID train.py\n",
        "+ torchrun --nnodes 2 --nproc_per_node 4 --node_rank 1 --rdzv_backend c10d train.py\n",
        "export NNODES=2\n",
    ],
    ids=["devices not counted", "host not told", "numbered at a rendezvous", "hosts alone"],
)
def test_where_it_does_not_a_local_rank_is_no_global_one(tmp_path: Path, launch: str) -> None:
    found, _ = root(tmp_path, launch)
    assert (found.ranks, found.local_ranks) == (None, (3,))


@pytest.mark.parametrize(
    "launch", ["", "+ torchrun --nnodes 1 --nproc_per_node 4 train.py\n"], ids=["none", "one host"]
)
def test_on_one_host_both_are_one(tmp_path: Path, launch: str) -> None:
    assert root(tmp_path, launch)[0].ranks == (3,)


def test_the_rank_that_finds_another_given_out_twice_is_not_to_blame(tmp_path: Path) -> None:
    line = "gpu-a01:881:960 [0] bootstrap.cc:77 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in\n"
    (tmp_path / "nccl.log").write_text(line)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.captures["duplicate"]) == ("duplicate-rank-launch", None, "1")
