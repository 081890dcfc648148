# SPDX-License-Identifier: Apache-2.0
"""A PyTorch step of about 10 ms under DDP on two processes, with and without the guard's hooks, in turns within one
run."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path

from benchmarks.hooks import HEADING, LONG, PAIRS, row, serve
from benchmarks.in_turns import Ranks
from keepstep.sources.host.ports import free_ports

ITSELF = [sys.executable, "-m", "benchmarks.guard_torch"]
BAR = 0.005
ROWS = 256


def main(pairs: int = PAIRS) -> str:
    rows = {"torch, two ranks on CPU": (), "the same, and a metric that all ranks sum up at every step": ("--metric",)}
    return "\n".join(
        row(name, functools.partial(start, more=more), bar=BAR, pairs=pairs) for name, more in rows.items()
    )


def long(pairs: int = PAIRS) -> str:
    """Steps that are long beside what the machine's noise adds to them."""
    start_long = functools.partial(start, more=("--rows", str(LONG["rows"] * ROWS)))
    counts = {name: LONG[name] for name in ("steps", "settling", "inside")}
    return row("torch, two ranks on CPU, long steps", start_long, bar=BAR, pairs=pairs, **counts)


def start(folder: Path, more: tuple[str, ...] = ()) -> Ranks:
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": "2"}
    return Ranks([([*ITSELF, "--train", *more], {**env, "RANK": str(rank)}) for rank in range(2)])


def train(metric: bool = False, rows: int = ROWS) -> None:
    """A rank.

    Each step has a batch, a backward pass and an update; with ``metric``, a collective of the script's own as well.
    """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.Tanh())]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(16 * rows, 256), torch.randn(16 * rows, 256))
    loader = DataLoader(data, batch_size=None, sampler=[list(range(n, n + rows)) for n in range(0, 16 * rows, rows)])
    batches = iter(loader)

    def take(steps: int) -> None:
        nonlocal batches
        for _ in range(steps):
            try:
                inputs, wanted = next(batches)
            except StopIteration:
                batches = iter(loader)
                inputs, wanted = next(batches)
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if metric:
                dist.all_reduce(loss.detach())

    serve("torch", take)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--metric", action="store_true")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--long", action="store_true", help="steps of about 70 ms")
    options = parser.parse_args()
    if options.train:
        train(options.metric, options.rows)
    else:
        print(HEADING)
        print((long if options.long else main)(options.pairs))
