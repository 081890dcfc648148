import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from features import batches, normalised, series, statistics, windows
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_enable_x64", True)


def dense(key, fan_in, fan_out):
    scale = (2.0 / fan_in) ** 0.5
    return {
        "w": scale * jax.random.normal(key, (fan_in, fan_out), dtype=jnp.float32),
        "b": jnp.zeros((fan_out,), dtype=jnp.float32),
    }


def init(key, channels, hidden, kernel):
    keys = jax.random.split(key, 3)
    shape = (kernel, channels, hidden)
    return {
        "conv1": jax.random.normal(keys[0], shape, dtype=jnp.float32) / (kernel * channels) ** 0.5,
        "conv2": jax.random.normal(keys[1], (kernel, hidden, hidden), dtype=jnp.float32) / (kernel * hidden) ** 0.5,
        "out": dense(keys[2], hidden, channels),
    }


def conv(x, kernel, stride):
    return lax.conv_general_dilated(
        x, kernel, window_strides=(stride,), padding="SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )


def forward(params, x):
    x = jax.nn.relu(conv(x, params["conv1"], 2))
    x = jax.nn.relu(conv(x, params["conv2"], 2))
    x = x.mean(axis=1)
    return x @ params["out"]["w"] + params["out"]["b"]


def loss_of(params, x, y):
    return jnp.mean((forward(params, x) - y) ** 2)


@functools.partial(jax.jit, static_argnames="rate")
def train_step(params, momentum, x, y, rate):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    params = jax.tree.map(lambda p, m: p - rate * m, params, momentum)
    return params, momentum, loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--channels", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--window", type=int, default=48)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=0.05)
    args = parser.parse_args()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharded = NamedSharding(mesh, PartitionSpec("data"))
    params = init(jax.random.key(0), args.channels, args.hidden, 5)
    params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    momentum = jax.tree.map(jnp.zeros_like, params)
    data = series(2000, args.channels, seed=4)
    mean, spread = statistics(data)
    inputs, targets = windows(normalised(data, mean, spread), args.window, stride=4)
    began = time.time()
    for step, (x, y) in enumerate(batches(inputs, targets, args.batch, args.epochs)):
        x, y = jax.device_put((x, y), sharded)
        params, momentum, loss = train_step(params, momentum, x, y, args.rate)
        if step % 10 == 0:
            print(f"step {step}: loss {loss:.4f}, {time.time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
