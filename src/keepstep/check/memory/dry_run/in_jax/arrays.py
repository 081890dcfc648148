# SPDX-License-Identifier: Apache-2.0
"""Arrays without content: a shape, a type, a sharding, and answers as a device's array would give them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from jax._src import core

FLOAT, OTHER = 1.0, 0
"""What a script that asks for a value gets."""


class DryArray(core.Tracer):
    """``number``: of its storage in the log. ``ancestors``: a bit for each program that it comes from."""

    sharding: Any = None
    guessed: Callable[[str], None]

    def __init__(self, trace: Any, aval: Any, sharding: Any, number: int, ancestors: int, placed: bool) -> None:
        super().__init__(trace, aval)
        self.sharding = sharding
        self.number = number
        self.ancestors = ancestors
        self.placed = placed

    committed = property(lambda self: self.placed)
    _committed = committed
    is_fully_addressable = property(lambda self: True)
    is_fully_replicated = property(lambda self: self.sharding.is_fully_replicated)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    device = property(lambda self: next(iter(self.devices())) if len(self.devices()) == 1 else self.sharding)
    global_shards = addressable_shards = property(lambda self: self._shards())

    def devices(self) -> Any:
        return self.sharding.device_set

    def _shards(self) -> list[Any]:
        local = core.ShapedArray(self.sharding.shard_shape(self.shape), self.dtype)
        data = DryArray(self._trace, local, jax.sharding.SingleDeviceSharding(jax.devices()[0]), -1, 0, True)
        return [SimpleNamespace(data=data, device=each, index=(), replica_id=0) for each in self.devices()]

    def addressable_data(self, index: int) -> Any:
        return self._shards()[index].data

    def block_until_ready(self) -> DryArray:
        return self

    def copy_to_host_async(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    def is_deleted(self) -> bool:
        return False

    def delete(self) -> None: ...

    def _value(self) -> Any:
        return FLOAT if jax.numpy.issubdtype(self.dtype, jax.numpy.inexact) else OTHER

    def __array__(self, dtype: Any = None, *_: Any, **__: Any) -> Any:
        wanted = self.dtype if dtype is None else dtype
        return np.broadcast_to(np.asarray(self._value()).astype(wanted), self.shape)

    def item(self, *_: Any) -> Any:
        return np.asarray(self).flat[0].item()

    def tolist(self) -> Any:
        return np.asarray(self).tolist()

    def __float__(self) -> float:
        return float(self._value())

    def __int__(self) -> int:
        type(self).guessed("a number of the device is read: taken to be 0 or 1")
        return int(self._value())

    __index__ = __int__

    def __bool__(self) -> bool:
        type(self).guessed("a condition on a device's array: taken to be false")
        return False

    def __format__(self, how: str) -> str:
        return format(np.asarray(self)[()], how) if not self.shape else format(str(self), how)

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self.dtype})"

    def __copy__(self) -> DryArray:
        return self

    def __deepcopy__(self, memo: Any) -> DryArray:
        return self
