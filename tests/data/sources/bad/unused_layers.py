import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.spare = nn.Linear(4, 2)  # HIT layers_without_gradient
        self.extra = nn.Linear(4, 2)

    def forward(self, x, with_extra=False):
        x = self.body(x)
        y = self.head(x)
        if with_extra:
            y = y + self.extra(x)  # HIT layers_without_gradient
        return y


model = DDP(Heads())
