import torch
from torch import nn
from torch.amp import GradScaler, autocast


class WithoutScaler:
    """Clips where it does not scale."""

    def __init__(self, model, use_amp):
        self.model, self.use_amp = model, use_amp
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = GradScaler("cuda")

    def backward(self, loss):
        if self.use_amp:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()

    def step(self):
        if not self.use_amp:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            return
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


class OtherClass:
    """Clips what another class never scaled."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())

    def step(self, x, y):
        with autocast("cuda"):
            loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


class ClipsWithoutScaler:
    """Its own method clips where nothing is scaled, and comes back before that where something is."""

    def __init__(self, model, use_amp):
        self.model, self.use_amp = model, use_amp
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = GradScaler("cuda")

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def limit(self):
        if self.use_amp:
            return
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def limit_plain(self):
        if not self.use_amp:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def step(self):
        self.limit()
        self.limit_plain()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
