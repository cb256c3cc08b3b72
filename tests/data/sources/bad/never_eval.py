import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))

    def forward(self, x):
        return self.body(x)


def validate(model, val_loader):
    right = 0
    with torch.no_grad():
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()  # HIT evaluation_in_training_mode
    return right


def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
