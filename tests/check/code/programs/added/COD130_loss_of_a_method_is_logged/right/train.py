# SPDX-License-Identifier: Apache-2.0
"""Forecasts series with Lightning and stops early."""

import lightning as L
from lightning.pytorch.callbacks import EarlyStopping

from data import Series
from module import Forecaster


def main():
    trainer = L.Trainer(
        accelerator="gpu", devices=8, strategy="ddp", max_epochs=50, callbacks=[EarlyStopping("val/loss")]
    )
    trainer.fit(Forecaster(), datamodule=Series())


if __name__ == "__main__":
    main()
