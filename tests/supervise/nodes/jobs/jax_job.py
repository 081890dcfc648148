# SPDX-License-Identifier: Apache-2.0
"""What two ranks ran for the attempts in `attempts`, under `keepstep run -n 2 --max-attempts 1`."""

import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

fault = os.environ.get("FAULT", "healthy")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize()
rank = jax.process_index()
mesh = Mesh(np.array(jax.devices()), ("d",))
rows = NamedSharding(mesh, P("d"))
same = NamedSharding(mesh, P())
w = jax.device_put(np.zeros((8, 1), np.float32), same)


@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1.0) ** 2))(w)
    return w - 0.01 * grad, loss


@jax.jit
def other(w, x):
    return jnp.sum(x) + jnp.sum(w) + jnp.max(x @ w)


for n in range(int(os.environ.get("STEPS", "60"))):
    mine = np.random.rand(8, 8).astype(np.float32)
    if rank == 1 and n == 30:
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "asleep":
            time.sleep(3600)
    if fault == "nan" and rank == 1 and n >= 30:
        mine[:] = np.nan
    x = jax.make_array_from_process_local_data(rows, mine)
    if rank == 1 and n == 30 and fault == "mismatch":
        other(w, x).block_until_ready()
    w, loss = step(w, x)
    if fault == "asleep":
        loss.block_until_ready()
    if n % 5 == 0:
        print(f"step {n} loss {float(loss):.4f}", flush=True)
    time.sleep(0.05)
print("finished", flush=True)
