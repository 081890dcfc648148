# SPDX-License-Identifier: Apache-2.0
"""Trains on rows that each host cuts out of one file."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

GLOBAL_BATCH = 16


def read_file():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(128, 4)).astype(np.float32)
    return x, x.sum(axis=1) + 0.1 * np.arange(128, dtype=np.float32)


def local_batches():
    x, y = read_file()
    per_host = GLOBAL_BATCH // jax.process_count()
    for first in range(0, len(x), GLOBAL_BATCH):
        start = first + jax.process_index() * per_host
        rows = slice(start, start + per_host)
        yield x[rows], y[rows]


@jax.jit
def step(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.05 * grad, loss


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    w = jax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, P()))
    for x, y in local_batches():
        x = jax.make_array_from_process_local_data(sharding, x)
        y = jax.make_array_from_process_local_data(sharding, y)
        w, loss = step(w, x, y)
    if jax.process_index() == 0:
        print(f"last loss {float(loss.addressable_data(0)):.4f}")


if __name__ == "__main__":
    main()
