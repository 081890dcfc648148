"""A Horovod speaker-verification run that gathers the embeddings of each speaker after training.

From: https://github.com/horovod/horovod/issues/2420
Shows: nothing here (needs horovod)
"""

import horovod.torch as hvd
import torch
from torch import nn

SPEAKERS = 37


def embeddings_of(model, speaker):
    generator = torch.Generator().manual_seed(speaker)
    with torch.no_grad():
        return model(torch.randn(4, 20, generator=generator)).mean(0, keepdim=True)


def train(model, optimizer, rank, steps=50):
    generator = torch.Generator().manual_seed(1234 + rank)
    for _ in range(steps):
        x = torch.randn(16, 20, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :8]).backward()
        optimizer.step()


def main():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=1e-3), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    train(model, optimizer, rank)

    mine = list(range(rank, SPEAKERS, size))
    table = []
    while mine:  # BUG COD003
        speaker = mine.pop(0)
        table.append(hvd.allgather(embeddings_of(model, speaker), name="embedding"))
    everything = torch.cat(table)
    if rank == 0:
        print("speakers", everything.shape[0])


if __name__ == "__main__":
    main()
