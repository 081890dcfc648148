# SPDX-License-Identifier: Apache-2.0
"""Averages the metrics of all ranks, one after the other."""

import torch
import torch.distributed as dist


def average(metrics):
    names = set(metrics.keys())
    for name in sorted(names):
        dist.all_reduce(metrics[name])
        metrics[name] /= dist.get_world_size()
    return metrics


def main():
    dist.init_process_group("gloo")
    metrics = {name: torch.tensor(float(place)) for place, name in enumerate("loss accuracy recall speed".split())}
    for name, value in sorted(average(metrics).items()):
        print(name, value.item())
    dist.destroy_process_group()


main()
