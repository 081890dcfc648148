# SPDX-License-Identifier: Apache-2.0
"""The script's loaders: their batches are made in this process, and what their workers would hold is noted."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from keepstep.check.memory.dry_run.storage_log import StorageLog

OF_WORKERS = (
    *("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "worker_init_fn", "timeout"),
    *("pin_memory", "pin_memory_device"),
)


ALIKE = 16
"""When so many records of a batch are alike and without content, they stand for the rest of it."""
MOST_RECORDS, RECORDS_WITHIN = 100_000, 5
"""So many things of a list are looked at for arrays of the dataset, and lists within lists."""
BATCHES_AT_THE_END = 2
"""Of a pass that begins when loaders end, such as one of a validation."""
AHEAD, AHEAD_S, AHEAD_BYTES = 200, 4.0, 256 << 20
"""Where batches differ, at most so many of the next are read at once, and some of them given: the largest first."""
OF_AHEAD = (1.0, 0.0, 0.5, 0.75, 0.25, 0.9)
"""Which, when they are in the order of their size."""


def install(log: StorageLog) -> None:
    """A worker's fakes could not come over, so there are no workers."""
    plain = torch.utils.data.DataLoader.__init__
    signature = inspect.signature(plain)
    single = torch.utils.data.dataloader._SingleProcessDataLoaderIter
    begin_pass, next_data = single.__init__, single._next_data

    @functools.wraps(plain)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        asked = {name: given.arguments.pop(name, None) for name in OF_WORKERS}
        plain(*given.args, **given.kwargs)
        self.keepstep_asked = {
            "workers": asked["num_workers"] or 0,
            "prefetch": asked["prefetch_factor"] or 2,
            "pinned": bool(asked["pin_memory"]),
            "batch": 0,
            "place": log.place(),
            "records": _records(self.dataset),
        }

    def begin_iterating(self: Any, loader: Any) -> None:
        begin_pass(self, loader)
        self.keepstep_asked = getattr(loader, "keepstep_asked", {"batch": 0})
        self.keepstep_left = BATCHES_AT_THE_END if log.loaders_end else 0

    def give(self: Any) -> Any:
        if log.loaders_end:
            if not self.keepstep_left:
                raise StopIteration
            self.keepstep_left -= 1
        if log.lengths_differ and log.ahead is None:
            found = _next_batches(lambda: next_data(self))
            log.ahead = log.marks, [_size(each) for each in found]
            found.sort(key=_size)
            self.keepstep_ahead = [
                found[n] for n in dict.fromkeys(round(s * (len(found) - 1)) for s in OF_AHEAD if found)
            ]
        ahead = getattr(self, "keepstep_ahead", ())
        batch, asked = ahead.pop(0) if ahead else next_data(self), self.keepstep_asked
        log.given.append((log.marks, _size(batch)))
        if not asked["batch"]:
            log.loaders.append(asked)
        asked["batch"] = max(1, asked["batch"], sum(each.numel() * each.element_size() for each in tensors(batch)))
        return batch

    fetcher = torch.utils.data._utils.fetch._MapDatasetFetcher
    plain_fetch = fetcher.fetch

    def fetch(self: Any, wanted: Any) -> Any:
        if not self.auto_collation or len(wanted) <= ALIKE or getattr(self.dataset, "__getitems__", None):
            return plain_fetch(self, wanted)
        first = [self.dataset[each] for each in wanted[:ALIKE]]
        kinds = {_kind(each) for each in first}
        if len(kinds) == 1 and any(isinstance(each, FakeTensor) for each in tree_leaves(first[0])):
            return self.collate_fn([first[n % ALIKE] for n in range(len(wanted))])
        return self.collate_fn(first + [self.dataset[each] for each in wanted[ALIKE:]])

    fetcher.fetch = fetch
    torch.utils.data.DataLoader.__init__ = begin
    single.__init__, single._next_data = begin_iterating, give


def _records(dataset: Any) -> dict[int, tuple[int, int]]:
    """Bytes of each array that a dataset keeps itself: as tensors, and otherwise."""
    held: dict[int, tuple[int, int]] = {}

    def look(value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            held[value.untyped_storage()._cdata] = value.numel() * value.element_size(), 0
        elif hasattr(value, "nbytes") and hasattr(value, "__array_interface__"):
            whole = value if value.base is None or not hasattr(value.base, "nbytes") else value.base
            held[id(whole)] = 0, int(whole.nbytes)
        elif depth and isinstance(value, Mapping | list | tuple):
            for each in list(value.values() if isinstance(value, Mapping) else value)[:MOST_RECORDS]:
                look(each, depth - 1)
        elif depth and isinstance(value, torch.utils.data.Dataset):
            look(vars(value), depth - 1)

    look(dataset, RECORDS_WITHIN)
    return held


def _next_batches(take: Callable[[], Any]) -> list[Any]:
    until, held, found = time.monotonic() + AHEAD_S, 0, list[Any]()
    while len(found) < AHEAD and held < AHEAD_BYTES and time.monotonic() < until:
        try:
            found.append(take())
        except StopIteration:
            break
        real = (each for each in tensors(found[-1]) if not isinstance(each, FakeTensor))
        held += sum(each.numel() * each.element_size() for each in real)
    return found


def _size(batch: Any) -> int:
    """Of batches that hold as much, the one of longer records is larger."""
    return sum(each.numel() * max(each.shape[1:], default=1) for each in tensors(batch))


def _kind(record: Any) -> tuple[Any, ...]:
    """What it is made of."""
    leaves = tree_leaves(record)
    return tuple((each.shape, each.dtype) if isinstance(each, torch.Tensor) else type(each) for each in leaves)


def tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Those of a batch, whatever it is packed in."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping | list | tuple):
        for each in batch.values() if isinstance(batch, Mapping) else batch:
            yield from tensors(each)
