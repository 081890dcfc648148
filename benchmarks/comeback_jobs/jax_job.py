# SPDX-License-Identifier: Apache-2.0
"""A two-layer model over a mesh of all JAX processes."""

from __future__ import annotations

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

folder, steps = sys.argv[1], int(sys.argv[2])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(num_processes=int(os.environ["NUM_PROCESSES"]), process_id=int(os.environ["PROCESS_ID"]))
rank = jax.process_index()
mesh = Mesh(np.array(jax.devices()), ("data",))
by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
first, path = 0, f"{folder}/model.npz"
source = np.random.default_rng(0)
weights = {
    "a": source.normal(size=(64, 256)).astype("float32") / 8,
    "b": source.normal(size=(256, 8)).astype("float32") / 16,
}
if os.path.exists(path):
    with np.load(path) as saved:
        first, weights = int(saved["step"]), {name: saved[name] for name in weights}
weights = jax.device_put(weights, everywhere)


@jax.jit
def train_step(weights, rows):
    def loss(weights):
        return jnp.mean(jnp.square(jax.nn.relu(rows @ weights["a"]) @ weights["b"]))

    return jax.tree.map(lambda old, change: old - 0.01 * change, weights, jax.grad(loss)(weights))


with open(f"{folder}/steps-{rank}", "a", buffering=1) as told:
    for step in range(first, steps):
        if rank == 1 and os.path.exists(f"{folder}/sleep"):
            os.remove(f"{folder}/sleep")
            time.sleep(3600)
        rows = jax.make_array_from_process_local_data(by_row, source.normal(size=(32, 64)).astype("float32"))
        weights = jax.block_until_ready(train_step(weights, rows))
        told.write(f"{time.time()} {os.getpid()} {step}\n")
        if rank == 0 and step % 20 == 0:
            np.savez(path + ".tmp.npz", step=step + 1, **{name: np.asarray(value) for name, value in weights.items()})
            os.replace(path + ".tmp.npz", path)
            print(f"step {step}", flush=True)
        time.sleep(0.02)
