import torch
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def scenes(number=120):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(number, 7, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def rarity(data):
    return torch.where(data.tensors[1].flatten() > 2, 4.0, 1.0)


def build_loader(batch_size):
    data = scenes()
    sampler = WeightedRandomSampler(rarity(data), num_samples=len(data))
    return DataLoader(data, batch_size=batch_size, sampler=sampler)  # BUG COD103
