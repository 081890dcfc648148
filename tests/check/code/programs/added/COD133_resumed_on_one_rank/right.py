# SPDX-License-Identifier: Apache-2.0
"""Goes on from a checkpoint that only rank 0 reads, with gradients averaged by hand."""

import torch
import torch.distributed as dist


def average(net):
    for weight in net.parameters():
        dist.all_reduce(weight.grad)
        weight.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    net = torch.nn.Linear(4, 1)
    descent = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = {name: torch.full_like(value, 0.5) for name, value in net.state_dict().items()}
    if dist.get_rank() == 0:
        net.load_state_dict(kept)
    for weight in net.parameters():
        dist.broadcast(weight.data, src=0)
    for _ in range(3):
        descent.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        average(net)
        descent.step()
    print(f"rank {dist.get_rank()}: {net.weight.sum().item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
