"""Trains while a thread writes figures to a file, and forks a process for each evaluation.

Shows: hang 2 ranks torch
"""

import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Figures:
    """Rows that a thread writes to a file every now and then."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.rows = []
        self.thread = threading.Thread(target=self._write, daemon=True)

    def start(self):
        self.thread.start()

    def add(self, row):
        with self.lock:
            self.rows.append(row)

    def _write(self):
        while True:
            with self.lock:
                with open(self.path, "w") as file:
                    file.writelines(f"{row}\n" for row in self.rows)
                time.sleep(0.2)
            time.sleep(0.001)


def evaluate(model, figures):
    x = torch.linspace(-1, 1, 12).view(2, 6)
    with torch.no_grad():
        figures.add(f"evaluated {model.module(x).mean().item():.4f}")


def evaluate_in_child(model, figures):
    child = os.fork()  # BUG COD113
    if child == 0:
        evaluate(model, figures)
        os._exit(0)
    os.waitpid(child, 0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    figures = Figures(f"figures-{rank}.txt")
    figures.start()
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, 21):
        x = torch.randn(10, 6, generator=generator)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        if step % 5 == 0:
            evaluate_in_child(model, figures)
        figures.add(f"step {step}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
