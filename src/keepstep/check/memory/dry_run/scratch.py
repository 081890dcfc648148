# SPDX-License-Identifier: Apache-2.0
"""What a GPU's libraries take for the moment of one operation, as it was seen on an H200 (torch 2.11, cuDNN 9.19).

cuDNN convolves with the channels last. Where they are not, it takes room for what it reads and writes in that order,
the weights too. Kernels that do without are chosen where there are few channels to add up, and in exact float32.
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
FEW_FORWARD, FEW_DATA, FEW_WEIGHTS = 97, 62, 48
"""Input channels times places of the kernel: up to so many, a convolution is computed as it is."""
LARGE = 16 * MIB
"""From so much input and output on, the gradient of weights too."""
FEW_CHANNELS = 4
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
    if func in NEED_CONTIGUOUS:
        given = [each for each in args if isinstance(each, torch.Tensor)]
        return [_bytes(each) for each in given if not each.is_contiguous()]
    if func is aten.convolution.default:
        return _in_order(args[0], args[1], args[:2])
    if func is aten.convolution_backward.default:
        wants_data, wants_weights = args[10][:2]
        return _in_order(args[1], args[2], [args[0], *args[2:3] * wants_data, *args[1:2] * wants_weights])
    return []


def _in_order(given: Any, weight: Any, read: Any) -> list[int]:
    """A convolution reads its tensors in one order: that of the input, or of the weights."""
    order = torch.contiguous_format
    if is_last(given, weight):
        order = torch.channels_last if given.dim() == 4 else torch.channels_last_3d
    return [_bytes(each) for each in read if not each.is_contiguous(memory_format=order)]


def needs(func: Any, args: Any, made: list[Any]) -> list[int]:
    """Bytes, beside what the operation is given and gives: for each of its results, after that is made."""
    if func is aten.convolution.default:
        given, weight, _, stride, _, _, is_transposed, _, groups = args
        return [_convolution(given, weight, made[0], stride, groups, is_transposed, FORWARD)]
    if func is aten.convolution_backward.default:
        grad, given, weight, _, stride, _, _, is_transposed, _, groups, wanted = args
        kinds = [kind for kind, asked in zip((DATA, WEIGHTS), wanted, strict=False) if asked]
        return [_convolution(given, weight, grad, stride, groups, is_transposed, kind) for kind in kinds]
    if func is aten.embedding_dense_backward.default and args[1].numel() > SORTED_FROM:
        return [int(min(args[1].numel(), args[2]) * args[0].shape[-1] * 4)]
    return []


FORWARD, DATA, WEIGHTS = range(3)


def _convolution(given: Any, weight: Any, out: Any, stride: Any, groups: int, is_transposed: bool, kind: int) -> int:
    """``given`` and ``out``: what is read and written forward, or their gradients."""
    both = _padded(given) + _padded(out)
    if torch.backends.cudnn.benchmark and _is_new(given, weight, out, kind):
        return both if groups == 1 else OF_GROUPS * both  # the first time all ways are tried
    if is_transposed:  # it is the gradient of one that is not
        given, out, kind = out, given, (DATA, FORWARD, WEIGHTS)[kind]
    channels, places = given.shape[1] // groups, math.prod(weight.shape[2:])
    summed = channels * places
    is_exact = given.element_size() == 4 and not _in_tf32()
    is_lone = groups > 1 and channels == 1
    whole = both + _bytes(weight)
    if kind == WEIGHTS:
        whole += min(PARTIAL_SUMS, SUMS_BYTES // (weight.numel() * 4)) * weight.numel() * 4
    if is_exact or is_lone:
        return 0
    if groups > 1:
        return whole
    if is_last(given, weight, out):
        if kind == WEIGHTS:
            return whole - both - _bytes(weight)
        return _padded(given) + _bytes(weight) if kind == FORWARD and channels < FEW_CHANNELS else 0
    if places == 1 and math.prod(stride) == 1:
        return 0
    if kind == FORWARD:
        return whole if summed > FEW_FORWARD else 0
    is_wide = given.element_size() == 4
    if kind == DATA:
        is_direct = is_wide and given.dim() < 5 and places > 1 and summed <= FEW_DATA
    else:
        is_direct = is_wide and places > 1 and summed <= FEW_WEIGHTS and both > LARGE
    return 0 if is_direct else whole


def _in_tf32() -> bool:
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # it was set for convolutions alone
        return str(torch.backends.cudnn.conv.fp32_precision) != "ieee"


_seen: set[Any] = set()


def _is_new(given: Any, weight: Any, out: Any, kind: int) -> bool:
    key = (given.shape, weight.shape, out.shape, given.dtype, kind)
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
