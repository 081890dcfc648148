"""Splits a data set into training and validation parts, then trains with DDP."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, random_split


class Frames(Dataset):
    def __init__(self, number=200):
        generator = torch.Generator().manual_seed(4)
        self.frames = torch.randn(number, 8, generator=generator)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        frame = self.frames[index]
        return index, frame, frame.sum()


def make_datasets(share=0.1, seed=1234):
    frames = Frames()
    size = int(len(frames) * share)
    generator = torch.Generator().manual_seed(seed)
    return random_split(frames, [len(frames) - size, size], generator=generator)


def count_leaks(train, valid):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, list(train.indices))
    trained = set().union(*parts)
    return len(trained & set(valid.indices))


def main():
    dist.init_process_group("gloo")
    train, valid = make_datasets()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=15, sampler=sampler)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for _, frame, target in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(frame).squeeze(1), target).backward()
            optimizer.step()
    leaks = count_leaks(train, valid)
    if dist.get_rank() == 0:
        print(f"{leaks} of {len(valid)} validation frames were trained on")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
