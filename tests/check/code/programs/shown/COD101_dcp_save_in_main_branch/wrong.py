"""Trains with fully_shard and writes distributed checkpoints through a small class.

Shows: error 2 ranks torch: the lone save meets another collective
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

FOLDER = os.path.join(tempfile.gettempdir(), f"dcp-{os.environ.get('MASTER_PORT', 0)}")


class Checkpoints:
    def __init__(self, folder):
        self.folder = folder
        self.main = dist.get_rank() == 0

    def save(self, model, optimizer, step):
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": step}
        target = os.path.join(self.folder, f"step-{step}")
        if self.main:
            os.makedirs(target, exist_ok=True)
            dcp.save(state, checkpoint_id=target)  # BUG COD101
        if self.main:
            print("saved", os.path.basename(target))


def build(device):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    use_cuda = torch.cuda.is_available()
    if use_cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    model = build(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    checkpoints = Checkpoints(FOLDER)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(1, 9):
        x = torch.randn(4, 8, generator=generator).to(device)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
        if step % 4 == 0:
            checkpoints.save(model, optimizer, step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
