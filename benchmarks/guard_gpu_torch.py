# SPDX-License-Identifier: Apache-2.0
"""A transformer's training step in PyTorch on one GPU, with and without the guard, in turns. Runs by itself:

PYTHONPATH=src python benchmarks/guard_gpu_torch.py
"""

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

BLOCKS = 40
STEPS = 20
BAR = 0.002
PORTS = {"off": "29611", "on": "29612"}


def main(blocks: int = BLOCKS, device: str = "cuda") -> str:
    """A row of the table."""
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {mode: _Job(mode, Path(folder), device) for mode in ("off", "on")}
        try:
            for job in jobs.values():
                job.block(2 * STEPS)
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
        f"| torch, transformer on {device} | {off * 1000:.2f} | {on * 1000:.2f} | {statistics.median(ratios):+.2%} ± {2 * error:.2%} "
        f"| {ratios[quarter]:+.2%} to {ratios[-quarter - 1]:+.2%} | {BAR:.1%} |"
    )


class _Job:
    """One rank of one, which takes steps when it is told to."""

    def __init__(self, mode: str, folder: Path, device: str) -> None:
        env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORTS[mode], "WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
        self.rank = subprocess.Popen(
            [sys.executable, __file__, "--train", device],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )

    def block(self, steps: int) -> float:
        """Seconds of a step."""
        assert self.rank.stdin is not None and self.rank.stdout is not None
        self.rank.stdin.write(f"{steps}\n")
        self.rank.stdin.flush()
        while line := self.rank.stdout.readline():
            if line.startswith("TOOK "):
                return float(line.split()[1]) / steps
        raise RuntimeError("the benchmark's training ended")

    def end(self) -> None:
        if self.rank.stdin is not None:
            self.rank.stdin.close()
        try:
            self.rank.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.rank.kill()


def train(device: str) -> None:
    """As many steps as each line of the input says."""
    if os.environ["KEEPSTEP"] == "on":  # there is no start-up hook where keepstep is not installed
        from keepstep.guard.start import start

        start()
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(0)
    wide, deep, length, rows = (2048, 12, 1024, 16) if device == "cuda" else (64, 2, 32, 8)  # on a GPU large enough to keep it busy
    layer = torch.nn.TransformerEncoderLayer(wide, 16, 4 * wide, dropout=0.0, batch_first=True, norm_first=True)
    body = torch.nn.TransformerEncoder(layer, deep, enable_nested_tensor=False)
    model = torch.nn.Sequential(torch.nn.Embedding(4096, wide), body, torch.nn.Linear(wide, 4096)).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randint(0, 4096, (512, length)))
    loader = DataLoader(data, rows, drop_last=True, pin_memory=device == "cuda")
    batches = iter(loader)
    for line in sys.stdin:
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(int(line)):
            try:
                (tokens,) = next(batches)
            except StopIteration:
                batches = iter(loader)
                (tokens,) = next(batches)
            tokens = tokens.to(device, non_blocking=True)
            with torch.autocast(device, torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = loss.detach()
            dist.all_reduce(loss)
        if device == "cuda":
            torch.cuda.synchronize()
        print(f"TOOK {time.perf_counter() - began}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.train:
        train(options.train)
    else:
        print("| what | step ms without | with | difference | spread | bar |\n|---|---|---|---|---|---|")
        print(main(options.blocks, options.device))
