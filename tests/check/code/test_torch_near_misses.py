# SPDX-License-Identifier: Apache-2.0
"""Right programs that look like wrong ones, for the rules about PyTorch and Horovod: nothing may be said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.code.test_check_code import rules_in

RIGHT = {
    "fully_shard makes DTensors, whose norm is that of all shards": """\
import torch
from torch.distributed.fsdp import fully_shard


def train(model, batches, optimizer):
    fully_shard(model)
    for batch in batches:
        model(batch).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    "a model that may be wrapped is asked": """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(net, batches):
    model = FSDP(net)
    for batch in batches:
        model(batch).sum().backward()
        if isinstance(model, FSDP):
            model.clip_grad_norm_(1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    "NO_SHARD keeps whole copies": """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy


def train(net, batches):
    model = FSDP(net, sharding_strategy=ShardingStrategy.NO_SHARD)
    for batch in batches:
        model(batch).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    "a discriminator beside the sharded model is not wrapped": """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(net, judge, batches):
    model = FSDP(net)
    for batch in batches:
        judge(model(batch)).sum().backward()
        model.clip_grad_norm_(1.0)
        torch.nn.utils.clip_grad_value_(judge.parameters(), 1.0)
""",
    "spawn starts all ranks on this host": """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(number, size):
    dist.init_process_group("nccl", rank=number, world_size=size)
    torch.cuda.set_device(dist.get_rank())


if __name__ == "__main__":
    size = torch.cuda.device_count()
    mp.spawn(work, args=(size,), nprocs=size)
""",
    "the remainder by the GPUs of a host is a local rank": """\
import torch
import torch.distributed as dist


def setup(gpus):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % gpus)
""",
    "a rank within the group of a host is a local rank": """\
import torch
import torch.distributed as dist


def setup(host):
    torch.cuda.set_device(dist.get_rank(group=host))
    dist.init_process_group("nccl")
""",
    "a tensor is moved on one path, so nobody knows": """\
import torch
import torch.distributed as dist


def total(number, on_gpu):
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    count = torch.tensor([number])
    if on_gpu:
        count = count.cuda()
    dist.all_reduce(count)
    return count
""",
    "torch.tensor of a tensor stays on its GPU": """\
import torch
import torch.distributed as dist


def total(loss):
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    copy = torch.tensor(loss)
    dist.all_reduce(copy)
    return copy
""",
    "a group of gloo takes tensors on the CPU": """\
import torch
import torch.distributed as dist


def total(number):
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    group = dist.new_group(backend="gloo")
    count = torch.tensor([number])
    dist.all_reduce(count, group=group)
    return count
""",
    "new tensors go to the default device": """\
import torch
import torch.distributed as dist


def total(number, gpu):
    torch.set_default_device(gpu)
    dist.init_process_group("nccl", device_id=gpu)
    count = torch.tensor([number])
    dist.all_reduce(count)
    return count
""",
    "the backend is chosen by the hardware": """\
import torch
import torch.distributed as dist


def total(number):
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", device_id=torch.device("cuda", 0))
    count = torch.tensor([number])
    dist.all_reduce(count)
    return count
""",
    "selected tensors are padded to the longest": """\
import torch
import torch.distributed as dist
import torch.nn.functional as F


def gather(scores, most):
    kept = scores[scores > 0.5]
    kept = F.pad(kept, (0, most - len(kept)))
    parts = [torch.zeros_like(kept) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, kept)
    return torch.cat(parts)
""",
    "the lengths of the others are known": """\
import torch
import torch.distributed as dist


def gather(scores, lengths):
    kept = scores[scores > 0.5]
    parts = [torch.empty(length) for length in lengths]
    dist.all_gather(parts, kept)
    return torch.cat(parts)
""",
    "a slice is as long on all ranks": """\
import torch
import torch.distributed as dist


def gather(scores, number):
    kept = scores[:number]
    parts = [torch.zeros_like(kept) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, kept)
    return torch.cat(parts)
""",
    "a class is chosen, not a mask made": """\
import torch
import torch.distributed as dist


def gather(scores, index):
    kept = scores[index]
    parts = [torch.zeros_like(kept) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, kept)
    return torch.cat(parts)
""",
    "accelerate pads what was generated": """\
from accelerate import Accelerator


def answer(model, batches):
    accelerator = Accelerator()
    model = accelerator.prepare(model)
    for batch in batches:
        found = accelerator.unwrap_model(model).generate(batch)
        found = accelerator.pad_across_processes(found, dim=1)
        yield accelerator.gather(found)
""",
    "DeepSpeed is told to accumulate over one pass": """\
import deepspeed


def train(net, batches, every):
    config = {"train_batch_size": 8, "gradient_accumulation_steps": 1}
    engine, _, _, _ = deepspeed.initialize(model=net, config=config)
    for number, batch in enumerate(batches):
        engine.backward(engine(batch).sum())
        if (number + 1) % every == 0:
            engine.step()
""",
    "only the report comes every so many steps": """\
import deepspeed


def train(net, batches, every):
    config = {"train_batch_size": 8, "gradient_accumulation_steps": every}
    engine, _, _, _ = deepspeed.initialize(model=net, config=config)
    for number, batch in enumerate(batches):
        engine.backward(engine(batch).sum())
        engine.step()
        if (number + 1) % every == 0:
            print(number)
""",
    "ranks agree whether the loss is finite": """\
import deepspeed
import torch
import torch.distributed as dist


def train(net, batches, config):
    engine, _, _, _ = deepspeed.initialize(model=net, config=config)
    for batch in batches:
        loss = engine(batch).sum()
        worst = loss.detach().clone()
        dist.all_reduce(worst)
        if torch.isfinite(worst):
            engine.backward(loss)
            engine.step()
""",
    "a dataset that draws its samples may give them twice": """\
import random

from torch.utils.data import DataLoader, IterableDataset


class Draws(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for _ in range(1000):
            yield random.choice(self.rows)


def load(rows):
    return DataLoader(Draws(rows), num_workers=4)
""",
    "each worker is told its part": """\
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for name in self.files:
            yield from open(name)


def take_part(number):
    ...


def load(files):
    return DataLoader(Lines(files), num_workers=4, worker_init_fn=take_part)
""",
    "one worker reads everything once": """\
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        for line in open(self.path):
            yield line


def load(path):
    return DataLoader(Lines(path), num_workers=1)
""",
    "a stream of datasets knows its workers": """\
import datasets
from torch.utils.data import DataLoader, IterableDataset


class Tokens(IterableDataset):
    def __init__(self, name):
        self.rows = datasets.load_dataset(name, streaming=True)

    def __iter__(self):
        for row in self.rows:
            yield row["text"]


def load(name):
    return DataLoader(Tokens(name), num_workers=4)
""",
    "each rank is given its own files": """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for name in self.files:
            yield from open(name)


def train(net, files):
    model = DistributedDataParallel(net)
    data = Lines(files[dist.get_rank() :: dist.get_world_size()])
    for batch in DataLoader(data, batch_size=32):
        model(batch).sum().backward()
""",
    "every rank validates on everything": """\
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield from open(self.path)


def evaluate(net, path):
    model = DistributedDataParallel(net)
    for batch in DataLoader(Lines(path), batch_size=32):
        model(batch)
""",
    "rank 0 keeps a copy that only it reads": """\
import torch
import torch.distributed as dist


def keep(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)
        print(len(torch.load(path, map_location="cpu")))
""",
    "a helper makes the ranks wait": """\
import torch
import torch.distributed as dist


def meet():
    dist.barrier()


def share(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)
    meet()
    return torch.load(path, map_location="cpu")
""",
    "the other ranks wait before they come to the condition": """\
import torch
import torch.distributed as dist


def share(state, path):
    if dist.get_rank() != 0:
        dist.barrier()
    if dist.get_rank() == 0:
        torch.save(state, path)
        dist.barrier()
    return torch.load(path, map_location="cpu")
""",
    "wrapping the model is waited in": """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def share(net, state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)
    model = DistributedDataParallel(net)
    model.load_state_dict(torch.load(path, map_location="cpu"))
    return model
""",
    "another file is read": """\
import torch
import torch.distributed as dist


def share(state, path, before):
    if dist.get_rank() == 0:
        torch.save(state, path)
    return torch.load(before, map_location="cpu")
""",
    "the name of the day is the same on all ranks": """\
from datetime import datetime

import torch.distributed.checkpoint as dcp


def save(state):
    dcp.save(state, checkpoint_id=f"runs/{datetime.now():%Y-%m-%d}")
""",
    "the name is handed to all ranks": """\
import time

import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def save(state):
    name = [f"runs/{time.time()}"]
    dist.broadcast_object_list(name)
    dcp.save(state, checkpoint_id=name[0])
""",
    "the clock measures, and names nothing": """\
import time

import torch.distributed.checkpoint as dcp


def save(state, folder):
    start = time.time()
    dcp.save(state, checkpoint_id=folder)
    print(time.time() - start)
""",
    "metrics of torchmetrics meet by themselves": """\
import lightning as L
import torchmetrics
from lightning.pytorch.callbacks import ModelCheckpoint


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.accuracy = torchmetrics.Accuracy(task="binary")

    def validation_step(self, batch, number):
        self.accuracy(self(batch[0]), batch[1])
        self.log("accuracy", self.accuracy)


def main(data):
    keep = ModelCheckpoint(monitor="accuracy")
    L.Trainer(devices=4, strategy="ddp", callbacks=[keep]).fit(Net(), data)
""",
    "nothing decides by what is logged": """\
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import mse_loss


class Net(L.LightningModule):
    def validation_step(self, batch, number):
        loss = mse_loss(self(batch[0]), batch[1])
        self.log("val_loss", loss)


def main(data):
    keep = ModelCheckpoint(every_n_epochs=1)
    L.Trainer(devices=4, strategy="ddp", callbacks=[keep]).fit(Net(), data)
""",
    "one device has all of the data": """\
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import mse_loss


class Net(L.LightningModule):
    def validation_step(self, batch, number):
        loss = mse_loss(self(batch[0]), batch[1])
        self.log("val_loss", loss)


def main(data):
    keep = ModelCheckpoint(monitor="val_loss")
    L.Trainer(devices=1, callbacks=[keep]).fit(Net(), data)
""",
    "equal seeds make equal weights": """\
import horovod.torch as hvd
import torch


def train(build, batches):
    hvd.init()
    torch.manual_seed(1)
    model = build()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in batches:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
""",
    "a hook broadcasts": """\
import horovod.tensorflow as hvd
import tensorflow as tf


def train(loss):
    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.AdamOptimizer(0.1))
    step = optimizer.minimize(loss)
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        session.run(step)
""",
    "all ranks collect the state, and one writes it": """\
import torch
from transformers import Trainer, TrainingArguments


def tune(model, data):
    settings = TrainingArguments(output_dir="out", fsdp="full_shard")
    trainer = Trainer(model=model, args=settings, train_dataset=data)
    trainer.train()
    state = trainer.model.state_dict()
    if trainer.is_world_process_zero():
        torch.save(state, "out/last.pt")
""",
    "without workers the dataset may use the GPU": """\
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.zeros(4).cuda()


def load():
    return DataLoader(Rows(), num_workers=0)
""",
    "the loss is multiplied back, or divided by something else": """\
from accelerate import Accelerator


def train(model, loader, optimizer, every, words):
    accelerator = Accelerator(gradient_accumulation_steps=every)
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    for batch in loader:
        loss = model(batch).sum() / every
        loss = loss * every
        accelerator.backward(loss)
        other = model(batch).sum() / words
        accelerator.backward(other)
        shown = other / every
        accelerator.print(shown)
        optimizer.step()
""",
    "Accelerate is not told to accumulate": """\
from accelerate import Accelerator


def train(model, loader, optimizer, every):
    accelerator = Accelerator()
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    for number, batch in enumerate(loader, 1):
        loss = model(batch).sum() / every
        accelerator.backward(loss)
        if number % every == 0:
            optimizer.step()
""",
    "ranks meet before they look, or the look is not at what is made": """\
import os

import torch
import torch.distributed as dist


def first(data, path):
    dist.barrier()
    if not os.path.exists(path):
        if dist.get_rank() == 0:
            torch.save(data, path)
        dist.barrier()


def second(data, path, other):
    if not os.path.exists(other):
        if dist.get_rank() == 0:
            torch.save(data, path)
        dist.barrier()


def third(path):
    if not os.path.exists(path):
        if dist.get_rank() == 0:
            print(path)
        dist.barrier()
""",
    "the weights are given to all after the load, or nobody trains after it": """\
import horovod.torch as hvd
import torch


def share(net):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)


def resume(net, optimizer, loader, path):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    if hvd.rank() == 0:
        net.load_state_dict(torch.load(path, map_location="cpu"))
    share(net)
    for batch in loader:
        net(batch).sum().backward()
        optimizer.step()


def judge(net, optimizer, loader, path):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    for batch in loader:
        net(batch).sum().backward()
        optimizer.step()
    if hvd.rank() == 0:
        net.load_state_dict(torch.load(path, map_location="cpu"))
        print(net(batch).sum())


def beside(net, teacher, optimizer, loader, path):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    if hvd.rank() == 0:
        teacher.load_state_dict(torch.load(path, map_location="cpu"))
    for batch in loader:
        net(batch).sum().backward()
        optimizer.step()
""",
    "every rank makes the groups of all rows": """\
import torch.distributed as dist


def rows(across):
    line, _ = divmod(dist.get_rank(), across)
    groups = []
    for number in range(dist.get_world_size()):
        other, place = divmod(number, across)
        if place == 0:
            groups.append(dist.new_group([other * across + step for step in range(across)]))
    return groups[line]
""",
    "the first rank serves, and the others answer it for ever": """\
import torch.distributed as dist


def asked(model, words):
    dist.broadcast_object_list([words])
    return model(words)


def answer(model):
    while True:
        words = [None]
        dist.broadcast_object_list(words)
        model(words[0])


def main(model, page):
    if dist.get_rank() == 0:
        page.click(asked)
        page.launch()
    else:
        answer(model)
""",
    "an object prepares itself when it is first used": """\
from accelerate import Accelerator


class Trainer:
    def __init__(self, model):
        self.accelerator = Accelerator()
        self.model = model
        self.prepared = False

    def prepare(self):
        self.wrap()
        self.prepared = True

    def wrap(self):
        if hasattr(self, "wrapped"):
            return
        self.wrapped = self.accelerator.prepare(self.model)

    def step(self, batch):
        if not self.prepared:
            self.prepare()
        self.wrap()
        return self.model(batch)


def main(model, batches):
    trainer = Trainer(model)
    for batch in batches:
        trainer.step(batch)
    if trainer.accelerator.is_main_process:
        trainer.step(batches[0])
""",
    "a handler reports what failed": """\
import torch.distributed as dist


def report(what):
    dist.broadcast_object_list([what])


def serve(tasks):
    for task in tasks:
        try:
            report(("done", task()))
        except ValueError as problem:
            report(("failed", problem))
            raise
""",
    "a clock decides only where all have that of the first": """\
import time

import torch.distributed as dist


class Watch:
    def spent(self):
        return time.time()


class Loop:
    def __init__(self, most):
        self.watch = Watch()
        self.most = most

    def spent(self):
        if self.most:
            spent = sync_object(self.watch.spent())
        else:
            spent = self.watch.spent()
        return spent

    def run(self, batches):
        for batch in batches:
            if self.spent() > self.most:
                break
            dist.all_reduce(batch)


def sync_object(thing):
    things = [thing]
    dist.broadcast_object_list(things)
    return things[0]
""",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_right_program_that_looks_wrong_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert rules_in(tmp_path / "train.py") == []


