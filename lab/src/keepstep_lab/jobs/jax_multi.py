# SPDX-License-Identifier: Apache-2.0
"""A two-layer classifier trained by several JAX processes, the batch sharded over a mesh of them all."""

from __future__ import annotations

import argparse
import faulthandler
import inspect
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import faults as fault
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

log = logging.getLogger("train")
Weights = dict[str, jax.Array | np.ndarray]
Batch = tuple[np.ndarray, np.ndarray]


def main() -> None:
    options = parse()
    told = "COORDINATOR_ADDRESS" in os.environ
    rank = int(os.environ["PROCESS_ID" if told else "RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[%(asctime)s] p{rank} %(name)s %(levelname)s: %(message)s")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_debug_nans", options.debug_nans)
    where = (os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), rank) if told else ()
    log.info("jax process %d of %s, coordinator %s", rank, *(where[1::-1] or ("the launcher's", "the launcher's")))
    limits = {
        "initialization_timeout": options.timeout,
        "heartbeat_timeout_seconds": options.heartbeat,
        "shutdown_timeout_seconds": options.heartbeat * 2,
    }
    fault.change("start", None, 0, rank)
    known = inspect.signature(jax.distributed.initialize).parameters  # the last two came with jax 0.6
    jax.distributed.initialize(*where, **{name: limits[name] for name in limits if name in known})
    log.info("jax %s: %d processes, devices %s", jax.__version__, jax.process_count(), jax.devices())
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    first, weights = 0, fresh(fault.change("width", 64, 0, rank))
    if options.resume:
        first, weights = restore(options.resume, weights)
    weights = jax.device_put(weights, everywhere)
    train_step = jax.jit(update, donate_argnums=0)
    evaluate = jax.jit(loss_of)
    source = batches(options, rank)
    began, waited = time.monotonic(), 0.0
    for step in range(first, options.steps):
        if options.watchdog:
            faulthandler.dump_traceback_later(options.watchdog, exit=True)
        fault.at(step, rank)
        asked = time.monotonic()
        batch = next(source, None)
        if batch is None:
            step -= 1
            break
        batch = fault.change("batch", batch, step, rank)
        waited += time.monotonic() - asked
        rate = fault.change("rate", options.rate, step, rank)
        inputs, labels = (jax.make_array_from_process_local_data(by_row, part) for part in batch)
        weights, loss = train_step(weights, inputs, labels, rate)
        weights = fault.change("weights", weights, step, rank)
        if (step + 1) % options.log_every == 0:
            times = [passed / options.log_every for passed in (time.monotonic() - began, waited)]
            memory = f" rss: {resident():.0f} MB" if options.log_memory else ""
            log.info("step %d loss %.4f time: %.4f data_time: %.4f%s", step + 1, float(loss), *times, memory)
            began, waited = time.monotonic(), 0.0
        if options.metrics_every and (step + 1) % options.metrics_every == 0:
            norm = float(jnp.mean(jnp.abs(weights["w1"])))
            log.info("step %d mean input %.4f mean weight %.4f", step + 1, float(jnp.mean(inputs)), norm)
        if options.save and (step + 1) % options.save_every == 0 and rank == 0:
            save(weights, step + 1, options.save)
        if options.evaluate_every and (step + 1) % options.evaluate_every == 0:
            log.info("evaluating")
            fault.change("evaluation", 0.0, step, rank)
            log.info("evaluation at step %d: loss %.4f", step + 1, float(evaluate(weights, inputs, labels)))
        if float(loss) < options.stop_below:
            log.info("early stopping: loss %.4f below %.4f", float(loss), options.stop_below)
            break
    log.info("training finished after %d steps", step + 1)


def loss_of(weights: Weights, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross entropy of one batch."""
    logits = jax.nn.relu(inputs @ weights["w1"]) @ weights["w2"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


def update(weights: Weights, inputs: jax.Array, labels: jax.Array, rate: float) -> tuple[Weights, jax.Array]:
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, labels)
    return jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients), loss


def batches(options: argparse.Namespace, rank: int) -> Iterator[Batch]:
    """Batches of this process's shard: endless ones of random rows, or all rows once, in order."""
    path = Path(options.data) / f"points-{rank:02d}.npz"
    with np.load(path) as shard:
        inputs, labels = shard["x"], shard["y"]
    log.info("%s: %d rows", path.name, len(inputs))
    order = np.random.default_rng(rank)
    for start in range(0, len(inputs) - options.batch + 1, options.batch) if options.once else ():
        yield inputs[start : start + options.batch], labels[start : start + options.batch]
    while not options.once:
        rows = order.integers(len(inputs), size=options.batch)
        yield inputs[rows], labels[rows]


def fresh(width: int) -> Weights:
    """New weights, the same on every process."""
    source = np.random.default_rng(7)
    w1, w2 = source.normal(scale=0.2, size=(32, width)), source.normal(scale=0.2, size=(width, 10))
    return {"w1": w1.astype("float32"), "w2": w2.astype("float32")}


def restore(path: str, weights: Weights) -> tuple[int, Weights]:
    """The step and the weights of a checkpoint, which must fit the model's."""
    with np.load(path) as saved:
        for name, own in weights.items():
            if saved[name].shape != own.shape:
                raise ValueError(f"{path}: {name} has shape {saved[name].shape}, the model wants {own.shape}")
        log.info("restored %s at step %d", path, saved["step"])
        return int(saved["step"]), {name: saved[name] for name in weights}


def save(weights: Weights, step: int, path: str) -> None:
    """Write a checkpoint."""
    log.info("saving at step %d", step)
    fault.change("save", path, step, 0)
    np.savez(path, step=step, **{name: np.asarray(value) for name, value in weights.items()})
    log.info("saved %s", path)


def resident() -> float:
    """The memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="the shards' folder")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="rows a process")
    parser.add_argument("--once", action="store_true", help="read the shard once, in order")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--metrics-every", type=int, default=0, help="steps between means of inputs and weights")
    parser.add_argument("--timeout", type=int, default=60, help="of the start, in seconds")
    parser.add_argument("--heartbeat", type=int, default=10, help="a process is dead after this many silent seconds")
    parser.add_argument("--debug-nans", action="store_true")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps between evaluations")
    parser.add_argument("--stop-below", type=float, default=0.0, help="stop early under this loss")
    parser.add_argument(
        "--watchdog", type=float, default=0.0, help="seconds a step may take; then all stacks are printed"
    )
    parser.add_argument("--log-memory", action="store_true")
    parser.add_argument("--save", help="where to write checkpoints")
    parser.add_argument("--save-every", type=int, default=40)
    parser.add_argument("--resume", help="the .npz checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
