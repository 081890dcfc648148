# SPDX-License-Identifier: Apache-2.0
"""A transformer's training step on one GPU in JAX, with and without the guard, in turns within one run. Stands alone:

PYTHONPATH=src python -m benchmarks.guard_gpu_jax [--small]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.in_turns import HEADING, Ranks, row

BLOCKS = 40
STEPS = 20
FETCH_EVERY = 10
BAR = 0.002


def main(blocks: int = BLOCKS, small: bool = False) -> str:
    """A row of the table. Two trainings share the device; one goes on while the other one waits."""

    def start(mode: str, folder: Path) -> Ranks:
        env = {
            **os.environ,
            "KEEPSTEP": mode,
            "KEEPSTEP_DIR": str(folder / mode),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        return Ranks(
            [([sys.executable, "-m", "benchmarks.guard_gpu_jax", "--train", *(["--small"] if small else [])], env)]
        )

    return row("jax, transformer on a GPU", start, bar=BAR, blocks=blocks, steps=STEPS)


def train(small: bool) -> None:
    """As many steps as each line of the input says."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import keepstep

    if os.environ["KEEPSTEP"] != "off":
        keepstep.guard.attach()
    layers, width, heads, length, rows, words = (2, 64, 2, 64, 2, 256) if small else (12, 1024, 16, 1024, 8, 32000)
    source = np.random.default_rng(0)

    def matrix(*shape: int) -> jax.Array:
        return jnp.asarray(source.normal(size=shape) / shape[0] ** 0.5, jnp.float32)

    blocks = [
        {
            "qkv": matrix(width, 3 * width),
            "out": matrix(width, width),
            "up": matrix(width, 4 * width),
            "down": matrix(4 * width, width),
        }
        for _ in range(layers)
    ]
    weights = {"words": matrix(words, width), "blocks": blocks}
    state = (weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights))

    def normal(x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, axis=-1, keepdims=True) + 1e-6).astype(x.dtype)

    def layer(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
        q, k, v = jnp.split(normal(x) @ w["qkv"], 3, axis=-1)
        q, k, v = (part.reshape(*part.shape[:2], heads, -1) for part in (q, k, v))
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(normal(x) @ w["up"]) @ w["down"]

    def loss_of(weights: dict, tokens: jax.Array) -> jax.Array:
        low = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
        x = low["words"][tokens[:, :-1]]
        for w in low["blocks"]:
            x = jax.checkpoint(layer)(x, w)
        logits = (normal(x) @ low["words"].T).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1))

    def update(state: tuple, tokens: jax.Array) -> tuple[tuple, jax.Array]:
        weights, first, second = state
        loss, grads = jax.value_and_grad(loss_of)(weights, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
        weights = jax.tree.map(lambda w, m, v: w - 1e-4 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
        return (weights, first, second), loss

    step = jax.jit(update, donate_argnums=0)
    batches = [source.integers(words, size=(rows, length + 1)).astype("int32") for _ in range(8)]
    number = 0
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            state, loss = step(state, jax.device_put(batches[number % 8]))
            number += 1
            if number % FETCH_EVERY == 0:
                float(loss)
        loss.block_until_ready()
        print(f"TOOK {time.perf_counter() - began}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--small", action="store_true", help="for a machine without a GPU")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    options = parser.parse_args()
    if options.train:
        train(options.small)
    else:
        print(HEADING)
        print(main(options.blocks, options.small))
