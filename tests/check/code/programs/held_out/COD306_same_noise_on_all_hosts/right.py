# SPDX-License-Identifier: Apache-2.0
"""Trains a denoiser; every host draws the noise for its own samples."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.experimental import multihost_utils

SEED = 42


def samples(key, count):
    k_clean, k_noise = random.split(key)
    clean = random.uniform(k_clean, (count, 8), minval=-1.0, maxval=1.0)
    return clean + 0.3 * random.normal(k_noise, (count, 8)), clean


@jax.jit
def gradient(gain, noisy, clean):
    return jax.grad(lambda g: jnp.mean((g * noisy - clean) ** 2))(gain)


class Denoiser:
    def __init__(self):
        self.gain = np.float32(0.0)
        self.seen = []

    def data_key(self):
        key = random.PRNGKey(SEED)
        return random.fold_in(key, jax.process_index())

    def train(self, steps):
        key = self.data_key()
        for _ in range(steps):
            key, sub = random.split(key)
            noisy, clean = samples(sub, 16)
            grad = np.asarray(gradient(self.gain, noisy, clean))
            self.gain = self.gain - 0.5 * multihost_utils.process_allgather(grad).mean()
            self.seen.append(float(noisy[0, 0]))

    def distinct(self):
        first = multihost_utils.process_allgather(np.float32(self.seen))
        return len(np.unique(first))


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    model = Denoiser()
    model.train(6)
    distinct = model.distinct()
    if jax.process_index() == 0:
        print(f"gain {model.gain:.4f}, {distinct} distinct samples looked at")


if __name__ == "__main__":
    main()
