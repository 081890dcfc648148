# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training by `jax.jit` over a mesh of all processes' devices, after JAX's guide to multi-process
programs."""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

parser = argparse.ArgumentParser()
parser.add_argument("--coordinator")
parser.add_argument("--num-processes", type=int)
parser.add_argument("--process-id", type=int)
parser.add_argument("--steps", type=int, default=120)
args = parser.parse_args()

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(args.coordinator, args.num_processes, args.process_id)

mesh = jax.make_mesh((jax.device_count(),), ("batch",))
by_batch, everywhere = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
FEATURES, HIDDEN, CLASSES, LOCAL_BATCH = 32, 64, 10, 16


def init(key):
    k1, k2 = jax.random.split(key)
    return {
        "w1": 0.1 * jax.random.normal(k1, (FEATURES, HIDDEN)),
        "b1": jnp.zeros(HIDDEN),
        "w2": 0.1 * jax.random.normal(k2, (HIDDEN, CLASSES)),
        "b2": jnp.zeros(CLASSES),
    }


def loss_fn(params, x, y):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))


@jax.jit
def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


eval_step = jax.jit(loss_fn)
params = jax.jit(init, out_shardings=everywhere)(jax.random.key(0))
truth = np.random.default_rng(0).normal(size=(FEATURES, CLASSES))
rng = np.random.default_rng(1 + jax.process_index())


def next_batch():
    x = rng.normal(size=(LOCAL_BATCH, FEATURES)).astype(np.float32)
    y = np.argmax(x @ truth, axis=1)
    return tuple(jax.make_array_from_process_local_data(by_batch, part) for part in (x, y))


held_out = next_batch()
for step in range(1, args.steps + 1):
    x, y = next_batch()
    params, loss = train_step(params, x, y)
    if step % 20 == 0:
        val = eval_step(params, *held_out)
        print(
            (
                f"process {jax.process_index()} step {step} loss {float(loss)!r} val_loss {float(val)!r} mean "
                f"{float(jnp.mean(x)):.4f}"
            ),
            flush=True,
        )
norm = jnp.sqrt(sum(jnp.sum(p**2) for p in jax.tree.leaves(params)))
print(f"process {jax.process_index()} done, norm of the weights {float(norm)!r}", flush=True)
