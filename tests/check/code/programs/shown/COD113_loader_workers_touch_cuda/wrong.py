"""Trains a retrieval model on samples that a frozen encoder prepares on the GPU.

From: https://github.com/pytorch/pytorch/issues/40403
Shows: nothing here (needs GPU)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Encoded(Dataset):
    def __init__(self, encoder, device, number=1000):
        self.encoder = encoder
        self.device = device
        self.seeds = range(number)

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seeds[index])
        query = torch.randn(32, generator=generator)
        with torch.no_grad():
            return self.encoder(query.to(self.device)).cpu(), query.norm()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    torch.manual_seed(0)
    encoder = nn.Linear(32, 16).to(device).eval()
    data = Encoded(encoder, device)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=20, sampler=sampler, num_workers=4)  # BUG COD113
    model = DistributedDataParallel(nn.Linear(16, 1).to(device), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for vectors, norms in loader:
            vectors, norms = vectors.to(device), norms.to(device)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(vectors).squeeze(1), norms).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
