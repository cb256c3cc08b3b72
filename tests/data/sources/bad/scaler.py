import torch
from torch.nn.utils import clip_grad_norm_


def clip(model, loader, criterion, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)  # HIT clip_without_unscale
        scaler.step(optimizer)
        scaler.update()
        scaler.update()  # HIT scaler_update_wrong
