# SPDX-License-Identifier: Apache-2.0
"""Replicates weights and divides batches for pmap, by the length of the list of devices."""

import jax
import jax.numpy as jnp


def update(weights, x, y):
    gradient = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(weights)
    return weights - 0.1 * jax.lax.pmean(gradient, "devices")


def main():
    jax.distributed.initialize()
    count = len(jax.local_devices())
    step = jax.pmap(update, axis_name="devices")
    key = jax.random.key(jax.process_index())
    weights = jnp.stack([jnp.zeros((4,))] * count)
    for _ in range(10):
        key, inner = jax.random.split(key)
        x = jax.random.normal(inner, (count * 8, 4))
        y = x.sum(axis=1)
        weights = step(weights, x.reshape((count, 8, 4)), y.reshape((count, 8)))
    if jax.process_index() == 0:
        print(weights[0])


if __name__ == "__main__":
    main()
