import argparse
import logging
import os
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from shards import Shard, write_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")


class Tokens(Dataset):
    def __init__(self, shard, length):
        self.shard, self.length = shard, length

    def __len__(self):
        return len(self.shard)

    def __getitem__(self, number):
        tokens = self.shard.document(number, self.length + 1)
        tokens = torch.from_numpy(tokens.astype(np.int64))
        return tokens[:-1], tokens[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, words, width, layers, heads):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def prepare(folder, words, documents, world):
    generator = np.random.default_rng(17)
    for number in range(world):
        lengths = generator.integers(8, 40, size=documents)
        write_shard(folder, number, [generator.integers(0, words, size=n) for n in lengths])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    folder = os.path.join(tempfile.gettempdir(), "tokens")
    if rank == 0:
        prepare(folder, args.words, 64, world)
    dist.barrier()
    loader = DataLoader(Tokens(Shard(folder, rank), args.length), batch_size=args.batch, shuffle=True)
    model = DDP(Model(args.words, args.width, args.layers, args.heads))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = torch.zeros(1)
        for inputs, targets in loader:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            log.info("epoch %d: loss %.4f", epoch, total.item() / world / len(loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
