import torch.nn as nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
loss_fn = nn.BCELoss()


def step(x, y, optimizer):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)  # HIT bce_on_logits
    loss.backward()
    optimizer.step()
