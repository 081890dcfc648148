# SPDX-License-Identifier: Apache-2.0
"""Trains one step per file; every process reads its own files.

Shows: hang 2 ranks jax
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

FILES = tuple(f"rows-{n}.csv" for n in range(5))


def read(name):
    rng = np.random.default_rng(int(name.split("-")[1].split(".")[0]))
    x = rng.normal(size=(32, 2)).astype(np.float32)
    return x, x @ np.array([1.0, -1.0], np.float32)


@jax.jit
def gradient(w, x, y):
    return jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)


def average(grad):
    return multihost_utils.process_allgather(np.asarray(grad)).mean(axis=0)


def train():
    rank, world = jax.process_index(), jax.process_count()
    mine = FILES[rank::world]
    w = np.zeros(2, np.float32)
    for number in range(len(mine)):  # BUG COD003
        w = w - 0.3 * average(gradient(w, *read(mine[number])))
    return w


if __name__ == "__main__":
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    weights = train()
    if jax.process_index() == 0:
        print("weights", np.round(weights, 3).tolist())
