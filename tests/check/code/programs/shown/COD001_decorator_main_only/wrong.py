"""Trains a language-model toy; a decorator keeps its summary to the main process.

Shows: error 2 ranks torch: the lone all_reduce meets another collective
"""

import functools
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def is_main_process():
    return not dist.is_initialized() or dist.get_rank() == 0


def main_process_only(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if is_main_process():
            return function(*args, **kwargs)
        return None

    return wrapper


class TinyLM(torch.nn.Module):
    def __init__(self, vocabulary=32, width=16):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


@main_process_only
def summarise(epoch, loss, tokens):
    dist.all_reduce(loss)  # BUG COD001
    dist.all_reduce(tokens)
    print(f"epoch {epoch}: {(loss / tokens).item():.4f} nats per token")


def main():
    dist.init_process_group(backend=os.environ.get("BACKEND", "gloo"))
    text = torch.arange(2048).remainder(31).view(128, 16)
    data = TensorDataset(text[:, :-1], text[:, 1:])
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(TinyLM())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        loss_sum, tokens = torch.zeros(1), torch.zeros(1)
        for context, target in loader:
            loss = F.cross_entropy(model(context).flatten(0, 1), target.flatten(), reduction="sum")
            optimizer.zero_grad()
            (loss / target.numel()).backward()
            optimizer.step()
            loss_sum += loss.detach()
            tokens += target.numel()
        summarise(epoch, loss_sum, tokens)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
