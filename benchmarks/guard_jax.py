# SPDX-License-Identifier: Apache-2.0
"""A JAX step of about 10 ms on two processes, with and without the guard, in turns within one run."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCKS = 60
STEPS = 25
BAR = 0.005


def main(blocks: int = BLOCKS) -> str:
    """A row of the table: two trainings at the same time, of which one goes on while the other one waits."""
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {mode: _Job(mode, Path(folder)) for mode in ("off", "on")}
        try:
            for job in jobs.values():
                job.block(3 * STEPS)
            times: dict[str, list[float]] = {"off": [], "on": []}
            for _ in range(blocks):
                for mode in random.sample(("off", "on"), 2):
                    times[mode].append(jobs[mode].block(STEPS))
        finally:
            for job in jobs.values():
                job.end()
    ratios = sorted(on / off - 1 for off, on in zip(times["off"], times["on"], strict=True))
    quarter = len(ratios) // 4
    off, on = statistics.median(times["off"]), statistics.median(times["on"])
    middle = statistics.median(ratios)
    error = 1.253 * statistics.stdev(ratios) / len(ratios) ** 0.5  # of a median
    return (
        f"| jax | {off * 1000:.2f} | {on * 1000:.2f} | {middle:+.2%} ± {2 * error:.2%} "
        f"| {ratios[quarter]:+.2%} to {ratios[-quarter - 1]:+.2%} | {BAR:.1%} |"
    )


class _Job:
    """Two ranks that take steps when they are told to."""

    def __init__(self, mode: str, folder: Path) -> None:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode), "JAX_PLATFORMS": "cpu"}
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        self.ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", str(rank), "--port", str(port)],
                env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            for rank in range(2)
        ]  # fmt: skip

    def block(self, steps: int) -> float:
        """Seconds of a step."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{steps}\n")
            rank.stdin.flush()
        took = [self._answer(rank) for rank in self.ranks]
        return max(took) / steps

    def _answer(self, rank: subprocess.Popen[str]) -> float:
        assert rank.stdout is not None
        while line := rank.stdout.readline():
            if line.startswith("TOOK "):
                return float(line.split()[1])
        raise RuntimeError("a rank of the benchmark ended")

    def end(self) -> None:
        for rank in self.ranks:
            if rank.stdin is not None:
                rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(timeout=30)
            except subprocess.TimeoutExpired:
                rank.kill()


def train(rank: int, port: int) -> None:
    """A rank: as many steps as each line of the input says."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    source = np.random.default_rng(0)
    layers = [source.normal(size=(256, 256)).astype("float32") / 16 for _ in range(4)]
    weights = jax.device_put(layers, everywhere)

    @jax.jit
    def update(weights, x, rate):
        def loss_of(weights):
            y = x
            for weight in weights:
                y = jnp.tanh(y @ weight)
            return jnp.mean((y - x) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(weights)
        return jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients), loss

    batch = source.normal(size=(384, 256)).astype("float32")
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            x = jax.make_array_from_process_local_data(by_row, batch)
            weights, loss = update(weights, x, 0.01)
            float(loss)
        print(f"TOOK {time.perf_counter() - began}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    options = parser.parse_args()
    if options.rank is None:
        print(main(options.blocks))
    else:
        train(options.rank, options.port)
