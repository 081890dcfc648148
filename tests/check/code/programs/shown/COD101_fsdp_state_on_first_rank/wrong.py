"""Trains a model that is sharded with FSDP and saves its full weights.

From: https://github.com/pytorch/pytorch/issues/122903
Shows: nothing here (needs GPU)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.net(x)


def save_full(model, path, rank):
    policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy):
        if rank == 0:
            state = model.state_dict()  # BUG COD101
            torch.save(state, path + ".part")
            os.replace(path + ".part", path)


def main():
    if torch.cuda.is_available():
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        device = torch.device("cuda", local_rank)
    else:
        dist.init_process_group("gloo")
        device = torch.device("cpu")
    rank = dist.get_rank()
    model = FSDP(nn.Sequential(Block(16), Block(16)).to(device), device_id=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, 11):
        x = torch.randn(8, 16, generator=generator).to(device)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        if step % 5 == 0:
            save_full(model, f"full-{step}.pt", rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
