# SPDX-License-Identifier: Apache-2.0
"""A transformer's training step in PyTorch on one GPU, with and without the guard, in turns. Runs by itself:

PYTHONPATH=src python -m benchmarks.guard_gpu_torch [--saves]

With ``--saves`` all weights are saved before each block of steps, so the guard's thread reads the file while they are
taken; the save itself is not in the time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.in_turns import HEADING, Ranks, row
from keepstep.sources.host.ports import free_ports

BLOCKS = 40
STEPS = 20
BAR = 0.002


def main(blocks: int = BLOCKS, device: str = "cuda", *, saves: bool = False) -> str:
    """A row of the table: one rank of one, on one device."""

    def start(mode: str, folder: Path) -> Ranks:
        env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode), "MASTER_ADDR": "127.0.0.1"}
        saved = ["--saved", str(folder / f"{mode}.pt")] if saves else []
        env |= {"MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
        return Ranks([([sys.executable, "-m", "benchmarks.guard_gpu_torch", "--train", device, *saved], env)])

    what = f"torch, transformer on {device}{', right after a save' if saves else ''}"
    return row(what, start, bar=BAR, blocks=blocks, steps=STEPS)


def train(device: str, saved: str | None) -> None:
    """As many steps as each line of the input says; before them a checkpoint, if there is a place for it."""
    if os.environ["KEEPSTEP"] == "on":  # there is no start-up hook where keepstep is not installed
        from keepstep.guard.startup_hook import start

        start()
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(0)
    wide, deep, length, rows = (
        (2048, 12, 1024, 16) if device == "cuda" else (64, 2, 32, 8)
    )  # on a GPU large enough to keep it busy
    layer = torch.nn.TransformerEncoderLayer(wide, 16, 4 * wide, dropout=0.0, batch_first=True, norm_first=True)
    body = torch.nn.TransformerEncoder(layer, deep, enable_nested_tensor=False)
    model = torch.nn.Sequential(torch.nn.Embedding(4096, wide), body, torch.nn.Linear(wide, 4096)).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randint(0, 4096, (512, length)))
    loader = DataLoader(data, rows, drop_last=True, pin_memory=device == "cuda")
    batches = iter(loader)
    for line in sys.stdin:
        if saved:
            torch.save(model.state_dict(), saved)
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
    parser.add_argument("--saves", action="store_true")
    parser.add_argument("--saved")
    options = parser.parse_args()
    if options.train:
        train(options.train, options.saved)
    else:
        print(HEADING)
        print(main(options.blocks, options.device, saves=options.saves))
