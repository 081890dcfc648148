# SPDX-License-Identifier: Apache-2.0
"""Trains a small regression with one process per host.

From: https://github.com/jax-ml/jax/pull/26194
Shows: error 2 ranks jax: initialize() must be called before any JAX calls
Each host holds its own rows; the weights are the same everywhere.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def join_cluster():
    print(f"this host has {len(jax.devices())} devices")  # BUG COD301
    jax.distributed.initialize(
        coordinator_address=os.environ["COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
    )


def local_rows(count):
    rng = np.random.default_rng(100 + jax.process_index())
    x = rng.normal(size=(count, 4)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5, 3.0], dtype=np.float32)
    return x, y


@jax.jit
def step(w, x, y):
    def loss_fn(w):
        return jnp.mean((x @ w - y) ** 2)

    loss, grad = jax.value_and_grad(loss_fn)(w)
    return w - 0.1 * grad, loss


def main():
    join_cluster()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data"))
    x, y = local_rows(64)
    x = jax.make_array_from_process_local_data(rows, x)
    y = jax.make_array_from_process_local_data(rows, y)
    w = jax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, P()))
    for _ in range(20):
        w, loss = step(w, x, y)
    if jax.process_index() == 0:
        print(f"final loss {float(loss.addressable_data(0)):.4f}")


if __name__ == "__main__":
    main()
