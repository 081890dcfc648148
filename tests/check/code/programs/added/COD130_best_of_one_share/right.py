# SPDX-License-Identifier: Apache-2.0
"""Trains with Lightning on two GPUs and stops early."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import nn


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, number):
        return nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, number):
        loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("val/loss", loss, prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(train, held_out):
    stop = EarlyStopping("val/loss", patience=3)
    trainer = pl.Trainer(accelerator="gpu", devices=2, callbacks=[stop], max_epochs=20)
    trainer.fit(Regression(), train, held_out)
