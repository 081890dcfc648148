# SPDX-License-Identifier: Apache-2.0
import torch


class EngineTrainer:
    def __init__(self, engine, loader, log):
        self.engine, self.loader, self.log = engine, loader, log

    def losses(self):
        for batch in self.loader:
            yield self.engine(**{k: v.to(self.engine.device) for k, v in batch.items()}).loss

    def train(self):
        for step, loss in enumerate(self.losses()):
            if torch.isnan(loss):
                self.log(f"step {step}: bad loss")
                continue
            self.engine.backward(loss)  # BUG COD125
            self.engine.step()
            if step % 10 == 0:
                self.log(f"step {step}: {loss.item():.3f}")
