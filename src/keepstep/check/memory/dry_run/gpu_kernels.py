# SPDX-License-Identifier: Apache-2.0
"""Where a GPU's kernels keep other things than a CPU's: attention, dropout, autocast, and the optimizers' loops."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from keepstep.check.memory.dry_run.device_tensors import DeviceTensors

TO_FLOAT32 = (
    *("layer_norm", "group_norm", "nll_loss", "nll_loss_nd", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    *("kl_div", "binary_cross_entropy_with_logits", "cosine_similarity", "softplus", "exp", "expm1", "log", "log2"),
    *("log1p", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "rsqrt", "reciprocal", "norm.Scalar", "norm.ScalarOpt_dim"),
    *("linalg_vector_norm", "logsumexp", "pow.Scalar", "log10", "dist", "renorm", "upsample_nearest1d"),
    *("upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"),
    "upsample_trilinear3d",
)
"""What autocast does in float32 on a GPU, and not on a CPU."""
RESULT_IN_FLOAT32 = ("softmax.int", "log_softmax.int", "sum", "sum.dim_IntList", "prod", "cumsum", "cumprod")
"""Here only the result is in float32, unless another dtype is asked for: the kernel reads what it is given."""


def install(mode: DeviceTensors) -> None:
    """Make the choices of a GPU."""
    _foreach()
    _dropout(mode)
    _attention(mode)
    _linear(mode)
    _rms_norm(mode)
    _autocast(mode)


def _foreach() -> None:
    """Optimizers work on all parameters at once, with temporaries of that size."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        importlib.import_module(name)._foreach_supported_types.append(FakeTensor)


def _dropout(mode: DeviceTensors) -> None:
    """One byte per element is kept, not a tensor of the same kind."""
    plain = torch.dropout

    def dropout(input: Any, p: float, train: bool) -> Any:
        if train and 0 < p < 1 and mode.holds(input):
            return torch.native_dropout(input, p, train)[0]
        return plain(input, p, train)

    torch.dropout = torch._VF.dropout = dropout


