"""A DataLoader worker that cannot open a file which is still on its way; after torchrun's restart it is there.

Rank 1 fails in attempt 0 at the first batch of its second shard. Attempt 1 resumes from the checkpoint of step 20
and finishes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

CHECKPOINT = Path("last.pt")


class Shards(IterableDataset[torch.Tensor]):
    """Two files of 25 batches; the second one is copied here by another job."""

    def __init__(self, rank: int, skip: int) -> None:
        self.files, self.skip = [Path(f"data/rank{rank}_{part}.pt") for part in (0, 1)], skip

    def __iter__(self) -> Iterator[torch.Tensor]:
        for part, file in enumerate(self.files):
            for number, batch in enumerate(torch.load(file, weights_only=True), 25 * part):
                if number >= self.skip:
                    yield batch


rank, world = start()
model = DDP(mlp())
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
done = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["step"]
    print(f"[rank {rank}] resumed from {CHECKPOINT} at step {done}", flush=True)
for step, x in enumerate(DataLoader(Shards(rank, done), batch_size=None, num_workers=1, prefetch_factor=1), done + 1):
    loss = torch.nn.functional.mse_loss(model(x), x[:, :4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"[rank {rank}] step {step}/50 loss={loss.item():.4f} lr=2.0e-03", flush=True)
    if step % 10 == 0:
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, CHECKPOINT)
        dist.barrier()
print(f"[rank {rank}] training finished", flush=True)
dist.destroy_process_group()
