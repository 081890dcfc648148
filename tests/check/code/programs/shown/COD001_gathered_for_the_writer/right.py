# SPDX-License-Identifier: Apache-2.0
"""Trains weights sharded over two hosts and writes them into one file at the end."""

import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

IS_WRITER = int(os.environ["PROCESS_ID"]) == 0


def full(tree):
    return jax.tree.map(lambda a: multihost_utils.process_allgather(a, tiled=True), tree)


def write(tree, path):
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **tree)
    partial.rename(path)


def save_checkpoint(tree, path):
    write(full(tree), path)


@jax.jit
def step(params):
    grads = jax.grad(lambda p: jnp.sum((p["w"] - 3.0) ** 2) + jnp.sum(p["b"] ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.2 * g, params, grads)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("model",))
    sharding = NamedSharding(mesh, P("model"))
    params = {
        "w": jax.make_array_from_process_local_data(sharding, np.zeros((2, 3), np.float32)),
        "b": jax.make_array_from_process_local_data(sharding, np.ones(2, np.float32)),
    }
    for _ in range(10):
        params = step(params)
    path = pathlib.Path(os.environ.get("WORK_DIR", ".")) / "final.npz"
    whole = full(params)
    if IS_WRITER:
        write(whole, path)
        print("written", sorted(np.load(path).files), np.load(path)["w"].shape)


if __name__ == "__main__":
    main()
