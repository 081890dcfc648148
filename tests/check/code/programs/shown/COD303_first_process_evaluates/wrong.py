# SPDX-License-Identifier: Apache-2.0
"""Trains a sharded linear model and evaluates it every few steps.

From: https://github.com/google/orbax/issues/211
Shows: error 2 ranks jax: one process evaluates while the other trains, and gloo aborts both
"""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

EVAL_EVERY = 5


class Trainer:
    def __init__(self, mesh):
        self.mesh = mesh
        self.rows = NamedSharding(mesh, P("data"))
        self.params = jax.device_put(np.zeros(6, np.float32), NamedSharding(mesh, P()))
        self.history = []

    def batch(self, seed):
        rng = np.random.default_rng([seed, jax.process_index()])
        x = rng.normal(size=(16, 6)).astype(np.float32)
        y = x.sum(axis=1)
        return tuple(jax.make_array_from_process_local_data(self.rows, a) for a in (x, y))

    @partial(jax.jit, static_argnums=0)
    def train_step(self, params, x, y):
        grad = jax.grad(lambda p: jnp.mean((x @ p - y) ** 2))(params)
        return params - 0.1 * grad

    @partial(jax.jit, static_argnums=0)
    def eval_step(self, params, x, y):
        return jnp.mean((x @ params - y) ** 2)

    def evaluate(self):
        x, y = self.batch(seed=999)
        return float(self.eval_step(self.params, x, y).addressable_data(0))

    def fit(self, steps):
        for step in range(1, steps + 1):
            self.params = self.train_step(self.params, *self.batch(step))
            if step % EVAL_EVERY == 0 and jax.process_index() == 0:
                loss = self.evaluate()  # BUG COD303
                self.history.append(loss)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    trainer = Trainer(jax.make_mesh((jax.device_count(),), ("data",)))
    trainer.fit(10)
    if jax.process_index() == 0:
        print("evaluations", [round(v, 3) for v in trainer.history])


if __name__ == "__main__":
    main()
