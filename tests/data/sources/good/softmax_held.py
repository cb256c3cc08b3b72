import torch.nn as nn
import torch.nn.functional as F
from transformers import Trainer


class Both(nn.Module):
    """Gives logits and probabilities; the loss takes the right ones."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        logits = self.head(x)
        return {"logits": logits, "probs": F.softmax(logits, dim=-1)}


class BothTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(inputs["x"])
        return F.cross_entropy(outputs["logits"], inputs["y"])


BothTrainer(Both()).train()


class Probabilities(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=-1))

    def forward(self, x):
        return self.head(x), x


class Logits(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.fc(x)
        if not self.training:
            x = F.softmax(x, dim=-1)
        return x


def distill(model, x, y):
    """One caller gives probabilities and one logits: which of them this is for nothing tells."""
    out = model(x)
    return F.cross_entropy(out, y)


def losses(x, y):
    hidden = Probabilities()(x)[1]
    first, second = Probabilities(), Logits()
    return distill(first, x, y), distill(second, x, y), F.cross_entropy(hidden, y), F.cross_entropy(second(x), y)


class OtherTrainer(Trainer):
    """Two models are trained with it."""

    def compute_loss(self, model, inputs, return_outputs=False):
        return F.cross_entropy(model(inputs["x"]), inputs["y"])


OtherTrainer(Logits()).train()
OtherTrainer(Probabilities()).train()


class Grown(nn.Module):
    def __init__(self, depth):
        super().__init__()
        layers = [nn.Linear(8, 8), nn.Softmax(dim=-1)]
        layers.append(nn.Linear(8, 4))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


def of_grown(x, y):
    net = Grown(2)
    return F.cross_entropy(net(x), y)
