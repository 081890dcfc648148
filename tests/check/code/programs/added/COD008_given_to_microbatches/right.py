# SPDX-License-Identifier: Apache-2.0
"""Takes its batches in parts where memory is short."""

import torch
import torch.distributed as dist

import keepstep


def main():
    dist.init_process_group("gloo")
    weight = torch.zeros(8, requires_grad=True)

    def gradients(parts):
        weight.grad = None
        for rows, share in parts:
            ((rows @ weight - 1.0).square().mean() * share).backward()

    for _ in range(10):
        keepstep.microbatches(gradients, torch.randn(32, 8))
        dist.all_reduce(weight.grad)
        with torch.no_grad():
            weight -= 0.1 * weight.grad / dist.get_world_size()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
