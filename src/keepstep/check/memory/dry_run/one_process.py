# SPDX-License-Identifier: Apache-2.0
"""One process stands for all: a group of ranks that never talk, loaders without workers, no compiler."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

import torch

from keepstep.check.memory.dry_run.device_tensors import DeviceTensors

OF_WORKERS = (
    *("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "worker_init_fn", "timeout"),
    *("pin_memory", "pin_memory_device"),
)


def install(mode: DeviceTensors, ranks: int, launched: bool) -> None:
    """``launched``: a launcher would have set the variables of a rank."""
    _loaders()
    _compiler(mode)
    if launched:
        for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", min(ranks, 8))):
            os.environ[name] = str(value)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", GROUP_RANK="0", NODE_RANK="0")
    if torch.distributed.is_available():
        _group(mode, ranks)
    torch.multiprocessing.spawn = lambda fn, args=(), *_, **__: fn(0, *args)
    torch.save = _save
    _scaler()


def _loaders() -> None:
    """Batches are made in this process: a worker's fakes could not come over."""
    plain = torch.utils.data.DataLoader.__init__
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def begin(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        for name in OF_WORKERS:
            given.arguments.pop(name, None)
        plain(*given.args, **given.kwargs)

    torch.utils.data.DataLoader.__init__ = begin


def _compiler(mode: DeviceTensors) -> None:
    """The program as it is written."""

    def compile(model: Any = None, **_: Any) -> Any:
        mode.log.guessed("torch.compile: the forecast is of the program uncompiled")
        return model if model is not None else (lambda function: function)

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *_, **__: compile(self) and None


def _group(mode: DeviceTensors, ranks: int) -> None:
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    plain = dist.init_process_group

    def begin(*_: Any, world_size: int = -1, **__: Any) -> None:
        if not dist.is_initialized():
            plain("fake", store=FakeStore(), rank=0, world_size=max(ranks, world_size))

    dist.init_process_group = dist.distributed_c10d.init_process_group = begin
    plain_new = dist.new_group

    def new_group(ranks: Any = None, *_: Any, **__: Any) -> Any:
        return plain_new(ranks, backend="fake")

    dist.new_group = dist.distributed_c10d.new_group = new_group
    # collectives of Python objects would send tensors of values; all ranks are this one
    dist.all_gather_object = lambda found, one, group=None: found.__setitem__(slice(None), [one] * len(found))
    dist.broadcast_object_list = lambda *_, **__: None
    dist.get_backend = lambda group=None: "nccl"
    _buckets(mode)


def is_grouped() -> bool:
    """Whether the script formed a group."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _buckets(mode: DeviceTensors) -> None:
    """DistributedDataParallel with its own reducer and buckets; their sums are what they are."""
    from torch.nn.parallel import DistributedDataParallel

    plain, rebuild = DistributedDataParallel.__init__, torch.distributed.Reducer._rebuild_buckets
    register = DistributedDataParallel.register_comm_hook

    def sums(state: Any, bucket: Any) -> Any:
        done: Any = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    sums.__annotations__ = {}  # DistributedDataParallel reads them, and wants its own type there

    def begin(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        with mode.making("bucket"):
            plain(self, module, *args, **kwargs)
            register(self, None, sums)

    def rebuild_buckets(self: Any) -> Any:
        with mode.making("bucket"):
            return rebuild(self)

    DistributedDataParallel.__init__ = begin
    DistributedDataParallel.register_comm_hook = lambda self, state, hook: None
    torch.distributed.Reducer._rebuild_buckets = rebuild_buckets


def _save(what: Any, where: Any, *_: Any, **__: Any) -> None:
    """Fakes have no content to save."""
    if isinstance(where, str | os.PathLike):
        with open(where, "wb"):
            pass


def _scaler() -> None:
    """No gradient is infinite: the optimizer steps."""
    torch.amp.GradScaler._maybe_opt_step = lambda self, optimizer, state, *args, **kwargs: optimizer.step(
        *args, **kwargs
    )
