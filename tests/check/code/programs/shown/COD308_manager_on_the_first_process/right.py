# SPDX-License-Identifier: Apache-2.0
"""Trains sharded weights and saves them with an orbax checkpoint manager."""

import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

SAVE_EVERY = 4


@jax.jit
def step(w):
    return w - 0.1 * jax.grad(lambda w: jnp.sum((w - 1.0) ** 2))(w)


def checkpoint_manager():
    folder = os.path.join(os.environ.get("WORK_DIR", tempfile.gettempdir()), "ckpt")
    options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    return ocp.CheckpointManager(folder, options=options)


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    mesh = jax.make_mesh((jax.device_count(),), ("model",))
    local = np.zeros((2, 4), np.float32)
    w = jax.make_array_from_process_local_data(NamedSharding(mesh, P("model")), local)
    manager = checkpoint_manager()
    for number in range(1, 9):
        w = step(w)
        if number % SAVE_EVERY == 0:
            manager.save(number, args=ocp.args.StandardSave({"w": w}))
    manager.wait_until_finished()
    if jax.process_index() == 0:
        print("saved", manager.latest_step())


if __name__ == "__main__":
    main()
