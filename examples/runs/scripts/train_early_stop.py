"""Early stopping that asks only the local loss whether to synchronise, so ranks call different collectives.

Every 5 steps the ranks average their validation loss with all_reduce. A rank whose own loss did not improve instead
broadcasts a stop flag first. On rank 2 the validation data is harder, and it is the only one that takes that branch.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from parts import TinyLM, average_gradients, lm_loss, sentences, start

rank, world = start()
model = TinyLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
best = float("inf")
for step in range(1, 41):
    loss = lm_loss(model, sentences(step, rank))
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model, world)
    optimizer.step()
    print(f"step={step} train_loss={loss.item():.4f} lr=5.0e-03", flush=True)
    if step % 5 == 0:
        held_out = sentences(10_000, rank)
        if rank == 2 and step >= 20:
            held_out = held_out.flip(1)  # the second half of this rank's validation set is another language
        with torch.no_grad():
            value = lm_loss(model, held_out)
        if value.item() < best:
            best = value.item()
            dist.all_reduce(value)
            print(f"step={step} val_loss={value.item() / world:.4f} best={best:.4f}", flush=True)
        else:
            print(f"step={step} val_loss did not improve on rank {rank} ({value.item():.4f}), stopping", flush=True)
            stop = torch.ones(1, dtype=torch.int64)
            dist.broadcast(stop, src=2)
            break
dist.destroy_process_group()
