# SPDX-License-Identifier: Apache-2.0
"""A small language model in the manner of single-file trainers: batches cut from one array, ``ckpt.pt``, resume by a
setting.

torchrun --standalone --nproc_per_node=2 gpt_train.py --init_from=resume
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import torch
from gpt_model import GPT
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

# defaults; --key=value overrides them
out_dir = "out"
init_from = "scratch"
max_iters = 120
eval_interval = 40
eval_iters = 4
batch_size = 8
block_size = 32
learning_rate = 1e-3
gradient_accumulation_steps = 2

for argument in sys.argv[1:]:
    key, _, value = argument.removeprefix("--").partition("=")
    assert key in globals(), f"unknown key {key}"
    globals()[key] = type(globals()[key])(value)

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend="gloo")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
else:
    rank, world_size = 0, 1
master = rank == 0
torch.manual_seed(1337 + rank)
torch.set_num_threads(1)
os.makedirs(out_dir, exist_ok=True)
checkpoint_path = os.path.join(out_dir, "ckpt.pt")

tokens = np.random.RandomState(5).randint(0, 64, size=20_000)
tokens[1::2] = (tokens[::2] * 3 + 1) % 64  # something to learn
split = {"train": tokens[:18_000], "val": tokens[18_000:]}


def get_batch(name):
    data = split[name]
    starts = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size]) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size]) for i in starts])
    return x, y


model = GPT(64, block_size)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
iteration, best = 0, 1e9
if init_from == "resume" and os.path.exists(checkpoint_path):
    checkpoint = torch.load(checkpoint_path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iteration, best = checkpoint["iteration"], checkpoint["best"]
    print(f"rank {rank} resumes at iteration {iteration}", flush=True)
raw_model = model
if ddp:
    model = DDP(model)


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = {}
    for name in split:
        values = [raw_model(*get_batch(name))[1].item() for _ in range(eval_iters)]
        losses[name] = sum(values) / len(values)
    model.train()
    return losses


x, y = get_batch("train")
began = time.time()
while True:
    if iteration % eval_interval == 0 and master:
        losses = estimate_loss()
        print(f"iter {iteration}: train loss {losses['train']!r}, val loss {losses['val']!r}", flush=True)
        if iteration > 0:
            best = min(best, losses["val"])
            checkpoint = {
                "model": raw_model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "iteration": iteration,
                "best": best,
            }
            torch.save(checkpoint, checkpoint_path)
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        logits, loss = model(x, y)
        loss = loss / gradient_accumulation_steps
        x, y = get_batch("train")
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if iteration % 10 == 0:
        print(f"rank {rank} iter {iteration} loss {loss.item() * gradient_accumulation_steps!r}", flush=True)
    iteration += 1
    if iteration > max_iters:
        break
if ddp:
    destroy_process_group()
if master:
    print(f"trained for {time.time() - began:.1f} s", flush=True)
