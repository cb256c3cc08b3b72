import lightning as L
import torch
from torch.nn import functional as F


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(28 * 28, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.layer(x), y)
        self.log("val_loss", loss, sync_dist=True, rank_zero_only=True)  # HIT sync_on_rank_zero
        if self.trainer.is_global_zero:
            self.log("val_extra", loss, sync_dist=True)  # HIT rank_conditional_collective

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
