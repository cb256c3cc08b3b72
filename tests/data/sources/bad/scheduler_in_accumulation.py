import torch
from torch.optim import lr_scheduler


def main(model, loader, acc):
    optimizer = torch.optim.AdamW(model.parameters())
    sched = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
    for step, (x, y) in enumerate(loader):
        loss = model(x, y) / acc
        loss.backward()
        if (step + 1) % acc == 0:
            sched.step()  # HIT scheduler_before_optimizer
            optimizer.step()
            optimizer.zero_grad()
