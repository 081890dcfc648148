# SPDX-License-Identifier: Apache-2.0
"""Weights that three devices of one process hold in full, trained by JAX. Run by test_jax_replicas.py.

``flip``: bits of one replica change, from outside. ``lost``: a number becomes NaN so, and spreads to all replicas.
``drift``: a program that lies about its sharding from the start. ``pmap_alone``: from some step on, each device takes
steps of its own.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import pathlib
import sys
import time
from typing import Any

import numpy as np

os.environ |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from keepstep.guard.adapters.jax.fingerprints import STEADY, Replicas

STEPS = 40
mesh = Mesh(np.array(jax.devices()), ("data",))
by_row, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())


def loss_of(weights: Any, x: Any) -> Any:
    return jnp.mean((sum(jnp.tanh(x @ each) for each in weights.values()) - 0.1) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def update(weights: Any, x: Any) -> Any:
    slopes = jax.grad(loss_of)(weights, x)
    return {name: weights[name] - 0.1 * slopes[name] for name in weights}


@functools.partial(jax.jit, donate_argnums=0)
@functools.partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(PartitionSpec(), PartitionSpec("data")),
    out_specs=PartitionSpec(),
    check_vma=False,
)
def drift(weights: Any, x: Any) -> Any:
    return {name: each + jnp.mean(x) for name, each in weights.items()}


@functools.partial(jax.pmap, axis_name="devices", donate_argnums=0)
def stacked(state: Any, x: Any, alone: Any) -> Any:
    weights, means = state
    own = jax.grad(loss_of)(weights, x)
    mean = jax.lax.pmean(own, "devices")
    slopes = {name: jnp.where(alone, own[name], mean[name]) for name in own}
    weights = {name: weights[name] - 0.1 * slopes[name] for name in weights}
    return weights, 0.9 * means + jnp.mean(x) * jnp.ones(64), jnp.zeros(64) + (jnp.sum(x) > 4.5)


def are_known(how: str) -> bool:
    """Whether the guard has learned that the rows of these arrays are copies."""
    held = [each for each in gc.get_objects() if type(each) is Replicas]
    alike = [often for each in held for name, (often, _) in each._alike.items() if how in name]
    return len(alike) == 2 and min(alike) >= STEADY


def was_said(how: str) -> bool:
    words = f"{how}_other" if how == "pmap_flip" else "each device trains by itself"
    return any(words in each.read_text() for each in pathlib.Path(os.environ["KEEPSTEP_DIR"]).glob("*.notes.jsonl"))


def train_stacked(how: str) -> None:
    """Copies of the weights, one row for each device. Statistics of batches differ, and a flag does now and then."""
    devices = jax.devices()
    state: Any = {f"{how}_{name}": jnp.ones((6, 8)) for name in ("one", "other")}, jnp.zeros(64)
    state = jax.tree.map(lambda each: jnp.stack([each] * len(devices)), state)
    step, struck, end = 0, False, time.monotonic() + 90.0
    while not was_said(how) and time.monotonic() < end:
        step += 1
        x = np.random.default_rng(step).normal(size=(len(devices), 2, 6)).astype("float32")
        *state, _ = stacked(tuple(state), x, np.full(len(devices), struck and how == "pmap_alone"))
        if not struck and are_known(how):
            struck = True
            if how == "pmap_flip":
                other = state[0]["pmap_flip_other"].block_until_ready().addressable_shards[2].data
                ctypes.c_uint32.from_address(other.unsafe_buffer_pointer() + 8).value ^= 1 << 5
        time.sleep(0.05)
    print(how, "ended", flush=True)


def main(*hows: str) -> None:
    for how in hows:
        if how.startswith("pmap"):
            train_stacked(how)
            continue
        weights = {f"{how}_{name}": jax.device_put(np.ones((6, 8), "float32"), whole) for name in ("one", "other")}
        step_of = drift if how == "drift" else update
        for step in range(1, STEPS + 1):
            x = jax.device_put(np.random.default_rng(step).normal(size=(6, 6)).astype("float32"), by_row)
            weights = step_of(weights, x)
            if how == "flip" and step == 30:
                other = weights["flip_other"].block_until_ready().addressable_shards[1].data
                ctypes.c_uint32.from_address(other.unsafe_buffer_pointer() + 8).value ^= 1 << 5
            if how == "lost" and step == 30:
                other = weights["lost_other"].block_until_ready().addressable_shards[1].data
                ctypes.c_uint32.from_address(other.unsafe_buffer_pointer() + 8).value |= 0x7FC00000
            time.sleep(0.05)
        print(how, "ended with", float(np.abs(np.asarray(weights[f"{how}_one"])).sum()), flush=True)
        time.sleep(3.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
