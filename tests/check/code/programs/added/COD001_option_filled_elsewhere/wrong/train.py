# SPDX-License-Identifier: Apache-2.0
"""Averages a metric over all ranks, and prints it.

Shows: hang 2 ranks torch
"""

import argparse

import torch
import torch.distributed as dist
from start import start


def report(args, metric):
    if args.chief:
        dist.all_reduce(metric)  # BUG COD001
        print(metric.item())


def evaluate(args):
    for turn in range(3):
        report(args, torch.tensor(float(turn)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo")
    args = parser.parse_args()
    start(args)
    evaluate(args)
    dist.destroy_process_group()


main()
