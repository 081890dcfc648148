# SPDX-License-Identifier: Apache-2.0
"""The script as it would be with one thing changed: another batch, recomputed activations, bfloat16, accumulation."""

from __future__ import annotations

import argparse
import functools
import re
import types
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from keepstep.check.memory.dry_run.loaders import tensors
from keepstep.check.memory.dry_run.storage_log import StorageLog

_BATCH = re.compile(r"(?!\w*(?:eval|test|val))(?:b|bs|batch|(?:\w+_)?batch_?size(?:_per_\w+)?)")


class Batch:
    """Finds what says how large a batch is, and scales it: an option of the script's, else what its loaders give.

    ``scale``: to how many, of how many; None changes nothing. ``stretch``: the same for the length of its records.
    """

    def __init__(self, log: StorageLog, scale: tuple[int, int] | None, stretch: tuple[int, int] | None = None) -> None:
        self._log = log
        self._scale = scale
        self._stretch = stretch

    def scaled(self, number: int) -> int:
        return max(1, round(number * self._scale[0] / self._scale[1])) if self._scale else number

    def install(self, arguments: list[str]) -> list[str]:
        """Returns the command line's arguments, scaled."""
        changed = self._in_words(arguments)
        if not self._log.batch:
            self._in_parsers()
        plain = torch.utils.data.dataloader._SingleProcessDataLoaderIter._next_data

        def next_data(loader: Any) -> Any:
            batch = plain(loader)
            self._note_lengths(batch)
            if self._stretch:
                batch = self._each(batch, self._stretched)
            number = next((len(each) for each in tensors(batch) if each.dim()), 0)
            if number and self._log.batch.get("by", "loader") == "loader":
                self._log.batch.setdefault("size", number)
                self._log.batch["by"] = "loader"
                return self._of_loader(batch, number)
            return batch

        torch.utils.data.dataloader._SingleProcessDataLoaderIter._next_data = next_data
        return changed

    def _option(self, name: str, number: int) -> int:
        self._log.batch.setdefault("size", number)
        self._log.batch.setdefault("by", name)
        return self.scaled(number)

    def _in_words(self, words: list[str]) -> list[str]:
        """`--batch-size 32`, `--batch_size=32`."""
        found = list(words)
        for place, word in enumerate(words):
            name, has_value, value = word.partition("=")
            if not name.startswith("-") or not _BATCH.fullmatch(name.lstrip("-").replace("-", "_")):
                continue
            if has_value and value.isdecimal():
                found[place] = f"{name}={self._option(name, int(value))}"
            elif not has_value and words[place + 1 : place + 2] and words[place + 1].isdecimal():
                found[place + 1] = str(self._option(name, int(words[place + 1])))
        return found

    def _in_parsers(self) -> None:
        """The defaults of `argparse`."""
        plain = argparse.ArgumentParser.parse_known_args

        def parse(parser: Any, *args: Any, **kwargs: Any) -> Any:
            found, rest = plain(parser, *args, **kwargs)
            for name, value in vars(found).items():
                if _BATCH.fullmatch(name) and type(value) is int and value > 0:
                    setattr(found, name, self._option(name, value))
            return found, rest

        argparse.ArgumentParser.parse_known_args = parse

    def _of_loader(self, batch: Any, number: int) -> Any:
        """Each tensor of the batch with the first of its records, or with records twice."""
        wanted = self.scaled(number)

        def scaled(one: torch.Tensor) -> torch.Tensor:
            if not one.dim() or len(one) != number or wanted == number:
                return one
            return one[torch.arange(wanted) % number]

        return self._each(batch, scaled)

    def _note_lengths(self, batch: Any) -> None:
        """Of the records of whole numbers, such as tokens: the longest, by the name of the field if it has one."""
        named = batch.items() if isinstance(batch, Mapping) else [("", each) for each in tensors(batch)]
        for name, one in named:
            if isinstance(one, torch.Tensor) and one.dim() == 2 and not one.is_floating_point():
                self._log.lengths[str(name)] = max(one.shape[1], self._log.lengths.get(str(name), 0))

    def _stretched(self, one: torch.Tensor) -> torch.Tensor:
        """With its records repeated until they are as long as wanted."""
        wanted, length = self._stretch or (0, 0)
        return one[:, torch.arange(wanted) % length] if one.dim() > 1 and one.shape[1] == length else one

    def _each(self, batch: Any, changed: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """The batch with each of its tensors changed."""
        if isinstance(batch, torch.Tensor):
            return changed(batch)
        if isinstance(batch, MutableMapping):
            for key in batch:
                batch[key] = self._each(batch[key], changed)
            return batch
        if isinstance(batch, list | tuple):
            every = [self._each(each, changed) for each in batch]
            return type(batch)(*every) if hasattr(batch, "_fields") else type(batch)(every)
        return batch


def recompute(modules: Any) -> None:
    """Checkpoint the blocks of the models when the first of them is called."""
    done: list[bool] = []

    def begin(module: Any, args: Any) -> None:
        if not done:
            done.append(True)
            for each in blocks(modules):
                each.forward = functools.partial(checkpoint, each.forward, use_reentrant=False)

    torch.nn.modules.module.register_module_forward_pre_hook(begin)


def blocks(modules: Any) -> list[Any]:
    """What a model repeats: modules of one class, with parts of their own, in one list; the outermost."""
    found: list[Any] = []
    for each in list(modules.values()):
        if isinstance(each, torch.nn.ModuleList | torch.nn.Sequential):
            kinds = [type(one) for one in each.children()]
            found += [one for one in each.children() if kinds.count(type(one)) > 1 and next(one.children(), None)]
    inner = {part for one in found for part in one.modules() if part is not one}
    return [one for one in found if one not in inner]


def in_bfloat16() -> None:
    """Autocast from the call of a model until its backward pass."""
    active: list[Any] = []
    call, back = torch.nn.Module.__call__, torch.autograd.backward

    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active and torch._C._current_graph_task_id() == -1:
            active.append(torch.autocast("cuda", dtype=torch.bfloat16))
            active[0].__enter__()
        return call(self, *args, **kwargs)

    def end(*args: Any, **kwargs: Any) -> Any:
        if active:
            active.pop().__exit__(None, None, None)
        return back(*args, **kwargs)

    torch.nn.Module.__call__ = begin
    torch.autograd.backward = end


def accumulate(optimizer: Any) -> None:
    """This optimizer steps at every second call, and gradients stay until then."""
    calls = {"step": 0, "zero_grad": 0}

    def every_second(name: str) -> Any:
        plain = getattr(optimizer, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            # a script clears gradients before the pass or after the step: both follow the step
            if calls[name] % 2 if name == "step" else calls["step"] % 2:
                return None
            return plain(*args, **kwargs)

        return types.MethodType(call, optimizer)

    optimizer.step, optimizer.zero_grad = every_second("step"), every_second("zero_grad")
