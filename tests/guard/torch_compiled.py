# SPDX-License-Identifier: Apache-2.0
"""Compiled steps of PyTorch, with and without the optimizer and a collective in them. Run by test_torch_harmless.py."""

from __future__ import annotations

import hashlib
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_of(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(inputs), labels)


def mean(values: torch.Tensor) -> torch.Tensor:
    values = values * 2
    dist.all_reduce(values)
    return values / 4


whole_graph = torch.compile(loss_of, fullgraph=True, backend="aot_eager")
reduced = torch.compile(mean, fullgraph=True, backend="aot_eager")
update = torch.compile(optimizer.step, backend="aot_eager")
made = torch.Generator().manual_seed(dist.get_rank())
data = TensorDataset(torch.randn(480, 8, generator=made), torch.randint(0, 4, (480,), generator=made))
for number, (inputs, labels) in enumerate(DataLoader(data, 16)):
    loss = whole_graph(inputs, labels)
    optimizer.zero_grad()
    loss.backward()
    for each in model.parameters():
        each.grad = reduced(each.grad)
    if number < 20:
        update()
    else:
        optimizer.step()
found = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
print(f"rank {os.environ['RANK']} ended with {hashlib.sha256(found).hexdigest()}", flush=True)
dist.destroy_process_group()
