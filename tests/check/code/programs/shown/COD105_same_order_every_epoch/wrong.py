"""Trains a small network for several epochs over a shuffled, distributed data set.

From: https://github.com/pytorch/pytorch/issues/31771
Shows: differs 2 ranks torch (order)
"""

import torch
import torch.distributed
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class RandomDataset(Dataset):
    def __init__(self, number=44):
        generator = torch.Generator().manual_seed(5)
        self.data = torch.rand(number, 1, 8, 8, generator=generator)
        self.name = torch.arange(number)

    def __getitem__(self, index):
        return self.name[index], self.data[index]

    def __len__(self):
        return len(self.data)


def setup():
    torch.distributed.init_process_group(backend="gloo")
    dataset = RandomDataset()
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=5, drop_last=True, sampler=sampler)
    return loader, sampler


def main():
    loader, sampler = setup()
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):  # BUG COD105
        total = torch.zeros(())
        for names, images in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), names % 4)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        if torch.distributed.get_rank() == 0:
            print(f"epoch {epoch}: {total.item():.4f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
