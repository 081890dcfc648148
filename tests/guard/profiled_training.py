# SPDX-License-Identifier: Apache-2.0
"""Trains until the file `enough` is there. Rank 1 of torch sleeps in each step."""

import os
import sys
import time
from pathlib import Path


def torch_steps():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        if dist.get_rank() == 1:
            time.sleep(0.1)
        optimizer.zero_grad()
        model(torch.randn(32, 64)).pow(2).mean().backward()
        optimizer.step()
        over = torch.tensor(float(Path("enough").exists()))
        dist.all_reduce(over)
        yield over.item() > 0


def jax_steps():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(weights):
        return weights - 0.01 * jax.grad(lambda w: jnp.sum((w @ w) ** 2))(weights)

    weights = jnp.full((64, 64), 0.01)
    while True:
        weights = train_step(weights)
        weights.block_until_ready()
        time.sleep(0.02)
        yield Path("enough").exists()


def tensorflow_steps():
    import keras

    model = keras.Sequential([keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    over = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.02))
    while not over:
        model.fit(keras.ops.ones((256, 8)), keras.ops.ones((256, 1)), batch_size=8, verbose=0, callbacks=[callback])
        over = [Path("enough")] if Path("enough").exists() else []
    yield True


steps = {"torch": torch_steps, "jax": jax_steps, "tensorflow": tensorflow_steps}[sys.argv[1]]()
until = time.monotonic() + float(os.environ.get("LIMIT_S", "140"))
while not next(steps) and time.monotonic() < until:
    pass
