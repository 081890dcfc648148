# SPDX-License-Identifier: Apache-2.0
"""What a GPU's libraries take for the moment of one operation, as it was seen on an H200 (torch 2.11, cuDNN 9).

cuDNN convolves with the channels last. Where they are not, it takes room for what it reads and writes in that order,
the weights too. So it was for most of 200 layers of seven networks and of 45 that were tried alone; a few took half.
"""

from __future__ import annotations

import math
from typing import Any

import torch

MIB = 1 << 20
aten = torch.ops.aten
PARTIAL_SUMS = 16
SUMS_BYTES = 8 * MIB
"""The gradient of a convolution's weights is added up in so many parts, of so many bytes together, in float32."""
CHANNELS_LAST = 16 * MIB
"""At most, where the channels are last already."""
FEW_CHANNELS = 8
SMALL_KERNEL = 16
"""Up to so many places a kernel with few channels is computed as it is."""
SMALL_PICTURE = 64
"""Up to so many places a convolution with a kernel of one place is none of products."""
SORTED_FROM = 3072
"""From so many indices on, the gradient of an embedding is first added up for each row that is named, in float32."""
OF_GROUPS = 4
NEED_CONTIGUOUS = {
    getattr(aten, name).default
    for name in (
        *("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"),
        *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
    )
}


def copies(func: Any, args: Any) -> list[int]:
    """Bytes of the inputs that a kernel wants in another order."""
    if func not in NEED_CONTIGUOUS:
        return []
    given = (each for each in args if isinstance(each, torch.Tensor))
    return [_bytes(each) for each in given if not each.is_contiguous()]


def needs(func: Any, args: Any, made: list[Any]) -> list[int]:
    """Bytes, beside what the operation is given and gives: for each of its results, after that is made."""
    if func is aten.convolution.default:
        return [_convolution(args[0], args[1], made[0], args[3], args[8], MODE_FORWARD)]
    if func is aten.convolution_backward.default:
        grad, given, weight, stride, groups, wanted = args[0], args[1], args[2], args[4], args[9], args[10]
        modes = [mode for mode, asked in zip((MODE_DATA, MODE_WEIGHTS), wanted, strict=False) if asked]
        return [_convolution(given, weight, grad, stride, groups, mode) for mode in modes]
    if func is aten.embedding_dense_backward.default and args[1].numel() > SORTED_FROM:
        return [int(min(args[1].numel(), args[2]) * args[0].shape[-1] * 4)]
    return []


MODE_FORWARD, MODE_DATA, MODE_WEIGHTS = range(3)


def _convolution(given: Any, weight: Any, out: Any, stride: Any, groups: int, mode: int) -> int:
    """``given`` and ``out``: what is read and written forward, or their gradients."""
    is_lone = groups > 1 and groups == given.shape[1]
    both = _padded(given) + _padded(out)
    places = math.prod(weight.shape[2:])
    if torch.backends.cudnn.benchmark and _is_new(given, weight, out, mode):
        return both if groups == 1 else OF_GROUPS * both  # the first time all ways are tried
    if is_lone:
        return 0
    if is_last(given, weight):
        return min(CHANNELS_LAST, both) if places > 1 else 0
    if places == 1 and math.prod(stride) == 1 and math.prod(given.shape[2:]) > SMALL_PICTURE:
        return min(both, given.shape[0] * weight.numel() * 4) if mode == MODE_WEIGHTS else 0
    few = min(given.shape[1], out.shape[1]) < FEW_CHANNELS and places <= SMALL_KERNEL
    is_picture = given.dim() == 4 and min(out.shape[2:]) > 1
    is_direct = given.element_size() == 4 or (given.shape[1] < FEW_CHANNELS and mode != MODE_WEIGHTS)
    if few and is_picture and is_direct:
        return 0
    if mode == MODE_WEIGHTS:
        both += min(PARTIAL_SUMS, SUMS_BYTES // (weight.numel() * 4)) * weight.numel() * 4
    return both + _bytes(weight)


_seen: set[Any] = set()


def _is_new(given: Any, weight: Any, out: Any, mode: int) -> bool:
    key = (given.shape, weight.shape, out.shape, given.dtype, mode)
    known = key in _seen
    _seen.add(key)
    return not known


def _padded(one: Any) -> int:
    """With its channels up to a multiple of 16 bytes."""
    step = 16 // one.element_size()
    return _bytes(one) * (-(-one.shape[1] // step) * step) // max(1, one.shape[1])


def is_last(*given: Any) -> bool:
    """Whether the channels are last in one of them, and so in what is made of them."""
    return any(_is_last(each) for each in given)


def _is_last(given: Any) -> bool:
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(given.dim())
    return order is not None and not given.is_contiguous() and given.is_contiguous(memory_format=order)


def _bytes(one: Any) -> int:
    return int(one.numel() * one.element_size())
