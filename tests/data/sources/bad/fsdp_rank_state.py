import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main(loader, epochs):
    rank = dist.get_rank()
    model = FSDP(nn.Linear(10, 2).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if rank == 0:
            torch.save(model.state_dict(), f"model_{epoch}.pt")  # HIT rank_conditional_collective
