# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model with pmap on several hosts."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np

PER_DEVICE = 8


def replicate(tree, n):
    return jax.tree.map(lambda a: np.broadcast_to(a, (n, *np.shape(a))), tree)


@functools.partial(jax.pmap, axis_name="devices")
def train_step(params, x, y):
    def loss_fn(p):
        return jnp.mean((x @ p["w"] + p["b"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = jax.lax.pmean(grads, "devices")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, jax.lax.pmean(loss, "devices")


def batches(steps, n_dev):
    rng = np.random.default_rng(jax.process_index())
    for _ in range(steps):
        x = rng.normal(size=(n_dev * PER_DEVICE, 3)).astype(np.float32)
        y = x.sum(axis=1) + 1.0
        yield x.reshape(n_dev, PER_DEVICE, 3), y.reshape(n_dev, PER_DEVICE)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    n_dev = jax.local_device_count()
    params = replicate({"w": np.zeros(3, np.float32), "b": np.float32(0)}, n_dev)
    loss = None
    for x, y in batches(30, n_dev):
        params, loss = train_step(params, x, y)
    if jax.process_index() == 0:
        print(f"loss {float(np.asarray(loss.addressable_data(0)).ravel()[0]):.4f}")


if __name__ == "__main__":
    main()
