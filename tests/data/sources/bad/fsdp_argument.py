import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def save_checkpoint(model, step):
    if dist.get_rank() == 0:
        state = model.state_dict()  # HIT rank_conditional_collective
        torch.save(state, f"ck-{step}.pt")


def train(net, optimizer, loader):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        if step % 1000 == 0:
            save_checkpoint(net, step=step)


def main(loader):
    dist.init_process_group("nccl")
    model = FSDP(nn.Linear(10, 2).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, loader)
    save_checkpoint(model, -1)
