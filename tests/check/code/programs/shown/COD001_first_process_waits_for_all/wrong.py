# SPDX-License-Identifier: Apache-2.0
"""Trains a counter model and lets the first process write metrics, three calls away from the barrier.

Shows: hang 2 ranks jax
"""

import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils


class Metrics:
    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "metrics.json"
        self.rows = []

    def add(self, step, loss):
        self.rows.append({"step": step, "loss": round(float(loss), 5)})

    def flush(self):
        self.path.write_text(json.dumps(self.rows))
        self._settle()

    def _settle(self):
        wait_for_all("metrics written")


def wait_for_all(name):
    multihost_utils.sync_global_devices(name)


@jax.jit
def gradient(w, x):
    return jax.value_and_grad(lambda w: jnp.mean((w * x - 2.0 * x) ** 2))(w)


def train(metrics, steps):
    rng = np.random.default_rng(jax.process_index())
    w = np.float32(0.0)
    for step in range(steps):
        loss, grad = gradient(w, rng.normal(size=16).astype(np.float32))
        w = w - 0.2 * multihost_utils.process_allgather(np.asarray(grad)).mean()
        metrics.add(step, loss)
    return w


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    metrics = Metrics(os.environ.get("WORK_DIR", "."))
    w = train(metrics, 10)
    if jax.process_index() == 0:
        metrics.flush()  # BUG COD001
    if jax.process_index() == 0:
        print(f"w {w:.3f}")


if __name__ == "__main__":
    main()
