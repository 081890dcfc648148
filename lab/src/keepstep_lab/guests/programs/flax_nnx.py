# SPDX-License-Identifier: Apache-2.0
"""A Flax NNX model with Optax over all processes' devices, and Orbax checkpoints that a second start resumes from."""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

parser = argparse.ArgumentParser()
parser.add_argument("--coordinator")
parser.add_argument("--num-processes", type=int)
parser.add_argument("--process-id", type=int)
parser.add_argument("--steps", type=int, default=80)
args = parser.parse_args()

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(args.coordinator, args.num_processes, args.process_id)

mesh = Mesh(np.array(jax.devices()), ("data",))
by_data, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


class Classifier(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.inner = nnx.Linear(16, 48, rngs=rngs)
        self.norm = nnx.BatchNorm(48, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.outer = nnx.Linear(48, 4, rngs=rngs)

    def __call__(self, x):
        return self.outer(self.dropout(nnx.relu(self.norm(self.inner(x)))))


model = Classifier(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param)
state = nnx.state((model, optimizer))
state = jax.tree.map(
    lambda leaf: jax.make_array_from_callback(leaf.shape, everywhere, lambda index: leaf[index]), state
)
nnx.update((model, optimizer), state)


def loss_fn(model, x, y):
    logits = model(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, x, y):
    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, x, y)
    metrics.update(loss=loss, logits=logits, labels=y)
    optimizer.update(model, grads)
    return loss


@nnx.jit
def eval_step(model, metrics, x, y):
    loss, logits = loss_fn(model, x, y)
    metrics.update(loss=loss, logits=logits, labels=y)


metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
manager = ocp.CheckpointManager(
    Path("checkpoints").absolute(), options=ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=20)
)
truth = np.random.default_rng(0).normal(size=(16, 4))
rng = np.random.default_rng(10 + jax.process_index())


def batch():
    x = rng.normal(size=(16, 16)).astype(np.float32)
    return tuple(jax.make_array_from_process_local_data(by_data, part) for part in (x, np.argmax(x @ truth, axis=1)))


model.train()
for step in range(1, args.steps + 1):
    loss = train_step(model, optimizer, metrics, *batch())
    manager.save(step, args=ocp.args.StandardSave(nnx.to_pure_dict(nnx.state(model, nnx.Param))))
    if step % 20 == 0:
        model.eval()
        test = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
        for _ in range(2):
            eval_step(model, test, *batch())
        model.train()
        shown = {name: float(value) for name, value in metrics.compute().items()}
        print(
            (
                f"process {jax.process_index()} step {step} loss {shown['loss']!r} test_loss "
                f"{float(test.compute()['loss'])!r}"
            ),
            flush=True,
        )
        metrics.reset()
manager.wait_until_finished()
print(f"process {jax.process_index()} kept checkpoints {sorted(manager.all_steps())}", flush=True)
manager.close()
