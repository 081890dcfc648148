# SPDX-License-Identifier: Apache-2.0
"""One process stands for all: a group of ranks that never talk, loaders without workers, no compiler."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue, SimpleQueue
from typing import Any

import torch
from torch.utils._pytree import tree_map

from keepstep.check.memory.dry_run import loaders
from keepstep.check.memory.dry_run.device_tensors import DeviceTensors
from keepstep.check.memory.forecast import AS_WRITTEN


def install(mode: DeviceTensors, ranks: int, launched: bool) -> None:
    """``launched``: a launcher would have set the variables of a rank."""
    loaders.install(mode.log)
    _compiler(mode)
    if launched:
        for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", min(ranks, 8))):
            os.environ[name] = str(value)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", GROUP_RANK="0", NODE_RANK="0")
        os.environ.setdefault("TORCHELASTIC_RUN_ID", "dry-run")
    if torch.distributed.is_available():
        _group(mode, ranks)
    _data_parallel(mode)
    torch.multiprocessing.spawn = lambda fn, args=(), *_, **__: fn(0, *args)
    _processes(mode)
    torch.save = _save
    _scaler()


def _processes(mode: DeviceTensors) -> None:
    """Ranks that the script starts itself run here, one after the other: the first is seen to train.

    What is given a queue or a pipe is no rank, as a rule, and runs beside the script.
    """
    plain, plain_join, inside = BaseProcess.start, BaseProcess.join, set[int]()

    def start(self: Any) -> None:
        given = (*self._args, *self._kwargs.values())
        beside = any(isinstance(each, Queue | SimpleQueue | Connection) for each in given)
        if beside or not mode.log.is_users(sys._getframe(1).f_code.co_filename):
            plain(self)
            return
        inside.add(id(self))
        self.run()

    BaseProcess.start = start
    BaseProcess.join = lambda self, timeout=None: None if id(self) in inside else plain_join(self, timeout)


def _data_parallel(mode: DeviceTensors) -> None:
    """Of several devices the first: it has its share of the batch, and the results of all."""

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        devices = len(self.device_ids)
        if devices == 1:
            return self.module(*inputs, **kwargs)
        mode.log.guessed("DataParallel: the first device was counted")

        def share(one: Any) -> Any:
            return one.chunk(devices)[0] if isinstance(one, torch.Tensor) and one.dim() else one

        def of_all(one: Any) -> Any:
            return torch.cat([one] * devices) if isinstance(one, torch.Tensor) and one.dim() else one

        return tree_map(of_all, self.module(*tree_map(share, inputs), **tree_map(share, kwargs)))

    torch.nn.DataParallel.forward = forward


def _compiler(mode: DeviceTensors) -> None:
    """The program as it is written."""

    def compile(model: Any = None, **how: Any) -> Any:
        plain = how.get("mode") in (None, "default") and not how.get("options")
        mode.log.guessed(AS_WRITTEN if plain else "torch.compile with a mode or options: counted uncompiled")
        return model if model is not None else (lambda function: function)

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *_, **how: compile(self, **how) and None


def _group(mode: DeviceTensors, ranks: int) -> None:
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    plain = dist.init_process_group

    def begin(*_: Any, world_size: int = -1, **__: Any) -> None:
        if not dist.is_initialized():
            plain("fake", store=FakeStore(), rank=0, world_size=max(ranks, world_size))
            _sharded(mode)

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


def _sharded(mode: DeviceTensors) -> None:
    """Tensors of several ranks are where this rank's part is; for shapes of results they use fakes of their own."""
    from torch.distributed.tensor import DTensor, _dispatch, _sharding_prop

    plain = _sharding_prop.ShardingPropagator._propagate_tensor_meta_non_cached

    def shape_of_result(self: Any, schema: Any) -> Any:
        with mode.planning():
            return plain(self, schema)

    _sharding_prop.ShardingPropagator._propagate_tensor_meta_non_cached = shape_of_result
    _dispatch.is_rng_supported_mesh = lambda mesh: False  # no seed has to be agreed on
    DTensor.device = property(lambda self: self._local_tensor.device)
    DTensor.is_cuda = property(lambda self: self._local_tensor.is_cuda)


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
