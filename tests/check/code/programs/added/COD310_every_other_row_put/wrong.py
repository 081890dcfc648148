# SPDX-License-Identifier: Apache-2.0
"""Two processes that take every other row of a table.

From: questions of people whose training fails; facts, no code
Shows: error 2 ranks jax
"""

import os

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize(
    os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
)
mesh = jax.make_mesh((jax.device_count(),), ("rows",))
by_rows = NamedSharding(mesh, P("rows"))

table = np.arange(16, dtype=np.float32).reshape(8, 2)
mine = table[jax.process_index() :: jax.process_count()]
batch = jax.device_put(mine, by_rows)  # BUG COD310
print(float(jax.jit(lambda x: x.sum())(batch)))
