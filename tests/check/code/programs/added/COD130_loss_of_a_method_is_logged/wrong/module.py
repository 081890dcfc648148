# SPDX-License-Identifier: Apache-2.0
import lightning as L
import torch


class Forecaster(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(24, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))

    def _loss(self, batch):
        x, y = batch
        return torch.nn.functional.l1_loss(self.net(x), y)

    def training_step(self, batch, _):
        loss = self._loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val/loss", self._loss(batch), prog_bar=True)  # BUG COD130

    def configure_optimizers(self):
        optim = torch.optim.Adam(self.parameters())
        plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optim)
        return {"optimizer": optim, "lr_scheduler": {"scheduler": plan, "monitor": "val/loss"}}
