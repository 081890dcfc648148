# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors of the device, as the gradients of embeddings are: a fake one would forget how much it holds.

Each carries its indices and values. Where their number depends on values (which rows are the same), none is joined.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
MADE = aten._sparse_coo_tensor_with_dims_and_tensors.default
BAGS = aten._embedding_bag_backward.default
SAME = ("detach", "alias")
LIKE = ("clone", "mul", "div", "neg", "_to_copy", "pow", "sqrt")
IN_PLACE = ("mul_", "div_", "neg_", "copy_")
OF_VALUES = ("sum", "linalg_vector_norm", "norm", "isfinite", "isnan", "isinf", "max", "min")


def parts(tensor: Any) -> tuple[Any, Any] | None:
    """Its indices and its values; None if it is not sparse."""
    return getattr(tensor, "_keepstep_parts", None) if isinstance(tensor, FakeTensor) else None


def with_parts(tensor: Any, indices: Any, values: Any, is_coalesced: bool = False) -> Any:
    tensor._keepstep_parts, tensor._keepstep_coalesced = (indices, values), is_coalesced
    return tensor


def of_bags(args: Any) -> Any:
    """The gradient of an `EmbeddingBag`: a row for every index, repeated ones too."""
    grad, indices, bags, rows = args[0], args[1], args[3], args[6]
    values = aten.index_select.default(grad, 0, bags.new_empty((indices.numel(),)))
    return _made((rows, grad.shape[1]), aten.unsqueeze.default(indices, 0), values)


def answer(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation on these gives. Its own operations are logged like those of the script."""
    name = func.overloadpacket.__name__
    first = args[0]
    found = parts(first)
    if found is None:
        if name in ("add_", "sub_", "add", "sub"):
            return first if name.endswith("_") else aten.clone.default(first)
        if name == "sparse_mask":
            indices, values = parts(args[1]) or (None, None)
            return _made(args[1].shape, indices, aten.empty_like.default(values))
        raise NotImplementedError(f"{func} of a sparse tensor: the dry run does not know it")
    indices, values = found
    coalesced = first._keepstep_coalesced
    if name in ("_indices", "_values", "indices", "values"):
        return indices if name.endswith("indices") else values
    if name == "_nnz":
        return values.shape[0]
    if name == "is_coalesced":
        return coalesced
    if name in ("sparse_dim", "_dimI"):
        return indices.shape[0]
    if name in ("dense_dim", "_dimV"):
        return values.dim() - 1
    if name == "_coalesced_":
        return with_parts(first, indices, values, bool(args[1]))
    if name == "_coalesce":
        return _made(first.shape, aten.clone.default(indices), aten.clone.default(values), True)
    if name in ("to_dense", "_to_dense"):
        return aten.new_zeros.default(values, list(first.shape))
    if name == "zero_":
        return with_parts(first, indices[:, :0], values[:0], True)
    if name in ("add", "add_") and (other := parts(args[1])) is not None:
        both = [aten.cat.default([one, two], dim) for one, two, dim in zip(found, other, (1, 0), strict=True)]
        return with_parts(first, *both) if name == "add_" else _made(first.shape, *both)
    if name in SAME:
        return _made(first.shape, indices, values, coalesced)
    if name in LIKE:
        return _made(first.shape, aten.clone.default(indices), func(values, *args[1:], **kwargs), coalesced)
    if name in IN_PLACE:
        return first
    if name in OF_VALUES:
        return func(values, *args[1:], **kwargs)
    raise NotImplementedError(f"{func} of a sparse tensor: the dry run does not know it")


def _made(shape: Any, indices: Any, values: Any, is_coalesced: bool = False) -> Any:
    dims = indices.shape[0], values.dim() - 1, list(shape)
    made = MADE(*dims, indices, values, dtype=values.dtype, layout=torch.sparse_coo, device=torch.device("cpu"))
    return with_parts(made, indices, values, is_coalesced)
