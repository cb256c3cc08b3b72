import torch
from torch import nn
from torch.amp import GradScaler, autocast


class Trainer:
    def __init__(self, model, loader, clip=1.0):
        self.model, self.loader, self.clip = model, loader, clip
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = GradScaler("cuda")

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self):
        if self.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)  # HIT clip_without_unscale
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def run(self):
        for x, y in self.loader:
            with autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y)
            self.backward(loss)
            self.step()


class ClipsApart:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = GradScaler("cuda")

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def limit(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # HIT clip_without_unscale

    def step(self):
        self.limit()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
