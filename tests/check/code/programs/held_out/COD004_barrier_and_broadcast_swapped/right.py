# SPDX-License-Identifier: Apache-2.0
"""Trains from a start that the first process reads from disk and sends to the rest."""

import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

SIZE = 5


def read_start():
    path = pathlib.Path(os.environ.get("WORK_DIR", ".")) / "start.npy"
    if not path.exists():
        np.save(path, np.full(SIZE, 2.0, np.float32))
    return np.load(path)


def start_weights():
    if jax.process_index() == 0:
        weights = multihost_utils.broadcast_one_to_all(read_start())
        multihost_utils.sync_global_devices("weights are there")
    else:
        weights = multihost_utils.broadcast_one_to_all(np.zeros(SIZE, np.float32))
        multihost_utils.sync_global_devices("weights are there")
    return np.asarray(weights)


@jax.jit
def gradient(w, target):
    return jax.grad(lambda w: jnp.sum((w - target) ** 2))(w)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    w = start_weights()
    target = np.float32(1 + jax.process_index())
    for _ in range(20):
        grad = multihost_utils.process_allgather(np.asarray(gradient(w, target)))
        w = w - 0.1 * grad.mean(axis=0)
    print(f"process {jax.process_index()}: {w[0]:.3f}")


if __name__ == "__main__":
    main()
