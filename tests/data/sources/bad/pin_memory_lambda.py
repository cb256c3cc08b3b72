from dataclasses import dataclass

import lightning as L
import torch
from torch.utils.data import DataLoader


@dataclass
class Graph:
    x: torch.Tensor

    def to(self, d):
        return Graph(self.x.to(d))


class DM(L.LightningDataModule):
    def train_dataloader(self):
        stacked = torch.stack
        return DataLoader(self.ds, collate_fn=lambda b: Graph(stacked(b)), pin_memory=True)  # HIT pin_memory_custom_batch
