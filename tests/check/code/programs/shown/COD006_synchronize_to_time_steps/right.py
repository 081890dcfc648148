"""Pre-trains a small transformer with DDP and reports the time that a step takes."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Stopwatch:
    def __init__(self):
        self.times = []
        self.start = 0.0

    def begin(self):
        self.start = time.perf_counter()

    def end(self, steps=1):
        self.times.append((time.perf_counter() - self.start) / steps)


def batches(device, number, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    for _ in range(number):
        yield torch.randint(0, 1000, (8, 129), generator=generator, device=device)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(128, 1000)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)))


def train(log_every=20, steps=400):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    model = DistributedDataParallel(Model().to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch = Stopwatch()
    watch.begin()
    for step, tokens in enumerate(batches(device, steps, seed=dist.get_rank()), start=1):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % log_every == 0:
            torch.cuda.synchronize()
            watch.end(log_every)
            watch.begin()
            if local_rank == 0:
                print(f"step {step}: {watch.times[-1] * 1000:.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
