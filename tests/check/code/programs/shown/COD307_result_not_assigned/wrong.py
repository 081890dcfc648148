# SPDX-License-Identifier: Apache-2.0
"""Trains with a step that donates its state; a warm-up call compiles it first.

From: https://github.com/openxla/xla/issues/22604
Shows: error 1 rank jax: buffer has been deleted or donated
"""

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    weights: jax.Array
    momentum: jax.Array


def loss_fn(weights, batch):
    x, y = batch
    return jnp.mean((x @ weights - y) ** 2)


def step(state, batch):
    grad = jax.grad(loss_fn)(state.weights, batch)
    momentum = 0.9 * state.momentum + grad
    return State(state.weights - 0.02 * momentum, momentum)


fast_step = jax.jit(step, donate_argnums=0)


def warm_up(state, batch):
    began = time.perf_counter()
    fast_step(state, batch)
    return time.perf_counter() - began


def main():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(32, 6)).astype(np.float32)
    batch = (jnp.asarray(x), jnp.asarray(x.sum(axis=1)))
    state = State(jnp.zeros(6), jnp.zeros(6))
    warm_up(state, batch)
    for _ in range(100):
        state = fast_step(state, batch)  # BUG COD307
    print(f"loss {float(loss_fn(state.weights, batch)):.4f}")


if __name__ == "__main__":
    main()
