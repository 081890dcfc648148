# SPDX-License-Identifier: Apache-2.0
"""Trains on a table whose rows are split over the hosts.

From: https://github.com/jax-ml/jax/pull/6891
Shows: differs 2 ranks jax: the processes disagree about the global shape and about the loss
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

ROWS = 101
FEATURES = 4


def load_table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    noise = rng.normal(size=ROWS).astype(np.float32)
    return x, x @ np.arange(1, FEATURES + 1, dtype=np.float32) + noise


def my_rows(x, y):
    index, count = jax.process_index(), jax.process_count()
    size = len(x) // count
    start = index * size
    stop = len(x) if index == count - 1 else start + size  # BUG COD304
    return x[start:stop], y[start:stop]


@jax.jit
def step(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.1 * grad, loss


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    by_row = NamedSharding(mesh, P("rows"))
    x_local, y_local = my_rows(*load_table())
    x = jax.make_array_from_process_local_data(by_row, x_local)
    y = jax.make_array_from_process_local_data(by_row, y_local)
    w = jax.device_put(np.zeros(FEATURES, np.float32), NamedSharding(mesh, P()))
    for _ in range(40):
        w, loss = step(w, x, y)
    print(f"process {jax.process_index()}: {x.shape[0]} rows, loss {float(loss.addressable_data(0)):.5f}")


if __name__ == "__main__":
    main()
