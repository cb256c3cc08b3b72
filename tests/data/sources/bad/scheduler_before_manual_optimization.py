import torch, lightning as L


class M(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, i):
        opt = self.optimizers()
        sch = self.lr_schedulers()
        opt.zero_grad()
        loss = self.net(batch)
        self.manual_backward(loss)
        sch.step()  # HIT scheduler_before_optimizer
        opt.step()
