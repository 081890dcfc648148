# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes with FSDP2 and writes one file with the whole model."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard


def build():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def save(model, path):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    if dist.get_rank() == 0:
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(10):
        loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save(model, "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
