# SPDX-License-Identifier: Apache-2.0
"""Programs of a kind that was accused wrongly in fresh repositories, each beside a twin that is really wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.code.test_check_code import rules_in

TEMPLATE = """\
import torch.distributed as dist


def load(args, split):
    if args.local_rank not in [-1, 0] and split == "train":
        dist.barrier()
    found = read(split)
    if args.local_rank == 0 and split == "train":
        dist.barrier()
    return found


def evaluate(args):
    return load(args, split="{split}")


def main(args):
    load(args, split="train")
    if args.local_rank in [-1, 0]:
        evaluate(args)
"""
CONTEXT = """\
import torch.distributed as dist


class FirstRankFirst:
    def __enter__(self):
        self.first = dist.get_rank() == 0
        if not self.first:
            dist.barrier()

    def __exit__(self, *args):
        if self.first:
            {leave}
"""
LOSS = """\
def train(model, batches, optimizer):
    losses = []
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        {then}
        losses.append(loss)
    return losses
"""
PARTS = """\
import torch.nn.functional as F


def total_loss(outputs, targets):
    total = 0.0
    for out, target in zip(outputs, targets):
        loss = F.mse_loss(out, target)
        total += loss
    return total


def train(model, batches, optimizer):
    for batch in batches:
        total_loss(model(batch), batch).backward()
        optimizer.step()
"""
SHARES = """\
import torch.distributed as dist


def count(items, rank, num_gpus, size):
    number = {number}
    parts = [None] * number
    for part in parts[rank::num_gpus]:
        dist.broadcast(part, src=0)
"""
GROUPS = """\
import torch.distributed as dist


