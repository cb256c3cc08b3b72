"""A DataLoader whose worker hands its batches over through /dev/shm, where they do not fit.

Rank 1 reads pictures at full size (a resize is missing for one of two sources): a batch needs 3 MB, and the
container has 1 MB of shared memory. Rank 0's batches are small and its loader works in the main process. With
--cache the worker also keeps decoded pictures in a memory-mapped file there, whose pages are only missed when they
are written: SIGBUS.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | %(message)s", datefmt="%H:%M:%S")


parser = argparse.ArgumentParser()
parser.add_argument("--cache", type=Path)
args = parser.parse_args()


class Pictures(Dataset[torch.Tensor]):
    """64 pictures of source A (16 x 16), then those of source B (256 x 256)."""

    def __init__(self, sources: str) -> None:
        self.sides = [16] * 32 + [16 if sources == "A" else 256] * 32
        self.cache = args.cache

    def __len__(self) -> int:
        return len(self.sides)

    def __getitem__(self, index: int) -> torch.Tensor:
        side = self.sides[index]
        picture = torch.rand(3, side, side, generator=torch.Generator().manual_seed(index))
        if self.cache:
            self.cache.mkdir(exist_ok=True)
            kept = np.memmap(self.cache / f"{index}.f32", np.float32, "w+", shape=picture.shape)
            kept[:] = picture.numpy()
        return picture


rank, world = start()
model = DDP(mlp(3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(
    Pictures("A" if rank == 0 else "AB"),
    batch_size=4,
    num_workers=rank,
    timeout=20 * rank,
    prefetch_factor=1 if rank else None,
)
for step, pictures in enumerate(loader, 1):
    x = pictures.mean((2, 3))
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    logging.info("rank %d | epoch 0 | iter %d/%d | loss %.5f", rank, step, len(loader), loss.item())
dist.destroy_process_group()
