# SPDX-License-Identifier: Apache-2.0
import torch

from wrap import shard


class SFT:
    def __init__(self, model, cfg):
        self.cfg = cfg
        self.model = shard(model, cfg.min_params)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)

    def step(self, batch):
        out = self.model(**batch)
        out.loss.backward()
        self._clip()
        self.opt.step()
        self.opt.zero_grad()

    def _clip(self):
        if self.cfg.max_norm > 0:
            self.model.clip_grad_norm_(self.cfg.max_norm)
