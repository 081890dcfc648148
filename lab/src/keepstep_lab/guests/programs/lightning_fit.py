# SPDX-License-Identifier: Apache-2.0
"""Lightning with two devices: the Trainer starts the second rank itself."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.model(x), y)
        if batch_idx % 8 == 0:
            print(
                f"rank {self.global_rank} epoch {self.current_epoch} step {batch_idx} loss {loss.item()!r}", flush=True
            )
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.model(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def loader(seed, size, **options):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 20, generator=generator)
    y = x[:, :4].argmax(dim=1)
    return DataLoader(TensorDataset(x, y), batch_size=16, **options)


if __name__ == "__main__":
    L.seed_everything(11)
    torch.set_num_threads(1)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), loader(1, 1024, shuffle=True), loader(2, 128))
    if trainer.is_global_zero:
        print(f"final val_loss {trainer.callback_metrics['val_loss'].item()!r}", flush=True)
