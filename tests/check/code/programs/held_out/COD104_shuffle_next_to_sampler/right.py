"""Trains a detector toy on one or several processes with the same loader."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Boxes(Dataset):
    def __init__(self, number=80):
        self.generator = torch.Generator().manual_seed(3)
        self.images = torch.rand(number, 3 * 6 * 6, generator=self.generator)
        self.boxes = torch.rand(number, 4, generator=self.generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.boxes[index]

    @staticmethod
    def collate(samples):
        images, boxes = zip(*samples)
        return torch.stack(images), torch.stack(boxes)


def main():
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    dataset = Boxes()
    model = nn.Sequential(nn.Linear(108, 32), nn.LeakyReLU(), nn.Linear(32, 4))
    if world_size > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
        sampler = DistributedSampler(dataset)
    else:
        sampler = None

    dataloader = DataLoader(
        dataset,
        batch_size=8,
        shuffle=sampler is None,
        collate_fn=dataset.collate,
        sampler=sampler,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for images, boxes in dataloader:
            optimizer.zero_grad()
            nn.functional.l1_loss(model(images), boxes).backward()
            optimizer.step()
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
