import torch


def train(model, loader, criterion, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()  # HIT scaler_bypassed
        scaler.update()
