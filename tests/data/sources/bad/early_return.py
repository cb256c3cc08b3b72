import torch
from torch import distributed as dist

from utils import is_main_process


def evaluate(model, loader):
    total = torch.zeros(1)
    for x, y in loader:
        total += (model(x).argmax(1) == y).sum()
    if not is_main_process():
        return None
    dist.all_reduce(total)  # HIT rank_conditional_collective
    return total.item()
