# SPDX-License-Identifier: Apache-2.0
"""Notebook-style script: two-layer network, data parallel over all hosts.

From: https://github.com/jax-ml/jax/issues/18237
Shows: error 2 ranks jax: initialize() must be called before any JAX calls
"""

# %%
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

SEED = 7
HIDDEN = 16
key = random.PRNGKey(SEED)  # BUG COD301

# %% the cluster
addr = os.environ["COORDINATOR_ADDRESS"]
jax.distributed.initialize(addr, int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"]))
mesh = jax.make_mesh((jax.device_count(),), ("batch",))
split_rows = NamedSharding(mesh, P("batch"))
everywhere = NamedSharding(mesh, P())

# %% parameters: the same key on all hosts gives the same numbers
k1, k2 = random.split(key)
params = {
    "w1": np.asarray(random.normal(k1, (3, HIDDEN)) * 0.5),
    "w2": np.asarray(random.normal(k2, (HIDDEN, 1)) * 0.5),
}
params = jax.tree.map(lambda p: jax.device_put(p, everywhere), params)

# %% data: each host its own part
rng = np.random.default_rng([SEED, jax.process_index()])
x_local = rng.uniform(-1, 1, size=(32, 3)).astype(np.float32)
y_local = np.sin(x_local.sum(axis=1, keepdims=True))
x = jax.make_array_from_process_local_data(split_rows, x_local)
y = jax.make_array_from_process_local_data(split_rows, y_local)


# %%
def loss_fn(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w1"]) @ p["w2"] - y) ** 2)


@jax.jit
def update(p, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
    return jax.tree.map(lambda a, g: a - 0.05 * g, p, grads), loss


# %%
for epoch in range(30):
    params, loss = update(params, x, y)
if jax.process_index() == 0:
    print("loss", round(float(loss.addressable_data(0)), 4))
