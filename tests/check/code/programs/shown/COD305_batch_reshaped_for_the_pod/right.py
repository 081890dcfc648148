# SPDX-License-Identifier: Apache-2.0
"""Trains logistic regression on a pod; the loader reshapes each batch for pmap."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Loader:
    def __init__(self, batch_size, seed):
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.axis = jax.local_device_count()

    def __iter__(self):
        for _ in range(20):
            x = self.rng.normal(size=(self.batch_size, 4)).astype(np.float32)
            y = (x[:, 0] + x[:, 1] > 0).astype(np.float32)
            yield self.shard(x), self.shard(y)

    def shard(self, array):
        return array.reshape(self.axis, -1, *array.shape[1:])


def step(w, x, y):
    def loss(w):
        z = x @ w
        return jnp.mean(jnp.logaddexp(0.0, z) - y * z)

    grad = lax.pmean(jax.grad(loss)(w), axis_name="i")
    return w - grad


p_step = jax.pmap(step, axis_name="i", in_axes=(None, 0, 0), out_axes=None)


def main():
    jax.distributed.initialize(
        coordinator_address=os.environ["COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
    )
    w = np.zeros(4, np.float32)
    for x, y in Loader(batch_size=32, seed=jax.process_index()):
        w = np.asarray(p_step(w, x, y).addressable_data(0))
    if jax.process_index() == 0:
        print("weights", np.round(w, 3).tolist())


if __name__ == "__main__":
    main()