def make(world_size):
    for rank in range(world_size // 2):
        dist.new_group([rank, rank + world_size // 2])
"""

CLOCK = """\
import time

import torch
import torch.distributed as dist


def train(step, limit):
    start = time.monotonic()
    for _ in range(100):
        loss = step()
        late = torch.tensor(time.monotonic() - start > limit)
        {agree}
        if late:
            break
        dist.all_reduce(loss)
"""
MEMORY = """\
import torch
import torch.distributed as dist


def train(step):
    for _ in range(100):
        step()
        free, total = torch.cuda.mem_get_info()
        if free < total / 10:
            {then}
"""
ENDED = """\
import time

import torch.distributed as dist


def now():
    return (time.time() - 5) * 1000.0


def train(step, done):
    ended = False
    for _ in range(100):
        loss = step()
        if done():
            ended = {ended}
        if {asked}:
            break
        dist.all_reduce(loss)
"""
HANDED_ON = """\
import torch.distributed as dist


def write(logger, *args, **kwargs):
    if kwargs.pop("sync", False):
        dist.barrier()
    logger(*args, **kwargs)


def event(*args, **kwargs):
    write(print, *args, **kwargs)


def named(text, sync=False):
    event(text, sync=sync)


def main(args, wanted, more):
    if args.rank == 0:
        {call}
"""
NOT_CALLED = """\
import torch.distributed as dist


def is_main_process():
    return dist.get_rank() == 0


def main():
    if is_main_process{called}:
        dist.barrier()
"""
BY_PLACE = """\
import torch.distributed as dist


def send(tensor, source, ends_group):
    if dist.get_rank() in (0, 3):
        dist.broadcast(tensor, source{group})
"""
ALWAYS_TRUE = """\
import torch.distributed as dist


def evaluate(args):
    if args.rank == 0 {more}:
        dist.barrier()
"""
SHARE = """\
import torch.distributed as dist


def train(rank, world_size, items, step):
    mine = items.{share}[rank]
    often = len(mine) // 10
    for number in range(100):
        step()
        if number % often == 0:
            dist.barrier()
"""
STAGES = """\
import torch.distributed as dist


def is_first_stage():
    return dist.get_rank() == 0


def is_last_stage():
    return dist.get_rank() == dist.get_world_size() - 1


def send(tensor):
    is_last = is_last_stage()
    if is_first_stage() {joined} is_last:
        return tensor
    dist.broadcast(tensor, src=0)
    return tensor
"""
PROBE = """\
import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("gloo")
    uneven = False
    try:
        parts = [torch.empty(number) for number in range(dist.get_world_size())]
        dist.all_gather(parts, torch.ones(dist.get_rank()))
        {then}
    except RuntimeError:
        pass
    return uneven
"""
OWN_NO_SYNC = """\
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def train(self, net, loader, optimizer):
        self.model = DistributedDataParallel(net)
        for number, batch in enumerate(loader):
            last = number % 4 == 3
            with self.{no_sync}:
                self.model(batch).sum().backward()
            if last:
                optimizer.step()
"""
SAMPLERS = """\
from torch.utils.data import DataLoader, DistributedSampler


def train(data, {held_out}, model, optimizer):
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    {name} = DistributedSampler({held_out})
    for epoch in range(9):
        sampler.set_epoch(epoch)
        for batch in loader:
            model(batch).backward()
            optimizer.step()
        check(model, DataLoader({held_out}, batch_size=8, sampler={name}))
"""
FILES = """\
from torch.utils.data import DataLoader, DistributedSampler


def train(files, model, optimizer):
    data = read(files[0])
    for name in files:
        {make}
        loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
        for batch in loader:
            model(batch).backward()
            optimizer.step()
"""
SHARES_ONLY = """\
import torch
import torch.distributed as dist


def convert(files):
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group("nccl")
    {first}
    for number in range(dist.get_rank(), len(files), dist.get_world_size()):
        rewrite(files[number])
"""
OWN_GPU = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(net, batches, optimizer):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(net.to(device), device_ids=[device.index])
    for batch in batches:
        model(batch.{move}).sum().backward()
        optimizer.step()
"""
LOADS = """\
import argparse
import os
import torch
import torch.distributed as dist
import torchvision


def restore(net, scheduler, folder):
    frozen = torchvision.models.resnet18()
    {load}
    return frozen


def main(net, scheduler):
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="{backend}")
    args = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend=args.backend)
    {call}(net, scheduler, "last")
    if dist.get_rank() == 0:
        torch.save(net.{saved}state_dict(), "last/model.pt")
"""


@pytest.mark.parametrize(
    "text",
    [
        TEMPLATE.format(split="dev"),
        CONTEXT.format(leave="dist.barrier()"),
        LOSS.format(then="loss = loss.detach().cpu().item()"),
        PARTS,
        SHARES.format(number="((len(items) - 1) // (size * num_gpus) + 1) * num_gpus"),
        GROUPS,
        CLOCK.format(agree="dist.all_reduce(late)"),
        MEMORY.format(then="torch.cuda.empty_cache()"),
        ENDED.format(ended="now()", asked="ended"),
        ENDED.format(ended="time.time()", asked="ended"),
        HANDED_ON.format(call="event('start')"),
        HANDED_ON.format(call="event('start', sync=False)"),
        HANDED_ON.format(call="named('start')"),
        HANDED_ON.format(call="named('start', sync=False)"),
        NOT_CALLED.format(called=""),
        BY_PLACE.format(group=", ends_group"),
        ALWAYS_TRUE.format(more="or True"),
        ALWAYS_TRUE.format(more="and False"),
        SHARE.format(share="split(items.size(0) // world_size)"),
        SHARE.format(share="chunk(world_size)"),
        STAGES.format(joined="and"),
        PROBE.format(then="uneven = True"),
        OWN_NO_SYNC.format(no_sync="no_sync(not last)"),
        SAMPLERS.format(name="other", held_out="data_test"),
        SAMPLERS.format(name="val_sampler", held_out="rest"),
        FILES.format(make="data = read(name)"),
        SHARES_ONLY.format(first="print(backend)"),
        OWN_GPU.format(move="to(device)"),
        LOADS.format(
            load='scheduler.load_state_dict(torch.load(folder + "/s.pt"))', backend="nccl", call="restore", saved=""
        ),
        LOADS.format(
            load='frozen.load_state_dict(torch.load(folder + "/model.pt"))', backend="nccl", call="restore", saved=""
        ),
        LOADS.format(
            load='net.load_state_dict(torch.load(folder + "/model.pt"))', backend="gloo", call="restore", saved=""
        ),
        LOADS.format(
            load='net.load_state_dict(torch.load(folder + "/model.pt"))', backend="nccl", call="begin", saved=""
        ),
        LOADS.format(
            load='net.load_state_dict(torch.load(folder + "/model.pt"))', backend="nccl", call="restore", saved="cpu()."
        ),
        LOADS.format(load="net.scaler.load_state_dict(torch.load(folder))", backend="nccl", call="restore", saved=""),
        LOADS.format(load="args = torch.load(folder + '/model_args.pt')", backend="nccl", call="restore", saved=""),
    ],
)
def test_it_is_not_accused(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert rules_in(tmp_path / "train.py") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TEMPLATE.format(split="train"), [("COD001", 20)]),
        (CONTEXT.format(leave="pass"), [("COD001", 8)]),
        (LOSS.format(then="print(loss)"), [("COD115", 8)]),
        (SHARES.format(number="len(items) // size"), [("COD003", 7)]),
        (CLOCK.format(agree="print(late)"), [("COD002", 14)]),
        (MEMORY.format(then="dist.barrier()"), [("COD001", 10)]),
        (ENDED.format(ended="now()", asked="ended > 3"), [("COD002", 17)]),
        (ENDED.format(ended="time.time()", asked="ended - 5 > 3"), [("COD002", 17)]),
        (ENDED.format(ended="time.time()", asked="ended % 2"), [("COD002", 17)]),
        (HANDED_ON.format(call="event('start', sync=True)"), [("COD001", 20)]),
        (HANDED_ON.format(call="event('start', sync=wanted)"), [("COD001", 20)]),
        (HANDED_ON.format(call="event('start', **more)"), [("COD001", 20)]),
        (HANDED_ON.format(call="named('start', sync=True)"), [("COD001", 20)]),
        (HANDED_ON.format(call="named('start', True)"), [("COD001", 20)]),
        (NOT_CALLED.format(called="()"), [("COD001", 10)]),
        (BY_PLACE.format(group=""), [("COD001", 6)]),
        (ALWAYS_TRUE.format(more="or False"), [("COD001", 6)]),
        (ALWAYS_TRUE.format(more="and True"), [("COD001", 6)]),
        (SHARE.format(share="split(',')"), [("COD001", 10)]),
        (STAGES.format(joined="or"), [("COD002", 15)]),
        (PROBE.format(then="print(parts)"), [("COD010", 12)]),
        (OWN_NO_SYNC.format(no_sync="model.no_sync()"), [("COD116", 9)]),
        (SAMPLERS.format(name="other", held_out="latest"), [("COD105", 8)]),
        (FILES.format(make="print(name)"), [("COD105", 6)]),
        (SHARES_ONLY.format(first="dist.barrier()"), [("COD106", 7)]),
        (OWN_GPU.format(move="cuda()"), [("COD106", 8)]),
        (
            LOADS.format(
                load='net.load_state_dict(torch.load(folder + "/model.pt"))', backend="nccl", call="restore", saved=""
            ),
            [("COD108", 10)],
        ),
    ],
)
def test_its_wrong_twin_is(tmp_path: Path, text: str, found: list[tuple[str, int]]) -> None:
    (tmp_path / "train.py").write_text(text)
    assert rules_in(tmp_path / "train.py") == found


def test_an_imported_function_that_is_not_called(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch.distributed as dist\n\nfrom ranks import is_main_process\n\n\n"
        "def main():\n    if is_main_process:\n        dist.barrier()\n"
    )
    (tmp_path / "ranks.py").write_text("import torch.distributed as dist\n\nis_main_process = dist.get_rank() == 0\n")
    assert rules_in(tmp_path) == [("COD001", 8)]
    (tmp_path / "ranks.py").write_text(
        "import torch.distributed as dist\n\n\ndef is_main_process():\n    return dist.get_rank() == 0\n"
    )
    assert rules_in(tmp_path) == []
