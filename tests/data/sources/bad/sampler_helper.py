import torch
from torch.utils.data import DataLoader, DistributedSampler


def loader_of(dataset, train):
    sampler = DistributedSampler(dataset, shuffle=train)  # HIT set_epoch_missing
    return DataLoader(dataset, batch_size=8, sampler=sampler)


def main(first, second, model, optimizer):
    loader, held_out = loader_of(first, True), loader_of(second, False)
    for ep in range(90):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
