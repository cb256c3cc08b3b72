"""Contrastive learning that gathers every rank's embeddings, with a last batch that is smaller on one rank only.

The data set does not divide by the ranks, and the loader has drop_last=False: in the last step rank 1 has 5 samples
where the others have 8, so all_gather is called with different shapes.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from parts import average_gradients, mlp, start

rank, world = start()
samples = 8 * 18 - (3 if rank == 1 else 0)
data = torch.randn(samples, 16, generator=torch.Generator().manual_seed(rank))
model = mlp(16, 8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=8, drop_last=False)
for step, (x,) in enumerate(loader, 1):
    z = torch.nn.functional.normalize(model(x + 0.05 * torch.randn_like(x)), dim=1)
    gathered = [torch.empty_like(z) for _ in range(world)]
    dist.all_gather(gathered, z.detach())
    gathered[rank] = z
    labels = torch.arange(len(x)) + rank * len(x)
    loss = torch.nn.functional.cross_entropy(z @ torch.cat(gathered).T / 0.1, labels)
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model, world)
    optimizer.step()
    if rank == 0 or len(x) < 8:
        print(
            f"Train: [0][{step:>3}/{len(loader)}]  loss: {loss.item():.4f}  lr: 1.00e-03  batch: {len(x)}", flush=True
        )
dist.destroy_process_group()
