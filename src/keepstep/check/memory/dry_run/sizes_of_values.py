# SPDX-License-Identifier: Apache-2.0
"""Results whose size depends on values that nobody computed: the largest that is possible, or the share that is usual.

Where one of several was chosen (by `topk` or `argmax`) and the script asks who chose this one, an equal share is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

aten = torch.ops.aten
CHOICES = {aten.topk.default: 2, aten.argmax.default: 1, aten.max.dim: 1, aten.sort.default: 1}
"""Where each of them is given the dimension along which it chooses."""
_KEEP = {aten.eq.Scalar, aten.eq.Tensor, aten._to_copy.default, aten.clone.default}
"""The result says of the same choice."""

SIZES_KNOWN = {
    *(aten._pack_padded_sequence.default, aten._ctc_loss.default, aten._ctc_loss.Tensor),
    *(aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor),
}
"""What only fakes cannot do."""


class Choices:
    """By the number of a storage: of how many one was chosen."""

    def __init__(self, number: Callable[[Any], int | None]) -> None:
        self._number = number
        self._of: dict[int | None, int] = {}

    def follow(self, func: Any, args: Any, out: Any) -> None:
        if func in CHOICES:
            place = CHOICES[func]
            dim = args[place] if len(args) > place and args[place] is not None else -1
            last = out[-1] if isinstance(out, tuple | list) else out
            if isinstance(last, FakeTensor):
                self._of[self._number(last)] = args[0].shape[dim] if args[0].dim() else 1
        elif self._of and func in _KEEP and isinstance(out, FakeTensor):
            found = max((self.of(each) for each in args if isinstance(each, torch.Tensor)), default=1)
            if found > 1:
                self._of[self._number(out)] = found

    def of(self, tensor: Any) -> int:
        return self._of.get(self._number(tensor), 1) if isinstance(tensor, FakeTensor) else 1


def largest(func: Any, args: Any, choices: Choices) -> Any:
    """The result if every value counted, or an equal share of them."""
    first = args[0]
    if func is aten.nonzero.default:
        return first.new_empty((-(-first.numel() // choices.of(first)), first.dim()), dtype=torch.int64)
    if func is aten.masked_select.default:
        number = torch.broadcast_shapes(first.shape, args[1].shape).numel()
        return first.new_empty((-(-number // choices.of(args[1])),))
    if func is aten.index.Tensor:
        indices: list[Any] = []
        for each in args[1]:
            if each is not None and each.dtype in (torch.bool, torch.uint8):
                number = -(-each.numel() // choices.of(each))
                indices += [each.new_empty((number,), dtype=torch.int64) for _ in range(each.dim())]
            else:
                indices.append(each)
        return func(first, indices)
    if func in (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default):
        number = first.numel()
        long = first.new_empty((number,), dtype=torch.int64)
        return first.new_empty((number,)), long, long.clone()
    if func is aten._pack_padded_sequence.default:
        return _packed(*args)
    if func in (aten._ctc_loss.default, aten._ctc_loss.Tensor):
        return _ctc(first, args[1], args[3])
    if func in (aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor):
        return torch.empty_like(args[1])
    raise NotImplementedError(f"{func} on values that are not known")


def _packed(padded: Any, lengths: Any, batch_first: bool) -> Any:
    """``lengths`` are of the host, as a rule, and real; the longest are taken otherwise."""
    records, steps = padded.shape[:2] if batch_first else (padded.shape[1], padded.shape[0])
    with unset_fake_temporarily():
        known = torch.full((records,), steps) if isinstance(lengths, FakeTensor) else lengths
        sizes, total = (known[:, None] > torch.arange(int(known.max()))).sum(0), int(known.sum())
    return padded.new_empty((total, *padded.shape[2:])), sizes


def _ctc(log_probs: Any, targets: Any, lengths: Any) -> Any:
    """The losses, and what waits for the backward pass: two places for each sign of the longest target, and one."""
    longest = targets.shape[1] if targets.dim() == 2 else math.ceil(targets.numel() / max(1, len(lengths)))
    steps, records = log_probs.shape[0], log_probs.shape[1] if log_probs.dim() == 3 else 1
    return log_probs.new_empty((records,)), log_probs.new_empty((records, steps, 2 * longest + 1))
