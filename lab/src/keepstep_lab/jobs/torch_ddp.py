# SPDX-License-Identifier: Apache-2.0
"""A small classifier under DistributedDataParallel on gloo, fed from a file a rank by a DataLoader."""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import logging
import os
import time

import faults as fault
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")
Batch = tuple[torch.Tensor, torch.Tensor]


class Points(Dataset[Batch]):
    """The points of ten classes in one file."""

    def __init__(self, path: str) -> None:
        with np.load(path) as shard:
            self.inputs, self.labels = torch.from_numpy(shard["x"]), torch.from_numpy(shard["y"])

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Batch:
        return self.inputs[index], self.labels[index]


class Classifier(nn.Module):
    """Two layers, and an auxiliary head that the training does not always use."""

    def __init__(self, width: int = 64, normed: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.BatchNorm1d(width) if normed else nn.Identity(), nn.ReLU())
        self.head = nn.Linear(width, 10)
        self.auxiliary = nn.Linear(width, 4)

    def forward(self, inputs: torch.Tensor, with_auxiliary: bool = True) -> torch.Tensor:
        hidden = self.body(inputs)
        logits = self.head(hidden)
        return logits + 0.0 * self.auxiliary(hidden).sum() if with_auxiliary else logits


def main() -> None:
    options = parse()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s rank={rank} %(message)s")
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if options.cuda else torch.device("cpu")
    fault.change("start", None, 0, rank)
    dist.init_process_group("nccl" if options.cuda else "gloo", timeout=datetime.timedelta(seconds=options.timeout))
    log.info("process group is up: world size %d, torch %s", world, torch.__version__)
    torch.manual_seed(0)
    model = fault.change("model", Classifier(normed=options.norm), 0, rank).to(device)
    step = load(model, options.resume) if options.resume else 0
    model = model if options.bare else DistributedDataParallel(model)
    forward = torch.compile(model, backend=options.compile, dynamic=False) if options.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    data = fault.change("data", Points(os.path.join(options.data, f"points-{rank:02d}.npz")), 0, rank)
    log.info("%d samples in this rank's shard", len(data))
    loader = DataLoader(data, options.batch, num_workers=options.workers, drop_last=not options.keep_last)
    with_auxiliary = fault.change("auxiliary", True, 0, rank)
    if options.barrier:
        fault.change("preprocess", 0.0, 0, rank)
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=options.barrier))
    not_finite, waited, began = 0, 0.0, time.perf_counter()
    for epoch in range(options.epochs):
        asked = time.perf_counter()
        for batch in loader:
            if options.watchdog:
                faulthandler.dump_traceback_later(options.watchdog, exit=True)
            fault.at(step, rank)
            inputs, labels = (part.to(device) for part in read(batch, step, rank, options.retry))
            if not options.retry:  # which also waits for the other ranks
                waited += time.perf_counter() - asked
            loss = F.cross_entropy(forward(inputs, with_auxiliary), labels)
            is_bad = not torch.isfinite(loss)
            if leaves_out(is_bad, step, options.skip):
                log.warning("step %d is left out", step)
                step += 1
                continue
            if is_bad:
                not_finite += 1
                log.warning("loss is %s at step %d", loss.item(), step)
                if not_finite == 3:
                    raise FloatingPointError(f"loss was not finite for {not_finite} steps, giving up at step {step}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            fault.change("weights", list(model.parameters()), step, rank)
            metrics = fault.change("metrics", torch.stack([loss.detach(), torch.ones_like(loss)]), step, rank)
            dist.all_reduce(metrics)
            mean = metrics[0].item() / world
            step += 1
            if step % 10 == 0:
                took, began = (time.perf_counter() - began) / 10, time.perf_counter()
                log.info("epoch %d step %d loss %.4f time: %.4f data_time: %.4f", epoch, step, mean, took, waited / 10)
                waited = 0.0
                if options.log_memory:
                    log.info("host memory used: %.1f MB", resident())
            if options.save and step % options.save_every == 0 and rank == 0:
                save(model.module, step, options.save)
            if mean < options.stop_below:
                log.info("early stopping: loss %.4f below %.4f", mean, options.stop_below)
                return finish(step)
            if step == options.steps:
                return finish(step)
            asked = time.perf_counter()
        if options.evaluate:
            evaluate(model.module, data, rank, epoch)
    finish(step)


def read(batch: Batch, step: int, rank: int, again: bool) -> Batch:
    """The batch, as it comes from the storage."""
    if not again:
        return fault.change("batch", batch, step, rank)  # type: ignore[no-any-return]
    import keepstep

    return keepstep.retry(fault.change, "batch", batch, step, rank, together=True)  # type: ignore[no-any-return]


def leaves_out(is_bad: bool, step: int, how: str | None) -> bool:
    """Whether to skip a step with a bad loss."""
    if how != "together":
        return is_bad and how == "alone"
    import keepstep

    return bool(keepstep.skip_if(is_bad, step))


def evaluate(model: nn.Module, data: Points, rank: int, epoch: int) -> None:
    """Rank 0 measures the accuracy, the others wait for it."""
    if rank == 0:
        started = time.perf_counter()
        fault.change("evaluation", 0.0, epoch, rank)
        with torch.no_grad():
            right = (model(data.inputs).argmax(1) == data.labels).float().mean()
        log.info("evaluation after epoch %d: accuracy %.3f in %.1f s", epoch, right, time.perf_counter() - started)
    dist.barrier()


def resident() -> float:
    """Megabytes of memory that this process holds now."""
    with open("/proc/self/statm") as reading:
        return int(reading.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def finish(step: int) -> None:
    """Leave together."""
    log.info("training finished after %d steps", step)
    dist.barrier()
    dist.destroy_process_group()


def save(model: nn.Module, step: int, path: str) -> None:
    """Write a checkpoint beside the old one, and only then in its place."""
    fault.change("save", path, step, 0)
    torch.save({"model": model.state_dict(), "step": step}, f"{path}.new")
    os.replace(f"{path}.new", path)
    log.info("saved checkpoint %s at step %d", path, step)


def load(model: nn.Module, path: str) -> int:
    """Read a checkpoint; the step it was written at."""
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    log.info("resumed from %s at step %d", path, state["step"])
    return int(state["step"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="the folder of the shards")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--keep-last", action="store_true", help="also train on a last batch that is not full")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many; 0: at the end of the epochs")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=0, help="data loading processes")
    parser.add_argument("--timeout", type=float, default=30.0, help="of collectives, in seconds")
    parser.add_argument("--barrier", type=float, default=0.0, help="limit of a monitored barrier before training")
    parser.add_argument("--stop-below", type=float, default=0.0, help="stop early under this loss")
    parser.add_argument("--evaluate", action="store_true", help="after every epoch")
    parser.add_argument(
        "--watchdog", type=float, default=0.0, help="seconds a step may take; then all stacks are printed"
    )
    parser.add_argument("--log-memory", action="store_true")
    parser.add_argument("--compile", help="the backend of torch.compile; not compiled when absent")
    parser.add_argument(
        "--norm", action="store_true", help="with BatchNorm, whose buffers DDP broadcasts in every forward pass"
    )
    parser.add_argument("--bare", action="store_true", help="forget DistributedDataParallel")
    parser.add_argument("--skip", choices=("alone", "together"), help="leave out a step whose loss is not finite")
    parser.add_argument("--retry", action="store_true", help="read a batch again, on all ranks together")
    parser.add_argument("--cuda", action="store_true", help="train on GPUs")
    parser.add_argument("--save", help="where to write checkpoints")
    parser.add_argument("--save-every", type=int, default=40)
    parser.add_argument("--resume", help="the checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
