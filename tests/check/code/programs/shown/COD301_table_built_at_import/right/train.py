# SPDX-License-Identifier: Apache-2.0
"""Trains an embedding lookup on several hosts; the start-up is in main()."""

import argparse
import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from tables import positions, predict


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator", default=os.environ.get("COORDINATOR_ADDRESS"))
    parser.add_argument("--hosts", type=int, default=int(os.environ.get("NUM_PROCESSES", "1")))
    parser.add_argument("--host-id", type=int, default=int(os.environ.get("PROCESS_ID", "0")))
    parser.add_argument("--steps", type=int, default=10)
    return parser.parse_args()


def main():
    args = parse_args()
    jax.distributed.initialize(args.coordinator, args.hosts, args.host_id)
    rng = np.random.default_rng(jax.process_index())
    tokens = rng.integers(0, 16, size=(8, 6))
    target = tokens.mean(axis=1).astype(np.float32)
    scale = np.float32(1.0)
    table = positions(16)
    for _ in range(args.steps):
        error = predict(scale, table, tokens) - target
        slope = multihost_utils.process_allgather(np.float32((error * target).mean()))
        scale = scale - np.float32(0.02) * slope.mean()
    if jax.process_index() == 0:
        print(f"scale {float(scale):.3f}")


if __name__ == "__main__":
    main()
