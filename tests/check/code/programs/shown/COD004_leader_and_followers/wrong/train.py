"""A leader hands out work and collects answers; the followers' part is in another module.

Shows: hang 2 ranks torch
"""

import torch.distributed as dist
from follower import follow
from leader import lead

ROUNDS = 3


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:  # BUG COD004
        for number in range(ROUNDS):
            answers = lead(number)
            print(f"round {number}: {answers}")
    else:
        for _ in range(ROUNDS):
            follow()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
