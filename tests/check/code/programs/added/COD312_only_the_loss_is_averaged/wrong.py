# SPDX-License-Identifier: Apache-2.0
"""Fits a small regression on all local devices, with momentum written by hand.

From: https://github.com/jax-ml/jax/issues/11529
Shows: nothing here (needs several devices)
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def squared(weights, rows, goals):
    return jnp.mean((rows @ weights["a"] + weights["c"] - goals) ** 2)


@partial(jax.pmap, axis_name="d")
def step(weights, moved, rows, goals):
    cost, slope = jax.value_and_grad(squared)(weights, rows, goals)
    moved = jax.tree.map(lambda m, s: 0.8 * m + s, moved, slope)  # BUG COD312
    weights = jax.tree.map(lambda w, m: w - 0.05 * m, weights, moved)
    cost = jax.lax.pmean(cost, "d")
    return weights, moved, cost


def main():
    count = jax.local_device_count()
    draw = np.random.default_rng(3)
    weights = {"a": jnp.zeros((count, 4)), "c": jnp.zeros((count,))}
    moved = jax.tree.map(jnp.zeros_like, weights)
    for _ in range(10):
        rows = draw.normal(size=(count, 16, 4)).astype(np.float32)
        weights, moved, cost = step(weights, moved, rows, rows.sum(-1))
    print("cost", float(cost[0]))


if __name__ == "__main__":
    main()
