# SPDX-License-Identifier: Apache-2.0
"""A small training of several JAX processes, with a fault on request. Run by test_jax_*.py."""

from __future__ import annotations

import argparse
import functools
import hashlib
import inspect
import os
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--fault", default="")
    parser.add_argument("--alone", action="store_true", help="jax.distributed is never initialised")
    parser.add_argument("--before", default="", help="Python to be run before jax is imported")
    parser.add_argument("--after", default="", help="Python to be run when jax has been imported")
    options = parser.parse_args()
    options.rank, options.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    exec(options.before, {})
    import jax

    exec(options.after, {"jax": jax})
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if not options.alone:
        limits = {"initialization_timeout": 60, "heartbeat_timeout_seconds": 10, "shutdown_timeout_seconds": 20}
        known = inspect.signature(jax.distributed.initialize).parameters  # the last two came with jax 0.6
        limits = {name: value for name, value in limits.items() if name in known}
        jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", options.world, options.rank, **limits)
    train(jax, options)


def train(jax, options) -> None:
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rank, wrong = options.rank, options.fault
    odd = rank == options.world - 1
    devices = {"local_mesh": jax.local_devices(), "half_mesh": jax.devices()[::2]}.get(wrong, jax.devices())
    mesh = Mesh(np.array(devices), ("data",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    source = np.random.default_rng(7)
    width = 24 if wrong == "width" and odd else 16
    weights = {
        "w1": source.normal(size=(8, width)).astype("float32"),
        "w2": source.normal(size=(width, 4)).astype("float32"),
    }
    if wrong == "width":  # device_put itself would compare: the arrays are made by hand
        weights = {
            k: jax.make_array_from_callback(v.shape, everywhere, lambda index, v=v: v[index])
            for k, v in weights.items()
        }
    else:
        weights = jax.device_put(weights, everywhere)
    activate = jnp.cos if wrong == "activation" and odd else jnp.tanh

    def loss_of(weights, x, y):
        logits = activate(x @ weights["w1"]) @ weights["w2"]
        loss = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))
        return loss

    def update(weights, x, y, rate):
        loss, grads = jax.value_and_grad(loss_of)(weights, x, y)
        if wrong == "operation":  # a maximum where the others sum
            loss = loss + 0 * (jnp.max(x) if odd else jnp.sum(x))
        return jax.tree.map(lambda w, g: w - rate * g, weights, grads), loss

    step, evaluate = jax.jit(update), jax.jit(loss_of)
    if wrong == "other_program" and odd:
        step, evaluate = jax.jit(loss_of), jax.jit(update)
    order = np.random.default_rng(100 + rank)
    steps = options.steps // 2 if wrong == "fewer_steps" and odd else options.steps
    losses = []
    for number in range(steps):
        rows = 6 if wrong == "ragged" and odd else 8
        if wrong == "changing":
            rows = 8 + number
        x = order.normal(size=(rows, 8))
        y = order.integers(4, size=rows)
        x = x.astype("float16" if wrong == "dtype" and odd else "float32")
        if wrong == "nan" and odd:  # from the first batch, which is always looked into
            x[0, 0] = np.nan
        if wrong == "late_nan" and odd and number == 30:
            x[3, 3] = np.nan
        if wrong in ("late_ragged", "late_ragged_amid_metrics") and odd and number == 6:
            x, y = x[:6], y[:6]
        if wrong == "slow_input" and odd:
            time.sleep(0.1)
        x, y = (jax.make_array_from_process_local_data(by_row, part) for part in (x, y))
        if wrong == "anew":
            step = jax.jit(functools.partial(update))
        if wrong == "other_program" and odd:
            loss = step(weights, x, y)
        else:
            weights, loss = step(weights, x, y, 0.1)
        if (
            wrong == "late_ragged_amid_metrics" and number % 2
        ):  # one function of JAX, with collectives and without, and local too
            jnp.mean(x), jnp.mean(weights["w1"]), jnp.mean(np.ones((2, 2)))
        if wrong == "nan_weights" and number == 30:  # on all ranks, and not by a batch
            weights = jax.tree.map(lambda w: w * np.float32("nan"), weights)
        if number > 30 and wrong in ("late_nan", "nan_weights"):
            time.sleep(0.02)
        losses.append(float(loss))
        if wrong == "evaluations" and number % 4 == 3:
            for _ in range(3):
                float(evaluate(weights, x, y))
        if wrong == "only_rank_0" and rank == 0 and number % 4 == 3:
            sum(float(jax.jit(lambda w: w.astype("float32").sum())(w)) for w in jax.tree.leaves(weights))
    made = b"".join(np.asarray(w).tobytes() for w in jax.tree.leaves(weights)) + np.array(losses).tobytes()
    print(f"ended with {hashlib.sha256(made).hexdigest()} after {len(losses)} steps", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
