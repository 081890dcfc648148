# SPDX-License-Identifier: Apache-2.0
"""A slope fitted on two devices.

From: questions of people whose training fails; facts, no code
Shows: differs 2 devices jax
"""

import jax
import jax.numpy as jnp


def off(weight, rows):
    return ((rows * weight - 1.0) ** 2).mean()


def learn(weight, rows):
    error, slope = jax.value_and_grad(off)(weight, rows)
    weight = jax.tree.map(lambda old, change: old - 0.1 * change, weight, slope)  # BUG COD312
    return weight, error


run = jax.pmap(learn, axis_name="all")
weights = jnp.ones((2,))
rows = jnp.arange(8.0).reshape(2, 4)
for _ in range(3):
    weights, error = run(weights, rows)
print([round(float(value), 4) for value in weights])
