import lightning as L
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(784, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.layer(x), y), sync_dist=True)

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print("epoch ends")

    def train_dataloader(self):
        return DataLoader(range(8), sampler=DistributedSampler(range(8)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


trainer = L.Trainer(max_epochs=3)
trainer.fit(Net())
trainer.save_checkpoint("last.ckpt")
