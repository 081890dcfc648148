"""Trains with DDP on a stream of sentences, of which each rank reads its own files.

From: https://github.com/microsoft/PyMarlin/issues/80
Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

SENTENCES_PER_FILE = [40, 25, 33, 18]


class Stream(IterableDataset):
    def __init__(self, rank, world):
        self.files = list(range(len(SENTENCES_PER_FILE)))[rank::world]

    def __iter__(self):
        for number in self.files:
            generator = torch.Generator().manual_seed(number)
            for _ in range(SENTENCES_PER_FILE[number]):
                yield torch.randint(0, 50, (9,), generator=generator)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.head = nn.Linear(12, 50)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def step(model, optimizer, tokens):
    optimizer.zero_grad()
    logits = model(tokens[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    loader = DataLoader(Stream(rank, world), batch_size=4)
    model = DDP(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = 0
    for tokens in loader:  # BUG COD109
        step(model, optimizer, tokens)
        batches += 1
    dist.barrier()
    if rank == 0:
        print("rank 0 saw", batches, "batches")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
