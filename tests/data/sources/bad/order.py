import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR


def cleared(model, loader, criterion):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.zero_grad()  # HIT zero_grad_wrong
        optimizer.step()


def clipped(model, loader, criterion):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 10)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        scheduler.step()  # HIT scheduler_before_optimizer
        optimizer.step()
        clip_grad_norm_(model.parameters(), 1.0)  # HIT clip_after_step
