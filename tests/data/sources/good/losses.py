import torch
import torch.nn as nn
import torch.nn.functional as F


class LogNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return F.log_softmax(self.fc(x), dim=1)


class Logits(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.attention = nn.Softmax(dim=-1)

    def forward(self, x):
        weights = self.attention(x @ x.T)
        x = self.fc(weights @ x)
        if not self.training:
            return F.softmax(x, dim=1)
        return x


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())

    def forward(self, x):
        return self.net(x)


def losses(x, y):
    a = F.nll_loss(LogNet()(x), y)
    model = Logits()
    criterion = nn.CrossEntropyLoss()
    logits = model(x)
    b = criterion(logits, y)
    probabilities = F.softmax(logits, dim=1)
    gate = Gate()
    c = nn.BCELoss()(gate(x), y)
    d = F.binary_cross_entropy_with_logits(nn.Linear(4, 1)(x), y)
    soft = F.cross_entropy(logits, F.softmax(y, dim=1))
    e = F.nll_loss(torch.log(probabilities), y)
    f = nn.BCELoss()(nn.Linear(4, 1)(x).clamp(0, 1), y)
    g = criterion(torch.squeeze(logits, -1).view(-1, 3), y)
    return a + b + c + d + e + f + g + soft, probabilities


def student(model, teacher, x):
    with torch.no_grad():
        target = teacher(x)
    loss = F.mse_loss(model(x), target.detach())
    loss.backward()
    value = torch.tensor(0.0, requires_grad=True)
    return loss, value


def descend(x, y):
    w = torch.zeros(3, requires_grad=True)
    for _ in range(10):
        ((x @ w - y) ** 2).mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
