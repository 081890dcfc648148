"""Trains a click model and writes one row of metrics per epoch to a table.

Shows: differs 2 ranks torch (prints rows [0-5] of 6)
"""

import csv
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Table:
    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = open(folder / "metrics.csv", "w", newline="")  # BUG COD120
        self.rows = csv.writer(self.file)
        self.rows.writerow(["rank", "epoch", "clicks"])

    def add(self, epoch, clicks):
        self.rows.writerow([dist.get_rank(), epoch, clicks])
        self.file.flush()

    def close(self):
        self.file.close()


def clicks(rows=240):
    generator = torch.Generator().manual_seed(23)
    x = torch.rand(rows, 12, generator=generator)
    return TensorDataset(x, (x.sum(1, keepdim=True) > 6).float())


def main(epochs=3):
    dist.init_process_group("gloo")
    table = Table(Path("metrics"))
    data = clicks()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    model = DDP(nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        positive = torch.zeros(())
        for x, y in loader:
            optimizer.zero_grad()
            scores = model(x)
            nn.functional.binary_cross_entropy_with_logits(scores, y).backward()
            optimizer.step()
            positive += (scores.detach() > 0).sum()
        table.add(epoch, int(positive.item()))
    table.close()
    dist.barrier()
    written = list(Path("metrics").glob("*.csv"))
    rows = sum(len(path.read_text().splitlines()) - 1 for path in written)
    if dist.get_rank() == 0:
        print("rows", rows, "of", epochs * dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
