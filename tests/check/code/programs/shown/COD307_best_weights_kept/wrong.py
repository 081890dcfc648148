# SPDX-License-Identifier: Apache-2.0
"""Trains for some epochs and keeps the weights with the lowest validation loss.

From: https://github.com/jax-ml/jax/issues/3412
Shows: error 1 rank jax: Array has been deleted
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.jit, donate_argnames=("weights",))
def epoch(weights, xs, ys, rate):
    def one(weights, batch):
        x, y = batch
        grad = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(weights)
        return weights - rate * grad, None

    weights, _ = jax.lax.scan(one, weights, (xs, ys))
    return weights


@jax.jit
def validate(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)


def data(seed, batches):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batches, 16, 3)).astype(np.float32)
    noise = rng.normal(size=(batches, 16)).astype(np.float32)
    return x, x @ np.array([1.0, 2.0, 3.0], np.float32) + noise


def fit(epochs):
    xs, ys = data(0, 20)
    vx, vy = (a[0] for a in data(1, 1))
    weights = jnp.zeros(3)
    best, best_loss = weights, float("inf")
    for number in range(epochs):
        rate = 0.5 if number % 2 else 0.05
        new = epoch(weights=weights, xs=xs, ys=ys, rate=rate)
        loss = float(validate(weights, vx, vy))  # BUG COD307
        if loss < best_loss:
            best, best_loss = jnp.copy(weights), loss
        weights = new
    return best, best_loss


if __name__ == "__main__":
    best, loss = fit(6)
    print("best", np.round(np.asarray(best), 2).tolist(), round(loss, 3))
