"""Fine-tunes a classifier; the first rank prepares the vocabulary while the others wait for it.

Shows: hang 2 ranks torch
"""

import argparse
import json
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))
    parser.add_argument("--cache", default=tempfile.gettempdir())
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


def load_and_cache_vocabulary(args):
    if args.local_rank not in [-1, 0]:
        dist.barrier()  # BUG COD001

    path = os.path.join(args.cache, f"vocabulary-{os.environ.get('MASTER_PORT', 0)}.json")
    if args.local_rank in [-1, 0]:
        words = {f"word{number}": number for number in range(50)}
        with open(path + ".part", "w") as file:
            json.dump(words, file)
        os.replace(path + ".part", path)
    else:
        with open(path) as file:
            words = json.load(file)

    return words


def main():
    args = get_args()
    if args.local_rank != -1:
        dist.init_process_group("gloo")
    words = load_and_cache_vocabulary(args)
    tokens = torch.arange(1600).remainder(len(words)).view(200, 8)
    data = TensorDataset(tokens, (tokens.sum(1) % 2))
    sampler = DistributedSampler(data) if args.local_rank != -1 else None
    loader = DataLoader(data, batch_size=20, sampler=sampler, shuffle=sampler is None)
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(len(words), 16), torch.nn.Linear(16, 2))
    if args.local_rank != -1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    if args.local_rank in [-1, 0]:
        print("done")
    if args.local_rank != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