WRONG = {
    "every caller gives a wrapped model": (
        """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def step(model, batch):
    model(batch).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def train(net, batches):
    model = FSDP(net)
    for batch in batches:
        step(model, batch)
""",
        [("COD121", 7)],
    ),
    "the loss of this rank decides about its step": (
        """\
import deepspeed
import torch


def train(net, batches, config):
    engine, _, _, _ = deepspeed.initialize(model=net, config=config)
    for batch in batches:
        loss = engine(batch).sum()
        if not torch.isnan(loss):
            engine.backward(loss)
            engine.step()
""",
        [("COD125", 10), ("COD125", 11)],
    ),
    "what was generated is gathered as it is": (
        """\
from accelerate import Accelerator


def answer(model, batches):
    accelerator = Accelerator()
    model = accelerator.prepare(model)
    for batch in batches:
        found = accelerator.unwrap_model(model).generate(batch)
        yield accelerator.gather(found)
""",
        [("COD124", 9)],
    ),
    "the hits of this rank are gathered": (
        """\
import torch
import torch.distributed as dist


def hits(labels):
    mask = labels == 1
    places = torch.nonzero(mask).squeeze(1)
    found = [torch.zeros_like(places)] * dist.get_world_size()
    dist.all_gather(found, places)
    return found
""",
        [("COD124", 9)],
    ),
    "the folder of sharded checkpoints has the time in its name": (
        """\
import time

from transformers import Trainer, TrainingArguments


def tune(model, data):
    folder = f"out/{time.strftime('%Y%m%d-%H%M%S')}"
    settings = TrainingArguments(output_dir=folder, fsdp="full_shard")
    Trainer(model=model, args=settings, train_dataset=data).train()
""",
        [("COD129", 8)],
    ),
    "the tokenizer that rank 0 saves is read at once": (
        """\
import torch.distributed as dist
from transformers import AutoTokenizer


def share(tokenizer, folder):
    if dist.get_rank() == 0:
        tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)
""",
        [("COD128", 8)],
    ),
    "the wrapped model is loaded on one rank": (
        """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def resume(net, optimizer, loader, path):
    model = DistributedDataParallel(net)
    start = [0]
    if dist.get_rank() == 0:
        kept = torch.load(path, map_location="cpu")
        model.module.load_state_dict(kept["net"])
        start = [kept["epoch"]]
    dist.broadcast_object_list(start)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
""",
        [("COD133", 11)],
    ),
    "the loss is divided in the call, where there is something to accumulate": (
        """\
from accelerate import Accelerator


def train(model, loader, optimizer, options):
    accelerator = Accelerator(gradient_accumulation_steps=options.every)
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    for batch in loader:
        loss = model(batch).sum()
        if options.every > 1:
            loss = loss / options.every
        accelerator.backward(loss)
        accelerator.backward(model(batch).sum() / options.every)
        optimizer.step()
""",
        [("COD131", 10), ("COD131", 12)],
    ),
    "the folder is looked for as a path object": (
        """\
from pathlib import Path

import torch.distributed as dist


def folder_for(name):
    folder = Path("runs") / name
    if not folder.exists():
        if dist.get_rank() == 0:
            folder.mkdir(parents=True)
        dist.barrier()
    return folder
""",
        [("COD132", 11)],
    ),
    "whatever prepares the object each time": (
        """\
from accelerate import Accelerator


class Trainer:
    def __init__(self, model):
        self.accelerator = Accelerator()
        self.model = model

    def step(self, batch):
        return self.accelerator.gather(self.model(batch))


def main(model, batches):
    trainer = Trainer(model)
    if trainer.accelerator.is_main_process:
        trainer.step(batches[0])
""",
        [("COD001", 16)],
    ),
    "a handler issues the same once more": (
        """\
import torch.distributed as dist


def gather(what):
    dist.broadcast_object_list([what])


def serve(task):
    try:
        gather(task)
    except RuntimeError:
        gather(task)
        raise
""",
        [("COD008", 12)],
    ),
}


@pytest.mark.parametrize(("text", "found"), WRONG.values(), ids=WRONG)
def test_its_wrong_relatives_are_found(tmp_path: Path, text: str, found: list[tuple[str, int]]) -> None:
    (tmp_path / "train.py").write_text(text)
    assert rules_in(tmp_path / "train.py") == found