class _Attention(torch.autograd.Function):
    """The kernels that never hold the scores: those of cuDNN and flash, and in float32 the memory-efficient one."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
        batch, heads, length, _ = query.shape
        wide = (batch, heads, length, value.shape[-1])
        if query.element_size() < 4:  # in the order of the query
            order = sorted(range(4), key=lambda each: (-query.stride(each), each))
            out = query.new_empty([wide[each] for each in order]).permute([order.index(each) for each in range(4)])
            sums = query.new_empty(wide[:3], dtype=torch.float32)
        else:
            out = query.new_empty((batch, length, heads, wide[3])).transpose(1, 2)
            sums = query.new_empty((batch, heads, -(-length // 32) * 32), dtype=torch.float32)
        ctx.save_for_backward(query, key, value, out, sums, mask)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        query, key, value, _, sums, mask = ctx.saved_tensors
        work = torch.empty_like(sums)
        exact = torch.empty_like(query, dtype=torch.float32) if query.element_size() < 4 else None
        grads = [torch.empty_like(each) for each in (query, key, value)]
        shared = query.shape[1] // key.shape[1]  # heads that share a key: their gradients are summed at the end
        wide = [each.repeat(1, shared, 1, 1) for each in (key, value) if shared > 1]
        del work, exact, wide
        return (*grads, torch.empty_like(mask) if mask is not None and mask.requires_grad else None)


_MATH = torch.ops.aten._scaled_dot_product_attention_math.default


def _attention(mode: DeviceTensors) -> None:
    plain = F.scaled_dot_product_attention

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        """As the fast kernels do it: those of float32 too."""
        if not mode.holds(query) or query.dim() != 4:
            with mode.on_device() if mode.holds(query) else contextlib.nullcontext():
                more = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
                return plain(query, key, value, attn_mask, **more)
        if torch.is_autocast_enabled("cpu"):
            kind = torch.get_autocast_dtype("cpu")
            query, key, value = query.to(kind), key.to(kind), value.to(kind)
        if any(each.stride(-1) != 1 for each in (query, key, value)):  # no fast kernel takes it
            more = {"scale": scale, "enable_gqa": enable_gqa}
            with torch._C._ExcludeDispatchKeyGuard(_CAST_KEY):
                return _MATH(query, key, value, attn_mask, dropout_p, is_causal, **more)[0]
        return _Attention.apply(query, key, value, attn_mask)

    F.scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention = attention
    from torch.nn.attention import flex_attention as module

    plain_flex = module.flex_attention

    def flex_attention(query: Any, key: Any, value: Any, *args: Any, return_lse: bool = False, **kwargs: Any) -> Any:
        """As it is when it is compiled."""
        if not mode.holds(query):
            return plain_flex(query, key, value, *args, return_lse=return_lse, **kwargs)
        out = _Attention.apply(query, key, value, None)
        return (out, query.new_empty(query.shape[:3], dtype=torch.float32)) if return_lse else out

    module.flex_attention = flex_attention


def _linear(mode: DeviceTensors) -> None:
    """Of what is not contiguous the bias is added in place, where torch makes a second result for fakes."""
    plain = F.linear

    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if bias is None or not mode.holds(input) or input.dim() == 2 or input.is_contiguous():
            return plain(input, weight, bias)
        return plain(input, weight).add_(bias)

    F.linear = torch._C._nn.linear = linear


class _RmsNorm(torch.autograd.Function):
    """One kernel: nothing in float32 but a number for each row."""

    @staticmethod
    def forward(ctx: Any, input: Any, rows: int, weight: Any) -> Any:
        sums = input.new_empty(rows, dtype=torch.float32)
        ctx.save_for_backward(input, weight, sums)
        return torch.empty_like(input, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, _ = ctx.saved_tensors
        return torch.empty_like(input), None, torch.empty_like(weight) if weight is not None else None


def _rms_norm(mode: DeviceTensors) -> None:
    plain = torch.rms_norm

    def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
        if mode.holds(input) and torch.is_autocast_enabled("cpu"):
            input, weight = input.float(), weight.float() if weight is not None else None
        if not mode.holds(input) or (weight is not None and weight.dtype != input.dtype):
            return plain(input, normalized_shape, weight, eps)
        rows = input.numel() // max(1, math.prod(normalized_shape))
        return _RmsNorm.apply(input, rows, weight)

    torch.rms_norm = rms_norm


def _autocast(mode: DeviceTensors) -> None:
    """`autocast("cuda")` is that of the CPU here, with the GPU's lists."""
    plain = torch.amp.autocast_mode.autocast.__init__

    def begin(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
            mode.log.autocast |= enabled
        plain(self, device_type, dtype, enabled, cache_enabled)

    torch.amp.autocast_mode.autocast.__init__ = begin
    enabled, kind = torch.is_autocast_enabled, torch.get_autocast_dtype
    torch.is_autocast_enabled = lambda device="cpu": enabled("cpu" if device == "cuda" else device)
    torch.get_autocast_dtype = lambda device="cpu": kind("cpu" if device == "cuda" else device)
    torch.get_autocast_gpu_dtype = lambda: kind("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that a kernel is replaced
        for name in TO_FLOAT32:
            _in_float32(name)
        for name in RESULT_IN_FLOAT32:
            _in_float32(name, result_only=True)
        for name in _casts("AutocastCPU") - _casts("AutocastCUDA") - {"cat", "stack"}:
            _library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU", allow_override=True)


def _casts(key: str) -> set[str]:
    """The operations that autocast knows."""
    known = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {each.removeprefix("aten::") for each in known if each.startswith("aten::")}


_library = torch.library.Library("aten", "IMPL")
_CAST_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def _in_float32(name: str, result_only: bool = False) -> None:
    base, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, base), overload or "default")

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
            return value.float()
        return value

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_CAST_KEY):
            if not result_only:
                return operation(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})
            place = [each.name for each in operation._schema.arguments].index("dtype")
            if place >= len(args) and cast(args[0]) is not args[0]:
                kwargs["dtype"] = kwargs.get("dtype") or torch.float32
            return operation(*args, **kwargs)

    _library.impl(name, run, "AutocastCPU", allow_override=True)
