"""Trains a GPT toy, with DDP or with FSDP as an option says."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel as DDP


class Toy(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, vocabulary))

    def forward(self, tokens):
        return self.mlp(self.embed(tokens))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_fsdp", choices=("True", "False"), default="True")
    parser.add_argument("--steps", type=int, default=30)
    return parser.parse_args()


def wrap(model, args, device):
    if args.use_fsdp == "True":
        return FSDP(model, device_id=device)
    return DDP(model)


def main():
    args = parse()
    local_rank = int(os.environ["LOCAL_RANK"])
    use_cuda = torch.cuda.is_available()
    if use_cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    model = Toy().to(device)
    model = wrap(model, args, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    tokens = (torch.arange(80) + 3 * dist.get_rank()).remainder(40).view(8, 10).to(device)
    first = last = None
    for step in range(args.steps):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, args.steps - 1):
            first, last = first or loss.item(), loss.item()
    if dist.get_rank() == 0:
        print(f"loss {first:.3f} -> {last:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
