# SPDX-License-Identifier: Apache-2.0
"""A residual net in plain JAX, trained with momentum on random pictures."""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="float32")
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--size", type=int, default=128)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--blocks", type=int, default=8)
asked = parser.parse_args()


def convolve(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normal(x):
    x32 = x.astype(jnp.float32)
    mean, var = x32.mean((0, 1, 2)), x32.var((0, 1, 2))
    return ((x32 - mean) * lax.rsqrt(var + 1e-5)).astype(x.dtype)


def init(key):
    keys = iter(jax.random.split(key, 2 * asked.blocks + 2))
    w = asked.width
    found = {"stem": 0.1 * jax.random.normal(next(keys), (7, 7, 3, w)), "blocks": []}
    for n in range(asked.blocks):
        after = w * (2 if n and n % 3 == 0 else 1)
        pair = [0.05 * jax.random.normal(next(keys), (3, 3, a, after)) for a in (w, after)]
        found["blocks"].append(pair)
        w = after
    found["head"] = 0.05 * jax.random.normal(next(keys), (w, 1000))
    return found


def loss(p, x, y):
    p = jax.tree.map(lambda each: each.astype(asked.dtype), p)
    x = jax.nn.relu(normal(convolve(x.astype(asked.dtype), p["stem"], 2)))
    for first, second in p["blocks"]:
        stride = 2 if first.shape[2] != first.shape[3] else 1
        out = jax.nn.relu(normal(convolve(x, first, stride)))
        out = normal(convolve(out, second))
        x = jax.nn.relu(out + x if stride == 1 else out)
    logits = (x.mean((1, 2)) @ p["head"]).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


@jax.jit
def step(p, m, x, y):
    value, g = jax.value_and_grad(loss)(p, x, y)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return jax.tree.map(lambda p, m: p - 0.01 * m, p, m), m, value


p = init(jax.random.key(0))
m = jax.tree.map(jnp.zeros_like, p)
random = np.random.default_rng(0)
for n in range(4):
    x = jnp.asarray(random.standard_normal((asked.batch_size, asked.size, asked.size, 3), dtype=np.float32))
    p, m, value = step(p, m, x, jnp.asarray(random.integers(0, 1000, asked.batch_size)))
    print(n, float(value))
