import torch
from torch.optim.lr_scheduler import StepLR


def train(model, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        loss = model(x).sum()
        loss.backward()
        opt.step()


def main(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 30)
    for epoch in range(90):
        scheduler.step()  # HIT scheduler_before_optimizer
        train(model, loader, optimizer)
