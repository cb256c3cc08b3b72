import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(train_set, val_set, model, optimizer, epochs):
    sampler = DistributedSampler(train_set, shuffle=True)  # HIT set_epoch_missing
    val_sampler = DistributedSampler(val_set)
    loader = DataLoader(train_set, sampler=sampler, batch_size=4)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
