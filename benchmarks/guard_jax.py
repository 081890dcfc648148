# SPDX-License-Identifier: Apache-2.0
"""A JAX step of about 10 ms on two processes, with and without the guard's hooks, in turns within one run."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.hooks import HEADING, PAIRS, row, serve
from benchmarks.in_turns import Ranks
from keepstep.sources.host.ports import free_ports

BAR = 0.005


def main(pairs: int = PAIRS) -> str:
    return row("jax, two ranks on CPU", start, bar=BAR, pairs=pairs)


def start(folder: Path) -> Ranks:
    port = free_ports(1)[0]
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder), "JAX_PLATFORMS": "cpu"}
    env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    itself = [sys.executable, "-m", "benchmarks.guard_jax"]
    return Ranks([([*itself, "--rank", str(rank), "--port", str(port)], env) for rank in range(2)])


def train(rank: int, port: int) -> None:
    """A rank."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    source = np.random.default_rng(0)
    layers = [source.normal(size=(256, 256)).astype("float32") / 16 for _ in range(2)]
    weights = jax.device_put(layers, everywhere)

    @jax.jit
    def update(weights, x, rate):
        def loss_of(weights):
            y = x
            for weight in weights:
                y = jnp.tanh(y @ weight)
            return jnp.mean((y - x) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(weights)
        return jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients), loss

    batch = source.normal(size=(192, 256)).astype("float32")

    def take(steps: int) -> None:
        nonlocal weights
        for _ in range(steps):
            x = jax.make_array_from_process_local_data(by_row, batch)
            weights, loss = update(weights, x, 0.01)
            float(loss)

    serve("jax", take)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    if options.rank is None:
        print(HEADING)
        print(main(options.pairs))
    else:
        train(options.rank, options.port)
