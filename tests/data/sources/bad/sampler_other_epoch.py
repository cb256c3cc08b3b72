import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def loaders(train, val):
    return (
        DataLoader(train, batch_size=8, sampler=DistributedSampler(train, shuffle=True)),  # HIT set_epoch_missing
        DataLoader(val, batch_size=8, sampler=DistributedSampler(val, shuffle=False)),
    )


def main(train, val, epochs):
    model = DistributedDataParallel(nn.Linear(10, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train_loader, val_loader = loaders(train, val)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        val_loader.sampler.set_epoch(epoch)
        with torch.no_grad():
            print(sum((model(x).argmax(1) == y).sum() for x, y in val_loader))
