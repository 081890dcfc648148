# SPDX-License-Identifier: Apache-2.0
"""A small training of several processes in one of three frameworks, whose ranks act together. See test_together_*.py.

Each framework has ``start() -> (rank, world, step)``; ``step(scale)`` is a real step with a collective, and returns the
weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import signal
import sys
import time


def start_torch():
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=20))
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def step(scale):
        loss = (model(torch.full((4, 8), scale)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return model.module.weight.detach().numpy()

    return dist.get_rank(), dist.get_world_size(), step


def start_tensorflow():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones((8, 4)))

    def replica(scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.fill((4, 8), scale) @ weight) ** 2)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weight))
        weight.assign_sub(0.001 * gradient)

    @tf.function
    def train_step(scale):
        strategy.run(replica, args=(scale,))

    def step(scale):
        train_step(tf.constant(scale, tf.float32))
        return weight.numpy()

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return task["index"], strategy.extended._num_workers, step


def start_jax():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", world, rank)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    weights = jax.device_put(np.ones((8, 4), "float32"), NamedSharding(mesh, PartitionSpec()))
    rows = NamedSharding(mesh, PartitionSpec("data"))

    @jax.jit
    def update(weights, x):
        return weights - 0.001 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(weights)

    def step(scale):
        nonlocal weights
        x = jax.make_array_from_process_local_data(rows, np.full((4, 8), scale, "float32"))
        weights = update(weights, x)
        return np.asarray(weights)

    return rank, world, step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("framework")
    parser.add_argument("--do", default="skip", help="what the odd rank (the last one) does at the step --at")
    parser.add_argument("--alone", action="store_true", help="the ranks do not ask each other")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--at", type=int, default=5)
    parser.add_argument("--wait", type=float, default=60.0)
    parser.add_argument("--linger", action="store_true", help="do not exit at the end, which would tell the others")
    options = parser.parse_args()
    config = pathlib.Path(f"tf_config-{os.environ.get('RANK')}")
    if options.framework == "tensorflow" and config.exists():
        os.environ["TF_CONFIG"] = config.read_text()
    import keepstep

    rank, world, train_step = globals()[f"start_{options.framework}"]()
    done, taken = b"", []
    for number in range(options.steps):
        odd = rank == world - 1 and number == options.at
        act = globals()[f"do_{options.do}"](keepstep, options, number, odd)
        if act == "skip":
            continue
        if act == "stop":
            break
        done = train_step(1.0 + rank + number / 10)
        taken.append(number)
    print(f"ended with {hashlib.sha256(done.tobytes()).hexdigest()[:12]} after {taken}", flush=True)
    if options.linger:
        time.sleep(600)


def do_skip(keepstep, options, number, odd):
    """The odd rank has a bad batch."""
    skips = odd if options.alone else keepstep.skip_if(odd, number, wait_s=options.wait)
    return "skip" if skips else None


def do_leave(keepstep, options, number, odd):
    """The odd rank has no more data."""
    return "stop" if odd else do_skip(keepstep, options, number, False)


def do_sleep(keepstep, options, number, odd):
    """The odd rank stops to answer."""
    if odd:
        time.sleep(600)
    return do_skip(keepstep, options, number, False)


def do_ask_otherwise(keepstep, options, number, odd):
    """The odd rank means another step."""
    return do_skip(keepstep, options, number + odd, False)


def do_stop(keepstep, options, number, odd):
    """The odd rank gets SIGTERM; the others learn of it."""
    if odd:
        os.kill(os.getpid(), signal.SIGTERM)
    if number > options.at:
        time.sleep(0.05)  # else all steps are over before the guards look
    return "stop" if not options.alone and keepstep.should_stop() else None


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
