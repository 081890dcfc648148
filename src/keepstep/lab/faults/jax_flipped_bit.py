# SPDX-License-Identifier: Apache-2.0
"""One bit of one weight of the rank's replica flips (JAX), as by a fault of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import tell

if TYPE_CHECKING:
    from keepstep.lab.run import Run

BIT = 20
_flipped: list[float] = []


def change_weights(weights: Any) -> Any:
    if _flipped:
        return weights
    import jax
    import numpy as np

    replica = np.array(weights["w1"].addressable_data(0))
    before = float(replica[0, 0])
    replica.view("int32")[0, 0] ^= 1 << BIT
    _flipped.append(before)
    tell(f"weight 0 went from {before:.6f} to {float(replica[0, 0]):.6f}")
    sharding = weights["w1"].sharding
    local = [jax.device_put(replica, device) for device in sharding.addressable_devices]
    flipped = jax.make_array_from_single_device_arrays(replica.shape, sharding, local)
    return {**weights, "w1": flipped}


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    for _, what in run.strikes():
        if what.startswith("weight 0"):
            return what
    raise Unproven("no bit flipped")
