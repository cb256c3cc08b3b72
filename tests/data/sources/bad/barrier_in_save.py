import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, optimizer, epoch, rank):
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
        dist.barrier()  # HIT rank_conditional_collective


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(8, 8).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).sum().backward()
        optimizer.step()
        save(model, optimizer, epoch, rank)
