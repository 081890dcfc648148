"""Averages evaluation results over ranks through a function that a decorator calls again after errors."""

import functools
import random
import time

import torch
import torch.distributed as dist


def retry(times, wait_s):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for attempt in range(times):
                try:
                    return function(*args, **kwargs)
                except OSError:
                    if attempt == times - 1:
                        raise
                    time.sleep(wait_s)

        return wrapper

    return decorate


class Evaluator:
    def __init__(self, rank):
        self.rank = rank
        self.reads = 0

    @retry(times=3, wait_s=0.1)
    def read_answers(self, number):
        """Reads what this rank predicted; the shared file system sometimes fails."""
        self.reads += 1
        if self.rank == 1 and self.reads == 2:
            raise OSError("stale file handle")
        return random.Random(10 * number + self.rank).random()

    def mean(self, number):
        count = torch.ones(1)
        dist.all_reduce(count)
        score = torch.tensor([self.read_answers(number)])
        dist.all_reduce(score)
        return (score / count).item()


def expected(number, world):
    return sum(random.Random(10 * number + rank).random() for rank in range(world)) / world


def main():
    dist.init_process_group("gloo")
    evaluator = Evaluator(dist.get_rank())
    for number in range(4):
        mean = evaluator.mean(number)
        assert abs(mean - expected(number, dist.get_world_size())) < 1e-5, mean
    dist.barrier()
    if dist.get_rank() == 0:
        print("4 results")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
