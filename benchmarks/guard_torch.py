# SPDX-License-Identifier: Apache-2.0
"""A PyTorch step of about 10 ms under DDP on two processes, with and without the guard, in turns within one run."""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCKS = 60
STEPS = 25
BAR = 0.005


def main(blocks: int = BLOCKS) -> str:
    """A row of the table: two trainings side by side, of which one goes on while the other one waits."""
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {mode: _Job(mode, Path(folder)) for mode in ("off", "on")}
        try:
            for job in jobs.values():
                job.block(3 * STEPS)
            times: dict[str, list[float]] = {"off": [], "on": []}
            for _ in range(blocks):
                for mode in random.sample(("off", "on"), 2):
                    times[mode].append(jobs[mode].block(STEPS))
        finally:
            for job in jobs.values():
                job.end()
    ratios = sorted(on / off - 1 for off, on in zip(times["off"], times["on"], strict=True))
    quarter = len(ratios) // 4
    off, on = statistics.median(times["off"]), statistics.median(times["on"])
    error = 1.253 * statistics.stdev(ratios) / len(ratios) ** 0.5  # of a median
    return (
        f"| torch | {off * 1000:.2f} | {on * 1000:.2f} | {statistics.median(ratios):+.2%} ± {2 * error:.2%} "
        f"| {ratios[quarter]:+.2%} to {ratios[-quarter - 1]:+.2%} | {BAR:.1%} |"
    )


def hooks_us(pairs: int = 150) -> tuple[float, float]:
    """Microseconds of a step that does next to nothing, without and with the guard: the hooks alone, by the thread's own clock."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_DIR": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, __file__, "--hooks", str(pairs)], env=env, stdout=subprocess.PIPE, text=True, check=True)
    off, on = done.stdout.split()[-2:]
    return float(off), float(on)


class _Job:
    """Two ranks that take steps when they are told to."""

    def __init__(self, mode: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode), "OMP_NUM_THREADS": "1"}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        self.ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--train"],
                env={**env, "RANK": str(rank)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            for rank in range(2)
        ]  # fmt: skip

    def block(self, steps: int) -> float:
        """Seconds of a step."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{steps}\n")
            rank.stdin.flush()
        return max(self._answer(rank) for rank in self.ranks) / steps

    def _answer(self, rank: subprocess.Popen[str]) -> float:
        assert rank.stdout is not None
        while line := rank.stdout.readline():
            if line.startswith("TOOK "):
                return float(line.split()[1])
        raise RuntimeError("a rank of the benchmark ended")

    def end(self) -> None:
        for rank in self.ranks:
            if rank.stdin is not None:
                rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(timeout=30)
            except subprocess.TimeoutExpired:
                rank.kill()


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
