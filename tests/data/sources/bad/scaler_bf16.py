import torch


def train(model, loader, criterion, optimizer):
    scaler = torch.cuda.amp.GradScaler()  # HIT scaler_with_bfloat16
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
