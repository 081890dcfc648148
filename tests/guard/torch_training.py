# SPDX-License-Identifier: Apache-2.0
"""A small training of several PyTorch processes, with a fault on request. Run by test_torch_*.py."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import pathlib
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="")
    parser.add_argument("--rank", type=int, default=1, help="the one that is struck")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--wrap", default="ddp", help="ddp, fsdp or fully_shard")
    parser.add_argument("--first", default="", help="to be done before torch is imported")
    parser.add_argument("--late", action="store_true", help="by `keepstep.guard.attach()`, after the world was formed")
    options = parser.parse_args()
    if options.first:
        exec(options.first, {})  # code from the tests
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    fault = options.fault if rank == options.rank else ""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    if options.late:
        import keepstep

        keepstep.guard.attach()
    torch.manual_seed(0)
    if options.fault == "model":
        models(fault)
        return
    model = wrapped(torch, options.wrap, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2 if fault == "differs" else 0.1, momentum=0.9)
    train(torch, dist, model, optimizer, options, fault)
    weights = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()]
    data = b"".join(each.detach().numpy().tobytes() for each in weights)
    print(f"rank {rank} ended with {hashlib.sha256(data).hexdigest()}", flush=True)
    if fault != "leaves without a word":
        dist.destroy_process_group()


def train(torch, dist, model, optimizer, options, fault):  # type: ignore[no-untyped-def]
    rank = dist.get_rank()
    made = torch.Generator().manual_seed(1 + (0 if options.fault == "same data" else rank))
    rows = 16 * options.steps * (2 if fault == "differs" else 1)
    inputs = torch.randn(rows, 8, generator=made).to(torch.float64 if fault == "differs" else torch.float32)
    labels = torch.randint(0, 4, (rows,), generator=made)
    batch = 12 if fault == "differs" else 16
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch)
    for step, (some, wanted) in enumerate(loader):
        if step == options.steps:
            break
        if step == 12:
            strike(torch, dist, fault, options)
        loss = torch.nn.functional.cross_entropy(model(some.float()), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics = torch.stack([loss.detach(), torch.ones(())])
        if step == 12 and fault == "shape":
            metrics = metrics.repeat(4)
        if step == 12 and fault == "dtype":
            metrics = metrics.double()
        if step == 12 and fault == "operation":
            say_struck()
            dist.broadcast(metrics, src=0)
        else:
            dist.all_reduce(metrics)
    dist.barrier()


def strike(torch, dist, fault, options):  # type: ignore[no-untyped-def]
    if fault in ("barrier", "shape", "dtype", "sleep"):
        say_struck()
    if fault == "barrier":
        dist.barrier()
    if fault == "sleep":
        sleep_until_it_is_noticed()
    if fault == "empty":
        raise SystemExit("not reached")


def sleep_until_it_is_noticed() -> None:
    """Until a peer has written down that it waits, within bounds."""
    end = time.monotonic() + 20.0
    notes = pathlib.Path(os.environ["KEEPSTEP_DIR"])
    while time.monotonic() < end and not any(b"PeersWait" in path.read_bytes() for path in notes.glob("*.notes.jsonl")):
        time.sleep(0.1)


def say_struck() -> None:
    print(f"struck at {time.time()}", flush=True)


def wrapped(torch, how, width):  # type: ignore[no-untyped-def]
    inner = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU())
    model = torch.nn.Sequential(inner, torch.nn.Linear(width, 4))
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if how == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    fully_shard(inner, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def models(fault: str) -> None:
    """Every way to wrap a model that is wider on one rank; each must be refused before anything is sent."""
    import torch

    import keepstep

    told = 0
    for how in ("ddp", "fsdp", "fully_shard"):
        try:
            wrapped(torch, how, 48 if fault else 32)(torch.zeros(2, 8))
        except keepstep.OutOfStep as error:
            told += 1
            print(f"{how}: {error}", flush=True)
    sys.exit(0 if told == 3 else 3)


if __name__ == "__main__":
    main()
