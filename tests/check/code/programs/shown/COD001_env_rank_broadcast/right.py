"""Resumes a regression from rank 0's copy of the training state, with the rank taken from the environment."""

import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
FOLDER = os.environ.get("RUN_FOLDER", "run")


def read_state():
    path = os.path.join(FOLDER, "state.pt")
    if os.path.exists(path):
        return torch.load(path, map_location="cpu")
    return {"epoch": 0, "lr": 0.05}


def resume():
    """Only rank 0 can see the folder, so its state goes to the others."""
    state = [None]
    if RANK == 0:
        state[0] = read_state()
    dist.broadcast_object_list(state, src=0)
    return state[0]


def samples(epoch):
    generator = torch.Generator().manual_seed(1000 * epoch + RANK)
    x = torch.randn(256, 6, generator=generator)
    return x.split(32), x.mean(1, keepdim=True).split(32)


def main():
    dist.init_process_group("gloo", rank=RANK, world_size=WORLD_SIZE)
    state = resume()
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)))
    optimizer = optim.SGD(model.parameters(), lr=state["lr"])
    for epoch in range(state["epoch"], state["epoch"] + 3):
        total = torch.zeros(())
        for x, y in zip(*samples(epoch)):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        if RANK == 0:
            print(f"epoch {epoch}: loss {total.item() / 8:.4f}")
    dist.destroy_process_group()


main()
