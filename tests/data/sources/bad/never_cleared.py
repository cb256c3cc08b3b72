import torch
import torch.nn as nn

model = nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
total = 0.0
history = []
for x, y in [(torch.ones(2), torch.ones(2))]:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()  # HIT zero_grad_wrong
    total += loss  # HIT graph_kept
    history.append(loss)  # HIT graph_kept
