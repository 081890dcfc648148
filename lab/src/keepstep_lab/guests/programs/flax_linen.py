# SPDX-License-Identifier: Apache-2.0
"""A Flax Linen model in a `TrainState` with Optax, over all processes' devices, saved with Flax's own checkpoints by
process 0."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from flax.training import train_state
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

parser = argparse.ArgumentParser()
parser.add_argument("--coordinator")
parser.add_argument("--num-processes", type=int)
parser.add_argument("--process-id", type=int)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(args.coordinator, args.num_processes, args.process_id)


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=8, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        return nn.Dense(features=10)(nn.relu(nn.Dense(features=32)(x)))


def create_train_state(rng):
    cnn = CNN()
    params = cnn.init(rng, jnp.ones([1, 8, 8, 1]))["params"]
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.05, 10, 200)
    return train_state.TrainState.create(apply_fn=cnn.apply, params=params, tx=optax.sgd(schedule, momentum=0.9))


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), loss, jnp.mean(jnp.argmax(logits, -1) == labels)


mesh = Mesh(np.array(jax.devices()), ("data",))
state = jax.jit(create_train_state, out_shardings=NamedSharding(mesh, P()))(jax.random.key(0))
source = np.random.default_rng(0)
images = source.normal(size=(1024, 8, 8, 1)).astype(np.float32)
labels = (np.abs(images).sum(axis=(1, 2, 3)) * 3).astype(np.int32) % 10
mine = slice(jax.process_index(), None, jax.process_count())
images, labels = images[mine], labels[mine]

for epoch in range(1, args.epochs + 1):
    order = np.random.default_rng(epoch).permutation(len(images)).reshape(-1, 16)
    epoch_loss = []
    for perm in order:
        shard = multihost_utils.host_local_array_to_global_array((images[perm], labels[perm]), mesh, P("data"))
        state, loss, accuracy = train_step(state, *shard)
        epoch_loss.append(loss)
    mean = np.mean([float(each) for each in epoch_loss])
    print(
        f"process {jax.process_index()} epoch {epoch} loss {float(mean)!r} accuracy {float(accuracy):.2f}", flush=True
    )
    if jax.process_index() == 0:
        Path(f"epoch{epoch}.msgpack").write_bytes(serialization.to_bytes(jax.device_get(state.params)))
    multihost_utils.sync_global_devices(f"saved epoch {epoch}")
