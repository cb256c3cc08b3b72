import torch
from torch.optim.lr_scheduler import StepLR


class T:
    def epoch(self, model, loader, opt):
        for x, y in loader:
            opt.zero_grad()
            loss = model(x).sum()
            loss.backward()
            opt.step()


def main(model, loader, t):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 30)
    for epoch in range(90):
        t.epoch(model, loader, optimizer)
        scheduler.step()
