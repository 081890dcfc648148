# SPDX-License-Identifier: Apache-2.0
"""What JAX says of its devices to the script: that they are GPUs, or TPUs, of one process."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src import core

from keepstep.check.memory.dry_run.in_jax.arrays import DryArray

GPUS = ("gpu", "cuda", "rocm", "tpu")


def install(trace: Any, platform: str) -> None:
    """``platform``: `gpu` or `tpu`."""
    for name in ("devices", "local_devices", "device_count", "local_device_count"):
        setattr(jax, name, _of_any_kind(getattr(jax, name)))
    jax.default_backend = lambda: platform
    jax.distributed.initialize = lambda *_, **__: None
    jax.distributed.shutdown = lambda: None
    jax.device_get = lambda tree: jax.tree.map(
        lambda each: np.asarray(each) if isinstance(each, DryArray) else each, tree
    )
    _eval_too(trace)


def _of_any_kind(plain: Any) -> Any:
    def ask(*args: Any, backend: Any = None, **kwargs: Any) -> Any:
        args = tuple(None if each in GPUS else each for each in args)
        return plain(*args, backend=None if backend in GPUS else backend, **kwargs)

    return ask


def _eval_too(trace: Any) -> None:
    """Where JAX computes at once whatever the current trace, arrays without content are still ours."""
    plain = core.EvalTrace.process_primitive

    def process(self: Any, primitive: Any, args: Any, params: Any, /) -> Any:
        if any(isinstance(each, DryArray) for each in args):
            return trace.process_primitive(primitive, args, params)
        return plain(self, primitive, args, params)

    core.EvalTrace.process_primitive = process
