import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(loader, model: DDP, optimizer):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        if not torch.isfinite(loss):  # HIT data_dependent_collective
            print("skipping a batch")
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
