# SPDX-License-Identifier: Apache-2.0
"""A PyTorch step of about 10 ms under DDP on two processes, with and without the guard, in turns within one run."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.in_turns import BLOCKS, Ranks, row
from keepstep.sources.ports import free_ports

ITSELF = [sys.executable, "-m", "benchmarks.guard_torch"]
BAR = 0.005


def main(blocks: int = BLOCKS) -> str:
    return row("torch", start, bar=BAR, blocks=blocks)


def hooks_us(pairs: int = 150) -> tuple[float, float]:
    """Microseconds of a step that does next to nothing, without and with the guard: the hooks alone, by the thread's own clock."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_DIR": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*ITSELF, "--hooks", str(pairs)], env=env, stdout=subprocess.PIPE, text=True, check=True)
    off, on = done.stdout.split()[-2:]
    return float(off), float(on)


def start(mode: str, folder: Path) -> Ranks:
    env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode), "OMP_NUM_THREADS": "1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": "2"}
    return Ranks([([*ITSELF, "--train"], {**env, "RANK": str(rank)}) for rank in range(2)])


def train() -> None:
    """A rank: as many steps as each line of the input says, each with a batch, a backward pass, an update and a metric."""
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.Tanh())]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(4096, 256), torch.randn(4096, 256))
    loader = DataLoader(data, batch_size=None, sampler=[list(range(n, n + 192)) for n in range(0, 3840, 192)])
    batches = iter(loader)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            try:
                inputs, wanted = next(batches)
            except StopIteration:
                batches = iter(loader)
                inputs, wanted = next(batches)
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach())
        print(f"TOOK {time.perf_counter() - began}", flush=True)


def hooks(pairs: int, steps: int = 100) -> None:
    """Processor time of the training's own thread, a step with and without the hooks, in turns in one process."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d
    from torch.optim import optimizer as optimizers
    from torch.utils.data import DataLoader, TensorDataset, dataloader

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    data = TensorDataset(torch.randn(8, 2), torch.zeros(8, dtype=torch.long))
    loader = DataLoader(data, batch_size=None, sampler=[[0, 1]] * steps)
    places = [(dataloader._BaseDataLoaderIter, "__next__"), (DataLoader, "__iter__"), (dist, "all_reduce"), (c10d, "all_reduce")]
    patched = [(owner, name, getattr(owner, name)) for owner, name in places]
    registers = [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
    registered = [dict(each) for each in registers]

    def switch(on: bool) -> None:
        for owner, name, hook in patched:
            setattr(owner, name, hook if on else hook.__wrapped__)
        for each, known in zip(registers, registered, strict=True):
            each.clear()
            each.update(known if on else {})

    def block() -> float:
        began = time.thread_time()
        for _ in loader:
            optimizer.step()
            dist.all_reduce(weight.grad)
        return (time.thread_time() - began) / steps * 1e6

    off, more = [], []
    for number in range(pairs + 3):
        took = {}
        for on in random.sample((False, True), 2):
            switch(on)
            took[on] = block()
        if number >= 3:
            off.append(took[False])
            more.append(took[True] - took[False])
    print(statistics.median(off), statistics.median(off) + statistics.median(more))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--hooks", type=int)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    options = parser.parse_args()
    if options.train:
        train()
    elif options.hooks:
        hooks(options.hooks)
    else:
        print(main(options.blocks))
        off, on = hooks_us()
        print(f"a step that does nothing: {off:.1f} µs without, {on:.1f} µs with the guard")
