# SPDX-License-Identifier: Apache-2.0
"""A decoder in plain JAX, trained with Adam on random tokens."""

from __future__ import annotations

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="float32")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--vocabulary", type=int, default=32000)
parser.add_argument("--remat", action="store_true")
parser.add_argument("--unrolled", action="store_true")
parser.add_argument("--not-donated", action="store_true")
parser.add_argument("--fused-attention", action="store_true", help="through jax.nn, as written by JAX")
asked = parser.parse_args()
L, D, H, T, B, V = asked.layers, asked.width, asked.heads, asked.length, asked.batch_size, asked.vocabulary


def init(key):
    keys = jax.random.split(key, 5)
    shapes = {"e": (V, D), "qkv": (L, D, 3 * D), "o": (L, D, D), "up": (L, D, 4 * D), "down": (L, 4 * D, D)}
    return {name: 0.02 * jax.random.normal(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}


def norm(x):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)


def attend(q, k, v):
    if asked.fused_attention:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(D // H).astype(q.dtype)
    scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores.astype(jnp.float32), -1e9)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores).astype(q.dtype), v)


def block(x, p):
    q, k, v = (each.reshape(B, T, H, D // H) for each in jnp.split(norm(x) @ p["qkv"], 3, -1))
    x = x + attend(q, k, v).reshape(B, T, D) @ p["o"]
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def loss(parameters, tokens):
    p = jax.tree.map(lambda each: each.astype(asked.dtype), parameters)
    embedding = p.pop("e")
    x = embedding[tokens]
    one = jax.checkpoint(block) if asked.remat else block
    if asked.unrolled:
        for n in range(L):
            x = one(x, jax.tree.map(lambda each, n=n: each[n], p))
    else:
        x, _ = lax.scan(lambda x, each: (one(x, each), None), x, p)
    logits = (norm(x) @ embedding.T).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()


@functools.partial(jax.jit, donate_argnums=() if asked.not_donated else (0,))
def step(state, tokens):
    p, m, v = state
    value, g = jax.value_and_grad(loss)(p, tokens)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
    p = jax.tree.map(lambda p, m, v: p - 1e-4 * m / (jnp.sqrt(v) + 1e-8), p, m, v)
    return (p, m, v), value


parameters = jax.jit(init)(jax.random.key(0))
state = parameters, jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)
del parameters
random = np.random.default_rng(0)
for n in range(4):
    state, value = step(state, random.integers(0, V, (B, T), dtype=np.int32))
    print(n, float(value))
