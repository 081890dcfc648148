# SPDX-License-Identifier: Apache-2.0
"""Trains weights that are sharded over all hosts and logs their norm."""

import argparse
import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

log = logging.getLogger("train")


def is_main():
    return jax.process_index() == 0


@jax.jit
def update(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.sum(jnp.square(w @ x) - w.sum()))(w)


@jax.jit
def norm(w):
    return jnp.sqrt(jnp.sum(w * w))


def run(steps, log_every):
    mesh = Mesh(np.array(jax.devices()), ("model",))
    sharding = NamedSharding(mesh, P("model", None))
    per_host = np.full((4, 8), 0.1 * (1 + jax.process_index()), np.float32)
    w = jax.make_array_from_process_local_data(sharding, per_host)
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    for step in range(steps):
        w = update(w, x)
        if step % log_every == 0:
            value = norm(w)
            if is_main():
                log.info("step %d norm %.4f", step, value.addressable_data(0))
    return w


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--log-every", type=int, default=4)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if int(os.environ["PROCESS_ID"]) == 0 else logging.WARNING)
    jax.distributed.initialize(
        coordinator_address=os.environ["COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
    )
    w = run(args.steps, args.log_every)
    if is_main():
        print("rows here", w.addressable_data(0).shape)


if __name__ == "__main__":
    main()
