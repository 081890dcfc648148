"""A small classifier under DistributedDataParallel on gloo, fed by a DataLoader with worker processes."""

from __future__ import annotations

import argparse
import datetime
import logging
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from lab import faults as fault

log = logging.getLogger("train")


class Points(Dataset):
    """Points of ten classes; the label is the largest coordinate."""

    def __init__(self, count: int) -> None:
        self.inputs = torch.randn(count, 32, generator=torch.Generator().manual_seed(7))
        self.labels = self.inputs[:, :10].argmax(1)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.labels[index]


class Classifier(nn.Module):
    """Two layers, and an auxiliary head that the training does not always use."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.ReLU())
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
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
    log.info("process group is up: world size %d, torch %s", world, torch.__version__)
    torch.manual_seed(0)
    model = fault.change("model", Classifier(), 0, rank)
    first = load(model, options.resume) if options.resume else 0
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = fault.change("data", Points(options.samples), 0, rank)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    loader = DataLoader(data, options.batch, sampler=sampler, num_workers=options.workers, drop_last=True)
    with_auxiliary = fault.change("auxiliary", True, 0, rank)
    if options.barrier:
        fault.change("preprocess", 0.0, 0, rank)
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=options.barrier))
    step, not_finite = first, 0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            fault.at(step, rank)
            inputs, labels = fault.change("batch", batch, step, rank)
            loss = F.cross_entropy(model(inputs, with_auxiliary), labels)
            loss = fault.change("loss", loss, step, rank)
            if not torch.isfinite(loss):
                not_finite += 1
                log.warning("loss is %s at step %d", loss.item(), step)
                if not_finite == 3:
                    raise FloatingPointError(
                        f"loss was not finite for {not_finite} steps, giving up at step {step}"
                    )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics = fault.change("metrics", torch.stack([loss.detach(), torch.ones(())]), step, rank)
            dist.all_reduce(metrics)
            step += 1
            if step % 10 == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, metrics[0] / world)
            if metrics[0] / world < options.stop_below:
                log.info("early stopping: loss %.4f below %.4f", metrics[0] / world, options.stop_below)
                finish(step)
                return
            if options.save and step % options.save_every == 0 and rank == 0:
                save(model.module, step, options.save)
    finish(step)


def finish(step: int) -> None:
    """Leave together."""
    log.info("training finished after %d steps", step)
    dist.barrier()
    dist.destroy_process_group()


def save(model: nn.Module, step: int, path: str) -> None:
    """Write a checkpoint."""
    torch.save({"model": model.state_dict(), "step": step}, path)
    log.info("saved checkpoint %s at step %d", path, step)


def load(model: nn.Module, path: str) -> int:
    """Read a checkpoint; the step it was written at."""
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    log.info("resumed from %s at step %d", path, state["step"])
    return int(state["step"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=30.0)
    parser.add_argument(
        "--barrier", type=float, default=0.0, help="limit of a monitored barrier before training"
    )
    parser.add_argument("--stop-below", type=float, default=0.0, help="stop early under this loss")
    parser.add_argument("--save", help="where to write checkpoints")
    parser.add_argument("--save-every", type=int, default=40)
    parser.add_argument("--resume", help="the checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
