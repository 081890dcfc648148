# SPDX-License-Identifier: Apache-2.0
"""Trains a scale factor and shares the result that the first process validated.

Shows: hang 2 ranks jax
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils as mhu


@jax.jit
def gradient(scale, x):
    return jax.grad(lambda s: jnp.mean((s * x - 4.0 * x) ** 2))(scale)


def validate(scale):
    x = np.linspace(-1, 1, 50)
    return float(np.mean((scale * x - 4.0 * x) ** 2))


def choose(scale):
    """The validated scale, the same on all processes."""
    if jax.process_index() > 0:
        return scale  # BUG COD002
    good = np.float32(scale if validate(scale) < 1.0 else 1.0)
    return float(mhu.broadcast_one_to_all(good))


def train(steps):
    rng = np.random.default_rng(jax.process_index())
    scale = np.float32(0.0)
    for _ in range(steps):
        grad = np.asarray(gradient(scale, rng.normal(size=32).astype(np.float32)))
        scale = scale - 0.3 * mhu.process_allgather(grad).mean()
    return scale


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    scale = choose(train(15))
    print(f"process {jax.process_index()}: {scale:.3f}")


if __name__ == "__main__":
    main()
