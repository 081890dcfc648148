# SPDX-License-Identifier: Apache-2.0
"""Two JAX processes under the guard: a healthy run, and one with a short batch on one rank, which JAX itself accepts.

python examples/guard_jax.py          # starts its two ranks itself
keepstep why .keepstep                # what the guards saw
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def train(rows: int) -> None:
    """One rank. Nothing in here knows of the guard, but for the two lines that are marked."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import keepstep  # (1)

    guard = keepstep.guard.attach()  # (2) or nothing at all: KEEPSTEP=on python train.py

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    rank, world = int(os.environ["PROCESS_ID"]), int(os.environ["NUM_PROCESSES"])
    jax.distributed.initialize(os.environ["COORDINATOR_ADDRESS"], world, rank)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    weights = jax.device_put(np.ones((8, 4), "float32"), everywhere)

    @jax.jit
    def update(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(weights)
        return weights - 0.1 * gradient, loss

    source = np.random.default_rng(rank)
    data = (source.normal(size=(rows, 8)).astype("float32") for _ in range(50))
    for batch in guard.steps(data):  # optional: tells the wait for a batch from the step
        weights, loss = update(weights, jax.make_array_from_process_local_data(by_row, batch))
        float(loss)
    print(f"rank {rank} trained to the end, loss {float(loss):.4f}")


def start(rows: tuple[int, int]) -> list[str]:
    """Two ranks on this machine, with so many rows in their batches; what they printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = []
    for rank in range(2):
        env = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "COORDINATOR_ADDRESS": address,
            "NUM_PROCESSES": "2",
            "PROCESS_ID": str(rank),
        }
        command = [sys.executable, __file__, "--rows", str(rows[rank])]
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return [process.communicate(timeout=120)[0] for process in running]


def main() -> None:
    print("Both ranks feed 8 rows:")
    for output in start((8, 8)):
        print("  " + output.strip().splitlines()[-1])
    print("Rank 1 feeds 6 rows:")
    for output in start((8, 6)):
        print("  " + next(line for line in output.splitlines() if "OutOfStep" in line))


if __name__ == "__main__":
    if "--rows" in sys.argv:
        train(int(sys.argv[-1]))
    else:
        main()
