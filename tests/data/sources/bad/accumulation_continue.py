import torch


def train(model, loader, criterion, accum_steps):
    optimizer = torch.optim.AdamW(model.parameters())
    for micro, (x, y) in enumerate(loader, start=1):
        loss = criterion(model(x), y)
        loss.backward()  # HIT accumulation_not_averaged
        if micro % accum_steps:
            continue
        optimizer.step()
        optimizer.zero_grad()


def compared(model, loader, criterion, accum_steps):
    optimizer = torch.optim.AdamW(model.parameters())
    for micro, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()  # HIT accumulation_not_averaged
        if (micro + 1) % accum_steps != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()
