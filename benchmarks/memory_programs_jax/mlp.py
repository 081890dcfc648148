# SPDX-License-Identifier: Apache-2.0
"""Wide layers, gradients and updates as two programs, the data cut from one array on the device."""

from __future__ import annotations

import argparse

import jax

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=4096)
asked = parser.parse_args()

key = jax.random.PRNGKey(0)
layers = [jax.random.normal(each, (asked.width, asked.width)) * 0.01 for each in jax.random.split(key, asked.layers)]
data = jax.random.normal(key, (4 * asked.batch_size, asked.width))


def loss(layers, x):
    for w in layers:
        x = jax.nn.gelu(x @ w)
    return (x**2).mean()


gradients = jax.jit(jax.value_and_grad(loss))
update = jax.jit(lambda layers, g: [w - 0.1 * each for w, each in zip(layers, g, strict=True)], donate_argnums=0)
for n in range(4):
    value, g = gradients(layers, data[n * asked.batch_size : (n + 1) * asked.batch_size])
    layers = update(layers, g)
    print(n, float(value))
