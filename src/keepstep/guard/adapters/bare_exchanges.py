# SPDX-License-Identifier: Apache-2.0
"""The key-value services of the frameworks, for scripts whose ranks ask each other while the guard is off.

Each function takes the framework's module. None: it has formed no world of several processes.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import ModuleType

from keepstep.guard.exchange import Exchange

Found = tuple[Exchange, int, int]
"""The exchange, the own rank, and the number of ranks."""


def of_torch(torch: ModuleType) -> Found | None:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized() or c10d.get_world_size() < 2:
        return None
    from keepstep.guard.adapters.torch.store import Store
    from keepstep.guard.adapters.torch.world import own_store

    opened = own_store(torch, c10d, 0)
    if opened is None:
        return None
    store = Store()
    store.connect(opened)
    atexit.register(store.leave)
    return store, int(c10d.get_rank()), int(c10d.get_world_size())


def of_jax(jax: ModuleType) -> Found | None:
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    if state is None or state.client is None or int(state.num_processes) < 2:
        return None
    from keepstep.guard.adapters.jax.world import CoordinationService

    return CoordinationService(state), int(state.process_id), int(state.num_processes)


def of_tensorflow(tensorflow: ModuleType) -> Found | None:
    if "tensorflow.python.eager.context" not in sys.modules:
        return None
    from keepstep.guard.adapters.tensorflow.exchange import of_formed_world

    return of_formed_world()


FRAMEWORKS: dict[str, Callable[[ModuleType], Found | None]] = {
    "torch": of_torch,
    "jax": of_jax,
    "tensorflow": of_tensorflow,
}
