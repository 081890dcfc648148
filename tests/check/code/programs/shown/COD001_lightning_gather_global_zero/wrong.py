"""A Lightning module for multi-label classification that gathers its test predictions.

From: https://github.com/Lightning-AI/pytorch-lightning/issues/16541
Shows: nothing here (needs lightning)
"""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Tagger(pl.LightningModule):
    def __init__(self, width, tags):
        super().__init__()
        self.fc = torch.nn.Linear(width, tags)
        self.predictions = []

    def forward(self, x):
        return self.fc(x)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.binary_cross_entropy_with_logits(self(x), y)

    def test_step(self, batch, batch_idx):
        x, _ = batch
        self.predictions.append(self(x).sigmoid())

    def on_test_epoch_end(self):
        mine = torch.cat(self.predictions)
        self.predictions.clear()
        if self.trainer.is_global_zero:
            everything = self.all_gather(mine)  # BUG COD001
            print("tags per sample", (everything > 0.5).float().sum(-1).mean())


def loader(samples, shuffle):
    data = TensorDataset(torch.rand(samples, 5), torch.randint(0, 2, (samples, 3)).float())
    return DataLoader(data, batch_size=4, shuffle=shuffle)


if __name__ == "__main__":
    pl.seed_everything(7)
    tagger = Tagger(5, 3)
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp")
    trainer.fit(tagger, loader(64, shuffle=True))
    trainer.test(tagger, loader(32, shuffle=False))
