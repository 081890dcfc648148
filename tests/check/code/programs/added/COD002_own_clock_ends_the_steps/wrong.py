# SPDX-License-Identifier: Apache-2.0
"""Fits a plane on the devices of all processes until its time is over.

From: https://github.com/deepqmc/deepqmc/pull/248
Shows: nothing here (needs clocks that differ)
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Budget:
    def __init__(self, seconds):
        self.begun = time.perf_counter()
        self.seconds = seconds

    def is_spent(self):
        return time.perf_counter() - self.begun > self.seconds


def descend(weights, rows):
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((rows @ w - 1.0) ** 2))(weights)


def main():
    jax.distributed.initialize()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    parted = NamedSharding(mesh, PartitionSpec("rows"))
    draw = np.random.default_rng(jax.process_index())
    step = jax.jit(descend)
    weights = jnp.zeros(3)
    budget = Budget(2.0)
    for _ in range(10_000):
        mine = draw.normal(size=(4 * jax.local_device_count(), 3)).astype(np.float32)
        weights = step(weights, jax.make_array_from_process_local_data(parted, mine))
        if budget.is_spent():
            break  # BUG COD002
    print("weights", weights)


if __name__ == "__main__":
    main()
