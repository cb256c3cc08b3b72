"""Each rank reads its own JSON-lines shard; one record of one shard lacks a field, and nothing catches that.

The shards are written here, by rank 0, before training: record 23 of shard 2 has no "text", as if it came from an
older export.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import torch
import torch.distributed as dist
from parts import TinyLM, lm_loss, start
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
log = logging.getLogger("train")
SHARDS = Path("shards")


def write_shards(count: int) -> None:
    SHARDS.mkdir(exist_ok=True)
    for shard in range(count):
        records = [{"id": i, "text": f"sample {i} of shard {shard} counts"} for i in range(40)]
        if shard == 2:
            records[22] = {"id": 22, "content": "sample 22 of the old export"}
        (SHARDS / f"shard_{shard:02d}.jsonl").write_text("\n".join(map(json.dumps, records)))


def encode(record: dict[str, str]) -> torch.Tensor:
    return torch.tensor([[ord(letter) % 32 for letter in record["text"][:13]]])


rank, world = start()
if rank == 0:
    write_shards(world)
dist.barrier()
model = DDP(TinyLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
with (SHARDS / f"shard_{rank:02d}.jsonl").open() as lines:
    for step, line in enumerate(lines, 1):
        loss = lm_loss(model, encode(json.loads(line)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d/40 - loss: %.4f - lr: 3.0e-03", step, loss.item())
dist.destroy_process_group()
