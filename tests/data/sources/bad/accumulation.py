import torch


def train(model, loader, criterion, accum_steps):
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()  # HIT accumulation_not_averaged
        if (i + 1) % accum_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
