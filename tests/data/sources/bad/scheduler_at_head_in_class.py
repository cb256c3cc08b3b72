import torch
import torch.optim as optim


class Trainer:
    def __init__(self, model):
        self.optimizer = optim.Adam(model.parameters())
        self.scheduler = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100)
        self.model = model

    def fit(self, loader):
        for epoch in range(100):
            self.scheduler.step()  # HIT scheduler_before_optimizer
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = self.model(x, y)
                loss.backward()
                self.optimizer.step()
