# SPDX-License-Identifier: Apache-2.0
"""Trains a small network and reports how far the weights moved.

From: https://github.com/jax-ml/jax/issues/9675
Shows: error 1 rank jax: Array has been deleted
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import random


def init(key):
    k1, k2 = random.split(key)
    return {"w1": random.normal(k1, (4, 32)), "w2": random.normal(k2, (32, 1)) * 0.1}


def forward(params, x):
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


@partial(jax.jit, donate_argnums=(0,))
def train_step(params, x, y):
    grads = jax.grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def distance(a, b):
    return sum(float(jnp.abs(a[name] - b[name]).sum()) for name in a)


def main():
    key = random.key(0)
    params = init(key)
    x = random.normal(random.fold_in(key, 1), (64, 4))
    y = x[:, :1] * 2.0
    start = params
    for _ in range(50):
        params = train_step(params, x, y)
    moved = distance(start, params)  # BUG COD307
    print(f"moved by {moved:.2f}")


if __name__ == "__main__":
    main()
