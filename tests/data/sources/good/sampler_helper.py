import torch
from torch.utils.data import DataLoader, DistributedSampler


def loader_of(dataset, shuffle):
    sampler = DistributedSampler(dataset, shuffle=shuffle)
    return DataLoader(dataset, batch_size=8, sampler=sampler)


def loader_of_any(dataset, shuffle):
    shuffle = shuffle and len(dataset) > 8
    return DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=shuffle))


def main(first, second, model, optimizer, epochs):
    loader = loader_of(first, False)
    other = loader_of_any(second, True)
    for epoch in range(epochs):
        for x, y in (*loader, *other):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
