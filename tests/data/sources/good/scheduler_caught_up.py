import torch
from torch.optim.lr_scheduler import StepLR


def main(model, loader, start):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 30)
    for _ in range(start):
        scheduler.step()
    for epoch in range(start, 90):
        if epoch > start:
            scheduler.step()
        for x, y in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
