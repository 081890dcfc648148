# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier on all devices of all hosts."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils

from step import make


def main():
    jax.distributed.initialize()
    model, tx = nn.Dense(10), optax.adam(1e-3)
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 64)))["params"]
    state = jax_utils.replicate({"params": params, "opt": tx.init(params)})
    step = make(model, tx)
    rows = np.load(f"part{jax.process_index()}.npz")
    n = jax.local_device_count()
    pick = np.random.default_rng(jax.process_index())
    for _ in range(1000):
        i = pick.integers(0, len(rows["y"]), n * 32)
        batch = {"x": rows["x"][i].reshape(n, 32, -1), "y": rows["y"][i].reshape(n, 32)}
        state, loss = step(state, batch)
    if jax.process_index() == 0:
        np.savez("out.npz", **jax_utils.unreplicate(state["params"]))


main()
