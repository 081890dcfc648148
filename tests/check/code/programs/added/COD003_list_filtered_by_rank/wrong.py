# SPDX-License-Identifier: Apache-2.0
"""Normalises the documents that a rank holds, and tells the others how long each is.

Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist

DOCUMENTS = ["a b c", "d e", "f g h i", "j", "k l m"]


def own(documents):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return [text for number, text in enumerate(documents) if number % ranks == rank]


def main():
    dist.init_process_group("gloo")
    total = torch.zeros(1)
    for text in own(DOCUMENTS):  # BUG COD003
        length = torch.tensor([float(len(text.split()))])
        dist.all_reduce(length)
        total += length
    print(f"rank {dist.get_rank()}: {total.item()} words")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
