import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)  # HIT device_by_global_rank
    device = torch.device(f"cuda:{rank}")  # HIT device_by_global_rank
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DDP(model, broadcast_buffers=False)  # HIT batchnorm_not_synchronised
    model.to(device)  # HIT wrapped_before_moved
    return model, optimizer
