# SPDX-License-Identifier: Apache-2.0
"""Trains with per-host batches and prints the mean loss of all hosts now and then."""

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather


def batch(step):
    rng = np.random.default_rng([step, jax.process_index()])
    x = rng.normal(size=(8, 3)).astype(np.float32)
    return x, x @ np.array([0.5, -1.0, 2.0], np.float32)


@jax.jit
def value_and_grad(w, x, y):
    return jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)


def all_mean(value):
    return process_allgather(np.asarray(value)).mean(axis=0)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--print-every", type=int, default=3)
    args = parser.parse_args(argv)
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    main_process = jax.process_index() == 0
    w = np.zeros(3, np.float32)
    for step in range(args.steps):
        loss, grad = value_and_grad(w, *batch(step))
        w = w - 0.2 * all_mean(grad)
        if step % args.print_every == 0:
            mean = all_mean(loss)
            if main_process:
                print(f"step {step}: {mean:.4f}")


if __name__ == "__main__":
    main()
