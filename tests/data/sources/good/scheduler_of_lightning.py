import lightning as L


class Net(L.LightningModule):
    def training_step(self, batch, index):
        optimizer, scheduler = self.optimizers(), self.lr_schedulers()
        optimizer.zero_grad()
        self.manual_backward(self.net(batch))
        optimizer.step()
        scheduler.step()
