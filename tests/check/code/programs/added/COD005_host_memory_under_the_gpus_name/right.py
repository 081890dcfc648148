# SPDX-License-Identifier: Apache-2.0
"""Logs the memory of a training step by step."""

import logging

import psutil
import torch
from torch import nn

logger = logging.getLogger(__name__)


def host_memory_gb():
    return psutil.Process().memory_info().rss / 1e9


def train(steps):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(512, 512).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        loss = model(torch.randn(64, 512, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        used = psutil.virtual_memory().used / 1e9
        if step % 10 == 0:
            logger.info("step %d: host memory %.2f GB", step, used)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    train(50)
