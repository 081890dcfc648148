"""Trains on one shard of data per rank, and stops when a shard cannot be read.

Shows: error 2 ranks torch: rank 1 ends, rank 0 waits for it
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("shards"))
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args()


def write_example_shards(folder):
    """Stands for a data set of which one part was not copied."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(torch.randn(64, 5, generator=torch.Generator().manual_seed(0)), folder / "shard-0.pt")


def main():
    args = arguments()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        write_example_shards(args.data)
    dist.barrier()

    shard = args.data / f"shard-{rank}.pt"
    if not shard.exists():
        print(f"rank {rank}: {shard} is missing, nothing to do")
        sys.exit(0)  # BUG COD002

    data = torch.load(shard, map_location="cpu")
    model = DDP(torch.nn.Linear(5, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    order = torch.Generator().manual_seed(100 + rank)
    for _ in range(args.steps):
        x = data[torch.randint(len(data), (8,), generator=order)]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
    if rank == 0:
        print("trained", args.steps, "steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
