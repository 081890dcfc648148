# SPDX-License-Identifier: Apache-2.0
"""The script's optimizers: what is a parameter, a gradient or state, and when there were two of them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from keepstep.check.memory.dry_run.changes import blocks
from keepstep.check.memory.dry_run.device_tensors import DeviceTensors
from keepstep.check.memory.dry_run.sparse import parts

STEPS = 2
MOST_STEPS = 4
"""Of one optimizer, where another has not come to two."""


class TrainingSteps:
    """Labels storages at every optimizer's step. ``enough`` is called when all optimizers have made two, and after each
    step from then on.

    Where there is no optimizer, a step is the first write to a parameter after a backward pass.
    """

    def __init__(self, mode: DeviceTensors, enough: Callable[[], None]) -> None:
        self._mode = mode
        self._enough = enough
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        """By identity: some modules (torchmetrics) have a hash that needs what their own construction makes."""
        self.sums: dict[str, int] = {}
        """Parameters, gradients and state by arithmetic over the tensors themselves, at the last step."""
        self.counted: dict[str, int] = {}
        self.steps = 0
        self._by_hand: list[tuple[Any, int | None]] | None = None
        """Without an optimizer: parameters and their storages, from a backward pass until one of them is written to."""

    def install(self, change: Callable[[Any], None] | None) -> None:
        """``change``: what is done to every optimizer."""

        def made(optimizer: Any) -> None:
            if change is not None and optimizer not in self._steps:
                change(optimizer)
            self._steps.setdefault(optimizer, 0)

        _remember(torch.optim.Optimizer, made)
        _remember(torch.nn.Module, lambda made: self.modules.__setitem__(id(made), made))
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        torch.autograd.backward = self._backward(torch.autograd.backward)
        torch.autograd.grad = self._backward(torch.autograd.grad)
        self._mode.written = self._written

    def _backward(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if any(self._mode.number(each) != number for each, number in self._by_hand or ()):
                self._stepped_by_hand()  # by `parameter.data = ...`
            if self.steps >= STEPS and not self._steps:
                self._enough()
            done = plain(*args, **kwargs)
            if not self._steps:
                mine = self.label_parameters()
                self._add_up(mine)
                self._by_hand = [(each, self._mode.number(each)) for each in mine]
            return done

        return backward

    def _written(self, tensor: Any) -> None:
        """Something of the device was written to."""
        if self._by_hand is None or (number := self._mode.number(tensor)) is None:
            return
        is_lone = tensor.requires_grad and tensor.is_leaf
        if is_lone or any(each == number for _, each in self._by_hand):
            if is_lone:
                self._add_up([tensor, *(each for each, _ in self._by_hand)])
            self._stepped_by_hand()

    def _stepped_by_hand(self) -> None:
        self._by_hand = None
        if not self._steps:
            self.steps += 1
            self._mode.log.stepped(self.steps)

    def label_parameters(self) -> list[Any]:
        """The parameters of all modules that live; their buffers too are named."""
        modules = list(self.modules.values())
        for each in modules:
            for buffer in each.buffers(recurse=False):
                if (number := self._mode.number(buffer)) is not None:
                    self._mode.log.kinds[number] = "buffer"
        mine = [one for each in modules for one in each.parameters(recurse=False)]
        for each in _local(mine):
            if (number := self._mode.number(each)) is not None:
                self._mode.log.kinds[number] = "parameter"
        return mine

    def model(self) -> dict[str, Any]:
        """What is known of the models besides: bytes of the largest block, and of what is in none."""
        mine = {id(each): each for module in self.modules.values() for each in module.parameters(recurse=False)}
        found = blocks(self.modules)
        inside = {id(each) for one in found for each in one.parameters()}
        states = [each for made in list(self._steps) for each in tree_leaves(list(made.state.values()))]
        wide = [each.element_size() for each in states if isinstance(each, torch.Tensor) and each.dim()]
        return {
            "largest_block": max((_bytes(one.parameters()) for one in found), default=0),
            "outside_blocks": _bytes(each for key, each in mine.items() if key not in inside),
            "float32": any(each.dtype is torch.float32 for each in mine.values()),
            "sharded": any(hasattr(each, "_local_tensor") for each in mine.values()),
            "state_element_bytes": max(wide, default=4),
        }

    def _add_up(self, mine: list[Any]) -> None:
        self.sums = {"parameter": 0, "gradient": 0, "optimizer state": 0}
        self.counted = dict(self.sums)
        mine = list({id(each): each for each in mine}.values())
        self._label("parameter", mine)
        self._label("gradient", [each.grad for each in mine if each.grad is not None])

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        mine = self.label_parameters()
        self._add_up(mine + [each for group in optimizer.param_groups for each in group["params"]])
        self._inside = self._mode.making("optimizer work")
        self._inside.__enter__()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._inside.__exit__(None, None, None)
        states = [value for each in list(self._steps) for value in each.state.values()]
        self._label("optimizer state", tree_leaves(states))
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        self.steps = max(self.steps, self._steps[optimizer])
        self._mode.log.stepped(self.steps)
        if min(self._steps.values()) >= STEPS or self.steps >= MOST_STEPS:
            self._enough()

    def _label(self, kind: str, tensors: list[Any]) -> None:
        """Name their storages, and add them up twice: by the shapes of the tensors, and as the log counts them."""
        tensors_known, storages_known = set(), set()
        for each in _local(tensors):
            number = self._mode.number(each)
            if number is None:
                continue
            self._mode.log.kinds[number] = kind
            if (number, each.storage_offset()) not in tensors_known:
                tensors_known.add((number, each.storage_offset()))
                self.sums[kind] += each.numel() * each.element_size()
            if number not in storages_known:
                storages_known.add(number)
                self.counted[kind] += self._mode.log.sizes[number]


def _remember(kind: Any, remember: Callable[[Any], object]) -> None:
    """Tell of every instance that is made."""
    plain = kind.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        remember(self)

    kind.__init__ = begin


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _local(tensors: list[Any]) -> Iterator[Any]:
    """The part of each that this rank holds; of what is sparse, its indices and values."""
    for each in tensors:
        if isinstance(each, torch.Tensor):
            yield from parts(each) or (each._local_tensor if hasattr(each, "_local_tensor") else each,)
