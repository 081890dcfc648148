# SPDX-License-Identifier: Apache-2.0
"""What a GPU's libraries take for the moment of one operation, as it was seen on an H200 (torch 2.11, cuDNN 9).

cuDNN convolves with the channels last. Where they are not, it takes room for both tensors in that order. So it was for
most of 45 layers that were tried, to about 10 %; a few of float32 took half, those with one channel nothing.
"""

from __future__ import annotations

from typing import Any

import torch

MIB = 1 << 20
aten = torch.ops.aten
BESIDES = 8 * MIB
"""Of a convolution's gradients."""
CHANNELS_LAST = 96 * MIB
"""At most, for the gradients where the channels are last already."""
SORTED_FROM = 3072
"""From so many indices on, the gradient of an embedding is first added up for each row that is named, in float32."""


def needs(func: Any, args: Any, made: list[Any]) -> int:
    """Bytes, beside what the operation is given and gives."""
    if func is aten.convolution.default:
        return _convolution(args[0], args[1], args[8], made)
    if func is aten.convolution_backward.default:
        both = [args[1], args[0]]
        if _is_last(args[1]):
            return min(CHANNELS_LAST, _bytes(both)) if _is_spatial(args[2]) else 0
        return _convolution(args[1], args[2], args[9], [args[0]], BESIDES)
    if func is aten.embedding_dense_backward.default and args[1].numel() > SORTED_FROM:
        return int(min(args[1].numel(), args[2]) * args[0].shape[-1] * 4)
    return 0


def _convolution(given: Any, weight: Any, groups: int, made: list[Any], besides: int = 0) -> int:
    if not _is_spatial(weight) or groups == given.shape[1] or _is_last(given):
        return 0
    return _bytes([given, *made]) + besides


def _is_spatial(weight: Any) -> bool:
    """Whether the kernel is larger than one place."""
    return any(each > 1 for each in weight.shape[2:])


def _is_last(given: Any) -> bool:
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(given.dim())
    return order is not None and not given.is_contiguous() and given.is_contiguous(memory_format=order)


def _bytes(tensors: list[Any]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)
