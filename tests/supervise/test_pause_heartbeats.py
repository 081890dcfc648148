# SPDX-License-Identifier: Apache-2.0
"""A pause of several time-outs of a framework's heartbeats: its own threads go on sending them, so nobody is missed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.supervise.starting import Running, wait_for
from tests.supervise.test_pause import keepstep, paused

pytestmark = [pytest.mark.frameworks, pytest.mark.long]
TIMEOUT_S = 10
"""JAX's own is 100 seconds: five minutes are to those what ``HELD_S`` is to these."""
HELD_S = 3.0 * TIMEOUT_S
JAX = f"""
import os, time
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize(heartbeat_timeout_seconds={TIMEOUT_S}, shutdown_timeout_seconds={TIMEOUT_S})
mesh = Mesh(np.array(jax.devices()), ("d",))
everywhere, by_row = NamedSharding(mesh, P()), NamedSharding(mesh, P("d"))

@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)

w = jax.device_put(jnp.ones((4,)), everywhere)
number = 0
while True:
    x = jax.make_array_from_process_local_data(by_row, np.ones((8, 4), np.float32))
    w = jax.block_until_ready(step(w, x))
    number += 1
    print("step", number, os.getpid(), flush=True)
    # all ranks look at the file in the same step
    every = jax.make_array_from_process_local_data(by_row, np.full((1,), float(os.path.exists("end")), np.float32))
    if float(jax.jit(jnp.sum, out_shardings=everywhere)(every)) > 0:
        break
    time.sleep(0.1)
"""
TENSORFLOW = f"""
import os, time
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
usual = context.Context.configure_coordination_service

def soon(self, *words, **named):
    return usual(self, *words, **{{**named, "heartbeat_timeout_in_ms": {TIMEOUT_S * 1000}}})

context.Context.configure_coordination_service = soon
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

@tf.function
def step(ends):
    def replica(ends):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((8, 4)), training=True) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return ends
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(ends,)), axis=None)

number, ends = 0, 0.0
while ends == 0:
    ends = float(step(tf.constant(float(os.path.exists("end")))))
    number += 1
    print("step", number, os.getpid(), flush=True)
    time.sleep(0.1)
"""


@pytest.mark.parametrize("script", [JAX, TENSORFLOW], ids=["jax", "tensorflow"])
def test_a_pause_outlives_the_heartbeats_of_a_coordination_service(tmp_path: Path, script: str) -> None:
    run = Running(tmp_path, "-n", "2", "--no-spares", "--max-attempts", "1", script=script)
    try:
        wait_for(lambda: "step 5 " in run.log(0) and "step 5 " in run.log(1))
        done = keepstep("pause", str(run.run))
        steps = paused(run)
        assert done.returncode == 0 and len(steps) == 2 and steps[0] == steps[1], done.stderr
        time.sleep(HELD_S)
        assert paused(run) == steps
        assert keepstep("resume", str(run.run)).returncode == 0
        wait_for(lambda: f"step {steps[0] + 5} " in run.log(0))
        (tmp_path / "end").touch()
        assert run.finish() == 0, run.err
        assert "all ranks go on, after" in run.err and "heartbeat" not in run.err + run.log(0) + run.log(1)
    finally:
        run.kill()


@pytest.mark.parametrize("script", [JAX, TENSORFLOW], ids=["jax", "tensorflow"])
def test_a_rank_that_is_stopped_for_that_long_is_missed(tmp_path: Path, script: str) -> None:
    """So the time-out of this file's scripts is in force."""
    run = Running(tmp_path, "-n", "2", "--no-spares", "--max-attempts", "1", "--hang-timeout", "600", script=script)
    try:
        wait_for(lambda: "step 5 " in run.log(1))
        pid = int(run.log(1).split("step 5 ")[1].split()[0])
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: "heartbeat" in run.log(0), HELD_S + 60)
        os.kill(pid, signal.SIGCONT)
    finally:
        run.process.terminate()
        run.finish()
