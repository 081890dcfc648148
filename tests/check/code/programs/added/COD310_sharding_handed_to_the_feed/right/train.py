# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model on rows that each process reads."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from feed import Feed


def loss_fn(w, x):
    return jnp.mean((x @ w) ** 2)


def main():
    jax.distributed.initialize()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    feed = Feed("/shared/rows.npy", 1024, NamedSharding(mesh, PartitionSpec("data")))
    w = jax.device_put(np.ones((64, 8), np.float32), NamedSharding(mesh, PartitionSpec()))
    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss_fn)(w, x))
    for x in feed:
        w = step(w, x)


if __name__ == "__main__":
    main()
