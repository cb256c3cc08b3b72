import torch
import torch.nn.functional as F


def step(model, x, y, optimizer):
    optimizer.zero_grad()
    out = model(x)
    raw_loss = F.cross_entropy(out, y)
    loss = torch.tensor(raw_loss, requires_grad=True)  # HIT detached_loss
    loss.backward()
    optimizer.step()


def other(model, x, y, optimizer):
    optimizer.zero_grad()
    loss = F.nll_loss(model(x).argmax(dim=1), y)  # HIT detached_loss
    loss.backward()
    optimizer.step()


def descend(x, y):
    w = torch.zeros(3, requires_grad=True)
    for _ in range(10):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        w -= 0.1 * w.grad  # HIT inplace_on_leaf
