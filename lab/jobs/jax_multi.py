"""A two-layer classifier trained by several JAX processes, the batch sharded over a mesh of them all."""

from __future__ import annotations

import argparse
import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lab import faults as fault

log = logging.getLogger("train")
Weights = dict[str, jax.Array]


def main() -> None:
    options = parse()
    rank = int(os.environ["PROCESS_ID"])
    logging.basicConfig(
        level=logging.INFO, format=f"[%(asctime)s] p{rank} %(name)s %(levelname)s: %(message)s"
    )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_debug_nans", options.debug_nans)
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"],
        int(os.environ["NUM_PROCESSES"]),
        rank,
        initialization_timeout=options.timeout,
        heartbeat_timeout_seconds=options.heartbeat,
        shutdown_timeout_seconds=options.heartbeat * 2,
    )
    log.info("jax %s: %d processes, devices %s", jax.__version__, jax.process_count(), jax.devices())
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    first, weights = start(options, fault.change("width", 32, 0, rank))
    weights = jax.device_put(weights, everywhere)
    train_step = jax.jit(update, donate_argnums=0)
    source = np.random.default_rng(rank)
    for step in range(first, options.steps):
        fault.at(step, rank)
        inputs = source.normal(size=(options.batch, 16)).astype("float32")
        inputs, labels = fault.change("batch", (inputs, inputs[:, :10].argmax(1)), step, rank)
        batch = [jax.make_array_from_process_local_data(by_row, part) for part in (inputs, labels)]
        weights, loss = train_step(weights, *batch)
        if (step + 1) % 20 == 0:
            log.info("step %d loss %.4f", step + 1, float(loss))
        if options.save and (step + 1) % 40 == 0 and rank == 0:
            np.savez(
                options.save, step=step + 1, **{name: np.asarray(value) for name, value in weights.items()}
            )
            log.info("saved %s", options.save)
    log.info("training finished after %d steps", options.steps)


def update(weights: Weights, inputs: jax.Array, labels: jax.Array) -> tuple[Weights, jax.Array]:
    """One step of gradient descent."""

    def loss_of(weights: Weights) -> jax.Array:
        logits = jax.nn.relu(inputs @ weights["w1"]) @ weights["w2"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients), loss


def start(options: argparse.Namespace, width: int) -> tuple[int, Weights]:
    """The first step and the weights to begin with: of the checkpoint, or fresh."""
    keys = jax.random.split(jax.random.key(0))
    weights = {
        "w1": jax.random.normal(keys[0], (16, width)) * 0.2,
        "w2": jax.random.normal(keys[1], (width, 10)) * 0.2,
    }
    if not options.resume:
        return 0, weights
    with np.load(options.resume) as saved:
        for name, fresh in weights.items():
            if saved[name].shape != fresh.shape:
                raise ValueError(
                    f"{options.resume}: {name} has shape {saved[name].shape}, the model wants {fresh.shape}"
                )
        log.info("restored %s at step %d", options.resume, saved["step"])
        return int(saved["step"]), {name: saved[name] for name in weights}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--timeout", type=int, default=60, help="of the start, in seconds")
    parser.add_argument(
        "--heartbeat", type=int, default=10, help="a process is dead after this many silent seconds"
    )
    parser.add_argument("--debug-nans", action="store_true")
    parser.add_argument("--save", help="where to write checkpoints")
    parser.add_argument("--resume", help="the .npz checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
