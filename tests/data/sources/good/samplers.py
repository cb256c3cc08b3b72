import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main(retrieval, epochs):
    model = DistributedDataParallel(nn.Linear(10, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    retrieval_loader = DataLoader(retrieval, batch_size=8, sampler=DistributedSampler(retrieval))
    for epoch in range(epochs):
        retrieval_loader.sampler.set_epoch(epoch)
        for x, y in retrieval_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def both(train, val, epochs):
    model = DistributedDataParallel(nn.Linear(10, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train_loader = DataLoader(train, batch_size=8, sampler=DistributedSampler(train))
    val_loader = DataLoader(val, batch_size=8, sampler=DistributedSampler(val))
    for epoch in range(epochs):
        for loader in (train_loader, val_loader):
            loader.sampler.set_epoch(epoch)
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
