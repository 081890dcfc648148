# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX that make sharded arrays without an operation: here they are placed like any other."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax._src import array, core
from jax._src.lax import lax

from keepstep.check.memory.dry_run.in_jax.arrays import DryArray


def install(trace: Any) -> None:
    def placed(shape: Any, dtype: Any, sharding: Any) -> Any:
        return trace.made(core.ShapedArray(tuple(shape), dtype), sharding)

    def from_callback(shape: Any, sharding: Any, data_callback: Any, dtype: Any = None, **_: Any) -> Any:
        if dtype is None:
            first = next(iter(sharding.devices_indices_map(tuple(shape)).values()))
            dtype = jax.numpy.asarray(data_callback(first)).dtype
        return placed(shape, dtype, sharding)

    def from_local(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
        return jax.tree.map(
            lambda each: placed(global_shape or each.shape, jax.dtypes.canonicalize_dtype(each.dtype), sharding),
            local_data,
        )

    def from_single(shape: Any, sharding: Any, arrays: Any, *, dtype: Any = None) -> Any:
        return placed(shape, dtype or arrays[0].dtype, sharding)

    jax.make_array_from_callback = array.make_array_from_callback = from_callback
    jax.make_array_from_process_local_data = from_local
    jax.make_array_from_single_device_arrays = from_single
    plain = lax.full_like

    @functools.wraps(plain)
    def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **kwargs: Any) -> Any:
        if isinstance(x, DryArray) and x.committed and shape is None and not kwargs.get("sharding"):
            return placed(x.shape, jax.dtypes.canonicalize_dtype(dtype or x.dtype), x.sharding)
        return plain(x, fill_value, dtype, shape, **kwargs)

    lax.full_like = jax.lax.full_like = full_like
