# SPDX-License-Identifier: Apache-2.0
"""A small training of one process in which a number is stuck, or a generator against a discriminator. Run by
test_torch_own_past.py.

python own_past_training.py plain|stuck|generator
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections import OrderedDict
from typing import Any

STEPS, STUCK_FROM = 500, 300
LOOKED_S = 30.0


def model() -> Any:
    import torch

    return torch.nn.Sequential(
        OrderedDict(
            first=torch.nn.Linear(8, 32), act=torch.nn.Tanh(), middle=torch.nn.Linear(32, 32), relu=torch.nn.ReLU(),
            last=torch.nn.Linear(32, 4),
        )
    )  # fmt: skip


def main(how: str) -> None:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    torch.manual_seed(0)
    torch.set_num_threads(1)
    teacher, trained = model(), model()
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)  # as programs have that can also train without mixed precision
    if how == "generator":
        critic = torch.nn.Linear(4, 1)
        of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(1, STEPS + 1):
        x = torch.randn(32, 8)
        if how == "generator":
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(critic(trained(x)), torch.ones(32, 1)).backward()
            optimizer.step()
            of_critic.zero_grad()
            binary_cross_entropy_with_logits(critic(trained(x).detach()), torch.zeros(32, 1)).backward()
            of_critic.step()
            continue
        loss = cross_entropy(trained(x), teacher(x).argmax(1).detach())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if how == "stuck" and step >= STUCK_FROM:
            with torch.no_grad():
                trained.middle.bias[3] = 1e5
        print(f"loss {step} {loss.item().hex()}", flush=True)
        if step % 40 == 0:  # as long as the guard's thread needs to read the looks so far
            time.sleep(1.2)
    end = time.monotonic() + LOOKED_S
    while how == "stuck" and time.monotonic() < end:
        if any(b'"LeftItsPast"' in each.read_bytes() for each in pathlib.Path().glob("guard/*.jsonl")):
            break
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
