from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Sequential(OrderedDict([("fc", nn.Linear(8, 4)), ("out", nn.Softmax(dim=-1))]))

    def forward(self, x):
        return self.head(self.body(x))


class Lit(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(8, 4), nn.Softmax(dim=1)]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self(x), y)  # HIT softmax_before_cross_entropy


def train_one_epoch(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)  # HIT softmax_before_cross_entropy
        loss.backward()
        optimizer.step()


def main(loader):
    net = Net()
    net = net.to("cuda")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net = DistributedDataParallel(net)
    train_one_epoch(net, loader, nn.CrossEntropyLoss(), optimizer)
