# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN as cuDNN computes them: what it keeps for the backward pass, and what it takes for a moment.

What is kept was measured and is exact to a few per cent. The scratch memory is a rule fitted to 30 shapes on an H200
(torch 2.11), from which single shapes differ by some 10 %.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from keepstep.check.memory.dry_run.device_tensors import DeviceTensors

MIB = 1 << 20
KEPT = {"lstm": 5, "gru": 6, "rnn_tanh": 1, "rnn_relu": 1}
"""Values per value of each layer's result that wait for the backward pass; between layers there is one more."""
ONE_WAY, BOTH_WAYS, PACKED = (7, 1), (10, 1), (6, 2)
"""Scratch, forward and backward: copies of the results and of the weights, and a little for each byte of a value."""
BESIDES = 5 * MIB // 4


class _Recurrent(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kept: int, ways: int, packed: bool, data: Any, hidden: Any, cell: Any, copied: Any, *weights: Any
    ) -> Any:
        """``kept``: how many results wait for the backward pass. ``copied``: the weights in another dtype, or None."""
        result = hidden.shape[-1] * ways
        # the gates of a projected LSTM are as many as without
        wide = cell.shape[-1] * ways if cell is not None else result
        values = data.numel() // data.shape[-1] * wide
        results, copies = PACKED if packed else BOTH_WAYS if ways == 2 else ONE_WAY
        ctx.needs = BESIDES + results * values + copies * sum(each.numel() for each in weights)
        out = data.new_empty((*data.shape[:-1], result))
        last = tuple(torch.empty_like(each) for each in (hidden, cell) if each is not None)
        scratch = data.new_empty(ctx.needs)
        ctx.save_for_backward(data, hidden, cell, copied, out, data.new_empty(values * kept), *weights)
        del scratch
        return out, *last

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        data, hidden, cell, copied, _, _, *weights = ctx.saved_tensors
        made = [torch.empty_like(each) if each is not None else None for each in (data, hidden, cell)]
        data.new_empty(ctx.needs)
        flat = data.new_empty(sum(each.numel() for each in weights))
        data.new_empty(ctx.needs)
        grads = [part.view(each.shape) for part, each in zip(_split(flat, weights), weights, strict=True)]
        return None, None, None, *made, None, *(each if copied is None else each.to(weights[0].dtype) for each in grads)


class _Padded(torch.autograd.Function):
    """Packed records, each as long as the longest."""

    @staticmethod
    def forward(ctx: Any, data: Any, steps: int, records: int) -> Any:
        ctx.like = data.shape
        return data.new_empty((steps, records, *data.shape[1:]))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        made = [grad.new_empty(ctx.like) for _ in range(2)]  # piece by piece: the sum so far, and what is added
        return made[0], None, None


def _split(flat: Any, weights: Any) -> Any:
    """As cuDNN gives the gradients: pieces of one tensor."""
    return flat.split([each.numel() for each in weights])


def install(mode: DeviceTensors) -> None:
    """Layers whose input is on the device are computed so; those of the host as before."""
    for kind in KEPT:
        setattr(torch._VF, kind, _of(mode, kind, getattr(torch._VF, kind)))
    for name in ("RNN_TANH", "RNN_RELU"):
        torch.nn.modules.rnn._rnn_impls[name] = getattr(torch._VF, name.lower())

    plain = torch._VF._pad_packed_sequence

    def padded(data: Any, sizes: Any, batch_first: bool, value: float, total: int) -> Any:
        if not mode.holds(data):
            return plain(data, sizes, batch_first, value, total)
        out = _Padded.apply(data, max(len(sizes), total), int(sizes[0]))
        lengths = (sizes[:, None] > torch.arange(int(sizes[0]))).sum(0)
        return out.transpose(0, 1) if batch_first else out, lengths

    torch._VF._pad_packed_sequence = padded


def _of(mode: DeviceTensors, kind: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def run(data: Any, *args: Any) -> Any:
        if not mode.holds(data):
            return plain(data, *args)
        packed = not isinstance(args[2], bool)  # then the sizes of its batches go before all else
        hx, weights, _, layers, _, training, both = args[int(packed) :][:7]
        hidden, cell = hx if kind == "lstm" else (hx, None)
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else data.dtype
        copied = None
        if dtype is torch.bfloat16 or dtype != weights[0].dtype:
            # cuDNN wants all weights as one tensor; only those of float32 and float16 are kept so
            copied = data.new_empty(sum(each.numel() for each in weights), dtype=dtype)
        data, hidden = data.to(dtype), hidden.to(dtype)
        cell = cell.to(dtype) if cell is not None else None
        kept = KEPT[kind] * layers + layers - 1 if training else 0
        return _Recurrent.apply(kept, 2 if both else 1, packed, data, hidden, cell, copied, *weights)

    return run
