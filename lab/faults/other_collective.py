"""The rank enters a broadcast that its peers do not: the ranks' orders of collectives differ."""


def at(step: int, rank: int) -> None:
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.zeros(3), src=rank)
