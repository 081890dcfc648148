# SPDX-License-Identifier: Apache-2.0
"""A small training of several processes in one of the frameworks, fed in one of several ways. Run by test_fed.py."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator

import numpy as np

PAUSE_S = 0.05
ROWS, WIDTH = 8, 6
STEPS = 60


def batches(how: str, rank: int, steps: int = STEPS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """``same``: every rank gets the same ones; ``shuffled``: in another order; else each rank has its own."""
    alike = how in ("same", "shuffled", "by hand", "meshes", "model axis", "whole")
    source = np.random.default_rng(5 if alike else 5 + rank)
    made = [(source.normal(size=(ROWS, WIDTH)).astype("float32"), source.integers(0, 3, ROWS)) for _ in range(12)]
    order = np.random.default_rng(rank if how == "shuffled" else 0)
    while steps > 0:
        for number in order.permutation(len(made)):
            yield made[number]
            steps -= 1


def pause(how: str, step: int) -> None:
    """A step takes some time; where the guard is to speak, one of them waits until it has, within bounds."""
    time.sleep(PAUSE_S)
    if how in ("same", "by hand", "called back") and step == STEPS // 2:
        end, notes = time.monotonic() + 40.0, pathlib.Path(os.environ["KEEPSTEP_DIR"])
        while time.monotonic() < end and not any(
            b"RanksFedAlike" in each.read_bytes() for each in notes.glob("*.jsonl")
        ):
            time.sleep(0.1)


def in_torch(how: str, rank: int) -> bytes:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if how == "meshes":
        from torch.distributed.device_mesh import init_device_mesh

        init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("data", "context"))
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(WIDTH, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            return batches(how, rank)

    checked = torch.utils.data.DataLoader(list(batches("same", 0, 8)), batch_size=None)
    loader = torch.utils.data.DataLoader(Stream(), batch_size=None)
    for _ in zip(range(8), checked if how == "own" else (), strict=False):
        pass  # as for the mean of the inputs: not trained on
    steps = iter(loader)
    if how == "by hand":
        import keepstep

        steps = keepstep.guard.attach().steps((torch.as_tensor(x), torch.as_tensor(y)) for x, y in batches(how, rank))
    for number, (x, y) in enumerate(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if number % 20 == 0:
            with torch.no_grad():
                sum(float(model.module(x).sum()) for x, _ in checked)
        pause(how, number)
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    dist.destroy_process_group()
    return weights


def in_fit(how: str, rank: int) -> bytes:
    """`fit` of tf_keras; Keras 3 knows no strategy with several workers."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras = tf.keras
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    steps = STEPS - 12 if how == "short" and rank == 1 else STEPS
    made = list(batches(how, rank, steps))[:steps]
    data = tf.data.Dataset.from_tensor_slices((np.stack([x for x, _ in made]), np.stack([y for _, y in made])))
    if how == "rows" and rank == 1:
        data = data.map(lambda x, y: (x[:6], y[:6]))
    if how == "divided":
        data = data.unbatch().batch(2 * ROWS)
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.DATA if how == "divided" else policy.OFF
    data = data.with_options(options)
    checked = tf.data.Dataset.from_tensor_slices(made[0]).batch(ROWS).repeat(6).with_options(options)
    waits = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: pause(how, batch))
    model.fit(data, epochs=2, validation_data=checked, verbose=0, callbacks=[waits])
    return b"".join(np.asarray(each).tobytes() for each in model.get_weights())


def in_jax(how: str, rank: int) -> bytes:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", int(os.environ["WORLD_SIZE"]), rank)
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape((1, -1) if how == "model axis" else (-1, 1)), ("data", "model"))
    by_row, columns = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec(None, "model"))
    weights = jax.device_put(np.random.default_rng(7).normal(size=(WIDTH, 4)).astype("float32"), columns)

    def loss_of(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ weights) - jax.nn.one_hot(y, 4)) ** 2)

    def update(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return weights - 0.1 * jax.grad(loss_of)(weights, x, y)

    def placed(x: np.ndarray) -> jax.Array:
        if how == "whole":  # every process holds the whole batch, and JAX takes its part
            return jax.device_put(x, by_row)
        if how == "called back":
            return jax.make_array_from_callback((2 * len(x), *x.shape[1:]), by_row, lambda index: x)
        return jax.make_array_from_process_local_data(by_row, x)

    step, evaluate = jax.jit(update), jax.jit(loss_of)
    checked = [[jax.make_array_from_process_local_data(by_row, x) for x in each] for each in batches("same", 0, 4)]
    for number, batch in enumerate(batches("same" if how == "called back" else how, rank)):
        if number % 20 == 0:
            sum(float(evaluate(weights, *each)) for each in checked)
        weights = step(weights, *map(placed, batch))
        pause(how, number)
    return np.asarray(weights.addressable_shards[0].data).tobytes()


if __name__ == "__main__":
    framework, how = sys.argv[1:]
    config = json.loads(os.environ.get("TF_CONFIG", "null"))
    me = config["task"]["index"] if config else int(os.environ["RANK"])
    made = {"torch": in_torch, "fit": in_fit, "jax": in_jax}[framework](how, me)
    print(f"rank {me} ended with {hashlib.sha256(made).hexdigest()}", flush=True)
