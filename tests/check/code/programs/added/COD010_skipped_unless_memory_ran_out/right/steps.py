# SPDX-License-Identifier: Apache-2.0
import torch


class Stepper:
    def __init__(self, net, optim, criterion):
        self.net, self.optim, self.criterion = net, optim, criterion

    def __call__(self, batch):
        return self._run(batch)

    def _run(self, batch):
        x, y = (t.cuda(non_blocking=True) for t in batch)
        self.optim.zero_grad(set_to_none=True)
        loss = self.criterion(self.net(x), y)
        loss.backward()
        self.optim.step()
        return loss.detach()
