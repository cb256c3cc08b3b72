import torch


def divided(model, loader, criterion, accum_steps):
    optimizer = torch.optim.AdamW(model.parameters())
    for micro, (x, y) in enumerate(loader, start=1):
        loss = criterion(model(x), y) / accum_steps
        loss.backward()
        if micro % accum_steps:
            continue
        optimizer.step()
        optimizer.zero_grad()


def every_batch(model, loader, criterion, accum_log):
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if i % accum_log:
            continue
        print(i)
