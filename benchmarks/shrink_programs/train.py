# SPDX-License-Identifier: Apache-2.0
"""A training of two files with one planted bug: the series puts it in place of a marked line."""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from parts import Batches, Model, moving_average
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BUG = True


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--resume", default="")
    return parser.parse_args()


class History:
    """The losses so far, as a table for people."""

    def __init__(self, rank):
        self.rank = rank
        self.losses = []
        self.began = time.time()

    def add(self, loss):
        self.losses.append(float(loss))

    def line(self):
        smooth = moving_average(self.losses, 5)
        return f"rank {self.rank}: loss {smooth:.3f} after {time.time() - self.began:.1f} s"

    def as_json(self):
        return json.dumps({"rank": self.rank, "losses": self.losses})


def save(model, step):
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "step": step}, f"step-{step}.pt")


def resume(model, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    return state["step"]


def mean_over_ranks(value):
    total = torch.tensor([float(value)])
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train(arguments):
    rank = dist.get_rank()
    torch.manual_seed(1)
    net = Model(16, arguments.width, 6)
    first = resume(net, arguments.resume) if arguments.resume else 0
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    history = History(rank)
    batches = Batches(arguments.steps, arguments.batch, rank)
    # LENGTH
    for step, (x, y) in enumerate(batches, first):
        # LABELS
        loss = nn.functional.cross_entropy(model(x), y)
        # VALUE
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.add(loss)
        # NATIVE
        # COLLECTIVE
        if step % 10 == 0:
            mean = mean_over_ranks(loss)
            if rank == 0:
                print(f"step {step}: {mean:.3f}", flush=True)
        if arguments.save_every and step % arguments.save_every == 0:
            save(model, step)
    print(history.line())
    return history


def main():
    arguments = options()
    dist.init_process_group("gloo")
    history = train(arguments)
    if os.environ.get("HISTORY"):
        with open(os.environ["HISTORY"], "w") as stream:
            stream.write(history.as_json())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
