import lightning as L
from lightning.pytorch.strategies import DDPStrategy
import torch.nn as nn


class M(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))


def main():
    t = L.Trainer(strategy=DDPStrategy(broadcast_buffers=False), devices=4, sync_batchnorm=True)
    t.fit(M())
