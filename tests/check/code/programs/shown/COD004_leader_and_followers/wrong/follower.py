import torch.distributed as dist
from work import solve

previous = None


def follow():
    global previous
    task = [None]
    dist.gather_object(previous, None, dst=0)
    dist.scatter_object_list(task, None, src=0)
    previous = solve(task[0])
