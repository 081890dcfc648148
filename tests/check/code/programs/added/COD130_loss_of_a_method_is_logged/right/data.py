# SPDX-License-Identifier: Apache-2.0
import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Series(L.LightningDataModule):
    def setup(self, stage):
        blob = torch.load("series.pt")
        self.parts = {k: TensorDataset(*blob[k]) for k in ("train", "val")}

    def train_dataloader(self):
        return DataLoader(self.parts["train"], 64, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts["val"], 64)
