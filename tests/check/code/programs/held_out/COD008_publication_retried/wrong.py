"""Publishes the shards of a model from all ranks after training, and tries again when an upload fails.

From: https://github.com/ai-dynamo/modelexpress/pull/685
Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist


class Storage:
    """Stands for an object store that refuses the first request of the last rank."""

    def __init__(self, fails):
        self.fails = fails
        self.objects = {}

    def put(self, name, value):
        if self.fails > 0:
            self.fails -= 1
            raise ConnectionError("slow down")
        self.objects[name] = value


def publish(storage, shard, rank, world):
    for attempt in range(3):
        try:
            sizes = [None] * world
            dist.all_gather_object(sizes, shard.numel())  # BUG COD008
            storage.put(f"shard-{rank}", shard)
            return sizes
        except ConnectionError as error:
            print(f"rank {rank}: attempt {attempt}: {error}")
    raise RuntimeError("not published")


def train(rank, steps=10):
    generator = torch.Generator().manual_seed(rank)
    shard = torch.nn.Parameter(torch.randn(6 + rank, generator=generator))
    optimizer = torch.optim.SGD([shard], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        shard.pow(2).sum().backward()
        optimizer.step()
    return shard.detach()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    storage = Storage(fails=1 if rank == world - 1 else 0)
    for version in range(2):
        shard = train(rank)
        sizes = publish(storage, shard, rank, world)
        total = torch.tensor(sum(sizes), dtype=torch.float64)
        dist.all_reduce(total, op=dist.ReduceOp.MAX)
        assert total.item() == sum(sizes), (total.item(), sizes)
        if rank == 0:
            print(f"version {version}: {sizes}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
