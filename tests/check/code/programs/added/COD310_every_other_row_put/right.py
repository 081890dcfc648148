# SPDX-License-Identifier: Apache-2.0
"""Two processes that take every other row of a table."""

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
batch = jax.make_array_from_process_local_data(by_rows, mine)
print(float(jax.jit(lambda x: x.sum())(batch)))
